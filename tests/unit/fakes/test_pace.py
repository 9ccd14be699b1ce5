"""The yardstick of slowness: a busy machine counts as slower, a quick one never as quicker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.fakes import pace
from tests.fakes.pace import MOST, REFERENCE_S, slowness


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
    return machine


@pytest.mark.parametrize(("times", "said"), [(0.2, 1.0), (1.0, 1.0), (2.5, 2.5), (MOST, MOST), (50.0, MOST)])
def test_slowness_is_that_of_the_machine_never_below_one_and_capped(
    machine: Machine, times: float, said: float
) -> None:
    machine.times = times
    assert slowness(machine.clock) == pytest.approx(said)


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
