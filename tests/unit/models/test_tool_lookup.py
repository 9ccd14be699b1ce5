"""A tool is found by its name or key; where there is none, the error says why, and what is near."""

from __future__ import annotations

import pytest

from core.errors import ErrorCode
from core.models.devices import Device, Health, Unavailable
from core.models.tool_lookup import missing_tool, tool_named
from core.models.tools import Tool
from core.policy.examples import example_tool
from core.policy.models import Answer
from core.policy.rules import Rule


def a_tool(name: str, namespace: str | None = None) -> Tool:
    tool = example_tool(name, Rule(id="any", decision=Answer.ALLOW))
    return tool.model_copy(update={"tool_key": f"action::{name}", "namespace": namespace})


TOOLS = [a_tool("read_file"), a_tool("write_file")]


def a_device(health: Health = Health.ONLINE, **changes: object) -> Device:
    return Device.model_validate({"name": "lab-1", "health": health, "since": "", **changes})


@pytest.mark.parametrize("wanted", ["write_file", "action::write_file"])
def test_a_tool_is_found_by_its_name_and_by_its_key(wanted: str):
    assert tool_named(wanted, TOOLS) == TOOLS[1]


def test_no_other_name_finds_one():
    assert tool_named("write", TOOLS) is None


@pytest.mark.parametrize(
    ("device", "wanted", "words"),
    [
        (a_device(), "nope", "lab-1 has no tool 'nope'."),
        (a_device(), "reed_file", "lab-1 has no tool 'reed_file'. Did you mean read_file or write_file?"),
        (a_device(Health.OFFLINE), "nope", "lab-1 has no tool 'nope'. It is offline."),
        (
            a_device(unavailable=[Unavailable(tool="read_files", reason="It ended", how_to_fix="Start it.")]),
            "read_files",
            "lab-1 does not offer read_files: It ended. Start it.",
        ),
    ],
)
def test_the_error_says_why_and_what_is_near(device: Device, wanted: str, words: str):
    error = missing_tool(device, wanted, TOOLS)
    assert (error.message, error.code) == (words, ErrorCode.UNKNOWN_TOOL)


def test_a_long_name_is_quoted_in_part():
    assert len(missing_tool(a_device(), "x" * 100_000, TOOLS).message) < 300


def test_a_hosted_tool_is_named_as_its_device_lists_it():
    assert missing_tool(a_device(), "say", [a_tool("alpha_say", "alpha")]).message == (
        "lab-1 has no tool 'say'. Did you mean alpha_say?"
    )
