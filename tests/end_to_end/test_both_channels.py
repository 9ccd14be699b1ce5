"""This computer in a process of its own and in the service itself: above the channel both are the same.

The main job over both is in `test_story`; here are listings, hosted MCP servers and what changes of them.
What needs no server of its own is done with one service for each channel.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.batch.models import Cell
from core.commands.results import CommandResult, Verdict
from core.home import Home
from core.models.devices import Device
from core.models.tools import BUILT_IN_NAMESPACE
from core.service.console import CellChanged, Console, DeviceChanged
from core.service.local_console import LocalConsole
from tests.fakes.desk import approve, choose_channel, next_approval, open_service
from tests.fakes.mcp_server import proper, rogue
from tests.fakes.mcp_web import Reply, Web, web_server
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import signing

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANNELS = ["process", "in-process"]
HERE = "this-computer"
LISTS = {"list_tools", "get_mcp_tools"}


@dataclass
class Desk:
    console: Console
    key: OperatorKey

    async def call(self, tool: str, asks: bool = False, **given: Any) -> CommandResult:
        run = await self.console.runs.call(HERE, await self.listed_as(tool), given)
        if asks:
            await approve(self.console, await next_approval(self.console), self.key)
        [cell] = (await self.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        return cell.result

    async def names(self) -> set[str]:
        return {tool.tool_name for tool in await self.console.devices.tools(HERE)}

    async def until(self, true: Callable[[Device], Awaitable[bool]]) -> Device:
        async with asyncio.timeout(PATIENCE_S):
            events = self.console.events()
            device = (await self.console.service.state()).devices[0]
            while not await true(device):
                event = await anext(events)
                if isinstance(event, DeviceChanged):
                    device = event.device
            return device

    async def listed_as(self, tool: str) -> str:
        """The name of a tool, be it a hosted server's under a prefix of its own."""
        names = await self.names()
        return tool if tool in names else next(name for name in names if name.endswith(f"_{tool}"))

    async def offers(self, *names: str) -> None:
        async def there(_: Device) -> bool:
            known = await self.names()
            return all(name in known or any(one.endswith(f"_{name}") for one in known) for name in names)

        await self.until(there)


@asynccontextmanager
async def desk(
    home: Home, operator: OperatorKey, channel: str, servers: dict[str, Any]
) -> AsyncIterator[Desk]:
    choose_channel(home, channel)
    state = home.path / HERE
    state.mkdir(exist_ok=True)
    (state / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (state / "device.toml").write_text('mcp_servers = "mcp.json"\n')
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        await console.approvals.register_operator(operator.operator)
        yield Desk(console, operator)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CHANNELS)
async def here(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Desk]:
    """A service whose device hosts a proper server and a rogue."""
    home = Home(tmp_path_factory.mktemp("here") / "home").create()
    servers = {**proper(), **rogue(tools=["grow", "environment", "say"])}
    async with desk(home, create_operator_key(home, "anna", None), request.param, servers) as made:
        yield made


async def test_the_listing_tools_are_tools_like_others(here: Desk):
    listed = await here.console.devices.tools(HERE)
    tools = {tool.tool_name: tool for tool in listed if tool.namespace == BUILT_IN_NAMESPACE}
    assert set(tools) >= LISTS
    for name, given in {"get_mcp_tools": "server_name", "list_tools": "namespace"}.items():
        assert tools[name].contract.effect.value.value == "observe"
        assert tools[name].contract.risk.value.value == "low"
        result = await here.call(name, **{given: "builtin"})
        assert result.error is None, result.error
        assert result.verdict is Verdict.CONFIRMED
        # AIP leaves the listing tools out, unless they are asked for.
        assert {row["tool_name"] for row in result.result} == set(tools) - LISTS
        record = await here.console.journal.command(result.call_id)
        assert record.entries[0].tool == name


async def test_both_channels_offer_the_same_tools_with_the_same_definitions(
    home: Home, operator: OperatorKey, on_display: str
):
    found = []
    for channel in CHANNELS:
        async with desk(home, operator, channel, {}) as here:
            tools = await here.console.devices.tools(HERE)
            assert not [tool.tool_name for tool in tools if tool.changed]
            device = (await here.console.service.state()).devices[0]
            found.append(({tool.tool_key: tool.contract.digest for tool in tools}, device.unavailable))
    assert found[0] == found[1]


async def test_hosted_tools_come_go_and_change_without_a_restart(here: Desk):
    await here.offers("grow", "environment")
    assert not any(name.endswith("later") for name in await here.names())
    grown = await here.call("grow", asks=True, names=["later"])
    assert grown.error is None, grown.error
    assert grown.namespace == "rogue"
    await here.offers("later")


def told(device: Device, server: str) -> str:
    """Why the tools of a server cannot be had, as the console shows it."""
    return "; ".join(row.reason for row in device.unavailable if row.tool == server)


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_server_that_cannot_be_started_is_slow_or_dies_is_seen_with_its_reason_as_it_changes(
    channel: str, home: Home, operator: OperatorKey, tmp_path: Path
):
    slow = tmp_path / "slow"
    os.mkfifo(slow)
    entry = rogue("dying", tools=["die"])["dying"]
    # Once it has run it comes up no more, until the mark is gone.
    mark = tmp_path / "mark"
    once = f'[ -e {mark} ] && exit 3; touch {mark}; exec {entry["command"]} "$0" "$@"'
    servers = {
        "missing": {"command": "no-such-program-anywhere"},
        **rogue("slow", fifo=str(slow), tools=["grow"]),
        "dying": {"command": "sh", "args": ["-c", once, *entry["args"]]},
    }

    def says(server: str, words: str) -> Callable[[Device], Awaitable[bool]]:
        async def there(device: Device) -> bool:
            return words in told(device, server) if words else not told(device, server)

        return there

    async with desk(home, operator, channel, servers) as here:
        await here.until(says("missing", "No such file or directory: no-such-program-anywhere"))
        device = await here.until(says("dying", ""))
        assert "It is starting" in told(device, "slow")
        assert "Install the program" in next(
            row.how_to_fix for row in device.unavailable if row.tool == "missing"
        )
        await asyncio.to_thread(slow.write_text, "go")
        await here.until(says("slow", ""))
        await here.offers("grow")

        died = await here.call("die", asks=True)
        assert died.verdict is Verdict.UNKNOWN
        device = await here.until(says("dying", "It ended"))
        assert "it is started again" in told(device, "dying")
        mark.unlink()
        await here.until(says("dying", ""))


