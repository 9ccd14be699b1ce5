"""Agents of the fake console as the pictures show them: one at work, one paused, one away."""

from __future__ import annotations

from typing import Any

from core.batch.models import Batch, CellState, Run, RunState, RunSummary
from core.commands.results import Verdict
from core.errors import ErrorCode, ErrorInfo
from core.policy.agent_models import AgentSettings, ClientProgram
from core.policy.models import Profile
from core.service.console import AgentCommand, AgentConnection, AgentTally, CommandFate
from tests.fakes.approvals_desk import make_approval
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import ago

CLERK, NIGHT, TESTER = "clerk", "night-shift", "tester"
OPEN_RUN = "r-0420"


def agent_command(number: int, **changes: Any) -> AgentCommand:
    """A command of an agent that was given and confirmed; the later, the higher its number."""
    values: dict[str, Any] = {
        "call_id": f"agent-call-{number:04}",
        "seq": 1_000 + number,
        "at": ago(3_600 - number * 60),
        "run": f"r-{number:04}",
        "device": "lab-lnx-01",
        "tool": "get_system_info",
        "said": "To see how much memory is free before the build.",
        "digest": f"{number:02x}" * 32,
        "arguments": '{\n  "info_type": "memory"\n}',
        "effect": "Reads memory of the system",
        "fate": CommandFate.GIVEN,
        "why": "Profile guarded: what only reads runs",
        "verdict": Verdict.CONFIRMED,
        "outcome": '{\n  "total_mb": 32000,\n  "free_mb": 18204\n}',
        "duration_ms": 41.0,
    }
    return AgentCommand(**{**values, **changes})


MISMATCH = agent_command(
    7,
    said="I only list the files of the build folder.",
    tool="shell_execute",
    arguments='{\n  "command": "rm -rf /srv/build/cache",\n  "timeout": 30\n}',
    effect="Deletes files: /srv/build/cache and all below",
    by="operator:harbour",
    why="The cache may go.",
    verdict=Verdict.UNVERIFIED,
    outcome='{\n  "exit_code": 0,\n  "stdout": ""\n}',
    duration_ms=310.0,
)
DENIED = agent_command(
    6,
    said="Restarting the service\u202e so that the new settings hold.",
    tool="shell_execute",
    arguments='{\n  "command": "systemctl restart kiosk"\n}',
    effect="Restarts a service",
    fate=CommandFate.DENIED,
    by="operator:harbour",
    why="Not on a Friday.",
    verdict=Verdict.REFUSED,
    error=ErrorInfo.of(ErrorCode.DENIED_BY_OPERATOR, "harbour denied it: Not on a Friday."),
    outcome="",
)
UNKNOWN = agent_command(
    5,
    said="",
    tool="delete_everything",
    digest="",
    arguments="",
    effect="",
    fate=CommandFate.NOT_SENT,
    why="",
    verdict=Verdict.REFUSED,
    error=ErrorInfo.of(ErrorCode.UNKNOWN_TOOL, "lab-lnx-01 has no tool 'delete_everything'."),
    outcome="",
)


def add_agents(console: FakeConsole) -> FakeConsole:
    """Let the console have agents, one of them with an open ticket."""
    console.put_agent(CLERK, AgentSettings(targets="tag:lab", per_minute=30))
    console.put_agent(NIGHT, AgentSettings(profile=Profile.OBSERVE, paused=True))
    console.put_agent(TESTER, AgentSettings(profile=Profile.LOCKDOWN, waiting=3))
    console.agent_connections[CLERK] = [
        AgentConnection(
            transport="stdio", program=ClientProgram.called("claude-code", "2.0.14"), since=ago(5_400)
        ),
        AgentConnection(
            transport="http", program=ClientProgram.called("Studio\u200b", "1.3"), since=ago(600)
        ),
    ]
    console.agent_commands[CLERK] = [MISMATCH, DENIED, UNKNOWN, *(agent_command(n) for n in range(1, 5))]
    console.agent_tallies = {
        CLERK: AgentTally(asked=1_204, given=1_180, denied=17),
        NIGHT: AgentTally(asked=88, given=80, denied=6),
    }
    _add_ticket(console)
    return console


def _add_ticket(console: FakeConsole) -> None:
    batch = Batch.model_validate(
        {"name": "write_file", "targets": "name:lab-lnx-01", "steps": [{"id": "call", "tool": "write_file"}]}
    )
    summary = RunSummary(
        id=OPEN_RUN,
        name="write_file",
        kind="call",
        actor=f"agent:{CLERK}",
        state=RunState.WAITING,
        devices=["lab-lnx-01"],
        steps=["call"],
        tools=["write_file"],
        counts={CellState.WAITING: 1},
        devices_hash="00",
        started_at=ago(120),
    )
    console.work.add(Run(summary=summary, batch=batch, cells=[]))
    request = make_approval(
        91, actor=f"agent:{CLERK}", run=OPEN_RUN, tool="write_file", summary="Writes /srv/reports/today.md"
    )
    console.queue[request.id] = request.model_copy(update={"program": "claude-code 2.0.14"})
    console.agent_waiting[CLERK] = console.agent_open_runs[CLERK] = 1
