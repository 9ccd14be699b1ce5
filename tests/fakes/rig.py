"""The dispatcher with everything real around it but the device: its tools are scripted and remember calls."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.aip.extensions import CommandOptions
from core.aip.messages import Command, Result, ResultStatus, ToolInfo
from core.approvals.models import Approval
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.approvals.operators import Operators
from core.approvals.queue import ApprovalQueue
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.journal import Journal
from core.audit.models import Page
from core.audit.pending_writes import PendingWrites
from core.commands.channel import LocalCommandDispatcher
from core.commands.live_secrets import LiveSecrets
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.dispatch.dispatcher import Dispatcher
from core.dispatch.redaction import Redactor
from core.errors import BadInput, JournalUnavailable
from core.fleet.fleet import ConnectionInfo, Fleet
from core.home import Home
from core.models.tools import ToolType
from core.policy.grant_book import GrantBook
from core.policy.policy_file import read_policy_text
from core.policy.policy_store import Policy, checked_policy
from core.tasks import TaskGroupOwner
from tests.fakes.agents import EveryAgent
from tests.fakes.known_devices import pins_in
from tests.fakes.signing import anna

DEVICE = "bench"
Answer = Callable[[Command], Awaitable[Any] | Any]


def tool_info(
    name: str,
    tool_type: ToolType = "action",
    properties: dict[str, Any] | None = None,
    required: list[str] | None = None,
    namespace: str = "builtin",
    **more: Any,
) -> ToolInfo:
    """A tool definition with a closed object of arguments."""
    schema = {
        "type": "object",
        "properties": properties or {},
        "required": required or [],
        "additionalProperties": False,
    }
    return ToolInfo(
        tool_key=f"{tool_type}::{name}",
        tool_name=name,
        tool_type=tool_type,
        namespace=namespace,
        description=f"{name}, for tests",
        input_schema=schema,
        **more,
    )


TEXT = {"type": "string"}
USUAL_TOOLS = [
    tool_info("get_system_info", "data_collection", {"info_type": TEXT}, ["info_type"]),
    tool_info("screenshot", "data_collection", {"region": TEXT}),
    tool_info("read_file", "data_collection", {"file_path": TEXT}, ["file_path"]),
    tool_info("write_file", "action", {"file_path": TEXT, "content": TEXT}, ["file_path", "content"]),
    tool_info("shell_execute", "action", {"command": TEXT, "timeout": {"type": "number"}}, ["command"]),
]


class ScriptedTools:
    """The far end: answers as told, and remembers everything it was asked to run."""

    def __init__(self, infos: list[ToolInfo] | None = None) -> None:
        self.infos = list(USUAL_TOOLS if infos is None else infos)
        self.seen: list[Command] = []
        self.terms: list[CommandOptions | None] = []
        self.answers: dict[str, Answer] = {}
        self.cancelled: list[str] = []

    def tools(self) -> list[ToolInfo]:
        return self.infos

    async def run(
        self, command: Command, deadline_s: float, *, terms: CommandOptions | None = None
    ) -> Result:
        self.seen.append(command)
        self.terms.append(terms)
        answer: Any = {"ok": True}
        if command.tool_name in self.answers:
            answer = self.answers[command.tool_name](command)
            if asyncio.iscoroutine(answer):
                answer = await answer
        if isinstance(answer, Result):
            return answer.model_copy(update={"call_id": command.call_id})
        return Result(status=ResultStatus.SUCCESS, result=answer, call_id=command.call_id)

    def cancel(self, call_id: str) -> bool:
        self.cancelled.append(call_id)
        return True


class BreakableJournal:
    """A real journal whose disk can be taken away and given back."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.broken = False
        self.pending = PendingWrites(self)

    def _check(self) -> None:
        if self.broken:
            raise JournalUnavailable("The disk is full.")

    async def append(self, entry: NewEntry) -> Entry:
        self._check()
        return await self._journal.append(entry)

    def note(self, entry: NewEntry) -> None:
        self._check()
        self._journal.note(entry)

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]:
        self._check()
        return await self._journal.append_many(entries)

    def note_all(self, entries: list[NewEntry]) -> None:
        self._check()
        self._journal.note_all(entries)

    def note_late(self, entries: list[NewEntry]) -> None:
        self.pending.note(entries)

    async def noted(self, entries: list[NewEntry]) -> None:
        self._check()
        await self._journal.noted(entries)

    async def query(self, query: str, *, limit: int = 500) -> Page:
        return await self._journal.query(query, limit=limit)

    async def noted_late(self, entries: list[NewEntry]) -> None:
        if self.broken or self.pending.waiting:
            self.pending.note(entries)
        else:
            await self._journal.noted_late(entries)

    async def put_blob(self, data: bytes) -> str:
        self._check()
        return await self._journal.put_blob(data)

    async def get_blob(self, sha: str) -> bytes:
        return await self._journal.get_blob(sha)


