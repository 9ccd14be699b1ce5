"""A device that wants signed approvals looks for itself: what nobody signed, byte for byte, does not run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from core.aip.error_text import read_error_text
from core.aip.extras import Terms
from core.aip.messages import Command, Result
from core.device import DeviceConfig, Router, build_router
from core.device.approval import ApprovalCheck
from core.device.config import PinnedOperator, load_config
from core.device.tool import OBSERVES, Contract, Tool, ToolCall, object_schema, text
from core.dispatch.channel import LocalCommandDispatcher
from core.dispatch.order import Order
from core.errors import BadInput, ErrorCode, Refused
from core.fleet.fleet import Arrival
from core.home import Home
from core.policy.operator_keys import OperatorKey, create_operator_key, statement_for
from core.statements import SignedLeave, SignedStatement, Statement, make_request, short_code
from tests.fakes.rig import open_rig

DEVICE = "lab-1"
CONTRACT = "c" * 64


class Keys:
    """Operators' keys by name, and statements that they have signed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._keys: dict[str, OperatorKey] = {}

    def __getitem__(self, name: str) -> OperatorKey:
        if name not in self._keys:
            self._keys[name] = create_operator_key(self._home, name, None)
        return self._keys[name]

    def pinned(self, *names: str) -> tuple[PinnedOperator, ...]:
        return tuple(PinnedOperator(name=name, public_key=self[name].public_key) for name in names)

    def signs(self, command: Command, by: str = "anna", **changes: Any) -> SignedStatement:
        """What an operator signs who saw exactly this command; `changes` are to the statement."""
        request = make_request(
            device=changes.pop("on", DEVICE),
            contract=CONTRACT,
            tool_key=f"{command.tool_type}::{command.tool_name}",
            tool_name=command.tool_name,
            tool_type=command.tool_type,
            namespace=changes.pop("namespace", "builtin"),
            parameters=command.parameters or {},
            call_id=command.call_id or "",
        )
        usual = {
            "verdict": "approve",
            "approval": "a-1",
            "request_digest": request.digest,
            "contract": CONTRACT,
            "device": request.device,
            "call_id": request.call_id,
            "approver": by,
            "expires": (datetime.now(UTC) + timedelta(seconds=60)).isoformat(),
        }
        return self[by].sign(Statement.model_validate(usual | changes))


@pytest.fixture
def keys(home: Home) -> Keys:
    return Keys(home)


def command_of(call_id: str = "c1", line: str = "echo ran", **changes: Any) -> Command:
    usual = {"tool_name": "note", "tool_type": "action", "parameters": {"line": line}, "call_id": call_id}
    return Command.model_validate(usual | changes)


def terms_of(*signed: SignedStatement, **changes: Any) -> Terms:
    leave = SignedLeave(statements=list(signed), contract=CONTRACT, tool_key="action::note")
    return Terms(deadline_s=10, approval=leave.model_dump(mode="json") | changes)


