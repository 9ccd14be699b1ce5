"""Sentences of screens and of the service: correct numbers, nothing said twice."""

from __future__ import annotations

import pytest

from app.records.run_text import who_refused
from app.screens.approvals.text import final_words
from core.approvals.models import ApprovalState
from core.batch.models import Cell, CellState
from core.service.api.service import _stop_words
from tests.fakes.story import story

STOPPED = "Everything was stopped; nothing was sent."


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((0, 0, 0), "Everything was stopped: nothing was under way."),
        (
            (1, 0, 1),
            "Everything was stopped: 1 run was ended, 1 command was on a device and was asked to cancel.",
        ),
        ((0, 2, 0), "Everything was stopped: 2 requests were withdrawn."),
        (
            (2, 1, 3),
            "Everything was stopped: 2 runs were ended, 1 request was withdrawn, "
            "3 commands were on devices and were asked to cancel.",
        ),
    ],
)
def test_a_stop_counts_what_there_was_and_leaves_out_what_there_was_not(
    counts: tuple[int, int, int], words: str
) -> None:
    assert _stop_words(*counts) == words


@pytest.mark.parametrize("why", [STOPPED, "The picture cannot be taken. Nothing was sent.", "No reason"])
def test_that_nothing_was_sent_is_said_once(why: str) -> None:
    cell = Cell(run="r", device="d", step="s", tool="t", state=CellState.REFUSED, note=why)
    approval = next(iter(story().queue.values()))
    details = [who_refused(cell)[1]]
    for state in (ApprovalState.WITHDRAWN, ApprovalState.DENIED):
        details.append(final_words(approval.model_copy(update={"state": state, "reason": why}))[1])
    for detail in details:
        assert detail.casefold().count("nothing was sent") == 1
        assert why in detail
