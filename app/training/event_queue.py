"""The one road from the engine thread to the window: a queue emptied by the GUI on a timer."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from app.training.messages import Message

LARGEST_DRAIN = 2000
"""Messages taken in one go, so that a burst cannot hold the GUI thread."""


class EventQueue:
    """Messages in the order in which they were put. `put` may be called from any thread."""

    def __init__(self) -> None:
        self._messages: SimpleQueue[Message] = SimpleQueue()

    def put(self, message: Message) -> None:
        """Append a message; never blocks."""
        self._messages.put(message)

    def drain(self, limit: int = LARGEST_DRAIN) -> list[Message]:
        """The oldest messages, at most `limit`; never blocks."""
        taken: list[Message] = []
        while len(taken) < limit:
            try:
                taken.append(self._messages.get_nowait())
            except Empty:
                break
        return taken
