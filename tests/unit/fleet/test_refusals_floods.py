"""Floods of refused attempts: they fill no journal, and hide nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from core.audit.entries import NewEntry
from core.fleet import rejected_connections as module
from core.fleet.rejected_connections import (
    KEPT,
    LONGEST_WINDOW_S,
    MOST_KINDS_IN_A_WINDOW,
    OF_MANY,
    WINDOW_S,
    RejectedConnections,
)
from tests.fakes.aip_house import House, running_house, soon
from tests.fakes.run_size import examples

KNOWN = {"lab-1", "lab-2"}
REVOKED = "the token was revoked"
MOST_IN_A_WINDOW = 2 * 2 * (MOST_KINDS_IN_A_WINDOW + 1)


class Desk:
    def __init__(self) -> None:
        self.entries: list[NewEntry] = []
        self.refusals = RejectedConnections(self.entries.append, KNOWN.__contains__, lambda name, count: None)

    @property
    def counted(self) -> int:
        return sum(entry.body["count"] for entry in self.entries)


async def test_strangers_of_any_number_hide_no_device_s_refusal_in_memory_or_journal() -> None:
    desk = Desk()
    desk.refusals.add("10.0.0.1:1", "lab-1", REVOKED)
    for number in range(5_000):
        desk.refusals.add(f"10.1.{number // 250}.{number % 250}:1", "", f"odd {number}")
    desk.refusals.add("10.0.0.2:1", "lab-2", REVOKED)
    for number in range(5_000):
        desk.refusals.add(f"10.2.{number // 250}.{number % 250}:1", "", f"odd {number}")
    assert [one.reason for one in desk.refusals.of("lab-1")] == [REVOKED]
    assert [one.reason for one in desk.refusals.of("lab-2")] == [REVOKED]
    assert {entry.device for entry in desk.entries} == {None, "lab-1", "lab-2"}
    desk.refusals.flush()
    assert len(desk.entries) <= MOST_IN_A_WINDOW
    assert desk.counted == desk.refusals.total == 10_002


async def test_one_who_floods_with_reasons_hides_neither_another_device_nor_another_host() -> None:
    desk = Desk()
    desk.refusals.add("10.0.0.7:1", "", "it does not use TLS")
    desk.refusals.add("10.0.0.2:1", "lab-2", REVOKED)
    for number in range(3_000):
        desk.refusals.add("10.0.0.1:1", "lab-1", f"odd {number}")
        desk.refusals.add("10.0.0.1:1", "", f"odd {number}")
        desk.refusals.add(f"10.0.0.1:{number}", f"made-up-{number}", f"odd {number}")
    desk.refusals.add("10.0.0.8:1", "", "it does not use TLS")
    assert [one.reason for one in desk.refusals.of("lab-2")] == [REVOKED]
    assert {"10.0.0.7:1", "10.0.0.8:1"} <= {one.peer for one in desk.refusals.newest()}
    rest = [one for one in desk.refusals.newest() if one.reason == OF_MANY]
    assert {one.name for one in rest} == {"", "lab-1"}
    assert len(desk.refusals.newest()) <= 2 * KEPT
    desk.refusals.flush()
    assert len(desk.entries) < 50
    assert desk.counted == desk.refusals.total


async def test_what_a_far_end_says_is_kept_short_and_visible() -> None:
    desk = Desk()
    desk.refusals.add("10.0.0.1\x1b[2J:1", "\u202elab", "\x9b2J\udcff" + "\u200b" * 5_000)
    [one] = desk.refusals.newest()
    for words in (one.peer, one.name, one.reason, *map(str, desk.entries[0].body.values())):
        assert words.isprintable()
        assert len(words) <= 300
    assert one.model_dump_json()
    desk.refusals.flush()


class Clock:
    """The loop's clock and timers, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, work: Callable[[], None]) -> Clock:
        self._timers.append((self.now + seconds, work))
        return self

    def cancel(self) -> None:
        self._timers.clear()

    def go(self, seconds: float) -> None:
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            at, work = self._timers.pop()
            self.now = at
            work()
        self.now = until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module.asyncio, "get_running_loop", lambda: clock)
    return clock


def test_a_client_that_is_refused_all_day_is_some_entries_an_hour_and_each_attempt_counts(
    clock: Clock,
) -> None:
    desk = Desk()
    for _ in range(24 * 60 * 2):
        desk.refusals.add("10.0.0.1:1", "lab-1", REVOKED)
        clock.go(30)
    clock.go(LONGEST_WINDOW_S)
    assert len(desk.entries) < 2 * 24 + 2 * 8
    assert desk.counted == 24 * 60 * 2


def test_a_flood_all_day_is_as_many_entries_an_hour_as_one_of_a_minute(clock: Clock) -> None:
    desk, hours = Desk(), examples(24, quick=6)
    for number in range(hours * 60 * 60):
        desk.refusals.add(f"10.0.{number % 256}.{number // 256 % 256}:1", "", f"odd {number}")
        clock.go(1)
    clock.go(LONGEST_WINDOW_S)
    assert len(desk.entries) < MOST_IN_A_WINDOW / 2 * (hours + 8)
    assert desk.counted == hours * 60 * 60


def test_after_a_quiet_while_what_is_refused_is_told_within_a_minute_again(clock: Clock) -> None:
    desk = Desk()
    for _ in range(1_000):
        desk.refusals.add("10.0.0.1:1", "lab-1", REVOKED)
        clock.go(30)
    clock.go(LONGEST_WINDOW_S + WINDOW_S)
    before = len(desk.entries)
    desk.refusals.add("10.0.0.1:1", "lab-1", REVOKED)
    desk.refusals.add("10.0.0.1:1", "lab-1", REVOKED)
    clock.go(WINDOW_S)
    assert [entry.body["count"] for entry in desk.entries[before:]] == [1, 1]


async def refused_for(house: House, request: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    writer.write(request)
    writer.write_eof()
    await soon(reader.read())
    writer.close()
    reason, _ = await soon(house.refused.get())
    return str(reason)


async def test_a_stranger_cannot_word_the_reason_for_which_it_is_refused() -> None:
    """A reason that differs at each attempt would be another entry of the journal at each attempt."""
    head = b"GET /ws?token=token-one HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    async with running_house() as house:
        long = {await refused_for(house, b"GET /" + b"a" * (9_000 + size)) for size in range(5)}
        assert long == {"it did not ask for a WebSocket: its request is too long"}
        odd = {await refused_for(house, head + b"Upgrade: \x9b%d\r\n\r\n" % number) for number in range(5)}
        assert odd == {"it did not ask for a WebSocket: its header Upgrade is missing or wrong"}
        none = {await refused_for(house, b"%d\r\n\r\n" % number) for number in range(5)}
        assert none == {"it did not ask for a WebSocket: its request is not valid HTTP"}
