"""The same request through every door leaves the same journal entries and gets the same envelope.

`ACTIONS` × `DOORS`: a new action or door is one line. Only ids, times, the actor, and the operator who
signed an agent in may differ.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client

from core.approvals.operator_keys import statement_for
from core.audit.entries import Kind
from core.batch.models import Batch, RunState
from core.cli.results import envelope_json
from core.errors import ErrorInfo, QuarterdeckError
from core.home import Home
from core.service.console import Console
from core.service.envelope import Envelope, refused_envelope
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.fakes.agents import add_agent
from tests.fakes.desk import next_approval, online
from tests.fakes.gateway import in_process
from tests.fakes.lab_device import pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run
from tests.fakes.remote_device import make_listening_home
from tests.fakes.signing import accepted, anna, signing

TOKEN_FILE = "token-of-the-agent"
POLICY = """
profile = "guarded"
[[rule]]
id = "no-processes"
decision = "deny"
tool = "list_processes"
reason = "Not here."
"""


@dataclass(frozen=True)
class Action:
    """One call, and the outcome that every door must report of it: its error's code, empty for none.

    `answer` is what an operator answers meanwhile, at the service: the verb of a statement.
    """

    device: str
    tool: str
    code: str
    arguments: dict[str, str] = field(default_factory=dict)
    answer: Literal["", "approve", "deny"] = ""

    def within(self, folder: Path) -> Action:
        """The action in this folder, which the device may read."""
        found = {name: value.replace("FOLDER", str(folder)) for name, value in self.arguments.items()}
        return replace(self, arguments=found)


ACTIONS = {
    "a read": Action("this-computer", "list_directory", "", {"path": "FOLDER"}),
    "an unknown device": Action("nowhere", "read_file", "unknown_device"),
    "an unknown tool": Action("this-computer", "nothing", "unknown_tool"),
    "a tool's name with a sign that cannot be seen": Action(
        "this-computer", "read_file\N{ZERO WIDTH SPACE}", "unknown_tool", {"file_path": "a"}
    ),
    "an unknown argument": Action(
        "this-computer", "read_file", "invalid_arguments", {"file_path": "a", "b": "c"}
    ),
    "a missing argument": Action("this-computer", "read_file", "invalid_arguments"),
    "a value that is not allowed": Action(
        "this-computer", "get_system_info", "invalid_arguments", {"info_type": "nonsense"}
    ),
    "a path that is not allowed": Action(
        "this-computer", "read_file", "path_not_allowed", {"file_path": "/etc/shadow"}
    ),
    "a tool that is denied": Action("this-computer", "list_processes", "denied_by_policy"),
    "a tool that fails": Action(
        "this-computer", "read_file", "tool_failed", {"file_path": "FOLDER/no-such-file"}
    ),
    "a device that is offline": Action("lab-1", "poke", "device_offline"),
    "a call that is approved": Action(
        "this-computer", "shell_execute", "", {"command": "printf hello"}, "approve"
    ),
    "a call that is approved and fails": Action(
        "this-computer", "shell_execute", "tool_failed", {"command": "exit 3"}, "approve"
    ),
    "a call that is denied": Action(
        "this-computer", "shell_execute", "denied_by_operator", {"command": "printf hello"}, "deny"
    ),
    # The last one, because its requests go on waiting.
    "a call that needs an approval": Action(
        "this-computer", "shell_execute", "approval_pending", {"command": "printf hello"}
    ),
}

Door = Callable[[Home, Action], Awaitable[dict[str, Any]]]


async def by_window(home: Home, action: Action) -> dict[str, Any]:
    """As the window calls: through the control socket, with typed arguments."""
    console = await RemoteConsole.connect(home, "window", "window:anna")
    try:
        try:
            started = await console.runs.call(action.device, action.tool, dict(action.arguments))
        except QuarterdeckError as error:
            return envelope_json(refused_envelope(action.device, action.tool, error.info))
        if action.answer:
            await console.runs.wait(started.summary.id, PATIENCE_S)
        else:
            await _until_it_rests(console, started.summary.id)
        [envelope] = (await console.runs.results(started.summary.id)).results
        return envelope_json(envelope)
    finally:
        await console.close()


async def _until_it_rests(console: Console, wanted: str) -> None:
    """Until the run has ended, or waits for an operator."""
    async with asyncio.timeout(PATIENCE_S):
        events = console.events()
        while (found := await console.runs.get(wanted)).summary.state.value == "running":
            await anext(events)
        assert found


async def by_command_line(home: Home, action: Action) -> dict[str, Any]:
    """The program itself, with words."""
    words = [f"{name}={value}" for name, value in action.arguments.items()]
    words += ["--wait", str(PATIENCE_S)] if action.answer else []
    ended = await asyncio.to_thread(run, home, "call", action.device, action.tool, *words, "--json")
    assert isinstance(ended.json, dict)
    return ended.json


async def _ended(client: Client, ticket: str) -> dict[str, Any]:
    """What `wait_run` answers of a run that has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            value: dict[str, Any] = (
                await client.call_tool("wait_run", {"ticket": ticket})
            ).structured_content
            if value["state"] not in (RunState.RUNNING, RunState.WAITING):
                return value


