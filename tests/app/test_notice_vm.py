from pathlib import Path

import pytest

from app.viewmodels.notice_vm import Notice, NoticeViewModel, error_notice, finished_notice
from tests.app.run_events import finished

RUN = Path("/runs/one")


def test_an_error_says_what_why_and_what_to_do() -> None:
    notice = error_notice("the data file is empty", "it has 0 bytes.", "choose another file")
    assert notice.level == "error"
    assert notice.title == "The data file is empty"
    assert notice.text == "It has 0 bytes. Choose another file."
    assert "show_log" in notice.actions


@pytest.mark.parametrize(
    ("reason", "title"),
    [
        ("done", "Training done after 10 steps in 1 min 15 s"),
        ("stopped", "Stopped after 10 steps in 1 min 15 s"),
        ("early_stop", "Stopped early after 10 steps in 1 min 15 s"),
    ],
)
def test_the_end_of_a_run_says_what_was_saved_and_offers_the_export(
    reason: str, title: str
) -> None:
    notice = finished_notice(finished(RUN, reason=reason))
    assert notice.title == title
    assert str(RUN / "adapter") in notice.text
    assert "step 5" in notice.text
    assert notice.actions[0] == "export"


def test_a_new_notice_takes_the_place_of_the_old_one() -> None:
    vm = NoticeViewModel()
    changes: list[Notice | None] = []
    vm.changed.connect(lambda: changes.append(vm.notice))
    first, second = Notice("info", "one"), Notice("error", "two")
    vm.show(first)
    vm.show(second)
    vm.dismiss()
    vm.dismiss()
    assert changes == [first, second, None]
