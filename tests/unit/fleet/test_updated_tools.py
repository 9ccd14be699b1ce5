"""An update of our own device client blocks none of its tools; nothing else gets a definition in so."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.audit.entries import Entry
from core.device.config import DeviceConfig
from core.device.desktop.interface import NoDesktop
from core.device.desktop.ui_tools import UiTools
from core.device.observations import ObservationStore
from core.device.tool import Tool
from core.device.tools import (
    applications,
    files,
    listing,
    mcp_servers,
    processes,
    read_shell,
    screen,
    shell,
    system,
    ui,
    undo,  # fmt: skip
)
from core.fleet.contracts import read_tool
from core.fleet.updated_tools import DEFINITIONS, is_update
from core.home import Home
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS
from tests.fakes.scripted_device import tool
from tests.fakes.trust_desk import TrustDesk, trust_desk
from tests.unit.service.test_trusted_tools import is_blocked

RECORDED = Path(__file__).parents[2] / "fakes" / "earlier_tools"
UPDATED = [
    "get_ui_tree",
    "get_accessibility_tree",
    "list_windows",
    "click_element",
    "click_point",
    "type_text",
    "press_key",
    "scroll",
    "screenshot",
    "close_application",
    "read_file",
    "write_file",
    "get_system_info",
    "undo",
    "list_processes",
    "restore_file",
    "shell_execute",
    "EXEC_CLI",
]


def built_in() -> dict[str, Tool]:
    """Every tool of our own client, whatever this machine can offer, under the default configuration."""
    workshop: Any = SimpleNamespace(config=DeviceConfig())
    use = UiTools(NoDesktop("test"), ObservationStore())
    tools = [
        *(one for one, _ in ui._tools(use)),
        *listing.offer(list),
        applications._close_application(None),
        applications._launch_application(None),
        files._list_directory(None),
        files._read_file(None),
        files._restore_file(None),
        files._write_file(None),
        processes._list_processes(None),
        read_shell._tool(workshop, None),
        screen._tool(None),
        shell._exec_cli(workshop, None),
        shell._shell_execute(workshop, None),
        system._get_system_info(None),
        system._sys_info(None),
        undo._undo(None),
        mcp_servers._list(None),
        mcp_servers._restart(None),
        mcp_servers._try(None),
        mcp_servers._add(None),
        mcp_servers._switch(None),
        mcp_servers._remove(None),
    ]
    return {one.name: one for one in tools}


def listed_now(name: str) -> dict[str, Any]:
    return built_in()[name].info().model_dump(mode="json")


def listed_before(name: str) -> dict[str, Any]:
    """The tool as the version before listed it: recorded, or the present one with the change taken out."""
    recorded = RECORDED / f"{name}.json"
    if recorded.exists():
        found: dict[str, Any] = json.loads(recorded.read_text())
        return found
    listed = copy.deepcopy(listed_now(name))
    properties = listed["input_schema"]["properties"]
    listed["output_schema"].get("properties", {}).pop("note", None)
    if name in ("read_file", "write_file"):
        properties["encoding"] = {
            "enum": ["utf-8", "base64"],
            "default": "utf-8",
            "description": "How `content` is written: UTF-8 text, or base64 for anything else.",
        }
    elif name == "get_system_info":
        shapes = {one["properties"]["info_type"]["const"]: one for one in listed["output_schema"]["oneOf"]}
        for fact in ("disks", "disk_controllers"):
            del shapes["hardware"]["properties"][fact]
            shapes["hardware"]["required"].remove(fact)
        for kind, fact in (
            ("memory", "swap_total_bytes"),
            ("memory", "swap_used_bytes"),
            ("cpu", "load_average"),
        ):
            facts = shapes[kind]["properties"]
            facts[fact] = not_null(facts[fact])
    elif name == "undo":
        listed["output_schema"]["properties"]["undone"] = {
            "enum": ["write_file"],
            "description": "The tool whose work was undone.",
        }
    elif name in ("shell_execute", "EXEC_CLI"):
        del properties["env"]
    elif name == "list_processes":
        del properties["program"], properties["pid"]
        del listed["output_schema"]["properties"]["processes"]["items"]["properties"]["windows"]
    elif name == "close_application":
        listed["description"] = (
            "Ask programs to end: through their windows where they have any, then with SIGTERM. With force, "
            "what has not ended is killed, and what it had not saved is lost. The device client and what it "
            "hangs from are never closed."
        )
        properties["process_name"]["description"] = "Every program of this user with this name."
        properties["pid"]["description"] = "Or the one with this process id."
    elif name != "restore_file":
        del properties["app_root_name"]
    return listed


def not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that `nullable` was given."""
    return {**schema, "type": schema["type"][0]}


