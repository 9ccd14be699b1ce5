"""The projection: what the entries of the journal tell of runs and commands."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.audit.entries import Entry, Kind
from core.audit.events import event_of
from core.audit.projection import CommandState, Progress, Projection

BODIES: dict[Kind, dict[str, Any]] = {
    Kind.COMMAND_DECIDED: {"decision": {"answer": "ask"}},
    Kind.APPROVAL_REQUESTED: {"approval": "a-1"},
    Kind.APPROVAL_GIVEN: {"approval": "a-1"},
    Kind.APPROVAL_EXPIRED: {"approval": "a-1"},
    Kind.GRANT_USED: {"grant": "g-1", "approval": "a-1"},
    Kind.RESULT_RECORDED: {"result": {"verdict": "confirmed"}},
}


def entry(number: int, kind: Kind, **fields: Any) -> Entry:
    facts = {"actor": "service", "call_id": "c", "run": "r-1", "body": BODIES.get(kind, {})} | fields
    return Entry(seq=number, time="2026-01-01T00:00:00.000000Z", kind=kind, **facts)


def projected(*kinds: Kind) -> Projection:
    journalled = Projection()
    for number, kind in enumerate(kinds, 1):
        journalled.apply(next_entry := entry(number, kind), event_of(next_entry))
    return journalled


def command(*kinds: Kind) -> CommandState:
    return projected(*kinds).commands["c"]


def test_a_command_goes_through_its_stages():
    state = command(Kind.COMMAND_PREPARED, Kind.COMMAND_DECIDED)
    assert (state.progress, state.decision) == (Progress.PREPARED, {"answer": "ask"})
    state = command(Kind.COMMAND_PREPARED, Kind.APPROVAL_REQUESTED)
    assert (state.progress, state.approval, list(state.waiting)) == (Progress.WAITING, "a-1", ["a-1"])
    state = command(Kind.COMMAND_PREPARED, Kind.INTENT_RECORDED, Kind.COMMAND_SENT)
    assert state.sending is not None
    assert (state.progress, state.sending.seq, state.result) == (Progress.SENDING, 3, None)
    state = command(Kind.COMMAND_PREPARED, Kind.INTENT_RECORDED, Kind.COMMAND_SENT, Kind.RESULT_RECORDED)
    assert (state.progress, state.sending, state.result) == (Progress.ENDED, None, {"verdict": "confirmed"})


def test_each_answer_ends_the_wait_for_its_request():
    for answer in (
        Kind.APPROVAL_GIVEN,
        Kind.APPROVAL_DENIED,
        Kind.APPROVAL_EDITED,
        Kind.APPROVAL_EXPIRED,
        Kind.GRANT_USED,
    ):
        journalled = projected(Kind.COMMAND_PREPARED, Kind.APPROVAL_REQUESTED)
        state = journalled.commands["c"]
        other = entry(3, answer, body={"approval": "a-2"})
        journalled.apply(other, event_of(other))
        assert list(state.waiting) == ["a-1"]
        own = entry(4, answer, body={"approval": "a-1"})
        journalled.apply(own, event_of(own))
        assert state.waiting == {}


def test_a_request_of_several_operators_waits_for_the_last_of_them():
    journalled = projected(Kind.COMMAND_PREPARED, Kind.APPROVAL_REQUESTED)
    for number, waiting in ((1, ["a-1"]), (2, ["a-1"]), (3, [])):
        given = entry(2 + number, Kind.APPROVAL_GIVEN, body={"approval": "a-1", "number": number, "of": 3})
        journalled.apply(given, event_of(given))
        assert list(journalled.commands["c"].waiting) == waiting


def test_a_command_that_is_prepared_or_sent_after_its_end_is_open_again():
    for again in (Kind.COMMAND_PREPARED, Kind.INTENT_RECORDED, Kind.COMMAND_SENT):
        assert command(Kind.COMMAND_PREPARED, Kind.COMMAND_REFUSED).ended is not None
        assert command(Kind.COMMAND_PREPARED, Kind.COMMAND_REFUSED, again).ended is None


def test_a_new_service_waits_for_nothing_that_the_earlier_one_sent_or_asked():
    journalled = projected(
        Kind.COMMAND_PREPARED, Kind.APPROVAL_REQUESTED, Kind.COMMAND_SENT, Kind.SERVICE_STARTED
    )
    state = journalled.commands["c"]
    assert (state.waiting, state.sending, state.prepared is not None) == ({}, None, True)


def test_a_run_starts_is_cancelled_and_ends():
    run = projected(Kind.RUN_STARTED).runs["r-1"]
    assert (run.started is not None, run.cancelled, run.finished) == (True, False, None)
    run = projected(Kind.RUN_STARTED, Kind.RUN_CANCEL_ASKED, Kind.RUN_FINISHED).runs["r-1"]
    assert (run.cancelled, run.finished is not None) == (True, True)


@given(st.lists(st.tuples(st.sampled_from(Kind), st.sampled_from(["c", "d", None])), max_size=30))
def test_entries_in_any_order_are_read(kinds: list[tuple[Kind, str | None]]):
    journalled = Projection()
    for number, (kind, call_id) in enumerate(kinds, 1):
        next_entry = entry(number, kind, call_id=call_id, run=call_id)
        journalled.apply(next_entry, event_of(next_entry))
    assert journalled.commands.keys() <= {"c", "d"}
    assert journalled.runs.keys() <= {"c", "d"}
