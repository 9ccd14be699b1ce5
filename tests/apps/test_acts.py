"""When the tier of real programs fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.acts import Act, ActRecord, Outcome, is_good, recorded, summary


def acts(right: int, **others: int) -> list[Act]:
    """So many acts of each outcome."""
    counts = {Outcome.RIGHT: right} | {Outcome[key.upper()]: number for key, number in others.items()}
    return [Act("editor", "test", "call", outcome, "why") for outcome, n in counts.items() for _ in range(n)]


@pytest.mark.parametrize(
    ("done", "good"),
    [
        (acts(0), True),
        (acts(97, refused=3), True),
        (acts(96, refused=4), False),
        (acts(1_000, something_else=1), False),
    ],
)
def test_the_tier_is_good_where_nearly_all_is_right_and_nothing_was_something_else(
    done: list[Act], good: bool
) -> None:
    assert is_good(done) is good


def test_the_acts_of_all_workers_are_counted_and_what_was_not_right_is_listed(tmp_path: Path) -> None:
    for worker, done in (("a", acts(2)), ("b", acts(1, refused=1))):
        for act in done:
            ActRecord(tmp_path, worker).write(act)
    lines = list(summary(recorded(tmp_path)))
    assert lines[2].split() == ["all", "4", "3", "1", "0"]
    assert lines[-1] == "refused: test: call: why"
