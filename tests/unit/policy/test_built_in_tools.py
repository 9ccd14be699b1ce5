"""The table of the built-in tools describes each tool as the device client offers it."""

from __future__ import annotations

from typing import Any

import pytest

from core.dispatch.own_screen import UI_ACTIONS
from core.dispatch.stale_target import has_screen_target, targets_point
from core.models.tools import Effect
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS, PATH_ARGUMENTS, SHELL_ARGUMENTS, ScreenTarget
from core.policy.analysis.summaries import Parameters
from tests.unit.fleet.test_updated_tools import built_in

TOOLS = built_in()
NAMES = sorted(BUILT_IN_TOOLS)
EXAMPLES: dict[str, Any] = {
    "file_path": "/tmp/a", "content": "text", "command": "ls", "undo_id": "u-1", "app_name": "gedit",
    "process_name": "gedit", "name": "Save", "x": 1, "y": 2, "text": "hello", "direction": "up", "key": "a",
    "entry": {"command": "npx", "args": ["-y", "server"]}, "on": True,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_row_says_what_the_tool_says_of_itself(name: str):
    row, tool = BUILT_IN_TOOLS[name], TOOLS[name]
    assert row.tool_type == tool.tool_type
    # Every path that the device keeps within its roots is one that the console checks beforehand.
    assert row.paths == tuple(tool.path_arguments)
    assert set(row.paths) <= PATH_ARGUMENTS
    properties = tool.input_schema["properties"]
    assert bool(row.shell_line) == ("command" in properties)
    assert row.shell_line in ("", *properties)


@pytest.mark.parametrize("name", NAMES)
def test_what_works_pointer_or_keyboard_is_refused_on_the_own_screen_and_compared_before_it_is_sent(
    name: str,
):
    """A tool that takes a control, a pixel, a key or text to type has a target: no new one is missed."""
    row, tool = BUILT_IN_TOOLS[name], TOOLS[name]
    takes = set(tool.input_schema["properties"])
    acted_on = {"control_id", "observation", "key", "text"}
    if row.target is ScreenTarget.WINDOW:
        acted_on |= {"window_id"}
    works = row.effect is not Effect.OBSERVE and bool(takes & acted_on)
    assert works == (row.target is not None)
    assert works == (name in UI_ACTIONS)
    assert (row.target is ScreenTarget.POINT) == ("observation" in takes) == targets_point(name)
    required = set(tool.input_schema.get("required", ()))
    assert has_screen_target(name, {"control_id": "7"}) == bool(
        takes & {"control_id", "observation"} and works
    )
    assert has_screen_target(name, dict.fromkeys(required, "x")) == (
        row.target in (ScreenTarget.POINT, ScreenTarget.CONTROL)
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_action_is_described_and_if_the_device_keeps_its_inverse_its_undo_is_too(name: str):
    row = BUILT_IN_TOOLS[name]
    if row.effect is not Effect.OBSERVE:
        assert row.summary is not None
    for sentence in (row.summary, row.undo):
        if sentence is not None:
            said = sentence({**EXAMPLES, "mode": "create"})
            assert said
            assert not said.endswith(".") or sentence is row.undo
            # Arguments of any kind, or none, are an answer too, never an error.
            odd: list[Parameters] = [{}, dict.fromkeys(EXAMPLES, None), {name: [7] for name in EXAMPLES}]
            assert all(isinstance(sentence(arguments), str) for arguments in odd)


def test_the_shells_are_those_that_run_a_line():
    assert {"shell_execute", "EXEC_CLI", "shell_execute_read"} == set(SHELL_ARGUMENTS)
    assert {"file_path", "path", "working_directory"} == PATH_ARGUMENTS
