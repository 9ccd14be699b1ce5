"""A quick run tries some of the cases, the full run all of them."""

from __future__ import annotations

import itertools

import hypothesis
import pytest

from tests.fakes import run_size
from tests.fakes.run_size import examples, load_profile, spread


@pytest.fixture(params=["quick", "full"])
def profile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(run_size, "PROFILE", request.param)
    return str(request.param)


def test_the_profile_of_this_run_is_loaded() -> None:
    expected = examples(run_size.FULL_EXAMPLES)
    assert hypothesis.settings().max_examples == hypothesis.settings.default.max_examples == expected  # type: ignore[attr-defined]
    assert hypothesis.settings().deadline is None


def test_each_profile_has_its_number_of_examples(profile: str) -> None:
    before = hypothesis.settings.get_current_profile_name()
    try:
        load_profile()
        assert hypothesis.settings().max_examples == {"quick": 30, "full": 100}[profile]
    finally:
        hypothesis.settings.load_profile(before)


def test_a_property_takes_its_own_number_in_a_full_run_only(profile: str) -> None:
    numbers = [examples(300), examples(300, quick=80), examples(20)]
    assert numbers == ([300, 300, 20] if profile == "full" else [30, 80, 20])


def test_a_spread_has_the_first_the_last_and_no_gap_wider_than_another(profile: str) -> None:
    taken = spread(range(1000), 10)
    if profile == "full":
        assert list(taken) == list(range(1000))
        return
    gaps = [second - first for first, second in itertools.pairwise(taken)]
    assert (len(taken), taken[0], taken[-1]) == (10, 0, 999)
    assert max(gaps) - min(gaps) <= 1


def test_few_cases_are_all_tried(profile: str) -> None:
    assert list(spread("abc", 3)) == list(spread("abc", 10)) == ["a", "b", "c"]
