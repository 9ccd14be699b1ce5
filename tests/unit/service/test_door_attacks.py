"""What nobody gets through the door: an agent past its list, a bared secret, a policy lost to a race."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.approvals.models import ApprovalState
from core.audit.entries import Kind, NewEntry
from core.batch.models import Batch, Step
from core.commands.channel import LocalCommandDispatcher
from core.errors import BadInput, QuarterdeckError, Refused
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from core.policy.models import Profile
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.agents import agent_of
from tests.fakes.desk import choose_channel, next_approval, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import TEXT, ScriptedTools, tool_info
from tests.fakes.signing import signing

SAID = "hunter2hunter2"


@pytest.fixture
async def service(home: Home) -> AsyncIterator[Service]:
    choose_channel(home, "in-process")
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with open_service(home) as service:
        yield service


@pytest.fixture
def console(service: Service) -> Console:
    return signing(LocalConsole(service, "operator:anna"), service.home)


@pytest.fixture
async def desk(service: Service) -> ScriptedTools:
    """A device with a tool whose text is secret when a neighbour says so."""
    hidden = {**TEXT, "x-quarterdeck-secret-if": "hide"}
    tools = ScriptedTools([tool_info("enter", "action", {"text": hidden, "hide": {"type": "boolean"}})])
    service.fleet.add("desk", [])
    channel = LocalCommandDispatcher("desk", tools, service.dispatcher.gate)
    await service.fleet.arrived("desk", ConnectionInfo(channel, "in-process", "linux", "t", "t", [], None))
    return tools


async def test_an_agent_cancels_its_own_runs_and_nobody_elses(
    console: Console, service: Service, desk: ScriptedTools
):
    agent = await agent_of(service)
    theirs = await console.runs.call("desk", "enter", {"text": "x"})
    with pytest.raises(BadInput):
        await agent.runs.stop(theirs.summary.id)
    own = await agent.runs.call("desk", "enter", {"text": "y"})
    await agent.runs.stop(own.summary.id)
    assert (await agent.runs.wait(own.summary.id, PATIENCE_S)).summary.ended_at is not None
    assert (await console.runs.get(theirs.summary.id)).summary.ended_at is None
    await console.runs.stop(theirs.summary.id)


async def test_an_agent_does_not_put_its_steps_into_an_operators_batch(console: Console, service: Service):
    batch = Batch(name="tidy", targets="name:desk", steps=[Step(id="a", tool="enter", parameters={})])
    await console.runs.save_batch("tidy", batch)
    with pytest.raises(Refused):
        await (await agent_of(service)).runs.save_batch("tidy", batch.model_copy(update={"name": "evil"}))
    assert (await console.runs.load_batch("tidy")).name == "tidy"


async def test_an_agent_neither_renames_nor_deletes_an_operators_batch(console: Console, service: Service):
    batch = Batch(name="tidy", targets="name:desk", steps=[Step(id="a", tool="enter", parameters={})])
    await console.runs.save_batch("tidy", batch)
    agent = await agent_of(service)
    with pytest.raises(Refused):
        await agent.runs.rename_batch("tidy", "evil")
    with pytest.raises(Refused):
        await agent.runs.delete_batch("tidy")
    assert [saved.name for saved in await console.runs.saved_batches()] == ["tidy"]
    await console.runs.rename_batch("tidy", "tidier")
    assert (await console.runs.load_batch("tidier")).name == "tidier"
    await console.runs.delete_batch("tidier")
    assert await console.runs.batch_names() == []


async def test_a_batch_keeps_the_name_that_people_write_and_its_file_stays_in_its_folder(
    console: Console, service: Service
):
    folder = service.home.batches
    before = set(folder.parent.rglob("*"))
    names = [
        "R&D — nightly",
        "备份 हिन्दी",
        "../../policy",
        "/etc/passwd",
        "CON",
        ".hidden",
        "a.",
        "100 %2F",
        "a/b",
    ]
    for name in names:
        batch = Batch(name=name, targets="name:desk", steps=[Step(id="a", tool="enter", parameters={})])
        await console.runs.save_batch(name, batch)
        assert (await console.runs.load_batch(name)).name == name
    assert await console.runs.batch_names() == sorted(names)
    made = set(folder.parent.rglob("*")) - before - {folder}
    assert len(made) == len(names)
    assert all(path.parent == folder for path in made)


async def test_an_edit_of_a_neighbour_does_not_bare_a_secret(
    console: Console, service: Service, desk: ScriptedTools
):
    await console.runs.call("desk", "enter", {"text": SAID, "hide": True})
    approval = await next_approval(console)
    shown = approval.request.parameters
    with pytest.raises(BadInput, match="would reveal a secret"):
        await console.approvals.edit(approval.id, {**shown, "hide": False})
    assert (await console.approvals.get(approval.id)).state is ApprovalState.WAITING
    await service.journal.settle()
    page = await console.journal.entries()
    assert SAID not in "".join(one.model_dump_json() for one in page.entries)


async def test_of_two_that_save_the_policy_at_once_one_is_told(console: Console, service: Service):
    before = await console.policy.text()
    texts = ['profile = "lockdown"\n', 'profile = "trusted"\n']
    saved = await asyncio.gather(
        *(console.policy.save(text, before.digest) for text in texts), return_exceptions=True
    )
    assert sum(isinstance(one, Refused) for one in saved) == 1
    page = await console.journal.entries(f"kind:{Kind.POLICY_SAVED}")
    assert len(page.entries) == 1


async def test_a_profile_chosen_while_a_policy_is_saved_is_not_lost(console: Console, service: Service):
    before = await console.policy.text()
    saved, _ = await asyncio.gather(
        console.policy.save('profile = "trusted"\n', before.digest),
        console.policy.set_profile(Profile.LOCKDOWN),
        return_exceptions=True,
    )
    assert isinstance(saved, Refused) or service.policy.profile is Profile.LOCKDOWN
    assert service.policy.profile is Profile.LOCKDOWN


async def test_a_profile_that_cannot_be_written_is_not_said_to_be_chosen(console: Console, service: Service):
    service.policy.path.write_text("broken = [")
    with pytest.raises(QuarterdeckError):
        await console.policy.set_profile(Profile.TRUSTED)
    assert not (await console.journal.entries(f"kind:{Kind.PROFILE_CHANGED}")).entries


async def test_an_asker_says_no_book_about_its_call(service: Service, desk: ScriptedTools):
    with pytest.raises(BadInput, match="at most"):
        await LocalConsole(service, "agent:claude").runs.call(
            "desk", "enter", {"text": "x"}, said="x" * 1_000_000
        )
    assert service.runs.active == []


async def test_a_search_in_results_does_not_find_a_secret_and_finds_what_is_beside_it(
    console: Console, service: Service, desk: ScriptedTools
):
    blob = await service.journal.put_blob(b"deep words")
    stored = {"blob": blob, "media_type": "text/plain", "size": 10}
    body = {"result": {"result": {"echo": "Plain words", "stored": stored}}}
    wrote = await service.journal.append(
        NewEntry(kind=Kind.RESULT_RECORDED, actor="service", run="r-1", body=body)
    )
    await console.runs.call("desk", "enter", {"text": SAID, "hide": True})
    hits = await console.journal.find_in_results(["plain", "deep", SAID], around=wrote.seq)
    assert hits.numbers == [[wrote.seq], [wrote.seq], []]
    assert (await console.journal.find_in_results(["plain"], run="r-1")).numbers == [[wrote.seq]]