class Bench:
    """A device with one action, which remembers what it was run with."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.ran: list[str] = []

    async def run(self, command: Command, terms: Terms | None) -> Result:
        return await self.router.run(command, 10, terms=terms)

    async def refused(self, command: Command, terms: Terms | None) -> str:
        """Why it was refused; nothing was run."""
        before = list(self.ran)
        told = read_error_text((await self.run(command, terms)).error or "")
        assert told.code is ErrorCode.DENIED_BY_DEVICE, told
        assert self.ran == before
        return told.message


def bench(folder: Path, keys: Keys, *names: str, **config: Any) -> AbstractAsyncContextManager[Bench]:
    """A device that pins these operators; its state outlives it."""
    return bench_of(folder, *(keys[name] for name in names), **config)


@asynccontextmanager
async def bench_of(folder: Path, *operators: OperatorKey, **config: Any) -> AsyncIterator[Bench]:
    """The same, by the keys themselves."""
    pinned = tuple(PinnedOperator(name=one.name, public_key=one.public_key) for one in operators)
    settings = DeviceConfig(roots=(folder,), require_signed_approval=True, pinned_operators=pinned, **config)
    router = build_router(settings, folder / "state", DEVICE)
    made = Bench(router)

    async def note(call: Any) -> dict[str, Any]:
        made.ran.append(call.arguments["line"])
        return {"ok": True}

    tool = Tool(
        name="note",
        title="Note",
        tool_type="action",
        description="Notes a line.",
        input_schema=object_schema({"line": text("What.")}),
        output_schema={},
        contract=Contract("change", "low", reversible=False, idempotent=False),
        run=note,
    )
    router.offer(tool)
    try:
        yield made
    finally:
        await router.close()


async def test_what_a_pinned_operator_signed_runs_once(tmp_path: Path, keys: Keys) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        command = command_of()
        terms = terms_of(keys.signs(command))
        assert (await device.run(command, terms)).error is None
        assert device.ran == ["echo ran"]
        assert "used before" in await device.refused(command, terms)


async def test_a_used_approval_stays_used_over_a_restart(tmp_path: Path, keys: Keys) -> None:
    command = command_of()
    terms = terms_of(keys.signs(command))
    async with bench(tmp_path, keys, "anna") as device:
        assert (await device.run(command, terms)).error is None
    async with bench(tmp_path, keys, "anna") as device:
        assert "used before" in await device.refused(command, terms)
        again = terms_of(keys.signs(command))
        assert "used before" in await device.refused(command, again)


async def test_two_at_once_with_one_approval_are_one_run(tmp_path: Path, keys: Keys) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        command = command_of()
        terms = terms_of(keys.signs(command))
        results = await asyncio.gather(*(device.run(command, terms) for _ in range(8)))
        assert sum(result.error is None for result in results) == 1
        assert device.ran == ["echo ran"]


async def test_observations_need_no_approval(tmp_path: Path, keys: Keys) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        look = Command(tool_name="get_system_info", tool_type="data_collection", call_id="c")
        look.parameters = {"info_type": "memory"}
        assert (await device.run(look, None)).error is None
        as_action = look.model_copy(update={"tool_type": "action"})
        assert (await device.run(as_action, None)).error is not None


async def test_a_hosted_tool_that_calls_itself_an_observation_needs_one_all_the_same(
    tmp_path: Path, keys: Keys
) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        tool = Tool(
            name="peek",
            title="Peek",
            tool_type="data_collection",
            description="Says that it only looks.",
            input_schema=object_schema({}),
            output_schema=object_schema({}),
            contract=OBSERVES,
            run=_never_reached,
            namespace="stranger",
        )
        device.router.offer(tool)
        look = Command(tool_name="peek", tool_type="data_collection", parameters={}, call_id="c")
        assert "signed approval" in await device.refused(look, None)


async def _never_reached(call: ToolCall) -> None:
    raise AssertionError("it ran without an approval")


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
        ({"expires": "2001-01-01T00:00:00+00:00"}, "expired"),
        ({"expires": "2999-01-01T00:00:00+00:00"}, "too long"),
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
        await device.refused(command_of(), Terms(deadline_s=5, approval=approval))


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


async def test_two_operators_are_two_people(tmp_path: Path, keys: Keys) -> None:
    async with bench(tmp_path, keys, "anna", "bert", approvers=2) as device:
        command = command_of()
        once = keys.signs(command)
        later = keys.signs(command, expires=(datetime.now(UTC) + timedelta(seconds=90)).isoformat())
        for alone in ((once,), (once, once), (once, later)):
            assert "wants 2 operators" in await device.refused(command, terms_of(*alone))
        denied = keys.signs(command, by="bert", verdict="deny")
        assert "bert denied it" in await device.refused(command, terms_of(once, denied))
        both = terms_of(once, keys.signs(command, by="bert"))
        assert (await device.run(command, both)).error is None


async def test_arguments_that_the_tool_refuses_do_not_use_the_approval_up(tmp_path: Path, keys: Keys) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        wrong = command_of(parameters={"line": 1})
        refused = await device.run(wrong, terms_of(keys.signs(wrong)))
        assert read_error_text(refused.error or "").code is ErrorCode.INVALID_ARGUMENTS
        assert not list((tmp_path / "state" / "approvals").glob("*"))


async def test_where_use_cannot_be_remembered_nothing_runs(
    tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        (tmp_path / "state" / "approvals").write_text("a file where the folder should be")
        command = command_of()
        assert "cannot keep" in await device.refused(command, terms_of(keys.signs(command)))


def checker(folder: Path, keys: Keys, clock: Callable[[], datetime]) -> ApprovalCheck:
    config = DeviceConfig(roots=(folder,), require_signed_approval=True, pinned_operators=keys.pinned("anna"))
    return ApprovalCheck(config, DEVICE, folder / "used", clock)


NOTE = Tool(
    name="note",
    title="Note",
    tool_type="action",
    description="",
    input_schema={},
    output_schema={},
    contract=Contract("change", "low", reversible=False, idempotent=False),
    run=lambda call: asyncio.sleep(0),
)


def test_a_clock_set_back_revives_no_approval(tmp_path: Path, keys: Keys) -> None:
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
    assert len(list((tmp_path / "used").iterdir())) == 1
    for back in (timedelta(minutes=5), timedelta(days=400)):
        now[0] -= back
        for again in (check, checker(tmp_path, keys, lambda: now[0])):
            with pytest.raises(Refused, match="expired"):
                again.check(NOTE, old, held_back)
        now[0] += back


def test_a_file_that_was_cut_off_still_counts_as_used(tmp_path: Path, keys: Keys) -> None:
    check = checker(tmp_path, keys, lambda: datetime.now(UTC))
    command = command_of()
    leave = check.check(NOTE, command, terms_of(keys.signs(command)))
    assert leave is not None
    check.use(leave)
    [path] = (tmp_path / "used").iterdir()
    path.write_text("")
    with pytest.raises(Refused, match="used before"):
        checker(tmp_path, keys, lambda: datetime.now(UTC)).use(leave)


def test_both_sides_show_the_same_code(tmp_path: Path, keys: Keys) -> None:
    command = command_of()
    signed = keys.signs(command)
    leave = checker(tmp_path, keys, lambda: datetime.now(UTC)).check(NOTE, command, terms_of(signed))
    assert leave is not None
    assert leave.code == short_code(signed.statement.request_digest)


@pytest.mark.parametrize("number", [0, 2, 17])
def test_more_approvers_than_operators_is_no_configuration(tmp_path: Path, keys: Keys, number: int) -> None:
    path = tmp_path / "device.toml"
    path.write_text(
        f"require_signed_approval = true\napprovers = {number}\n"
        f'[[pinned_operators]]\nname = "anna"\npublic_key = "{keys["anna"].public_key}"\n'
    )
    with pytest.raises(BadInput, match="approvers"):
        load_config(path)


async def test_the_tools_inside_the_service_are_brought_the_signatures_too(
    home: Home, tmp_path: Path, keys: Keys
) -> None:
    async with open_rig(home) as rig, bench_of(tmp_path, rig.key) as device:
        rig.fleet.add(DEVICE, [])
        channel = LocalCommandDispatcher(DEVICE, device.router, rig.dispatcher.gate)
        arrival = Arrival(channel, "in-process", "linux", "test", "test", [], None, approvers=1)
        await rig.fleet.arrived(DEVICE, arrival)
        order = Order(DEVICE, "note", {"line": "x"}, "operator:anna")
        call = rig.tasks.spawn("call", rig.dispatcher.dispatch(order))
        waiting = await asyncio.wait_for(rig.asked.get(), 10)
        await rig.approvals.decide(rig.key.sign(statement_for(waiting, "approve", "anna")))
        result = await call
        assert result.error is None
        assert device.ran == ["x"]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        brought = Terms.model_validate(arrived.quarterdeck) if arrived.quarterdeck else None
    except ValidationError:
        return
    check = checker(tmp_path, keys, lambda: datetime.now(UTC))
    try:
        leave = check.check(NOTE, arrived, brought)
    except Refused:
        return
    assert leave is not None
    assert (arrived.parameters, arrived.call_id) == (command.parameters, command.call_id)
