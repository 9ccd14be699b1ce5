"""What is said of a tool besides its contract: every fact, its source, and "not known" where it is not."""

from __future__ import annotations

from typing import Any

import pytest

from core.fleet.models import NOT_KNOWN, ToolScope
from core.fleet.tool_scope import NONE, scope_of
from core.models.devices import Unavailable
from core.models.tool_names import READ_SHELL
from core.models.tools import Fact, Risk, Source, Tool
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS
from tests.fakes.fleet_data import make_devices, make_tools

[DEVICE] = [device for device in make_devices() if device.name == "lab-lnx-01"]
BUILT_IN = {"starts": ("add_mcp_server", "restart_mcp_server", "switch_mcp_server", "try_mcp_server")}


def tool(name: str, namespace: str = "builtin", schema: dict[str, Any] | None = None, **hints: Any) -> Tool:
    model = make_tools(DEVICE)[0]
    source = Source.BUILT_IN if namespace == "builtin" else Source.DECLARED
    risk = Fact[Risk](value=Risk.HIGH, source=source, why="A test says so.")
    plain = {
        field: fact.model_copy(update={"source": source})
        for field in type(model.contract).model_fields
        if isinstance(fact := getattr(model.contract, field), Fact)
    }
    return model.model_copy(
        update={
            "tool_name": name,
            "namespace": namespace,
            "input_schema": schema or {"type": "object"},
            "annotations": hints,
            "contract": model.contract.model_copy(update={**plain, "risk": risk}),
        }
    )


def facts(scope: ToolScope) -> dict[str, Fact[str]]:
    return {name: getattr(scope, name) for name in ToolScope.model_fields}


@pytest.mark.parametrize("name", list(BUILT_IN_TOOLS))
def test_everything_is_known_of_a_built_in_tool_and_fits_its_contract(name: str) -> None:
    found = facts(scope_of(tool(name), DEVICE))
    assert {fact.source for fact in found.values()} == {Source.BUILT_IN}
    assert NOT_KNOWN not in {fact.value for fact in found.values()}
    assert all(fact.why for fact in found.values())
    known = BUILT_IN_TOOLS[name]
    assert (found["network"].value != NONE) >= known.open_world
    if known.writes_files or (known.shell_line and name != READ_SHELL):
        assert found["files"].value not in (NONE, "reads files below the allowed folders")


def test_a_tool_that_starts_a_hosted_server_says_so() -> None:
    for name in BUILT_IN["starts"]:
        found = facts(scope_of(tool(name), DEVICE))
        assert found["processes"].value == "starts a hosted server's program"
        assert found["authentication"].value == "as the server's entry says"
        assert found["files"].value == "whatever the program that it uses may touch"
        assert "whatever the server is signed in to" in found["account"].value
        assert "list_mcp_servers" in found["repair"].value
    removed = facts(scope_of(tool("remove_mcp_server"), DEVICE))
    assert removed["processes"].value == "ends a hosted server's program"
    assert removed["network"].value == NONE


def test_of_a_strangers_tool_only_what_its_server_and_its_arguments_tell_is_known() -> None:
    silent = facts(scope_of(tool("poke", "hub"), DEVICE))
    for name in ("authentication", "network", "files", "processes", "account"):
        assert (silent[name].value, silent[name].source) == (NOT_KNOWN, Source.DEFAULT)
    assert silent["served_by"].value.startswith("server hub, behind")
    assert "devices show lab-lnx-01" in silent["repair"].value

    schema = {
        "type": "object",
        "properties": {
            "file_path": {"type": "string"},
            "url": {"type": "string", "format": "uri"},
            "api_key": {"type": "string", "writeOnly": True},
            "command": {"type": "string", "description": "The shell command line to run."},
        },
    }
    telling = facts(scope_of(tool("run", "hub", schema), DEVICE))
    assert {name: fact.source for name, fact in telling.items() if name not in ("served_by", "repair")} == {
        "authentication": Source.HEURISTIC,
        "network": Source.HEURISTIC,
        "files": Source.HEURISTIC,
        "processes": Source.HEURISTIC,
        "account": Source.DEFAULT,
    }
    assert telling["authentication"].value == "takes a secret as an argument: api_key"
    assert telling["files"].value == "takes paths as arguments: file_path"
    for hint, words in ((True, "reaches beyond the device"), (False, "stays on the device")):
        claimed = scope_of(tool("run", "hub", schema, openWorldHint=hint), DEVICE).network
        assert (claimed.value, claimed.source) == (words, Source.DECLARED)


def test_a_tool_with_a_built_in_name_from_a_server_gets_no_built_in_facts() -> None:
    posing = facts(scope_of(tool("read_file", "hub"), DEVICE))
    assert Source.BUILT_IN not in {fact.source for fact in posing.values()}


def test_what_the_device_says_of_a_server_that_is_not_ready_is_the_repair() -> None:
    missing = Unavailable(tool="hub", reason="MCP server: It ended", how_to_fix="Start it by hand")
    repair = scope_of(tool("poke", "hub"), DEVICE.model_copy(update={"unavailable": [missing]})).repair
    assert (repair.value, repair.source) == ("MCP server: It ended. Start it by hand.", Source.DECLARED)
