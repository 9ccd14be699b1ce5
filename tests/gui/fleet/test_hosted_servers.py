"""What is made of a device's own words about its servers, and of JSON that a person pasted."""

from __future__ import annotations

from typing import Any

import pytest

from app.screens.fleet.hosted_servers import (
    ADD,
    LIST,
    REMOVE,
    SWITCH,
    TRY,
    HostedServer,
    ServerCall,
    can_be_undone,
    entries_in,
    known_part,
    outcome_words,
    servers_of,
    why_not_allowed,
)
from core.aip.messages import ResultStatus
from core.batch.models import Batch, Cell, CellState, Run, RunState, RunSummary
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import BadInput, DeviceError, ErrorCode, ErrorInfo
from core.models.devices import Unavailable
from tests.fakes.fleet_data import make_devices, make_tools

[DEVICE] = [device for device in make_devices() if device.name == "lab-lnx-01"]


def run_with(value: Any = None, error: ErrorInfo | None = None) -> Run:
    """An ended run of one call that returned this."""
    result = CommandResult(
        call_id="c",
        device="lab-lnx-01",
        tool_name="x",
        status=ResultStatus.FAILURE if error else ResultStatus.SUCCESS,
        verdict=Verdict.REFUSED if error else Verdict.UNVERIFIED,
        basis=Basis.DEVICE_CLAIM,
        error=error,
        result=value,
    )
    batch = Batch.model_validate({"name": "x", "steps": [{"id": "call", "tool": "x"}]})
    cell = Cell(run="r-1", device="lab-lnx-01", step="call", tool="x", state=CellState.DONE, result=result)
    summary = RunSummary(
        id="r-1",
        name="x",
        kind="call",
        actor="window:anna",
        state=RunState.DONE,
        devices=["lab-lnx-01"],
        devices_hash="",
        steps=["call"],
        tools=["x"],
        counts={},
        started_at="",
    )
    return Run(summary=summary, batch=batch, cells=[cell])


def test_a_list_is_the_devices_word_and_what_does_not_fit_is_left_out() -> None:
    row = {"name": "a", "state": "ready", "tools": 2, "restarts": True, "reason": 5, "more": "x"}
    odd: list[Any] = [row, row | {"tools": 3}, {"state": "ready"}, {"name": 7}, "b", {"name": "n" * 65}]
    assert servers_of(run_with(odd)) == [HostedServer("a", state="ready", tools=3)]
    for value in ({"a": 1}, "text"):
        with pytest.raises(DeviceError, match="no list"):
            servers_of(run_with(value))
    refused = ErrorInfo.of(ErrorCode.DENIED_BY_POLICY, "A rule says no.")
    with pytest.raises(DeviceError, match="A rule says no"):
        servers_of(run_with(error=refused))


def test_words_of_a_device_are_shown_short_with_what_cannot_be_seen_in_them() -> None:
    row = {"name": "a\u202e", "state": "fail\u202eed", "reason": "x\u200by" + "z" * 100_000}
    words, well = outcome_words(ServerCall(ADD, "a"), run_with(row))
    assert not well
    assert "\u202e" not in words
    assert "x[U+200B]y" in words
    assert len(words) < 5_000


@pytest.mark.parametrize(
    ("tool", "value", "says"),
    [
        (TRY, {"state": "ready", "tools": ["b", "a"]}, "a works and lists 2 tools: a, b."),
        (TRY, {"state": "failed", "reason": "No such file"}, "a does not work. No such file."),
        (ADD, {"state": "ready", "tools": 1}, "a is added, and is ready with 1 tool."),
        (ADD, {"state": "starting"}, "a is added, and is starting."),
        (ADD, "odd", "a is added, and its state is not known."),
        (SWITCH, {"state": "off"}, "a is switched off."),
        (SWITCH, {"state": "ready", "tools": 2}, "a is ready with 2 tools."),
        (REMOVE, {"removed": "a"}, "a is removed."),
    ],
)
def test_what_became_of_a_call_is_said_in_a_sentence(tool: str, value: Any, says: str) -> None:
    words, well = outcome_words(ServerCall(tool, "a"), run_with(value))
    assert words.removesuffix(" Nothing of it is kept.") == says
    assert well is (says.endswith(("tools.", "tool.", "off.", "removed.", "a, b.")))


def test_only_what_the_device_kept_can_be_undone() -> None:
    kept = run_with({"state": "ready", "undo": "u" * 20})
    assert can_be_undone(ServerCall(ADD, "a"), kept)
    assert not can_be_undone(ServerCall(TRY, "a"), kept)
    assert not can_be_undone(ServerCall(LIST, "a"), kept)
    for value in ({"state": "ready"}, {"undo": 5}, "text", None):
        assert not can_be_undone(ServerCall(ADD, "a"), run_with(value))


@pytest.mark.parametrize(
    ("pasted", "names"),
    [
        ({"mcpServers": {"a": {"command": "x"}, "b": {"url": "u"}}}, ["a", "b"]),
        ({"servers": {"a": {"command": "x"}}}, ["a"]),
        ({"mcp": {"servers": {"a": {"command": "x"}}}}, ["a"]),
        ({"a": {"command": "x"}}, ["a"]),
        ({"command": "x", "args": []}, [""]),
        ({"url": "http://x/mcp"}, [""]),
    ],
)
def test_every_form_of_other_hosts_is_read(pasted: Any, names: list[str]) -> None:
    assert list(entries_in(pasted)) == names


@pytest.mark.parametrize("pasted", [None, 5, [], {}, {"mcpServers": {}}, {"mcpServers": []}, {"a": 1}])
def test_what_holds_no_server_is_refused_with_what_to_write(pasted: Any) -> None:
    with pytest.raises(BadInput, match="mcpServers"):
        entries_in(pasted)


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"entry": True}}])
def test_a_device_with_an_odd_schema_takes_nothing_over(schema: Any) -> None:
    assert known_part({"command": "x"}, schema) == ({}, ["command"])


def test_why_no_server_can_be_added_is_said_for_each_kind_of_device() -> None:
    tools = make_tools(DEVICE)
    stock = why_not_allowed(DEVICE.model_copy(update={"features": []}), tools, "/home/q")
    assert stock == ("Its client hosts no MCP servers.", "Only Quarterdeck's own device client does.")
    ours = DEVICE.model_copy(update={"features": ["cancel"], "direction": "in"})
    assert "its device.toml, on the device" in why_not_allowed(ours, tools, "/home/q")[1]
    here = ours.model_copy(update={"direction": "local", "name": "this-computer"})
    assert "/home/q/this-computer/device.toml" in why_not_allowed(here, tools, "/home/q")[1]
    off = Unavailable(tool=ADD, reason="It is switched off here", how_to_fix="Take it out of tools_off")
    assert why_not_allowed(ours.model_copy(update={"unavailable": [off]}), tools, "/home/q") == (
        "It is switched off here",
        "Take it out of tools_off",
    )
    offered = tools[0].model_copy(update={"tool_name": ADD})
    assert why_not_allowed(ours, [*tools, offered], "/home/q") == ("", "")
