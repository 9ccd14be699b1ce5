"""How many may stand at the door at once: all together, and from one address."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from core.aip.acceptor import ConnectionGate
from core.aip.limits import LinkLimits
from core.aip.link_events import RefusedAttempt

LIMITS = LinkLimits(door_most=5, door_most_of_one=2)


def door() -> tuple[ConnectionGate, list[RefusedAttempt]]:
    refused: list[RefusedAttempt] = []
    return ConnectionGate(lambda token: None, "/ws", LIMITS, None, refused.append), refused


@dataclass(eq=False)
class Step:
    """A connection from an address."""

    host: str
    out: bool = False

    @property
    def peer(self) -> str:
        return f"{self.host}:1"

    def abort(self) -> None:
        self.out = True


def step(at: ConnectionGate, host: str) -> Any:
    one: Any = Step(host)
    at.enter(one)
    return one


def test_one_address_takes_only_a_part_of_the_door_and_leaves_room_for_others() -> None:
    at, refused = door()
    other = step(at, "192.0.2.2")
    mine = [step(at, "192.0.2.1") for _ in range(3)]
    assert [one.out for one in mine] == [True, False, False]
    assert not other.out
    assert [attempt.peer for attempt in refused] == ["192.0.2.1:1"]
    assert "from 192.0.2.1" in refused[0].reason
    at.leave(mine[1])
    assert not step(at, "192.0.2.1").out
    assert not mine[2].out


def test_programs_of_this_computer_are_not_told_apart_by_their_address() -> None:
    at, refused = door()
    here = [step(at, "127.0.0.1") for _ in range(5)]
    assert not any(one.out for one in here)
    step(at, "192.0.2.9")
    assert [one.out for one in here] == [True, False, False, False, False]
    assert "too many connections that" in refused[0].reason
    assert at.waiting == 5


def test_leaving_twice_counts_once_and_nothing_is_kept_of_who_left() -> None:
    at, refused = door()
    here = [step(at, "192.0.2.1"), step(at, "192.0.2.1")]
    for one in [*here, *here]:
        at.leave(one)
    assert at.waiting == 0
    again = [step(at, "192.0.2.1") for _ in range(2)]
    assert not any(one.out for one in again)
    assert refused == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_the_door_leaves_files_for_everything_else_where_a_process_may_have_few() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
    try:
        at = ConnectionGate(lambda token: None, "/ws", LinkLimits(), None, lambda refused: None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for _ in range(500):
        step(at, "127.0.0.1")
    assert at.waiting == 100
