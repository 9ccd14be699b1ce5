"""Calls as agents get them wrong: each answer says what to do instead, in words that an agent can follow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mcp import Client

from core.approvals.operator_keys import OperatorKey
from core.batch.models import Batch, Input, Step
from core.service.console import Console
from tests.fakes.desk import approve, next_approval
from tests.fakes.gateway import HERE, READS, Connect, asked
from tests.fakes.read_shell import NEEDS_BUBBLEWRAP

KINDS = "memory, disk, cpu, network, hardware, os"
READ = "the ticket of a run that is done"
# Words of pydantic, of the terminal, and of what only people do.
NOT_FOR_AGENTS = re.compile(
    r"Field required|Input should|Extra inputs|valid (number|list|dictionary|boolean)|quarterdeck |"
    r"approve or deny|device\.toml|change the policy|\.\.(\s|$)"
)


@dataclass(frozen=True)
class Wrong:
    """A wrong call, and what its answer must say for an agent to put it right."""

    tool: str
    arguments: dict[str, Any]
    says: tuple[str, ...]


def runs(says: tuple[str, ...], tool: str, devices: str = HERE, **arguments: Any) -> Wrong:
    commands = [{"tool": tool, "arguments": arguments}]
    return Wrong("run_commands", {"devices": devices, "commands": commands}, says)


WRONG = {
    "an argument with few values is left out": runs(("info_type", KINDS), "get_system_info"),
    "a value has a typing error": runs(("did you mean memory", KINDS), "get_system_info", info_type="memroy"),
    "an argument has another name": runs(("path", "did you mean file_path"), "read_file", path="/x"),
    "a value is of another type": runs(("file_path must be text",), "read_file", file_path=5),
    "two values are of another type": runs(
        ("env must be an object", "timeout must be a number"),
        "shell_execute",
        **{"command": "true", "timeout": "long", "env": 3},
    ),
    "a call has four faults": runs(
        ("did you mean file_path", "it takes content", "file_path is required", "content is required"),
        "write_file",
        **{"filepath": "x", "text": "y"},
    ),
    "a tool has a typing error": runs(("Did you mean shell_execute",), "shel_execute", command="true"),
    "a path is not allowed": runs(
        ("outside the allowed roots: /",), "read_file", file_path="/etc/../etc/hosts"
    ),
    "a device is unknown": runs((f"Devices: {HERE}", "list_devices"), "get_system_info", "lab-9"),
    "a filter matches no device": runs(("Values of tag: desk", "list_devices"), "get_system_info", "tag:lab"),
    "a filter has a wrong value": runs(("health", "online, busy"), "get_system_info", "health:purple"),
    "no device is named": runs(("tag:lab", "name:*"), "get_system_info", ""),
    "two commands are wrong": Wrong(
        "run_commands",
        {
            "devices": HERE,
            "commands": [
                {"tool": "get_system_info", "arguments": {}},
                {"tool": "read_file", "arguments": {"path": "/x"}},
            ],
        },
        ("c1: info_type is required", KINDS, "c2: path", "did you mean file_path"),
    ),
    "a described tool has a typing error": Wrong(
        "describe_tool", {"device": HERE, "tool": "get_sytem_info"}, ("Did you mean get_system_info or",)
    ),
    "the arguments of run_commands are others": Wrong(
        "run_commands",
        {"device": HERE, "command": "ls"},
        ("did you mean devices", "did you mean commands", "devices is required", "commands is required"),
    ),
    "a command is a text": Wrong(
        "run_commands", {"devices": HERE, "commands": "ls"}, ("commands must be a list",)
    ),
    "a command has other members": Wrong(
        "run_commands",
        {"devices": HERE, "commands": [{"name": "shell_execute", "args": {}}]},
        ("it takes tool, arguments", "did you mean arguments", "commands[0].tool is required"),
    ),
    "a tool of a device is called by its own name": Wrong(
        "get_system_info", {"info_type": "memory"}, ("run_commands",)
    ),
    "a batch has a typing error": Wrong("run_batch", {"batch": "lok"}, ("Did you mean look?",)),
    "a batch is unknown": Wrong("run_batch", {"batch": "nightly"}, ("Saved batches: look.",)),
    "an input of a batch has a typing error": Wrong(
        "run_batch",
        {"batch": "look", "inputs": {"knd": "memory"}},
        ("did you mean kind", "kind is missing", "one of memory, disk"),
    ),
    "an input of a batch has another value": Wrong(
        "run_batch", {"batch": "look", "inputs": {"kind": "cpu"}}, ("kind is not one of memory, disk",)
    ),
    "a ticket is the id of a run": Wrong("wait_run", {"ticket": "r-0001"}, ("wait_run without a ticket",)),
    "a wait is too long": Wrong("wait_run", {"seconds": 900}, ("seconds must be at most 240",)),
    "evidence is unknown": Wrong(
        "get_evidence", {"ticket": READ, "item": "x"}, ("get_evidence without an item",)
    ),
}


async def test_every_wrong_call_can_be_put_right_from_its_answer(
    connect: Connect, console: Console, token: str
):
    step = Step(id="look", tool="get_system_info", parameters={"info_type": "${{ inputs.kind }}"})
    kind = Input(type="string", one_of=["memory", "disk"])
    batch = Batch(name="look", targets=f"name:{HERE}", inputs={"kind": kind}, steps=[step])
    await console.runs.save_batch("look", batch)
    assert len(WRONG) >= 22
    unclear = {}
    async with connect(token) as client:
        done = (await asked(client, "run_commands", **READS))["ticket"]
        for name, wrong in WRONG.items():
            given = {key: done if value == READ else value for key, value in wrong.arguments.items()}
            told = await _told(client, wrong.tool, given)
            if NOT_FOR_AGENTS.search(told) or any(words not in told for words in wrong.says):
                unclear[name] = told
    assert not unclear


@NEEDS_BUBBLEWRAP
async def test_a_change_in_the_shell_that_only_reads_is_answered_with_the_tool_for_it(
    connect: Connect, console: Console, token: str, key: OperatorKey
):
    command = {"tool": "shell_execute_read", "arguments": {"command": "touch /etc/made-by-an-agent"}}
    async with connect(token) as client:
        begun = await client.call_tool("run_commands", {"devices": HERE, "commands": [command]})
        ticket = begun.structured_content["ticket"]
        # The policy asks: the line says what it wants.
        await approve(console, await next_approval(console), key)
        ended = await client.call_tool("wait_run", {"ticket": ticket, "seconds": 120})
    [outcome] = ended.structured_content["results"]
    assert ended.is_error
    assert "This tool can only read. shell_execute runs a line" in outcome["error"]["message"]
    assert not NOT_FOR_AGENTS.search(outcome["error"]["next"])
    # What is hidden from every line stands in the tool's description, not in each result.
    assert "hidden" not in outcome["result"]
    assert "not_seen" in outcome["result"]


async def test_no_wrong_name_tells_an_agent_of_a_batch_for_a_device_that_it_has_not(
    connect: Connect, console: Console, token: str
):
    step = Step(id="look", tool="get_system_info", parameters={"info_type": "memory"})
    await console.runs.save_batch("vault-keys", Batch(name="x", targets="name:vault", steps=[step]))
    async with connect(token) as client:
        for name in ("vault-key", "other"):
            assert "vault-keys" not in await _told(client, "run_batch", {"batch": name})


async def _told(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """The error of a call and its next step."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    value = answer.structured_content
    error = value["error"] if "error" in value else value["results"][0]["error"]
    assert error["next"]
    return f"{error['message']} {error['next']}"
