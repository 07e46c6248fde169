import threading
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QThread

from app.training.event_queue import EventQueue
from app.training.messages import JobDone, JobFailed, JobKind, JobStarted, Message
from app.training.trainer_thread import STACK_BYTES, TrainerThread
from trainer_core.errors import DataError
from trainer_core.events import Event, Stage

pytestmark = pytest.mark.gui
WAIT_MS = 10_000


class Call:
    """A job made of a function."""

    kind: JobKind = "train"

    def __init__(self, body: Callable[[Callable[[Event], None]], object]) -> None:
        self.run = body


@pytest.fixture
def queue() -> EventQueue:
    return EventQueue()


@pytest.fixture
def thread(qapp: object, queue: EventQueue) -> Iterator[TrainerThread]:
    made = TrainerThread(queue)
    made.start()
    yield made
    made.shut_down()
    assert made.wait(WAIT_MS)


def finish(thread: TrainerThread, queue: EventQueue) -> list[Message]:
    thread.shut_down()
    assert thread.wait(WAIT_MS)
    return queue.drain()


def test_every_job_runs_in_the_same_thread_in_order(
    thread: TrainerThread, queue: EventQueue
) -> None:
    where: list[int] = []
    for _ in range(3):
        thread.submit(Call(lambda _: where.append(threading.get_ident())))
    finish(thread, queue)
    assert len(where) == 3
    assert len(set(where)) == 1
    assert where[0] != threading.get_ident()


def test_events_stand_between_the_start_and_the_end_of_their_job(
    thread: TrainerThread, queue: EventQueue
) -> None:
    def body(emit: Callable[[Event], None]) -> object:
        emit(Stage("load"))
        return 42

    thread.submit(Call(body))
    assert finish(thread, queue) == [JobStarted("train"), Stage("load"), JobDone("train", 42)]


def test_the_users_fault_is_told_in_its_own_words(thread: TrainerThread, queue: EventQueue) -> None:
    def body(emit: Callable[[Event], None]) -> object:
        raise DataError("the file is empty", "it has no rows", "choose another")

    thread.submit(Call(body))
    assert finish(thread, queue)[-1] == JobFailed(
        "train", "the file is empty", "it has no rows", "choose another"
    )


@pytest.mark.parametrize("error", [KeyError("q_proj"), SystemExit(3), MemoryError()])
def test_our_own_fault_ends_the_job_but_not_the_thread(
    thread: TrainerThread,
    queue: EventQueue,
    error: BaseException,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def body(emit: Callable[[Event], None]) -> object:
        raise error

    thread.submit(Call(body))
    thread.submit(Call(lambda _: "alive"))
    messages = finish(thread, queue)
    failed = messages[1]
    assert isinstance(failed, JobFailed)
    assert type(error).__name__ in failed.why
    assert "Traceback" not in failed.why
    assert messages[-1] == JobDone("train", "alive")
    assert "Traceback" in caplog.text


def test_the_stack_is_large_enough_for_deep_graphs(thread: TrainerThread) -> None:
    assert thread.stackSize() == STACK_BYTES >= 16 * 2**20
    assert isinstance(thread, QThread)


def test_the_queue_gives_everything_once_and_in_order() -> None:
    queue = EventQueue()
    threads = [
        threading.Thread(target=lambda: [queue.put(Stage(str(i))) for i in range(500)])
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    first, rest = queue.drain(700), queue.drain()
    assert (len(first), len(rest), queue.drain()) == (700, 1300, [])
    names = [stage.stage for stage in (*first, *rest) if isinstance(stage, Stage)]
    assert sorted(names) == sorted(str(i) for i in range(500) for _ in range(4))