async def _envelopes(client: Client, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The envelopes of a run, of which an answer has the same values, as far as it has them."""
    [resource] = (await client.read_resource(f"quarterdeck://run/{answer['ticket']}")).contents
    envelopes: list[dict[str, Any]] = json.loads(resource.text)["results"]
    for short, envelope in zip(answer["results"], envelopes, strict=False):
        error = short.pop("error", None)
        assert short.pop("devices") == [envelope["device"]]
        assert short.pop("step", 1) in range(1, len(envelopes) + 1)
        assert short.pop("evidence", 0) == len(envelope["evidence"])
        assert short.items() <= envelope.items()
        assert (error is None) is (envelope["error"] is None)
        assert error is None or error.items() <= envelope["error"].items()
    return [envelope_json(Envelope.model_validate(envelope)) for envelope in envelopes]


async def by_gateway(home: Home, action: Action) -> dict[str, Any]:
    """As an agent's program calls: an official MCP client at the gateway."""
    async with in_process(home, (home.path / TOKEN_FILE).read_text()) as client:
        command = {"tool": action.tool, "arguments": dict(action.arguments)}
        answer = await client.call_tool("run_commands", {"devices": action.device, "commands": [command]})
        value: dict[str, Any] = answer.structured_content
        if action.answer:
            value = await _ended(client, value["ticket"])
        if "error" in value:
            return envelope_json(
                refused_envelope(action.device, action.tool, ErrorInfo.model_validate(value["error"]))
            )
        [envelope] = await _envelopes(client, value)
        return envelope


DOORS: dict[str, Door] = {"window": by_window, "command line": by_command_line, "gateway": by_gateway}

_IDS = [
    (re.compile(r"\b(?:a-)?[0-9A-HJKMNP-TV-Z]{26}\b"), "<id>"),
    (re.compile(r"\br-\d{4,}\b"), "<run>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)"), "<time>"),
    (re.compile(r"\b(?:window|cli|agent):[\w.-]+"), "<actor>"),
]
# A request's digest, and what is signed of it, cover its call id; by its `request_digest` an agent's repeated
# request is known; `program` is the one that asked for an agent.
_VARIES = frozenset(
    {
        # An agent takes other next steps than a person.
        "next",
        *("seq", "time", "duration_ms", "took_ms", "took_s", "execution_time"),
        *("asked_at", "expires_at", "remaining_s", "digest", "request_digest", "signature", "program"),
    }
)
# What the journal has beside of an agent alone: that its program came and went.
_CONNECTIONS = (Kind.AGENT_CONNECTED, Kind.AGENT_LEFT)


def settled(value: Any) -> Any:
    """A value without ids, times and the actor."""
    match value:
        case dict():
            return {name: settled(part) for name, part in value.items() if name not in _VARIES}
        case list():
            return [settled(part) for part in value]
        case str():
            for pattern, name in _IDS:
                value = pattern.sub(name, value)
            return value
        case _:
            return value


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Home, Service]]:
    """A service with its control socket, this computer in its process, and lab-1 paired and away."""
    home = make_listening_home(path / "home")
    await accepted(home, POLICY)
    service = await Service.open(home)
    server = ControlServer(LocalConsoles(service), home)
    await server.open()
    try:
        await online(service)
        console = signing(LocalConsole(service, "operator:anna"), home)
        await pair(console)
        (home.path / TOKEN_FILE).write_text(await add_agent(console, anna(home), "clerk"))
        yield home, service
    finally:
        await server.close()
        await service.close()


