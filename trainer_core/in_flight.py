"""How far the host may run ahead of the device.

Waiting after every piece of work leaves a GPU idle while the next piece is prepared. Not waiting at
all lets the scheduler hold the memory of many pieces at once.
"""

from __future__ import annotations

from collections import deque

import mlx.core as mx


class InFlight:
    """Starts pieces of work and keeps few of them unfinished.

    Args:
        most: how many may be unfinished; 0 waits for each.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._unfinished: deque[list[mx.array]] = deque()

    def start(self, arrays: list[mx.array], wait_for: list[mx.array] | None = None) -> None:
        """Start computing arrays, and wait for the oldest work if too much is unfinished.

        Args:
            arrays: what to compute.
            wait_for: some of them that stand for all. They are held until they have been waited
                for, so name what is kept anyway.
        """
        if self._most == 0:
            mx.eval(arrays)
            return
        mx.async_eval(arrays)
        self._unfinished.append(arrays if wait_for is None else wait_for)
        if len(self._unfinished) > self._most:
            mx.eval(self._unfinished.popleft())
