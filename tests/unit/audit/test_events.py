"""Typed events write the bodies that the journal has always had, and read those of every version."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.audit.encode import decode
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.events import (
    AllResumed,
    ApprovalExpired,
    CommandPrepared,
    CommandSent,
    DeviceForgotten,
    DevicePaired,
    DeviceSet,
    Event,
    JournalRecovered,
    PolicyLoaded,
    ProfileChanged,
    ProgressReported,
    RunStarted,
    ServiceStarted,
    event_of,
)
from core.canonical_json import canonical_bytes
from core.errors import BadInput
from tests.fakes.kept_home import unpack
from tests.golden import recordings

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


# The kinds that the kept home does not have.
ABSENT = {
    Kind.JOURNAL_RECOVERED,
    Kind.LOSS_ACCEPTED,
    Kind.HOME_RESTORED,
    Kind.CERTIFICATE_MADE,
    Kind.CERTIFICATE_TAKEN,
    Kind.CERTIFICATE_SWITCHED,
    Kind.AGENT_CONNECTED,
    Kind.AGENT_LEFT,
    Kind.RUN_PAUSED,
    Kind.RUN_UNPAUSED,
    Kind.STEP_FAILED,
    Kind.STEP_RECOVERED,
    Kind.STEP_CANCEL_ASKED,
    Kind.RETRY_SCHEDULED,
}


@pytest.fixture(scope="module")
def kept_entries(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """The entries of the kept home."""
    folder = tmp_path_factory.mktemp("kept")
    unpack(recordings.HOME, folder)
    with closing(sqlite3.connect(folder / "home" / "journal.db")) as connection:
        return [decode(row) for (row,) in connection.execute("SELECT entry FROM entries ORDER BY seq")]


def read(kind: Kind, body: dict[str, Any]) -> Event:
    return event_of(NewEntry(kind=kind, actor="service", body=body))


def keys_of(event: type[Event]) -> tuple[set[str], set[str]]:
    """The keys that a body of this event may have, and those that it must have."""
    left_out = {name for name, _ in event._defaults}
    return {rule.key for rule in event._rules}, {
        rule.key for rule in event._rules if rule.name not in left_out
    }


class TestAllKinds:
    def test_each_kind_has_its_own_class(self):
        classes = {type(read(kind, {})) for kind in Kind}
        assert {event.kind for event in classes} == set(Kind)

    def test_a_body_of_the_kept_home_is_written_again_as_it_is(self, kept_entries: list[Entry]):
        assert {entry.kind for entry in kept_entries} == set(Kind) - ABSENT
        for entry in kept_entries:
            assert canonical_bytes(event_of(entry).body()) == canonical_bytes(entry.body), entry

    def test_recorded_bodies_have_the_keys_of_their_class(self):
        for entry in map(json.loads, recordings.kept("journal")):
            may, must = keys_of(type(read(Kind(entry["kind"]), {})))
            assert must <= entry["body"].keys() <= may, entry


class TestWriting:
    """A field with a default is in the body only with another value."""

    @pytest.mark.parametrize(
        ("event", "body"),
        [
            (AllResumed(), {}),
            (CommandSent(), {}),
            (
                CommandSent(digest="d", contract="c", glimpse=True),
                {"digest": "d", "contract": "c", "glimpse": True},
            ),
            (JournalRecovered(entries=0, torn_bytes=7), {"entries": 0, "torn_bytes": 7}),
            (
                JournalRecovered(entries=1, torn_bytes=0, lost=2, spool="missing"),
                {"entries": 1, "torn_bytes": 0, "lost": 2, "spool": "missing"},
            ),
            (PolicyLoaded(profile="guarded", problem=""), {"profile": "guarded", "problem": ""}),
            (
                PolicyLoaded(profile="guarded", text="t", policy_pin="p"),
                {"profile": "guarded", "text": "t", "policy_pin": "p"},
            ),
            (ProfileChanged(from_="guarded", to="lockdown"), {"from": "guarded", "to": "lockdown"}),
            (DeviceForgotten(paired_at="now", revoked_at=None), {"paired_at": "now", "revoked_at": None}),
            (DeviceSet(tags=[]), {"tags": []}),
            (DeviceSet(production=False, agent=""), {"production": False, "agent": ""}),
            (
                DevicePaired(
                    direction="out", url="wss://x", fingerprint="", dial_token_sha256="d", production=False
                ),
                {
                    "direction": "out",
                    "url": "wss://x",
                    "fingerprint": "",
                    "dial_token_sha256": "d",
                    "production": False,
                },
            ),
            (ProgressReported(seq=0, stream="note"), {"seq": 0, "stream": "note"}),
            (
                RunStarted(batch={}, kind_="call", devices=[], devices_hash="h", said=""),
                {"batch": {}, "kind": "call", "devices": [], "devices_hash": "h", "said": ""},
            ),
        ],
    )
    def test_the_body(self, event: Event, body: dict[str, Any]):
        assert event.body() == body
        assert read(event.kind, body) == event

    def test_an_entry_has_the_kind_and_the_body_of_its_event(self):
        entry = ApprovalExpired(approval="a-1", state="expired", reason="").entry(
            "service", call_id="1", tool="t"
        )
        assert entry == NewEntry(
            kind=Kind.APPROVAL_EXPIRED,
            actor="service",
            call_id="1",
            tool="t",
            body={"approval": "a-1", "state": "expired", "reason": ""},
        )

    def test_a_default_that_can_be_changed_is_not_shared(self):
        first, second = read(Kind.SERVICE_STARTED, {}), read(Kind.SERVICE_STARTED, {})
        assert first == second == ServiceStarted(version="", pid=0, stay=False)
        assert vars(first)["ignored"] is not vars(second)["ignored"]


class TestReading:
    def test_what_a_later_version_adds_is_ignored(self):
        assert read(Kind.COMMAND_SENT, {"digest": "d", "colour": "red"}) == CommandSent(digest="d")

    def test_a_field_of_another_type_leaves_the_others_as_they_are(self):
        event = read(
            Kind.COMMAND_PREPARED, {"digest": 7, "parameters": ["x"], "said": "because", "tool_type": None}
        )
        assert isinstance(event, CommandPrepared)
        assert (event.digest, event.parameters, event.said, event.tool_type) == ("", {}, "because", "")

    def test_keys_that_a_reader_cannot_do_without(self):
        body = {"batch": {}, "kind": "call", "devices": ["lab"]}
        assert RunStarted.read_with(body, "batch", "kind", "devices") == RunStarted.read(body)
        for broken in ({"batch": {}, "kind": "call"}, {**body, "devices": None}):
            with pytest.raises(BadInput, match=r"^devices missing"):
                RunStarted.read_with(broken, "batch", "kind", "devices")

    @given(st.sampled_from(Kind), st.data())
    def test_no_body_raises(self, kind: Kind, data: st.DataObject):
        rules = type(read(kind, {}))._rules
        keys = st.sampled_from([rule.key for rule in rules] or ["x"])
        body = data.draw(st.dictionaries(keys, ANY_JSON, max_size=6))
        event = read(kind, body)
        for rule in rules:
            value = getattr(event, rule.name)
            assert isinstance(value, rule.types) or value is None
        event.body()
