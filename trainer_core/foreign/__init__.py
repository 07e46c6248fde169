"""Configuration files of other trainers, read by a written table of what becomes of each key."""
