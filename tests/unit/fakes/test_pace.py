"""The yardstick of timed tests: a busy machine gets more time, a quick one no less, and no bound vanishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.fakes import pace
from tests.fakes.pace import MOST, REFERENCE_S, TRIES, slowness, within


class Machine:
    """A machine whose clock is ours: a walk along the yardstick takes `times` as long as on the reference."""

    def __init__(self, times: float = 1.0) -> None:
        self.now = 0.0
        self.times = times

    def clock(self) -> float:
        return self.now

    def walk(self) -> None:
        self.work(REFERENCE_S)

    def work(self, seconds: float) -> None:
        """Work that takes `seconds` on the reference machine."""
        self.now += seconds * self.times


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(pace, "yardstick", machine.walk)
    monkeypatch.setattr(pace, "strict", True)
    return machine


@pytest.mark.parametrize(("times", "said"), [(0.2, 1.0), (1.0, 1.0), (2.5, 2.5), (MOST, MOST), (50.0, MOST)])
def test_slowness_is_that_of_the_machine_never_below_one_and_capped(
    machine: Machine, times: float, said: float
) -> None:
    machine.times = times
    assert slowness(machine.clock) == pytest.approx(said)


@pytest.mark.parametrize(
    ("times", "seconds", "keeps"),
    [
        (1, 0.09, True),
        (1, 0.11, False),
        (3, 0.09, True),
        (3, 0.11, False),
        (20, 0.04, False),
        (0.5, 0.19, True),
    ],
)
def test_a_bound_holds_for_the_work_and_not_for_the_machine(
    machine: Machine, times: float, seconds: float, keeps: bool
) -> None:
    machine.times = times
    tries = 0

    def measured() -> None:
        nonlocal tries
        for one in within(0.1, clock=machine.clock):
            tries += 1
            with one:
                machine.work(seconds)

    if keeps:
        measured()
        assert tries == 1
    else:
        with pytest.raises(AssertionError, match=r"more than 100 ms: .* times as slow"):
            measured()
        assert tries == TRIES


def test_one_try_that_keeps_to_the_bound_is_enough(machine: Machine) -> None:
    left = [0.5, 0.3, 0.05, 9.0]
    for one in within(0.1, clock=machine.clock):
        with one:
            machine.work(left.pop(0))
    assert left == [9.0]


def test_without_strict_bounds_only_what_has_lost_its_bound_fails(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "strict", False)

    def measured(limit_s: float, seconds: float) -> None:
        for one in within(limit_s, clock=machine.clock):
            with one:
                machine.work(seconds)

    for limit_s, longest_s in ((0.1, 3.0), (0.001, 2.0)):
        measured(limit_s, longest_s - 0.1)
        with pytest.raises(AssertionError, match="more than"):
            measured(limit_s, longest_s + 0.1)


def test_what_was_not_measured_does_not_pass() -> None:
    with pytest.raises(AssertionError, match="nothing was measured"):
        for _ in within(0.1):
            pass


def test_an_error_of_the_work_is_told_as_it_is(machine: Machine) -> None:
    one = next(within(0.1, clock=machine.clock))
    with pytest.raises(ZeroDivisionError), one:
        raise ZeroDivisionError


@pytest.fixture
def neighbours() -> Iterator[list[int]]:
    """Three programs for each processor that do nothing but take it; stopped at first."""
    running = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
        )
        for _ in range(3 * (os.cpu_count() or 1))
    ]
    try:
        for one in running:
            assert one.stdout is not None
            assert one.stdout.readline()
            one.send_signal(signal.SIGSTOP)
        yield [one.pid for one in running]
    finally:
        for one in running:
            one.kill()
            one.communicate()


def test_busy_neighbours_make_the_machine_slower_and_never_quicker(neighbours: list[int]) -> None:
    quiet, busy = [], []
    # By turns, so that what else the machine does is in both.
    for _ in range(4):
        quiet.append(slowness())
        for one in neighbours:
            os.kill(one, signal.SIGCONT)
        busy.append(slowness(for_s=0.02))
        busy.append(slowness(time.thread_time))
        for one in neighbours:
            os.kill(one, signal.SIGSTOP)
    assert all(1 <= one <= MOST for one in (*quiet, *busy))
    assert sum(busy[::2]) > 0.8 * sum(quiet), (quiet, busy)
