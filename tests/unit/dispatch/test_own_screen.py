"""No software acts on the screen where its approvals are given, whatever way the device is that computer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from core.aip.messages import Result, ResultStatus
from core.commands.channel import LocalCommandDispatcher
from core.commands.results import Basis
from core.errors import BadInput, ErrorCode, Refused
from core.fleet.fleet import ConnectionInfo
from core.fleet.registration import arrival_of
from core.home import Home
from core.machine_id import machine_mark
from core.settings import Settings
from tests.fakes.rig import DEVICE, TEXT, Rig, open_rig, tool_info

NUMBER = {"type": "number"}
CALLS: dict[str, dict[str, Any]] = {
    "click_element": {"name": "Approve once"},
    "click_point": {"x": 1, "y": 1, "observation": "o"},
    "type_text": {"text": "y"},
    "press_key": {"key": "ctrl+Return"},
    "scroll": {"direction": "down"},
    "click_input": {"id": "1"},
    "keyboard_input": {"keys": "{ENTER}"},
}
TOOLS = [
    *[
        tool_info(
            name, "action", {key: NUMBER if isinstance(value, int) else TEXT for key, value in given.items()}
        )
        for name, given in CALLS.items()
    ],
    tool_info("close_application", "action", {"process_name": TEXT, "pid": {"type": "integer"}}),
    tool_info("get_ui_tree", "data_collection"),
    tool_info("shell_execute", "action", {"command": TEXT}),
]
EVERYTHING = '[[rule]]\nid = "all"\ndecision = "allow"\nrisk = ["low", "medium", "high", "critical"]\n'


async def arrive(rig: Rig, *, own: bool) -> None:
    channel = LocalCommandDispatcher(DEVICE, rig.tools, rig.dispatcher.gate)
    arrival = ConnectionInfo(channel, "in-process", "linux", "test", "test", [], None)
    await rig.fleet.arrived(DEVICE, replace(arrival, own_computer=own))


@pytest.fixture
async def rig(home: Home) -> AsyncIterator[Rig]:
    home.policy.write_text(EVERYTHING)
    async with open_rig(home, TOOLS) as rig:
        await arrive(rig, own=True)
        yield rig


@pytest.mark.parametrize("tool", CALLS)
async def test_an_action_on_the_consoles_own_screen_is_refused_and_says_what_allows_it(rig: Rig, tool: str):
    result = await rig.call(tool, **CALLS[tool])
    assert result.basis is Basis.NOTHING_SENT
    assert result.error is not None
    assert result.error.code is ErrorCode.DENIED_BY_POLICY
    assert "could press Approve" in result.error.message
    # No rule is named, so none is to be read.
    assert "rule that is named" not in result.error.next
    assert "another device" in result.error.next
    assert "ui_actions_on_this_computer = true" in result.error.message
    assert rig.tools.seen == []
    with pytest.raises(Refused, match="press Approve"):
        rig.dispatcher.explain(DEVICE, tool, CALLS[tool])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("left_click", "action"),
        ("my_desk_click_element", "action"),
        ("my_desk_press_key_2", "action"),
        ("Send-Keys", "action"),
        ("click_point", "data_collection"),
        ("my_desk_click_element", "data_collection"),
    ],
)
async def test_a_server_that_drives_the_screen_is_refused_whatever_it_calls_its_clicks(
    home: Home, name: str, kind: Any
):
    home.policy.write_text(EVERYTHING)
    async with open_rig(home, [tool_info(name, kind, namespace="my desk")]) as rig:
        await arrive(rig, own=True)
        result = await rig.call(name)
        assert result.error is not None
        assert "could press Approve" in result.error.message
        assert rig.tools.seen == []


@pytest.mark.parametrize("tool", CALLS)
async def test_on_any_other_computer_it_is_none_of_this(rig: Rig, tool: str):
    await arrive(rig, own=False)
    assert (await rig.call(tool, **CALLS[tool])).error is None


async def test_looking_at_the_own_screen_and_other_actions_are_allowed(rig: Rig):
    assert (await rig.call("get_ui_tree")).error is None
    assert (await rig.call("shell_execute", command="true")).error is None


async def test_the_setting_allows_it_for_tests(rig: Rig):
    (rig.home.path / "settings.toml").write_text("ui_actions_on_this_computer = true\n")
    assert Settings.read(rig.home.settings).ui_actions_on_this_computer
    rig.dispatcher._own_screen = True
    assert (await rig.call("click_element", name="Approve once")).error is None


def test_it_is_off_unless_somebody_writes_it(home: Home):
    assert not Settings.read(home.settings).ui_actions_on_this_computer
    (home.path / "settings.toml").write_text('ui_actions_on_this_computer = "maybe"\n')
    with pytest.raises(BadInput, match="ui_actions_on_this_computer"):
        Settings.read(home.settings)


@pytest.fixture
def window() -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like a window of ours."""
    line = "import sys; sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", line, "core.service"], stdin=subprocess.PIPE)
    yield process
    process.communicate()


