"""Agents as operators see and hold them: connections, what they asked for, pausing and stopping one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from core.batch.models import RunState
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.home import Home
from core.policy.agent_models import MOST_PROGRAM, AgentSettings, ClientProgram
from core.service.agent_activity import MOST_SHOWN
from core.service.agent_connections import MOST_RECORDED
from core.service.console import AgentTally, ApprovalChanged, CommandFate, Console
from core.service.local_console import LocalConsoles
from core.service.rpc.server import ControlServer
from tests.fakes.agents import agent_of, agent_when, attached_agent, set_agent
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.unit.service.test_agents import opened

HERE = "this-computer"


async def kinds(console: Console, query: str) -> list[Any]:
    """The bodies of the entries that match, oldest first."""
    entries = (await console.journal.entries(query)).entries
    return [(entry.kind.value, entry.actor, entry.body) for entry in reversed(entries)]


async def test_a_connection_is_shown_with_its_program_and_journalled(home: Home):
    async with opened(home) as (service, console, _key):
        control = ControlServer(LocalConsoles(service), home)
        await control.open()
        agent, token = await attached_agent(home, console, "clerk")
        # The hello alone is no use of it: the gateway keeps such a connection to check the token.
        [idle] = await console.agents.list()
        assert idle.connections == []
        await agent.agents.introduce("stdio", "cl\u202eient\n" + "x" * 500, "1\u200b0")
        state = await agent_when(console, "clerk", lambda one: one.connections)
        [there] = state.connections
        assert (there.transport, there.program.version) == ("stdio", "1[U+200B]0")
        assert there.program.name.startswith("cl[U+202E]ient[U+000A]xxx")
        assert there.program.name.count("x") < MOST_PROGRAM
        run = await agent.runs.call(HERE, "get_system_info", {"info_type": "memory"})
        await console.runs.wait(run.summary.id, PATIENCE_S)
        words = there.program.words
        assert (await kinds(console, "kind:run_started"))[0][2]["program"] == words
        await agent.close()
        await agent_when(console, "clerk", lambda one: not one.connections)
        connected, left = await kinds(console, "kind:agent_connected,agent_left")
        assert connected == ("agent_connected", "agent:clerk", {"transport": "stdio", "program": words})
        assert left == ("agent_left", "agent:clerk", {"transport": "stdio", "program": words})
        assert token not in str(await kinds(console, ""))
        await control.close()


async def test_an_agent_that_connects_again_and_again_does_not_fill_the_journal(home: Home):
    async with opened(home) as (service, console, _):
        for number in range(MOST_RECORDED + 20):
            attachment = service.agent_connections.attach("agent:loud", lambda reason: None)
            service.agent_connections.introduce(attachment, "http", ClientProgram(name=f"program {number}"))
            service.agent_connections.detach(attachment)
        entries = await kinds(console, "kind:agent_connected,agent_left")
        assert len(entries) == 2 * MOST_RECORDED


async def test_what_an_agent_asked_for_was_given_and_was_denied(home: Home):
    async with opened(home) as (service, console, key):
        agent = await agent_of(service, "clerk", AgentSettings(waiting=1))
        read = await agent.runs.call(HERE, "get_system_info", {"info_type": "memory"}, said="only looking")
        await console.runs.wait(read.summary.id, PATIENCE_S)
        with pytest.raises(QuarterdeckError):
            await agent.runs.call("nowhere", "screenshot", {})
        waits = await agent.runs.call(HERE, "shell_execute", {"command": "true"}, said="to list files")
        approval = await next_approval(console)
        assert await console.agents.tallies() == {"clerk": AgentTally(asked=3, given=1)}
        await approve(console, approval, key)
        await console.runs.wait(waits.summary.id, PATIENCE_S)
        await console.agents.pause("clerk")
        with pytest.raises(Refused):
            await agent.runs.call(HERE, "shell_execute", {"command": "echo later"})
        assert await console.agents.tallies() == {"clerk": AgentTally(asked=4, given=2, denied=1)}
        page = await console.agents.commands("clerk", limit=2)
        paused, approved = page.commands
        assert (paused.fate, paused.error.code) == (CommandFate.DENIED, ErrorCode.AGENT_PAUSED)  # type: ignore[union-attr]
        assert (approved.said, json.loads(approved.arguments)) == ("to list files", {"command": "true"})
        assert (approved.fate, approved.by) == (CommandFate.GIVEN, "operator:anna")
        assert approved.digest == approval.request.digest
        assert approved.effect == approval.decision.summary
        older = await console.agents.commands("clerk", page.next_before)
        assert [one.fate for one in older.commands] == [CommandFate.NOT_SENT, CommandFate.GIVEN]
        assert "memory" in older.commands[1].outcome
    async with opened(home) as (service, console, key):
        # Counted anew from the journal.
        assert await console.agents.tallies() == {"clerk": AgentTally(asked=4, given=2, denied=1)}


async def test_a_paused_agent_reaches_nothing_by_another_connection_or_an_old_ticket(
    home: Home, tmp_path: Path
):
    target = tmp_path / "made"
    async with opened(home) as (service, console, key):
        control = ControlServer(LocalConsoles(service), home)
        await control.open()
        agent, token = await attached_agent(home, console, "clerk")
        old = await agent.runs.call(HERE, "shell_execute", {"command": f"touch {target}"})
        approval = await next_approval(console)
        assert (await console.agents.pause("clerk")).settings.paused
        another = LocalConsoles(service).agent_console("agent:clerk", token)
        for door in (agent, another):
            with pytest.raises(Refused) as refused:
                await door.runs.call(HERE, "get_system_info", {"info_type": "memory"})
            assert refused.value.code is ErrorCode.AGENT_PAUSED
            assert "paused" in refused.value.message
        # An operator answers the old request meanwhile: it is held, not sent.
        await approve(console, approval, key)
        assert not target.exists()
        assert not (await console.runs.wait(old.summary.id, 0.0)).summary.state.ended
        assert not await kinds(console, "kind:intent_recorded")
        await set_agent(console, key, "clerk", AgentSettings())
        assert (await console.runs.wait(old.summary.id, PATIENCE_S)).summary.state is RunState.DONE
        assert target.exists()
        await agent.close()
        await control.close()


async def test_a_run_that_an_operator_lets_go_on_sends_nothing_for_a_paused_agent(home: Home, tmp_path: Path):
    target = tmp_path / "made"
    async with opened(home) as (service, console, key):
        agent = await agent_of(service, "clerk")
        run = await agent.runs.call(HERE, "shell_execute", {"command": f"touch {target}"})
        approval = await next_approval(console)
        await console.agents.pause("clerk")
        await console.runs.unpause(run.summary.id)
        await approve(console, approval, key)
        [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        assert cell.result.error is not None
        assert cell.result.error.code is ErrorCode.AGENT_PAUSED
        assert not target.exists()


async def test_stopping_an_agent_cancels_its_tickets_and_ends_its_connections(home: Home):
    async with opened(home) as (service, console, _):
        control = ControlServer(LocalConsoles(service), home)
        await control.open()
        agent, token = await attached_agent(home, console, "clerk")
        other = await agent_of(service, "other")
        kept = await other.runs.call(HERE, "shell_execute", {"command": "echo other"})
        run = await agent.runs.call(HERE, "shell_execute", {"command": "true"})
        await next_approval(console)
        words = await console.agents.stop("clerk")
        assert words == "clerk is stopped: 1 run was cancelled, 1 connection was ended."
        async with asyncio.timeout(PATIENCE_S):
            await agent.closed.wait()
        assert (await console.runs.wait(run.summary.id, PATIENCE_S)).summary.state is RunState.CANCELLED
        assert [one.actor for one in await console.approvals.list()] == ["agent:other"]
        again = LocalConsoles(service).agent_console("agent:clerk", token)
        with pytest.raises(Refused) as refused:
            await again.runs.call(HERE, "get_system_info", {"info_type": "memory"})
        assert refused.value.code is ErrorCode.AGENT_PAUSED
        # What is its own it may still read.
        assert (await again.runs.get(run.summary.id)).summary.id == run.summary.id
        [stopped] = await kinds(console, "kind:agent_stopped")
        assert stopped[1:] == (
            "operator:anna",
            {"agent": "clerk", "runs": [run.summary.id], "connections": 1},
        )
        assert not (await console.runs.get(kept.summary.id)).summary.state.ended
        await control.close()
    async with opened(home) as (service, console, _key):
        states = {agent.name: agent.settings.paused for agent in await console.agents.list()}
        assert states == {"clerk": True, "other": False}
        with pytest.raises(Refused) as unsigned:
            await console.agents.update("clerk", AgentSettings())
        assert unsigned.value.code is ErrorCode.SIGNATURE_REQUIRED
        with pytest.raises(BadInput):
            await console.agents.stop("none")


async def test_a_pause_holds_while_a_looser_limit_is_being_recorded(home: Home):
    async with opened(home) as (service, console, key):
        await agent_of(service, "clerk", AgentSettings(waiting=3))
        record, paused = service.journal.append, []
        held = AgentSettings(waiting=3, paused=True)

        async def append(entry: Any) -> Any:
            written = await record(entry)
            if entry.kind == "agent_set" and not paused:
                paused.append(await console.agents.pause("clerk"))
            return written

        service.journal.append = append  # type: ignore[method-assign]
        with pytest.raises(Refused, match="paused meanwhile"):
            await set_agent(console, key, "clerk", AgentSettings(waiting=50))
        assert [agent.settings for agent in await console.agents.list()] == [held]
    async with opened(home) as (service, console, key):
        assert [agent.settings for agent in await console.agents.list()] == [held]


async def test_only_an_agent_introduces_itself(home: Home):
    async with opened(home) as (_service, console, _key):
        with pytest.raises(BadInput):
            await console.agents.introduce("stdio", "window", "1")


async def test_an_edited_command_shows_both_arguments_and_a_long_one_says_how_much_is_left_out(home: Home):
    async with opened(home) as (service, console, key):
        agent = await agent_of(service, "clerk")
        run = await agent.runs.call(HERE, "shell_execute", {"command": "echo first"})
        asked = await next_approval(console)
        events = console.events()
        await console.approvals.edit(asked.id, {"command": "echo second"})
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                if isinstance(event, ApprovalChanged) and event.approval.edited_from == asked.id:
                    approval = event.approval
                    break
        await approve(console, approval, key)
        await console.runs.wait(run.summary.id, PATIENCE_S)
        await agent.runs.call(HERE, "shell_execute", {"command": "echo " + "x" * 50_000})
        await next_approval(console)
        long, edited = (await console.agents.commands("clerk")).commands
        assert (json.loads(edited.asked_first), json.loads(edited.arguments)) == (
            {"command": "echo first"},
            {"command": "echo second"},
        )
        assert (edited.fate, edited.digest) == (CommandFate.GIVEN, approval.request.digest)
        assert len(long.arguments) < MOST_SHOWN + 100
        assert long.arguments.endswith("more characters are in the journal.")
        assert (await console.agents.tallies())["clerk"] == AgentTally(asked=2, given=1)
