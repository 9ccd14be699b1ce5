"""Which machine a device is: what the journal binds, what forged entries do not, and what runs where."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from core import machine_id
from core.audit.entries import Entry, Kind, NewEntry
from core.batch.models import Batch
from core.changes import Change, ChangeKind
from core.errors import BadInput
from core.fleet.models import CheckState
from core.fleet.paired_machines import machine_of
from core.home import Home
from core.models.devices import Health, Machine
from tests.fakes.lab_device import FEATURES
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.scripted_device import ScriptedDevice, scripted, tool
from tests.fakes.service_process import until
from tests.fakes.trust_desk import TrustDesk, trust_desk, write_journal

A, B, C = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def home(memory_path: Path) -> Home:
    return Home(memory_path / "home").create()


@asynccontextmanager
async def online(desk: TrustDesk, token: str, identity: str) -> AsyncIterator[ScriptedDevice]:
    """lab-1 on the machine of this identity, connected."""
    claims: dict[str, Any] = {"features": FEATURES} | ({"identity": identity} if identity else {})
    async with scripted(desk.url, token, "lab-1", **claims) as device:
        device.tools = [tool("poke")]
        await stands(desk.console, "lab-1", Health.ONLINE)
        yield device
    await stands(desk.console, "lab-1", Health.OFFLINE, Health.RECONNECTING)


async def knock(desk: TrustDesk, token: str, identity: str) -> str:
    """What a device of this identity is answered when it is not let in."""
    claims: dict[str, Any] = {"features": FEATURES} | ({"identity": identity} if identity else {})
    async with connect(f"{desk.url}?token={token}") as connection:
        device = ScriptedDevice(connection, "lab-1", ())
        answer = await device.register({"platform": "linux", "quarterdeck": claims})
    assert answer["status"] == "error"
    return str(answer["error"])


async def accept(desk: TrustDesk, identity: str) -> None:
    wish = Change(kind=ChangeKind.DEVICE_BOUND, subject="lab-1", after={"identity": identity})
    await desk.console.devices.accept_machine("lab-1", identity, await desk.sign(wish))


def bound(identity: str, paired_at: str) -> NewEntry:
    body = {"machine": identity, "host": "", "paired_at": paired_at}
    return NewEntry(kind=Kind.DEVICE_BOUND, actor="service", device="lab-1", body=body)


def again(entry: Entry) -> NewEntry:
    return NewEntry(**entry.model_dump(exclude={"seq", "time"}))


async def test_a_client_that_reports_no_identity_works_as_long_as_no_machine_is_bound(home: Home) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        async with online(desk, token, ""):
            checks = {one.name: one for one in await desk.console.devices.diagnose("lab-1")}
            assert checks["machine"].state is CheckState.SKIPPED
            assert "would go unnoticed" in checks["machine"].found
        async with online(desk, token, A):
            pass
        # From here on, what does not tell its machine may be any.
        assert "another machine answers as lab-1" in await knock(desk, token, "")
        assert await desk.entries("kind:device_bound") != []


async def test_what_knocks_from_another_machine_gets_nothing_and_an_operator_sees_why(home: Home) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        async with online(desk, token, A):
            pass
        assert "another machine answers as lab-1" in await knock(desk, token, B)
        device = await stands(desk.console, "lab-1", Health.OFFLINE, reason="another machine answers")
        assert device.other_machine == Machine(identity=B)
        [refused] = await desk.entries("kind:device_refused device:lab-1")
        assert "quarterdeck devices accept lab-1" in refused.body["reason"]
        with pytest.raises(BadInput, match="look again"):
            await accept(desk, C)


async def test_an_unsigned_binding_to_another_machine_does_not_hold(home: Home) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        async with online(desk, token, A):
            pass
        paired_at = desk.service.registry.get("lab-1").paired_at
    await write_journal(home, bound(B, paired_at))
    async with trust_desk(home) as desk:
        assert desk.service.links.machines.of("lab-1").identity == A
        assert "lab-1 was bound to another machine without a valid signature" in desk.notes()
        await knock(desk, token, B)


async def test_a_signed_acceptance_holds_once_and_not_when_it_is_put_in_again(home: Home) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        async with online(desk, token, A):
            pass
        await knock(desk, token, B)
        await accept(desk, B)
        await knock(desk, token, C)
        await accept(desk, C)
        entries = await desk.entries("kind:device_bound device:lab-1")
        assert [entry.body["machine"] for entry in entries] == [A, B, C]
    await write_journal(home, again(entries[1]))
    async with trust_desk(home) as desk:
        assert desk.service.links.machines.of("lab-1").identity == C
        await knock(desk, token, B)
        async with online(desk, token, C):
            pass


async def test_an_altered_acceptance_does_not_hold(home: Home) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        async with online(desk, token, A):
            pass
        await knock(desk, token, B)
        await accept(desk, B)
        [_, entry] = await desk.entries("kind:device_bound device:lab-1")
        signed = entry.body["signed"]
        change = {**signed["statement"]["change"], "before": {"identity": B, "host": ""}}
        change["after"] = {"identity": C, "host": ""}
        body = {**entry.body, "machine": C}
        body["signed"] = {**signed, "statement": {**signed["statement"], "change": change}}
    await write_journal(home, again(entry.model_copy(update={"body": body})))
    async with trust_desk(home) as desk:
        assert desk.service.links.machines.of("lab-1").identity == B


async def test_the_later_steps_of_a_run_do_not_go_to_a_machine_that_took_the_place(home: Home) -> None:
    steps = [{"id": "first", "tool": "poke"}, {"id": "then", "tool": "poke"}]
    batch = Batch.model_validate(
        {"name": "two", "targets": "name:lab-1", "on_failure": "continue", "steps": steps}
    )
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        events = desk.console.events()
        async with online(desk, token, A):
            run = (await desk.console.runs.start(batch)).summary.id
            await until(desk.console, lambda: desk.service.approvals.list(), events)
        await knock(desk, token, B)
        await accept(desk, B)
        async with online(desk, token, B) as other:
            ended = await desk.console.runs.wait(run, PATIENCE_S)
            assert other.commands.empty()
        errors = [cell.result.error for cell in ended.cells if cell.result is not None]
        assert all(error is not None for error in errors)
        assert await desk.entries("kind:command_sent tool:poke") == []


async def test_a_machine_that_registers_while_another_is_bound_is_let_go(home: Home) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        async with connect(f"{desk.url}?token={token}") as connection:
            async with online(desk, token, A):
                pass
            late = ScriptedDevice(connection, "lab-1", ())
            answer = await late.register({"platform": "linux", "quarterdeck": {"identity": B}})
            assert answer["status"] == "error"
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(connection.recv(), PATIENCE_S)


@pytest.mark.parametrize("identity", [7, "A" * 64, "a" * 63, None, {"x": A}])
def test_an_identity_that_is_no_digest_is_none(identity: Any) -> None:
    metadata = {"quarterdeck": {"identity": identity}, "system_info": {"hostname": ["x"]}}
    assert machine_of(metadata) == Machine()


def test_a_host_name_is_short_and_shows_what_is_hidden() -> None:
    host = machine_of({"system_info": {"hostname": "a\u202eb" + "c" * 500}}).host
    assert "\u202e" not in host
    assert len(host) < 100


class TestIdentity:
    @pytest.fixture(autouse=True)
    def _own_machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def test_it_is_the_same_until_the_host_or_the_installation_is_another(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        machine_id.make_installation_id()
        first = machine_id.machine_identity()
        machine_id.make_installation_id()
        assert machine_id.machine_identity() == first
        monkeypatch.setattr(machine_id.socket, "gethostname", lambda: "clone-2")
        clone = machine_id.machine_identity()
        assert clone != first
        monkeypatch.setattr(machine_id.socket, "gethostname", lambda: "CLONE-2.elsewhere.example")
        assert machine_id.machine_identity() == clone
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        assert machine_id.machine_identity() != clone

    def test_it_reveals_none_of_its_parts(self) -> None:
        machine_id.make_installation_id()
        assert machine_id.host_name() not in machine_id.machine_identity()
        assert len(machine_id.machine_identity()) == 64

    def test_a_folder_that_cannot_be_written_leaves_the_rest(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
        machine_id.make_installation_id()
        assert len(machine_id.machine_identity()) == 64
