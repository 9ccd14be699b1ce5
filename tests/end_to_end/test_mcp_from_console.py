"""MCP servers that a console adds, switches, restarts and removes on a device, each undone again."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.aip.frames import read_error_text
from core.aip.messages import Command, Result, ResultStatus
from core.device import DeviceConfig, Router, build_router
from core.errors import ErrorCode
from tests.fakes.command_lines import command_lines
from tests.fakes.mcp_hosted import TOKEN
from tests.fakes.mcp_server import rogue
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import NO_READ_SHELL


def entry(*tools: str, token: str = "", **options: Any) -> dict[str, Any]:
    env = {"TOKEN": token} if token else None
    return rogue(env=env, tools=list(tools), **options)["rogue"]  # type: ignore[no-any-return]


@dataclass
class Device:
    """A device that takes servers from its console."""

    router: Router
    state: Path
    announcements: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, name: str, /, **parameters: Any) -> Result:
        [tool] = [info for info in self.router.tools() if info.tool_name == name]
        command = Command(tool_name=name, tool_type=tool.tool_type, parameters=parameters, call_id="c")
        return await self.router.run(command, PATIENCE_S)

    async def done(self, name: str, /, **parameters: Any) -> Any:
        result = await self.call(name, **parameters)
        assert result.status is ResultStatus.SUCCESS, result.error
        return result.result

    async def refused(self, name: str, /, **parameters: Any) -> tuple[ErrorCode, str]:
        result = await self.call(name, **parameters)
        assert result.status is ResultStatus.FAILURE, result.result
        error = read_error_text(result.error or "")
        return error.code, error.message

    def tools_of(self, server: str) -> set[str]:
        return {info.tool_name for info in self.router.tools() if info.namespace == server}

    async def rows(self) -> dict[str, tuple[str, str]]:
        return {row["name"]: (row["state"], row["origin"]) for row in await self.done("list_mcp_servers")}


@asynccontextmanager
async def device(
    tmp_path: Path, servers: dict[str, Any] | None = None, from_console: bool = True
) -> AsyncIterator[Device]:
    config = DeviceConfig(
        roots=(tmp_path,), tools_off=NO_READ_SHELL, mcp_servers=servers, servers_from_console=from_console
    )
    router = build_router(config, tmp_path / "state", "hosting")
    built = Device(router, tmp_path / "state")

    def announced() -> None:
        built.announcements += 1
        built.changed.set()

    router.on_tools_changed = announced
    try:
        if router.hosted is not None:
            await router.hosted.settled(PATIENCE_S)
        yield built
    finally:
        await router.close()


async def test_an_added_server_serves_its_tools_until_it_is_undone_and_again_after_a_restart(tmp_path: Path):
    async with device(tmp_path) as built:
        added = await built.done("add_mcp_server", name="tickets", entry=entry("read", "write"))
        assert (added["state"], added["tools"], added["origin"]) == ("ready", 2, "console")
        assert built.tools_of("tickets") == {"tickets_read", "tickets_write"}
        assert built.announcements
        assert (await built.call("tickets_read")).status is ResultStatus.SUCCESS
    async with device(tmp_path) as again:
        assert await again.rows() == {"tickets": ("ready", "console")}
        assert again.tools_of("tickets") == {"tickets_read", "tickets_write"}
        undone = await again.done("undo", undo_id=added["undo"])
        assert undone == {"undone": "mcp_servers", "result": {"servers": []}}
        assert again.tools_of("tickets") == set()
        assert await again.rows() == {}
        code, _ = await again.refused("undo", undo_id=added["undo"])
        assert code is ErrorCode.NOT_FOUND


async def test_a_server_is_switched_off_on_and_removed_and_each_is_undone(tmp_path: Path):
    async with device(tmp_path) as built:
        await built.done("add_mcp_server", name="tickets", entry=entry("read"))
        off = await built.done("switch_mcp_server", name="tickets", on=False)
        assert (off["state"], off["tools"]) == ("off", 0)
        assert built.tools_of("tickets") == set()
        assert await built.rows() == {"tickets": ("off", "console")}
        await built.done("undo", undo_id=off["undo"])
        assert built.tools_of("tickets") == {"tickets_read"}
        removed = await built.done("remove_mcp_server", name="tickets")
        assert await built.rows() == {}
        await built.done("undo", undo_id=removed["undo"])
        assert await built.rows() == {"tickets": ("ready", "console")}


async def test_an_earlier_change_is_not_undone_over_a_later_one(tmp_path: Path):
    async with device(tmp_path) as built:
        first = await built.done("add_mcp_server", name="first", entry=entry("a"))
        second = await built.done("add_mcp_server", name="second", entry=entry("b"))
        code, message = await built.refused("undo", undo_id=first["undo"])
        assert (code, "changed since" in message) == (ErrorCode.CHANGED_SINCE, True)
        await built.done("undo", undo_id=second["undo"])
        await built.done("undo", undo_id=first["undo"])
        assert await built.rows() == {}


async def test_a_tried_server_is_ended_and_nothing_of_it_is_kept(tmp_path: Path):
    async with device(tmp_path) as built:
        before = {info.tool_name for info in built.router.tools()}
        tried = await built.done("try_mcp_server", name="tickets", entry=entry("read", "write"))
        assert (tried["state"], sorted(tried["tools"])) == ("ready", ["read", "write"])
        assert {info.tool_name for info in built.router.tools()} == before
        assert await built.rows() == {}
        running = command_lines(psutil.Process().children(recursive=True))
        assert not [line for line in running.values() if "rogue" in line]
        failed = await built.done("try_mcp_server", name="gone", entry={"command": "/no/such/program"})
        assert failed["state"] == "failed"
        assert "/no/such/program" in failed["reason"]
        assert failed["how_to_fix"]


async def test_a_restart_is_another_process_with_the_same_tools(tmp_path: Path):
    async with device(tmp_path, servers={"own": entry("read")}) as built:

        def processes() -> set[int]:
            children = command_lines(psutil.Process().children(recursive=True))
            return {child for child, line in children.items() if "rogue" in line}

        before = processes()
        row = await built.done("restart_mcp_server", name="own")
        assert (row["state"], row["origin"]) == ("ready", "device.toml")
        assert processes()
        assert not processes() & before
        assert built.tools_of("own") == {"own_read"}
        code, _ = await built.refused("restart_mcp_server", name="other")
        assert code is ErrorCode.NOT_FOUND


async def test_the_servers_of_device_toml_are_changed_by_no_console(tmp_path: Path):
    async with device(tmp_path, servers={"own": entry("read")}) as built:
        for tool, more in (("switch_mcp_server", {"on": False}), ("remove_mcp_server", {})):
            code, message = await built.refused(tool, name="own", **more)
            assert (code, "device.toml" in message) == (ErrorCode.DENIED_BY_DEVICE, True)
        code, message = await built.refused("add_mcp_server", name="own", entry=entry("evil"))
        assert "already" in message
        assert await built.rows() == {"own": ("ready", "device.toml")}
        assert built.tools_of("own") == {"own_read"}


async def test_a_device_takes_no_servers_unless_its_own_file_says_so(tmp_path: Path):
    async with device(tmp_path, from_console=False) as built:
        assert not [info.tool_name for info in built.router.tools() if info.tool_name.endswith("_mcp_server")]
    async with device(tmp_path, servers={"own": entry("read")}, from_console=False) as built:
        names = {info.tool_name for info in built.router.tools() if "mcp_server" in info.tool_name}
        assert names == {"list_mcp_servers", "restart_mcp_server"}


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("builtin", {"command": "x"}, "taken by the device client"),
        ("tickets", {}, "needs either a command"),
        ("tickets", {"command": "x", "url": "http://x/"}, "needs either a command"),
        ("git", {"command": "x"}, "another name"),
    ],
)
async def test_a_server_that_cannot_be_added_changes_nothing(
    tmp_path: Path, name: str, wrong: dict[str, Any], says: str
):
    # A tool `hub_read` of `git_`… would be renamed if another server took the beginning of its name.
    async with device(tmp_path, servers={"own": entry("read")}) as built:
        if name == "git":
            await built.done("add_mcp_server", name="my", entry=entry("git_read"))
            name = "my_git"
        before = await built.rows()
        _, message = await built.refused("add_mcp_server", name=name, entry=wrong)
        assert says in message
        assert await built.rows() == before


async def test_secrets_of_an_entry_stay_in_a_private_file_and_in_no_answer(tmp_path: Path):
    async with device(tmp_path) as built:
        answers = [
            await built.call("try_mcp_server", name="t", entry=entry(dead=True, token=TOKEN)),
            await built.call("add_mcp_server", name="t", entry=entry(dead=True, token=TOKEN)),
            await built.call("list_mcp_servers"),
            await built.call("restart_mcp_server", name="t"),
        ]
        assert TOKEN not in "".join(answer.model_dump_json() for answer in answers)
        assert "cannot go on" in answers[1].model_dump_json()
        kept = built.state / "mcp_servers.json"
        assert TOKEN in kept.read_text()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        code, _ = await built.refused("read_file", file_path=str(kept))
        assert code is ErrorCode.PATH_NOT_ALLOWED


async def test_a_damaged_list_of_added_servers_is_told_and_keeps_no_device_from_starting(tmp_path: Path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "mcp_servers.json").write_text("{")
    async with device(tmp_path, servers={"own": entry("read")}) as built:
        assert built.tools_of("own") == {"own_read"}
        for tool, more in (("list_mcp_servers", {}), ("add_mcp_server", {"name": "t", "entry": entry("a")})):
            _, message = await built.refused(tool, **more)
            assert "damaged" in message
        assert (tmp_path / "state" / "mcp_servers.json").read_text() == "{"


async def test_an_added_server_gives_way_to_one_of_that_name_in_device_toml(tmp_path: Path):
    async with device(tmp_path) as built:
        await built.done("add_mcp_server", name="tickets", entry=entry("added"))
    async with device(tmp_path, servers={"tickets": entry("own")}) as built:
        assert built.tools_of("tickets") == {"tickets_own"}
        assert await built.rows() == {"tickets": ("ready", "device.toml")}
        await built.done("add_mcp_server", name="more", entry=entry("read"))
        assert built.tools_of("tickets") == {"tickets_own"}
    kept = json.loads((tmp_path / "state" / "mcp_servers.json").read_text())
    assert set(kept["mcpServers"]) == {"tickets", "more"}
