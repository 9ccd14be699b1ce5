"""A device that wants signed approvals: what is signed runs once, what only looks runs as ever."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.aip.contract_digest import contract_digest
from core.aip.frames import read_error_text
from core.aip.messages import Command
from core.approvals.operator_keys import statement_for
from core.commands.channel import LocalCommandDispatcher
from core.commands.request import CommandRequest
from core.device.config import load_config
from core.device.tool import OBSERVES, Tool, ToolCall, object_schema
from core.errors import BadInput, ErrorCode
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import open_rig
from tests.fakes.signing_bench import DEVICE, FACTS, Keys, bench, bench_of, command_of, terms_of


@pytest.fixture
def keys(home: Home) -> Keys:
    return Keys(home)


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
        store = device.router._context.store
        assert (
            store.do(lambda connection: connection.execute("SELECT * FROM used_approvals").fetchall()) == []
        )


async def test_where_use_cannot_be_remembered_nothing_runs(
    tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, keys, "anna") as device:
        store = device.router._context.store
        store.do(lambda connection: connection.execute("PRAGMA query_only = ON"))
        command = command_of()
        assert "cannot keep" in await device.refused(command, terms_of(keys.signs(command)))


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
        arrival = ConnectionInfo(channel, "in-process", "linux", "test", "test", [], None, approvers=1)
        await rig.fleet.arrived(DEVICE, arrival)
        order = CommandRequest(DEVICE, "note", {"line": "x"}, "operator:anna")
        call = rig.tasks.spawn("call", rig.dispatcher.dispatch(order))
        waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        await rig.approvals.decide(rig.key.sign(statement_for(waiting, "approve", "anna")))
        result = await call
        assert result.error is None
        assert device.ran == ["x"]


async def test_an_approval_that_opened_a_private_file_is_good_for_one_look(
    tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("key")
    async with bench(tmp_path, keys, "anna") as device:
        look = Command(tool_name="read_file", tool_type="data_collection", call_id="c")
        look.parameters = {"file_path": str(tmp_path / ".netrc")}
        assert "is private" in await device.refused(look, None)
        [info] = [one for one in device.router.tools() if one.tool_name == "read_file"]
        contract = contract_digest(info, FACTS)
        named = {"contract": contract, "tool_key": "data_collection::read_file"}
        unpinned = terms_of(keys.signs(look, by="bert", over=contract), **named)
        assert "is private" in await device.refused(look, unpinned)
        terms = terms_of(keys.signs(look, over=contract), **named)
        assert (await device.run(look, terms)).result["content"] == "key"
        assert "used before" in await device.refused(look, terms)