@dataclass
class Rig:
    """Everything a test of the dispatcher holds."""

    home: Home
    journal: Journal
    disk: BreakableJournal
    tools: ScriptedTools
    fleet: Fleet
    policy: Policy
    approvals: ApprovalQueue
    dispatcher: Dispatcher
    tasks: TaskGroupOwner
    key: OperatorKey
    operators: Operators
    told: list[Approval] = field(default_factory=list)
    asked: asyncio.Queue[Approval] = field(default_factory=asyncio.Queue)

    async def call(self, tool: str, **parameters: Any) -> CommandResult:
        """Dispatch one command as the operator anna."""
        return await self.dispatcher.dispatch(
            CommandRequest(DEVICE, tool, parameters, "operator:anna", operators=("anna",))
        )

    def start(self, tool: str, **parameters: Any) -> asyncio.Task[CommandResult]:
        """Dispatch one command in the background."""
        return self.tasks.spawn(f"call {tool}", self.call(tool, **parameters))

    async def connect(self, roots: list[Path] | None = None, **more: Any) -> None:
        """Let the scripted device connect (again); `more` are further fields of `ConnectionInfo`."""
        channel = LocalCommandDispatcher(DEVICE, self.tools, self.dispatcher.gate)
        more.setdefault("shares_disk", roots is not None)
        arrival = ConnectionInfo(channel, "in-process", "linux", "test", "test", [], roots, **more)
        await self.fleet.arrived(DEVICE, arrival)

    def add_operator(self, name: str) -> OperatorKey:
        """Register another operator."""
        key = create_operator_key(self.home, name, None)
        self.operators.check_new(key.operator)
        self.operators.add(key.operator)
        return key

    def use_policy(self, text: str | None) -> None:
        """Let this be the accepted policy, and the text of policy.toml; None takes both away."""
        if text is None:
            self.home.policy.unlink()
        else:
            self.home.policy.write_text(text)
        self.policy.accept(text or "")

    def on_disk(self, call_id: str | None) -> list[Kind]:
        """What the journal's file has of a command at this very moment, oldest first."""
        database = sqlite3.connect(f"file:{self.home.path / 'journal.db'}?mode=ro", uri=True)
        with closing(database):
            rows = database.execute("SELECT kind FROM entries WHERE call_id = ? ORDER BY seq", (call_id,))
            return [Kind(kind) for (kind,) in rows]

    async def entries(self, query: str = "") -> list[Entry]:
        """What the journal has, oldest first."""
        await self.journal.append(NewEntry(kind=Kind.SERVICE_STARTED, actor="test"))
        page = await self.journal.query(query, after=0, limit=500)
        return page.entries


@asynccontextmanager
async def open_rig(
    home: Home,
    infos: list[ToolInfo] | None = None,
    expiry_s: float = 60.0,
    most_pause_s: float = 60.0,
    *,
    grants: GrantBook | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Rig]:
    """A rig on a home, fresh or one that a rig had before, with its device connected."""
    key = load_or_create_journal_key(home.keys / "journal.key")
    journal = await Journal.open(home.path, key, "test")
    disk = BreakableJournal(journal)
    operators = Operators(home.operators)
    operator = anna(home)
    pins = await pins_in(home, journal, operators)
    if not operators.begun:
        operators.add(operator.operator)
    tasks = TaskGroupOwner("test")
    policy = Policy(home.policy, grants=grants).restore(_accepted(home))
    asked: asyncio.Queue[Approval] = asyncio.Queue()
    told: list[Approval] = []

    def publish(approval: Approval) -> None:
        told.append(approval)
        if approval.state.value == "waiting":
            asked.put_nowait(approval)

    agents = EveryAgent()
    approvals = ApprovalQueue(operators, disk, expiry_s, publish, most_pause_s, policy.grants, clock, agents)
    live_secrets = LiveSecrets()
    fleet = Fleet(disk, policy, pins, lambda device: None, live_secrets)
    fleet.add(DEVICE, ["desk"])
    dispatcher = Dispatcher(
        devices=fleet,
        policy=policy,
        approvals=approvals,
        agents=agents,
        journal=disk,
        redactor=Redactor.of(home.keys / "masking.salt"),
        live_secrets=live_secrets,
    )
    tools = ScriptedTools(infos)
    rig = Rig(
        home,
        journal,
        disk,
        tools,
        fleet,
        policy,
        approvals,
        dispatcher,
        tasks,
        operator,
        operators,
        told,
        asked,
    )
    await rig.connect()
    try:
        yield rig
    finally:
        await tasks.close()
        await dispatcher.close()
        fleet.close()
        disk.pending.close()
        await journal.close()


def _accepted(home: Home) -> str:
    """What a rig takes for accepted: the text that lies in its home when it begins, unless that is broken."""
    try:
        text = read_policy_text(home.policy) or ""
        checked_policy(text)
    except BadInput:
        return ""
    return text
