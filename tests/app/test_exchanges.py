"""Answers as they come, told apart from those of the prompts of every validation."""

from __future__ import annotations

from app.viewmodels.exchanges import MOST, Exchange, Exchanges, Side
from trainer_core.events import Sample, SamplePiece, Stage, Warned


def put(exchanges: Exchanges, *, of_run: bool = False) -> Exchange:
    exchange = Exchange("Why?", "a run", Side(), of_run=of_run, note="Waiting")
    exchanges.add(exchange)
    return exchange


def test_pieces_add_up_on_their_side(qapp: object) -> None:
    exchanges = Exchanges()
    exchange = put(exchanges)
    exchanges.take(Stage("load", "Loading the model"))
    assert exchange.note == "Loading the model"
    for text in ("Be", "cause"):
        exchanges.take(SamplePiece(0, "Why?", text, base=True))
    exchanges.take(SamplePiece(0, "Why?", "No", base=None))
    assert exchange.base is not None
    assert (exchange.base.text, exchange.tuned.text, exchange.note) == ("Because", "No", "")
    exchanges.take(Sample(0, "Why?", "Because.", True, 3, 0.5))
    assert exchange.base.text == "Because."
    assert exchange.base.figures == "3 tokens, 6 a second"
    assert exchange.tuned.figures == ""
    assert exchanges.waiting is exchange
    exchanges.end()
    assert exchanges.waiting is None
    assert not exchange.failed


def test_the_view_is_told_once_for_each_tick(qapp: object) -> None:
    exchanges = Exchanges()
    exchange = put(exchanges)
    told: list[Exchange] = []
    exchanges.changed.connect(told.append)
    for text in "abc":
        exchanges.take(SamplePiece(0, "Why?", text))
    exchanges.flush()
    exchanges.flush()
    assert told == [exchange]


def test_a_fixed_prompt_of_the_same_words_is_not_the_answer(qapp: object) -> None:
    exchanges = Exchanges()
    exchange = put(exchanges, of_run=True)
    exchanges.take(Sample(10, "Why?", "An answer of the validation."))
    assert not exchange.over
    assert exchange.tuned.text == ""
    exchanges.take(SamplePiece(11, "Why?", "So", base=True))
    exchanges.take(Sample(11, "Why?", "So", True))
    exchanges.take(SamplePiece(11, "Why?", "Thus"))
    exchanges.take(Sample(11, "Why?", "Thus"))
    assert exchange.over
    assert exchange.base is not None
    assert (exchange.base.text, exchange.tuned.text) == ("So", "Thus")


def test_a_run_that_cannot_answer_says_why(qapp: object) -> None:
    exchanges = Exchanges()
    exchange = put(exchanges, of_run=True)
    exchanges.take(Warned("sample", "no answer: the prompt is empty"))
    assert exchange.over
    assert exchange.failed
    assert exchange.note == "no answer: the prompt is empty"


def test_both_the_same_is_noted(qapp: object) -> None:
    exchanges = Exchanges()
    exchange = put(exchanges)
    exchanges.take(Sample(0, "Why?", "So", True))
    assert not exchange.alike
    exchanges.take(Sample(0, "Why?", "So"))
    assert exchange.alike


def test_the_oldest_are_forgotten(qapp: object) -> None:
    exchanges = Exchanges()
    dropped: list[bool] = []
    exchanges.dropped.connect(lambda: dropped.append(True))
    for _ in range(MOST + 2):
        put(exchanges)
        exchanges.end()
    assert len(exchanges.items) == MOST
    assert len(dropped) == 2
