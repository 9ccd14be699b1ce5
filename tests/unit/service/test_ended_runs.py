"""Which summaries of ended runs are kept."""

from __future__ import annotations

from core.batch.models import RunSummary
from core.service.ended_runs import MOST_KEPT, EndedRuns


def summary(run: str) -> RunSummary:
    return RunSummary.model_construct(id=run)


def test_those_that_were_asked_for_last_are_kept() -> None:
    kept = EndedRuns()
    for number in range(MOST_KEPT):
        kept.put(summary(f"r-{number}"), kept.changes)
    assert kept.get("r-0") is not None
    kept.put(summary("r-new"), kept.changes)
    assert kept.get("r-1") is None
    assert all(kept.get(f"r-{number}") for number in (0, *range(2, MOST_KEPT), "new"))


def test_one_that_changes_is_forgotten_and_what_was_read_before_is_not_kept() -> None:
    kept = EndedRuns()
    kept.put(summary("r-1"), kept.changes)
    before = kept.changes
    kept.changed("r-1")
    assert kept.get("r-1") is None
    kept.put(summary("r-1"), before)
    assert kept.get("r-1") is None
    kept.put(summary("r-1"), kept.changes)
    assert kept.get("r-1") is not None
