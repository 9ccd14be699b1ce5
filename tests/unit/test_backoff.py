"""The wait between attempts: it grows, it has an upper bound, it differs, and a healthy attempt resets it."""

from __future__ import annotations

import pytest

from core.backoff import Backoff


def waits(backoff: Backoff, count: int) -> list[float]:
    found = []
    for _ in range(count):
        backoff.fail()
        found.append(backoff.wait())
    return found


def without_jitter(base: float, cap: float, **more: float) -> Backoff:
    return Backoff(base, cap, uniform=lambda low, high: high, **more)


def test_each_failure_in_a_row_doubles_the_wait_up_to_the_cap() -> None:
    assert waits(without_jitter(0.5, 10.0), 7) == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_before_any_failure_the_wait_is_the_shortest() -> None:
    # The end of a healthy link is no failure, and still the peer must not be dialled in a tight loop.
    assert without_jitter(0.5, 10.0).wait() == 0.5


def test_a_reset_starts_again_at_the_shortest_wait() -> None:
    backoff = without_jitter(0.5, 10.0)
    waits(backoff, 5)
    backoff.reset()
    assert backoff.failures == 0
    assert waits(backoff, 2) == [0.5, 1.0]


def test_another_factor() -> None:
    assert waits(without_jitter(1.0, 100.0, factor=3.0), 5) == [1.0, 3.0, 9.0, 27.0, 81.0]


def test_failures_without_end_do_not_overflow() -> None:
    backoff = without_jitter(0.5, 60.0)
    backoff.failures = 10**9
    assert backoff.wait() == 60.0


@pytest.mark.parametrize(("chosen", "expected"), [(0.5, 2.0), (1.0, 4.0)])
def test_jitter_shortens_the_wait_to_no_less_than_its_lower_bound(chosen: float, expected: float) -> None:
    bounds = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return chosen

    backoff = Backoff(4.0, 60.0, uniform=uniform)
    assert backoff.wait() == expected
    assert bounds == [(0.5, 1.0)]


def test_two_that_failed_together_do_not_try_again_together() -> None:
    assert len({Backoff(1.0, 60.0).wait() for _ in range(20)}) > 1


def test_a_wait_of_another_length_is_spread_as_well() -> None:
    assert Backoff(1.0, 2.0, uniform=lambda low, high: low).spread(300.0) == 150.0


def test_only_an_attempt_that_lasted_is_healthy() -> None:
    now = 100.0
    backoff = Backoff(1.0, 60.0, healthy_after=30.0, clock=lambda: now)
    backoff.begin()
    now = 129.9
    assert not backoff.healthy
    now = 130.0
    assert backoff.healthy
    backoff.begin()
    assert not backoff.healthy
