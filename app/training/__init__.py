"""The engine thread, its jobs and the queue that brings their events to the window."""
