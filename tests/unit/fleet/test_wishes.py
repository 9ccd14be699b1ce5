"""Wishes in plain words find the right tool. The scores are floors, reached when it was made."""

from __future__ import annotations

import pytest

from tests.fakes.wishes import Bench, read_wishes


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def test_thirty_wishes_that_were_written_before_the_tools_were_looked_at(bench: Bench):
    score = bench.score(read_wishes())
    assert score.wishes == 30
    assert (score.first >= 24, score.in_three >= 29, score.nothing) == (True, True, 0)
    assert score.runs >= 20


def test_ten_wishes_that_were_written_when_the_search_was_made(bench: Bench):
    score = bench.score(read_wishes("more_wishes.toml"))
    assert score.wishes == 10
    assert (score.first >= 9, score.in_three >= 9, score.nothing) == (True, True, 0)
    assert score.runs >= 7


def test_twenty_wishes_that_were_written_before_the_tools_were_looked_at_again(bench: Bench):
    score = bench.score(read_wishes("blind_wishes.toml"))
    assert score.wishes == 20
    # Of 17 that a tool fulfils, and of all 20: low, as nothing was fitted to them.
    assert (score.first >= 8, score.in_three >= 11, score.right >= 11) == (True, True, True)