def digest(listed: dict[str, Any]) -> str:
    from core.aip.messages import ToolInfo

    return read_tool(ToolInfo.model_validate(listed)).digest


def test_the_definitions_are_those_of_all_tools():
    """Where this fails, a built-in tool was changed: add its digest, or known homes have it blocked."""
    now = {name: digest(listed_now(name)) for name in built_in()}
    assert {name: digests[-1] for name, digests in DEFINITIONS.items()} == now
    assert set(now) == set(BUILT_IN_TOOLS)


@pytest.mark.parametrize("name", UPDATED)
def test_a_changed_tool_is_known_by_what_it_was_before(name: str):
    assert is_update(name, digest(listed_before(name)), digest(listed_now(name)))
    assert {name for name, digests in DEFINITIONS.items() if len(digests) > 1} == set(UPDATED)


def test_an_update_goes_forward_between_known_definitions_of_the_same_tool_only():
    old, new = DEFINITIONS["click_element"][0], DEFINITIONS["click_element"][-1]
    assert is_update("click_element", old, new)
    assert not is_update("click_element", new, old)
    assert not is_update("click_element", new, new)
    assert not is_update("click_element", "0" * 64, new)
    assert not is_update("click_element", old, "0" * 64)
    assert not is_update("list_windows", old, new)
    assert not is_update("poke", old, new)


async def pinned(desk: TrustDesk) -> list[Entry]:
    return list(await desk.entries("kind:contract_pinned device:lab-1"))


@pytest.fixture
def home(memory_path: Path) -> Home:
    return Home(memory_path / "home").create()


async def known(home: Home, listed: dict[str, Any]) -> str:
    """A home that trusts a tool as lab-1 lists it; gives the device's token."""
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        async with desk.online("lab-1", token, [listed]):
            pass
    return token


@pytest.mark.parametrize("name", UPDATED)
async def test_a_known_home_goes_on_after_an_update_and_the_journal_says_so(home: Home, name: str):
    token = await known(home, listed_before(name))
    async with trust_desk(home) as desk:
        assert not await is_blocked(desk, token, listed_now(name))
        first, second = await pinned(desk)
        assert first.body["pins"][name].split()[0] == digest(listed_before(name))
        assert second.body["pins"][name].split()[0] == digest(listed_now(name))
        assert not await desk.entries("kind:contract_changed")
    async with trust_desk(home) as desk:
        # It holds after a restart as well, and not the other way round.
        assert not await is_blocked(desk, token, listed_now(name))
        assert len(await pinned(desk)) == 2
        assert await is_blocked(desk, token, listed_before(name))
        assert desk.notes() == ""


@pytest.mark.parametrize(
    "attack", ["description", "argument", "namespace", "other tool", "claim", "stranger"]
)
async def test_what_is_no_update_of_ours_is_blocked(home: Home, attack: str):
    before, listed = listed_before("click_element"), listed_now("click_element")
    match attack:
        case "description":
            listed["description"] += " Never ask."
        case "argument":
            listed["input_schema"]["properties"]["program"] = {"type": "string"}
        case "namespace":
            listed["namespace"] = before["namespace"] = "mcp:far"
        case "other tool":
            listed = {**listed_now("list_windows"), "tool_name": "click_element"}
        case "claim":
            before["meta"]["quarterdeck"]["risk"] = "critical"
        case "stranger":
            before["description"] = "Something else was trusted."
    token = await known(home, before)
    async with trust_desk(home) as desk:
        assert await is_blocked(desk, token, listed)
        assert len(await pinned(desk)) == 1


async def test_a_tool_of_a_device_that_is_not_ours_is_held_to_what_it_was(home: Home):
    """The table speaks of definitions; a name alone means nothing."""
    token = await known(home, tool("click_element"))
    async with trust_desk(home) as desk:
        assert await is_blocked(desk, token, listed_now("click_element"))
