"""Families whose layers need more than the common stack gives them, one small file each."""
