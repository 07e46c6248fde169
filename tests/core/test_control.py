"""Control: wishes from any thread, read by the loop."""

import threading

from trainer_core.control import Control, SampleRequest


def test_nothing_is_wished_at_first():
    control = Control()
    wished = [control.stopping, control.stopping_now, control.paused, control.take_save()]
    assert not any(wished)
    assert control.take_sample() is None
    control.wait_while_paused()  # returns at once


def test_a_second_stop_means_now():
    control = Control()
    control.stop()
    assert control.stopping
    assert not control.stopping_now
    control.stop()
    assert control.stopping_now


def test_stop_now_is_also_a_stop():
    control = Control()
    control.stop_now()
    assert control.stopping
    assert control.stopping_now


def test_a_save_is_taken_once():
    control = Control()
    control.save_now()
    assert control.take_save()
    assert not control.take_save()


def test_samples_are_taken_in_order():
    control = Control()
    control.sample(["a"])
    control.sample(["b", "c"], max_tokens=3)
    assert control.take_sample() == SampleRequest(("a",), 128)
    assert control.take_sample() == SampleRequest(("b", "c"), 3)
    assert control.take_sample() is None


def test_a_pause_is_interrupted_by_what_can_be_done_in_it():
    for wish in (lambda c: c.save_now(), lambda c: c.sample(["a"])):
        control = Control()
        control.pause()
        thread = waits(control)
        thread.join(0.05)
        assert thread.is_alive()
        wish(control)
        thread.join(5)
        assert not thread.is_alive()
        assert control.paused


def waits(control: Control) -> threading.Thread:
    thread = threading.Thread(target=control.wait_while_paused, daemon=True)
    thread.start()
    return thread


def test_a_pause_lasts_until_resumed_or_stopped():
    for end in ("resume", "stop", "stop_now"):
        control = Control()
        control.pause()
        assert control.paused
        thread = waits(control)
        thread.join(0.05)
        assert thread.is_alive(), end
        getattr(control, end)()
        thread.join(5)
        assert not thread.is_alive(), end
        assert not control.paused