async def test_the_console_itself_is_not_closed_there(rig: Rig, window: subprocess.Popen[bytes]):
    import psutil

    name = psutil.Process(window.pid).name()
    for target in ({"pid": os.getpid()}, {"pid": window.pid}, {"process_name": name}):
        result = await rig.call("close_application", **target)
        assert result.error is not None
        assert "would close this console itself" in result.error.message
    assert rig.tools.seen == []
    rig.tools.answers["close_application"] = lambda command: Result(
        status=ResultStatus.SUCCESS, result={"closed": []}
    )
    assert (await rig.call("close_application", process_name="some-editor")).error is None


class FakeLink:
    """What `arrival_of` reads of a link."""

    features: frozenset[str] = frozenset()
    clock_offset_ms = None
    peer = "127.0.0.1:1"
    secure = False

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.metadata = metadata


@pytest.mark.parametrize(
    ("metadata", "own"),
    [
        ({"quarterdeck": {"machine": machine_mark()}}, True),
        ({"quarterdeck": {"machine": "0" * 64}, "system_info": {"hostname": os.uname().nodename}}, False),
        ({"system_info": {"hostname": os.uname().nodename}}, True),
        ({"system_info": {"hostname": f"{os.uname().nodename.upper()}.example.org"}}, True),
        ({"system_info": {"hostname": "elsewhere"}}, False),
        ({"system_info": {"hostname": ["odd"]}}, False),
        ({"quarterdeck": {"machine": 7}}, False),
        ({}, False),
    ],
)
def test_a_paired_device_that_is_this_computer_is_known_for_it(metadata: dict[str, Any], own: bool):
    assert arrival_of(FakeLink(metadata), None).own_computer is own


@pytest.mark.parametrize("claims", [{"roots": ["/"]}, {"roots": ["/"], "shares_disk": True, "token": "x"}])
def test_no_device_that_was_not_started_here_can_say_that_its_paths_are_this_computers(
    claims: dict[str, Any],
):
    arrival = arrival_of(FakeLink({"quarterdeck": {"machine": machine_mark(), **claims}}), None)
    assert arrival.own_computer
    assert (arrival.shares_disk, arrival.roots) == (False, None)


def test_the_mark_is_a_digest_and_the_same_in_every_program():
    line = "from core.machine_id import machine_mark; print(machine_mark())"
    told = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == machine_mark()
    assert len(machine_mark()) == 64


@pytest.mark.parametrize(
    ("said", "approvers"), [(True, 1), (2, 2), (0, 0), (-3, 0), ("2", 0), (99, 16), (None, 0)]
)
def test_what_a_device_says_it_wants_is_read_with_care(said: Any, approvers: int):
    ours = {} if said is None else {"requires_approval": said}
    assert arrival_of(FakeLink({"quarterdeck": ours}), None).approvers == approvers
