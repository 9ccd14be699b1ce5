"""Refused attempts: counted, bounded, and never a flood in the journal."""

from __future__ import annotations

from core.audit.entries import Kind, NewEntry
from core.errors import JournalUnavailable
from core.fleet.models import Refusal
from core.fleet.rejected_connections import KEPT, MOST_KINDS_IN_A_WINDOW, OF_MANY, RejectedConnections


class Desk:
    def __init__(self) -> None:
        self.entries: list[NewEntry] = []
        self.counts: dict[str, int] = {}
        self.refusals = RejectedConnections(
            self.entries.append, lambda name: name == "lab-1", self.counts.__setitem__
        )


async def test_the_first_attempt_is_written_at_once_and_the_rest_of_its_minute_as_one_entry():
    desk = Desk()
    for port in range(500):
        desk.refusals.add(f"10.0.0.9:{port}", "lab-1", "the token was revoked")
    assert [entry.body["count"] for entry in desk.entries] == [1]
    desk.refusals.flush()
    assert [entry.body["count"] for entry in desk.entries] == [1, 499]
    assert {entry.device for entry in desk.entries} == {"lab-1"}
    assert {entry.kind for entry in desk.entries} == {Kind.DEVICE_REFUSED}


async def test_a_flood_of_different_attempts_is_bounded_in_journal_and_memory():
    desk = Desk()
    for number in range(5000):
        desk.refusals.add(f"10.0.{number // 250}.{number % 250}:1", f"name-{number}", "no token" * 500)
    desk.refusals.flush()
    assert len(desk.entries) <= 2 * (MOST_KINDS_IN_A_WINDOW + 1)
    assert any(entry.body["reason"] == OF_MANY for entry in desk.entries)
    assert sum(entry.body["count"] for entry in desk.entries) == 5000
    assert len(desk.refusals.newest()) == KEPT
    assert desk.refusals.total == 5000
    assert desk.counts == {}
    assert all(len(entry.body["reason"]) <= 300 for entry in desk.entries)


async def test_like_attempts_are_one_with_a_count_newest_first():
    desk = Desk()
    desk.refusals.add("10.0.0.1:1", "lab-1", "the token was revoked")
    desk.refusals.add("10.0.0.2:1", "", "the token is not accepted")
    desk.refusals.add("10.0.0.1:2", "lab-1", "the token was revoked")
    assert [(one.peer, one.count) for one in desk.refusals.newest()] == [
        ("10.0.0.1:2", 2),
        ("10.0.0.2:1", 1),
    ]
    assert [one.count for one in desk.refusals.of("lab-1")] == [2]
    assert desk.counts == {"lab-1": 2}
    desk.refusals.flush()


async def test_a_name_that_nobody_has_does_not_become_a_device_in_the_journal():
    desk = Desk()
    desk.refusals.add("10.0.0.1:1", "made-up", "x")
    assert desk.entries[0].device is None
    assert desk.entries[0].body["name"] == "made-up"
    desk.refusals.flush()


async def test_a_journal_that_cannot_be_written_stops_no_refusing():
    def broken(entry: NewEntry) -> None:
        raise JournalUnavailable("disk full")

    refusals = RejectedConnections(broken, lambda name: False, lambda name, count: None)
    refusals.add("10.0.0.1:1", "", "x")
    refusals.flush()
    assert refusals.total == 1


async def test_what_an_earlier_service_refused_stands_below_what_is_new():
    desk = Desk()
    desk.refusals.add("10.0.0.1:1", "", "new")
    desk.refusals.restore([Refusal(at="2026-01-01T00:00:00Z", peer="10.0.0.7:1", reason="old", count=3)])
    assert [one.reason for one in desk.refusals.newest()] == ["new", "old"]
    assert desk.refusals.total == 1
    desk.refusals.flush()