async def _answer(service: Service, action: Action) -> None:
    """Answer what the action asks for, as an operator at the service; nothing where it asks for nothing."""
    if action.answer:
        console, key = LocalConsole(service, "operator:anna"), anna(service.home)
        reason = "Not on a Friday." if action.answer == "deny" else ""
        statement = statement_for(await next_approval(console), action.answer, key.name, reason)
        await console.approvals.decide(key.sign(statement))


async def _entries_since(service: Service, last: int) -> list[Any]:
    await service.journal.settle()
    page = await service.journal.query("", after=last, limit=100)
    entries = [entry for entry in page.entries if entry.kind not in _CONNECTIONS]
    return [settled(_without_operator(entry.model_dump(mode="json"))) for entry in entries]


def _without_operator(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry without the operator who signed an agent in; only an agent's run names that operator."""
    if entry["kind"] == Kind.RUN_STARTED:
        operator = entry["body"].pop("operator", "")
        assert operator == ("anna" if entry["actor"].startswith("agent:") else "")
    return entry


@pytest.mark.story
async def test_every_door_leaves_the_same_entries_and_gets_the_same_envelope(
    memory_path: Path, tmp_path: Path
):
    async with served(memory_path) as (home, service):
        for name, action in ((name, action.within(tmp_path)) for name, action in ACTIONS.items()):
            answers: dict[str, tuple[Any, Any]] = {}
            for door, ask in DOORS.items():
                await service.journal.settle()
                last = service.journal.state.entries
                async with asyncio.TaskGroup() as group:
                    group.create_task(_answer(service, action))
                    envelope = await ask(home, action)
                answers[door] = (settled(envelope), await _entries_since(service, last))
                assert (envelope["error"] or {"code": ""})["code"] == action.code, (name, door, envelope)
            first = answers["window"]
            assert first[1], f"{name} is not in the journal"
            for door, answer in answers.items():
                assert answer == first, (name, door)


async def _batch_by_window(home: Home, name: str) -> list[dict[str, Any]]:
    console = await RemoteConsole.connect(home, "window", "window:anna")
    try:
        started = await console.runs.start(await console.runs.load_batch(name))
        await console.runs.wait(started.summary.id, PATIENCE_S)
        return [
            envelope_json(envelope) for envelope in (await console.runs.results(started.summary.id)).results
        ]
    finally:
        await console.close()


async def _batch_by_command_line(home: Home, name: str) -> list[dict[str, Any]]:
    ended = await asyncio.to_thread(run, home, "run", name, "--json")
    # Beside the envelopes it tells of the cell of each.
    cells = {"step", "state", "attempts", "recovered", "wave"}
    assert all(cells <= set(one) for one in ended.json["results"])
    return [{key: one[key] for key in one if key not in cells} for one in ended.json["results"]]


async def _batch_by_gateway(home: Home, name: str) -> list[dict[str, Any]]:
    async with in_process(home, (home.path / TOKEN_FILE).read_text()) as client:
        answer = (await client.call_tool("run_batch", {"batch": name})).structured_content
        return await _envelopes(client, answer)


async def test_a_saved_batch_is_the_same_by_every_door(memory_path: Path, tmp_path: Path):
    async with served(memory_path) as (home, service):
        steps = [
            {"id": "look", "tool": "list_directory", "with": {"path": str(tmp_path)}},
            {"id": "fails", "tool": "read_file", "with": {"file_path": f"{tmp_path}/no-such-file"}},
            {"id": "denied", "tool": "list_processes"},
        ]
        batch = Batch.model_validate({"name": "look", "on_failure": "continue", "steps": steps})
        await LocalConsole(service, "operator:anna").runs.save_batch("look", batch)
        answers = []
        for door in (_batch_by_window, _batch_by_command_line, _batch_by_gateway):
            await service.journal.settle()
            last = service.journal.state.entries
            envelopes = await door(home, "look")
            assert [(one["error"] or {"code": ""})["code"] for one in envelopes] == [
                *("", "tool_failed", "denied_by_policy")
            ]
            answers.append((settled(envelopes), await _entries_since(service, last)))
        assert answers[1:] == answers[:1] * 2
