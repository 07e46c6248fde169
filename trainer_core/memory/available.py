"""How much memory can be taken now."""

from __future__ import annotations

from pathlib import Path

import psutil


def available_bytes() -> int:
    """Memory that can be taken now without swapping, a container's limit included."""
    free = psutil.virtual_memory().available
    room = _container_limit()
    return free if room is None else min(free, room)


def _container_limit() -> int | None:
    """Memory left under a Linux control group's limit, or None without one."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        used = (group / "memory.current").read_text().strip()
    except OSError:
        return None
    return max(int(limit) - int(used), 0) if limit.isdigit() else None
