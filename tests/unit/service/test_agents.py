"""Agents of a service: signed in, kept over a restart, tightened at once, revoked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.approvals.operator_keys import OperatorKey
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind, NewEntry
from core.audit.events import AgentAdded, AgentSet
from core.audit.journal import Journal
from core.batch.models import RunState
from core.changes import Change, ChangeKind
from core.errors import BadInput, ErrorCode, Refused
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.policy.models import Profile
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.service import Service
from core.service.wishes import agent_added, agent_set
from core.tokens import token_digest
from tests.fakes.agents import add_agent, agent_of, set_agent
from tests.fakes.desk import approve, choose_channel, next_approval, open_service
from tests.fakes.signing import anna, sign

LAB = AgentSettings(targets="tag:lab", profile=Profile.OBSERVE)


@asynccontextmanager
async def opened(home: Home) -> AsyncIterator[tuple[Service, Any, OperatorKey]]:
    choose_channel(home, "in-process")
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        await console.approvals.register_operator(anna(home).operator)
        yield service, console, anna(home)


async def write(home: Home, *entries: NewEntry) -> None:
    """Append to the journal of a home as another program could that has its key."""
    key = load_or_create_journal_key(home.keys / "journal.key")
    journal = await Journal.open(home.path, key, "quarterdeck")
    await journal.append_many([*entries])
    await journal.close()


async def test_an_agent_and_its_limits_outlive_the_service_and_its_revocation_does(home: Home):
    async with opened(home) as (_, console, key):
        kept = await add_agent(console, key, "kept", LAB)
        await add_agent(console, key, "gone")
        looser = LAB.model_copy(update={"waiting": 50})
        await set_agent(console, key, "kept", looser)
        await console.agents.update("kept", looser.model_copy(update={"per_minute": 5}))
        await console.agents.revoke("gone")
        before = await console.agents.list()
    async with opened(home) as (service, console, _):
        assert await console.agents.list() == before
        [agent] = before
        assert (agent.name, agent.settings.waiting, agent.settings.per_minute) == ("kept", 50, 5)
        LocalConsoles(service).agent_console("agent:kept", kept)
        with pytest.raises(Refused):
            LocalConsoles(service).agent_console("agent:gone", kept)
        assert kept not in "".join(str(one.body) for one in (await console.journal.entries("")).entries)


async def test_entries_that_no_operator_signed_give_an_agent_nothing(home: Home):
    async with opened(home) as (_, console, key):
        await add_agent(console, key, "clerk", LAB)
    loose, tight = AgentSettings().model_dump(mode="json"), LAB.model_copy(update={"paused": True})
    planted = AgentAdded(agent="planted", settings=loose, token_sha256=token_digest("planted.x"))
    await write(
        home,
        planted.entry("operator:anna"),
        AgentSet(agent="clerk", settings=loose).entry("operator:anna"),
        AgentSet(agent="clerk", settings=tight.model_dump(mode="json")).entry("operator:anna"),
        AgentSet(agent="nobody", settings=loose).entry("operator:anna"),
        NewEntry(kind=Kind.AGENT_SET, actor="operator:anna", body={"agent": "clerk", "settings": 7}),
    )
    async with opened(home) as (service, console, _):
        [clerk] = await console.agents.list()
        assert clerk.settings == tight
        with pytest.raises(Refused):
            LocalConsoles(service).agent_console("agent:planted", "planted.x")
        assert sum("about an agent" in note for note in service.notes) == 4


async def test_a_signature_is_for_exactly_these_limits_and_this_token_once(home: Home):
    async with opened(home) as (service, console, key):
        with pytest.raises(Refused) as unsigned:
            await console.agents.add("clerk", LAB)
        assert unsigned.value.code is ErrorCode.SIGNATURE_REQUIRED
        signed = await sign(console, key, agent_added("clerk", LAB))
        for name, settings in (("clerk", AgentSettings()), ("other", LAB)):
            with pytest.raises(Refused) as other:
                await console.agents.add(name, settings, signed)
            assert other.value.code is ErrorCode.APPROVAL_INVALID
        signed = await sign(console, key, agent_added("clerk", LAB))
        first = await console.agents.add("clerk", LAB, signed)
        with pytest.raises(Refused):
            await console.agents.add("clerk", LAB, signed)
        LocalConsoles(service).agent_console("agent:clerk", first.token)
        wrong = await sign(console, key, agent_set("clerk", LAB.model_copy(update={"waiting": 99})))
        with pytest.raises(Refused):
            await console.agents.update("clerk", AgentSettings(), wrong)
        with pytest.raises(BadInput):
            await console.service.propose(
                Change(kind=ChangeKind.AGENT_ADDED, subject="x", after={"profile": "god"})
            )
        assert [agent.settings for agent in await console.agents.list()] == [LAB]


async def test_revoking_cancels_what_the_agent_asks_for_and_ends_its_consoles(home: Home):
    async with opened(home) as (service, console, _):
        agent = await agent_of(service, "clerk")
        run = await agent.runs.call("this-computer", "shell_execute", {"command": "true"})
        await next_approval(console)
        await console.agents.revoke("clerk")
        assert (await console.runs.wait(run.summary.id, 20)).summary.state is RunState.CANCELLED
        assert not await console.approvals.list()
        again = await agent_of(service, "clerk")
        assert (await again.runs.get(run.summary.id)).summary.id == run.summary.id
        with pytest.raises(Refused) as gone:
            await agent.runs.get(run.summary.id)
        assert gone.value.code is ErrorCode.AGENT_UNKNOWN


async def test_a_device_that_leaves_an_agents_targets_is_not_reached_by_what_waits(home: Home):
    async with opened(home) as (service, console, key):
        agent = await agent_of(service, "clerk", AgentSettings(targets="name:this-computer"))
        run = await agent.runs.call("this-computer", "shell_execute", {"command": "true"})
        approval = await next_approval(console)
        await console.agents.update("clerk", AgentSettings(targets="name:this-computer tag:nowhere"))
        await approve(console, approval, key)
        [cell] = (await console.runs.wait(run.summary.id, 20)).cells
        assert cell.result is not None
        assert cell.result.error is not None
        assert cell.result.error.code is ErrorCode.UNKNOWN_DEVICE
