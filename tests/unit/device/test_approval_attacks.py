"""A device that wants signed approvals looks for itself: what nobody signed, byte for byte, does not run."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from core.aip.extensions import CommandOptions
from core.aip.messages import Command
from core.device import DeviceConfig
from core.device.approval import KEPT, ApprovalCheck, UsedApprovals, VerifiedApproval
from core.device.device_store import DATABASE, DeviceStore
from core.device.tool import Contract
from core.errors import ErrorCode, ErrorInfo, Refused
from core.home import Home
from core.statements import short_code
from tests.fakes.run_size import examples
from tests.fakes.signing_bench import CONTRACT, DEVICE, FACTS, NOTE, Keys, bench, command_of, terms_of
from tests.fakes.watched_syncs import watching_syncs


@pytest.fixture
def keys(home: Home) -> Keys:
    return Keys(home)


@pytest.mark.parametrize("at", range(len("echo ran")))
async def test_one_byte_of_the_arguments_is_enough_to_refuse(tmp_path: Path, keys: Keys, at: int) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        terms = terms_of(keys.signs(command_of()))
        line = "echo ran"
        altered = command_of(line=line[:at] + chr(ord(line[at]) ^ 1) + line[at + 1 :])
        assert "byte for byte" in await device.refused(altered, terms)


@pytest.mark.parametrize(
    "other",
    [
        {"call_id": "c2"},
        {"parameters": {"line": "echo ran", "more": 1}},
        {"parameters": {"line": ["echo ran"]}},
        {"parameters": {}},
        {"parameters": None},
        {"parameters": {"LINE": "echo ran"}},
        {"tool_name": "shell_execute", "parameters": {"command": "echo ran"}},
        {"call_id": None},
    ],
)
async def test_an_approval_is_for_one_call_one_tool_and_its_arguments(
    tmp_path: Path, keys: Keys, other: dict[str, Any]
) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        terms = terms_of(keys.signs(command_of()))
        await device.refused(command_of(**other), terms)


async def test_an_approval_for_another_device_is_worth_nothing(tmp_path: Path, keys: Keys) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        command = command_of()
        assert "byte for byte" in await device.refused(command, terms_of(keys.signs(command, on="lab-2")))
        lying = keys.signs(command, device="lab-2")
        assert "another device" in await device.refused(command, terms_of(lying))
        assert "another call" in await device.refused(command, terms_of(keys.signs(command, call_id="c9")))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": "deny"}, "denied it"),
        ({"expires": "tomorrow"}, "no valid expiry"),
        ({"expires": "2031-01-01T00:00:00"}, "no valid expiry"),
        ({"contract": "d" * 64}, "another contract"),
        ({"request_digest": "0" * 64}, "byte for byte"),
    ],
)
async def test_a_statement_that_says_something_else_is_refused(
    tmp_path: Path, keys: Keys, changes: dict[str, Any], words: str
) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        command = command_of()
        assert words in await device.refused(command, terms_of(keys.signs(command, **changes)))


@pytest.mark.parametrize("expires", ["2001-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00"])
async def test_a_signature_that_is_not_valid_by_this_clock_names_the_clock(
    tmp_path: Path, keys: Keys, expires: str
) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        command = command_of()
        terms = terms_of(keys.signs(command, expires=expires))
        said = await device.refused(command, terms, ErrorCode.CLOCK_DIFFERS)
        assert "has expired, or is valid for too long" in said
        assert "UTC on this device" in said
        # What is wrong besides is no matter of the clock.
        both = terms_of(keys.signs(command, expires=expires, contract="d" * 64))
        assert "another contract" in await device.refused(command, both)
    assert "clock" in ErrorInfo.of(ErrorCode.CLOCK_DIFFERS, said).next


async def test_a_key_that_is_not_pinned_counts_for_nothing(tmp_path: Path, keys: Keys, home: Home) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        command = command_of()
        assert "not one of this device's" in await device.refused(
            command, terms_of(keys.signs(command, by="mallory"))
        )
        # Mallory's key under anna's name: the name is pinned, the key is another one.
        theirs = Keys(Home(home.path / "theirs").create())
        assert "not one of the key" in await device.refused(command, terms_of(theirs.signs(command)))


@pytest.mark.parametrize("part", ["verdict", "approval", "call_id", "approver", "expires", "reason"])
async def test_a_statement_altered_after_signing_is_refused(tmp_path: Path, keys: Keys, part: str) -> None:
    async with bench(tmp_path, keys, "anna", "bert") as device:
        command = command_of()
        signed = keys.signs(command)
        other = {
            "verdict": "deny",
            "approver": "bert",
            "expires": (datetime.now(UTC) + timedelta(seconds=90)).isoformat(),
        }.get(part, "x")
        forged = signed.model_copy(update={"statement": signed.statement.model_copy(update={part: other})})
        await device.refused(command, terms_of(forged))


@pytest.mark.parametrize(
    "approval",
    [
        {},
        {"statements": []},
        {"statements": [], "contract": CONTRACT, "tool_key": "action::note"},
        {"statements": [{}], "contract": CONTRACT, "tool_key": "action::note"},
        {"statements": "x", "contract": 1, "tool_key": None},
        {"statements": [None] * 10_000, "contract": CONTRACT, "tool_key": "action::note"},
    ],
)
async def test_nonsense_in_place_of_an_approval_is_refused(
    tmp_path: Path, keys: Keys, approval: dict[str, Any]
) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        await device.refused(command_of(), CommandOptions(deadline_s=5, approval=approval))


async def test_a_signature_has_one_spelling(tmp_path: Path, keys: Keys) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        command = command_of()
        signed = keys.signs(command)
        for odd in (signed.signature.upper(), signed.signature + "00", "", signed.signature[:-2]):
            await device.refused(command, terms_of(signed.model_copy(update={"signature": odd})))


async def test_what_the_console_says_of_the_tool_is_not_asked(tmp_path: Path, keys: Keys) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        command = command_of()
        lying = terms_of(keys.signs(command, namespace="elsewhere"), namespace="elsewhere")
        assert "byte for byte" in await device.refused(command, lying)


@pytest.mark.parametrize(
    "otherwise",
    [
        {"description": "Notes a line, and mails it."},
        {"title": "Note and mail"},
        {"input_schema": {"type": "object"}},
        {"output_schema": {"type": "object"}},
        {"contract": Contract("destroy", "low", reversible=False, idempotent=False)},
    ],
)
def test_a_tool_that_is_defined_otherwise_than_when_it_was_approved_does_not_run(
    tmp_path: Path, keys: Keys, otherwise: dict[str, Any]
) -> None:
    check = checker(tmp_path, keys, lambda: datetime.now(UTC))
    command = command_of()
    terms = terms_of(keys.signs(command))
    with pytest.raises(Refused, match="not defined on this device as it was") as refusal:
        check.check(replace(NOTE, **otherwise), command, terms)
    assert refusal.value.code is ErrorCode.CONTRACT_CHANGED
    # It is not used up by that.
    leave = check.check(NOTE, command, terms)
    assert leave is not None
    check.use(leave)


@pytest.mark.parametrize(
    "facts", [{}, {"effect": "observe"}, {**FACTS, "risk": "low"}, {"effect": float("nan")}, None]
)
def test_facts_that_are_not_those_that_were_signed_for_prove_nothing(
    tmp_path: Path, keys: Keys, facts: Any
) -> None:
    check = checker(tmp_path, keys, lambda: datetime.now(UTC))
    command = command_of()
    terms = terms_of(keys.signs(command))
    assert terms.approval is not None
    altered = {key: value for key, value in terms.approval.items() if key != "facts"}
    altered |= {} if facts is None else {"facts": facts}
    with pytest.raises(Refused):
        check.check(NOTE, command, terms.model_copy(update={"approval": altered}))


def checker(folder: Path, keys: Keys, clock: Callable[[], datetime]) -> ApprovalCheck:
    config = DeviceConfig(roots=(folder,), require_signed_approval=True, pinned_operators=keys.pinned("anna"))
    return ApprovalCheck(config, DEVICE, DeviceStore(folder / "state"), clock)


def rows_in(folder: Path) -> list[tuple[str, ...]]:
    """The record of used approvals."""
    with closing(sqlite3.connect(folder / "state" / DATABASE)) as connection:
        return connection.execute("SELECT * FROM used_approvals").fetchall()


def test_a_clock_set_back_revives_no_approval(
    tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.device.approval.KEPT", 1)
    now = [datetime(2030, 1, 1, 12, 0, tzinfo=UTC)]
    check = checker(tmp_path, keys, lambda: now[0])

    def approve(call_id: str) -> None:
        command = command_of(call_id)
        signed = keys.signs(command, expires=datetime(2030, 1, 1, 12, minute, 30, tzinfo=UTC).isoformat())
        leave = check.check(NOTE, command, terms_of(signed))
        assert leave is not None
        check.use(leave)

    minute = 0
    old = command_of("old")
    held_back = terms_of(keys.signs(old, expires=datetime(2030, 1, 1, 12, 1, tzinfo=UTC).isoformat()))
    approve("c1")
    now[0] += timedelta(minutes=5)
    minute = 5
    approve("c2")
    # What could not be valid any more was forgotten; the newest was not.
    assert len(rows_in(tmp_path)) == 1
    for back in (timedelta(minutes=5), timedelta(days=400)):
        now[0] -= back
        for again in (check, checker(tmp_path, keys, lambda: now[0])):
            with pytest.raises(Refused, match="expired"):
                again.check(NOTE, old, held_back)
        now[0] += back


class SignedOften:
    """A device under a clock of its own, and an operator who signs by another one."""

    def __init__(self, folder: Path, keys: Keys) -> None:
        self.now = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
        self._folder, self._keys = folder, keys
        self.check = checker(folder, keys, lambda: self.now)

    def restart(self) -> None:
        self.check = checker(self._folder, self._keys, lambda: self.now)

    def signed(self, call_id: str, minutes: float = 1) -> tuple[Command, CommandOptions]:
        command = command_of(call_id)
        expires = (self.now + timedelta(minutes=minutes)).isoformat()
        return command, terms_of(self._keys.signs(command, expires=expires))

    def runs(self, command: Command, terms: CommandOptions) -> None:
        leave = self.check.check(NOTE, command, terms)
        assert leave is not None
        self.check.use(leave)


@pytest.mark.parametrize("ahead", [timedelta(minutes=11), timedelta(hours=1), timedelta(days=400)])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_was_ahead_and_is_set_right_refuses_nothing_new(
    tmp_path: Path, keys: Keys, ahead: timedelta, restarts: bool
) -> None:
    device = SignedOften(tmp_path, keys)
    device.now += ahead
    while_ahead = device.signed("ahead")
    device.runs(*while_ahead)
    device.now -= ahead
    if restarts:
        device.restart()
    device.runs(*device.signed("c1"))
    with pytest.raises(Refused):
        device.runs(*while_ahead)
    device.now += ahead
    with pytest.raises(Refused, match="used before"):
        device.runs(*while_ahead)


@pytest.mark.parametrize("uses", [1, 5, KEPT - 1])
def test_no_use_is_forgotten_while_the_clock_is_ahead(tmp_path: Path, keys: Keys, uses: int) -> None:
    """Else one approval would be good for two runs: before the clock went wrong, and after it was right."""
    device = SignedOften(tmp_path, keys)
    first = device.signed("first", 10)
    device.runs(*first)
    device.now += timedelta(days=1)
    for number in range(uses):
        device.runs(*device.signed(f"c{number}"))
    device.now -= timedelta(days=1)
    for _ in range(2):
        with pytest.raises(Refused, match="used before"):
            device.runs(*first)
        device.restart()


def test_an_approval_that_ran_out_stays_so_for_as_long_as_one_could_have_been_valid(
    tmp_path: Path, keys: Keys
) -> None:
    device = SignedOften(tmp_path, keys)
    late = device.signed("late")
    device.now += timedelta(minutes=10)
    device.runs(*device.signed("c1"))
    device.now -= timedelta(minutes=10)
    with pytest.raises(Refused, match="expired"):
        device.runs(*late)


def test_records_of_used_approvals_do_not_pile_up(tmp_path: Path, keys: Keys) -> None:
    device = SignedOften(tmp_path, keys)
    for number in range(KEPT + 20):
        device.runs(*device.signed(f"c{number}"))
        device.now += timedelta(minutes=1)
    assert len(rows_in(tmp_path)) <= KEPT + 2


@pytest.mark.parametrize("left", ["", "2026-11-22T10:40", "nonsense"])
def test_a_record_that_cannot_be_read_still_counts_as_used(tmp_path: Path, keys: Keys, left: str) -> None:
    check = checker(tmp_path, keys, lambda: datetime.now(UTC))
    command = command_of()
    leave = check.check(NOTE, command, terms_of(keys.signs(command)))
    assert leave is not None
    check.use(leave)
    with closing(sqlite3.connect(tmp_path / "state" / DATABASE)) as connection, connection:
        connection.execute("UPDATE used_approvals SET used = ?, until = ?", (left, left))
    with pytest.raises(Refused, match="used before"):
        checker(tmp_path, keys, lambda: datetime.now(UTC)).use(leave)
    # Nor does it keep another one from being used.
    check.use(replace(leave, call_id="another"))
    assert len(rows_in(tmp_path)) == 2


def test_after_damage_no_approval_counts_that_may_have_been_used(tmp_path: Path, keys: Keys) -> None:
    device = SignedOften(tmp_path, keys)
    device.now = datetime.now(UTC)
    used = device.signed("c1", 9.9)
    device.runs(*used)
    device.check._used._store.close()
    (tmp_path / "state" / DATABASE).write_bytes(b"no database")
    device.restart()
    with pytest.raises(Refused, match="may have been used"):
        device.runs(*used)
    device.now += timedelta(minutes=2)
    device.runs(*device.signed("c2", 9.9))
    device.restart()
    with pytest.raises(Refused, match="may have been used"):
        device.runs(*used)


def test_of_many_clients_one_uses_an_approval(tmp_path: Path, keys: Keys) -> None:
    device = SignedOften(tmp_path, keys)
    leave = device.check.check(NOTE, *device.signed("c1"))
    assert leave is not None
    checks = [checker(tmp_path, keys, lambda: device.now) for _ in range(6)]

    def uses(check: ApprovalCheck) -> bool:
        try:
            check.use(leave)
        except Refused:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(uses, checks)) == 1


def test_both_sides_show_the_same_code(tmp_path: Path, keys: Keys) -> None:
    command = command_of()
    signed = keys.signs(command)
    leave = checker(tmp_path, keys, lambda: datetime.now(UTC)).check(NOTE, command, terms_of(signed))
    assert leave is not None
    assert leave.code == short_code(signed.statement.request_digest)


@settings(max_examples=examples(400, quick=100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_byte_of_the_frame_changes_only_the_signed_command_passes(
    tmp_path: Path, keys: Keys, data: st.DataObject
) -> None:
    """The whole command as it stands on the wire, terms and signatures included."""
    command = command_of(line="rm -r /srv/old; echo ö 1.0 done")
    terms = terms_of(keys.signs(command))
    wire = json.dumps({**command.model_dump(), "quarterdeck": terms.model_dump(mode="json")}).encode()
    at = data.draw(st.integers(0, len(wire) - 1))
    byte = data.draw(st.integers(0, 255))
    kind = data.draw(st.sampled_from(["change", "insert", "delete"]))
    altered = wire[:at] + (b"" if kind == "delete" else bytes([byte])) + wire[at + (kind != "insert") :]
    try:
        arrived = Command.model_validate_json(altered)
        brought = CommandOptions.model_validate(arrived.quarterdeck) if arrived.quarterdeck else None
    except ValidationError:
        return
    check = checker(tmp_path, keys, lambda: datetime.now(UTC))
    try:
        leave = check.check(NOTE, arrived, brought)
    except Refused:
        return
    assert leave is not None
    assert (arrived.parameters, arrived.call_id) == (command.parameters, command.call_id)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel that counts is Linux")
def test_that_an_approval_was_used_is_on_the_disk_before_anything_is_done(memory_path: Path) -> None:
    used = UsedApprovals(DeviceStore(memory_path), DEVICE)
    used.use(VerifiedApproval("c0", "code", ("anna",), datetime.now(UTC) + timedelta(seconds=60)))
    leave = VerifiedApproval("c1", "code", ("anna",), datetime.now(UTC) + timedelta(seconds=60))
    _, syncs = watching_syncs(lambda: used.use(leave))
    assert syncs == [f"{DATABASE}-wal"]
