"""A run in a process of its own, behind the same events and the same `Control`."""