async def test_a_server_behind_an_address_that_refuses_is_slow_or_dies_is_seen_with_its_reason_as_it_changes(
    home: Home, operator: OperatorKey
):
    """In the service itself: how such reasons come over a link is in the test above."""
    let_in = asyncio.Event()

    def refuses(message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        return None if let_in.is_set() else (401, {}, b"who are you?")

    def says(server: str, words: str) -> Callable[[Device], Awaitable[bool]]:
        async def there(device: Device) -> bool:
            return words in told(device, server) if words else not told(device, server)

        return there

    shut, slow, dying = Web(answers=refuses), Web(), Web()
    slow.greets.clear()
    async with AsyncExitStack() as stack:
        for web in (shut, slow):
            await stack.enter_async_context(web_server(web))
        alive = await stack.enter_async_context(AsyncExitStack())
        await alive.enter_async_context(web_server(dying))
        webs = {"shut": shut, "slow": slow, "dying": dying}
        servers = {name: web.entry["web"] for name, web in webs.items()}
        here = await stack.enter_async_context(desk(home, operator, "in-process", servers))
        device = await here.until(says("shut", "It answers 401 Unauthorized: who are you?"))
        assert "Authorization" in next(row.how_to_fix for row in device.unavailable if row.tool == "shut")
        assert "It is starting" in told(device, "slow")
        await here.until(says("dying", ""))
        slow.greets.set()
        await here.until(says("slow", ""))
        let_in.set()
        await here.until(says("shut", ""))
        await here.offers("shut_say", "slow_say", "dying_say")

        await alive.aclose()
        # A call finds out; as nothing of it ran, it is for the server that comes back.
        run = await here.console.runs.call(HERE, "dying_act", {})
        await approve(here.console, await next_approval(here.console), here.key)
        device = await here.until(says("dying", "It cannot be reached"))
        assert "it is asked again" in told(device, "dying")
        await alive.enter_async_context(web_server(dying))
        await here.until(says("dying", ""))
        [cell] = (await here.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        assert cell.result.error is None, cell.result.error
        assert dying.done == [{}]


async def test_pictures_and_what_only_looks_like_one_come_the_same_way(here: Desk):
    held = io.BytesIO()
    Image.effect_noise((300, 300), 80).save(held, "PNG")
    picture = held.getvalue()
    await here.offers("kinds", "say")
    result = await here.call("kinds", asks=True, picture=base64.b64encode(picture).decode())
    assert result.error is None, result.error
    assert [one.media_type for one in result.evidence if one.what == "picture"] == ["image/png"]
    own = {"data_base64": "no base64 at all", "$blob": "of its own"}
    said = await here.call("say", asks=True, answer={"content": [], "structuredContent": own})
    assert said.error is None, said.error
    assert own.items() <= said.result["structured"].items()


async def test_what_a_command_prints_is_seen_while_it_runs(here: Desk, tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    events = here.console.events()
    await here.console.runs.call(HERE, "shell_execute", {"command": f"echo begun; read x < '{fifo}'"})
    await approve(here.console, await next_approval(here.console), here.key)
    seen: Cell | None = None
    async with asyncio.timeout(PATIENCE_S):
        while seen is None or "begun" not in seen.output_tail:
            event = await anext(events)
            if isinstance(event, CellChanged):
                seen = event.cell
    await asyncio.to_thread(fifo.write_text, "\n")
    await here.console.runs.wait(seen.run, PATIENCE_S)


async def test_the_load_of_the_machine_is_known(here: Desk):
    async def measured(device: Device) -> bool:
        return bool(device.cpu_percents and device.memory_percents)

    await here.until(measured)


async def test_a_run_is_found_by_what_it_does_while_it_waits_and_after_a_restart(
    home: Home, operator: OperatorKey, tmp_path: Path
):
    """In the service alone: no channel has a part in it."""
    wanted = str(tmp_path / "found.txt")
    async with desk(home, operator, "in-process", {}) as here:
        await here.call("get_system_info", info_type="memory")
        run = await here.console.runs.call(HERE, "write_file", {"file_path": wanted, "content": "x"})
        request = await next_approval(here.console)
        [waiting] = (await here.console.runs.find(f"effect:found.txt state:waiting {HERE}")).runs
        assert (waiting.id, waiting.effect) == (run.summary.id, request.decision.summary)
        await approve(here.console, request, here.key)
        ended = (await here.console.runs.wait(run.summary.id, PATIENCE_S)).summary
        assert (await here.console.runs.find("state:done tool:write_file")).runs == [ended]
    async with desk(home, operator, "in-process", {}) as here:
        [again] = (await here.console.runs.find("found.txt")).runs
        assert (again.id, again.effect, again.state) == (ended.id, ended.effect, ended.state)
