"""Adapters out of the run folder, each proven to behave like the trained one."""
