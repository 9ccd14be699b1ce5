"""A read has one entry before its outcome; earlier versions wrote four. Both tell the same to each reader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.records.command import read_command
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.events import event_of
from core.audit.projection import CommandState
from core.batch.models import Batch
from core.batch.run_history import END_KINDS, rebuild_run, summary_of
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.home import Home
from core.policy.policy_file import parse_policy
from core.replay.timeline import build_timeline
from core.replay.titles import title_of
from core.service.agent_activity import AgentActivity, agent_command
from core.service.device_history import remembered_devices
from core.service.recovery import recover
from core.service.time_machine import try_over_journal
from tests.fakes.rig import DEVICE, Rig, open_rig

RUN, STEP = "r-0001", "look"
ASKED = ("tool_key", "tool_type", "namespace", "parameters", "said", "evidence_for")
DECIDED = ("decision", "tags", "production")
DENIES = '[[rule]]\nid = "no"\ndecision = "deny"\ntool = "get_system_info"\n'


def started() -> NewEntry:
    batch = Batch.model_validate({"name": "Look", "steps": [{"id": STEP, "tool": "get_system_info"}]})
    body = {
        "batch": batch.model_dump(mode="json", by_alias=True),
        "kind": "batch",
        "devices": [DEVICE],
        "devices_hash": "0" * 64,
        "said": "",
    }
    return NewEntry(kind=Kind.RUN_STARTED, actor="agent:ada", run=RUN, body=body)


def ended() -> NewEntry:
    body = {"state": "done", "counts": {"done": 1}}
    return NewEntry(kind=Kind.RUN_FINISHED, actor="service", run=RUN, status="done", body=body)


async def look(rig: Rig, **more: Any) -> CommandResult:
    request = CommandRequest(
        DEVICE,
        "get_system_info",
        {"info_type": "cpu"},
        "agent:ada",
        run=RUN,
        step=STEP,
        said="How busy is it?",
        **more,
    )
    return await rig.dispatcher.dispatch(request)


def new_of(entry: Entry) -> NewEntry:
    return NewEntry(**entry.model_dump(exclude={"seq", "time"}))


def four_of(entry: Entry) -> Iterator[NewEntry]:
    """The entries that earlier versions wrote in place of this one; any other is returned as it is."""
    whole = new_of(entry)
    if entry.kind is not Kind.COMMAND_SENT or "decision" not in entry.body:
        yield whole
        return
    both = {key: value for key, value in entry.body.items() if key in ("digest", "contract")}
    asked = {"namespace": None, "said": "", **{k: v for k, v in entry.body.items() if k in ASKED}}
    decided = {"tags": None, "production": None, **{k: v for k, v in entry.body.items() if k in DECIDED}}
    yield replace(whole, kind=Kind.COMMAND_PREPARED, body=both | asked)
    yield replace(whole, kind=Kind.COMMAND_DECIDED, actor="policy", body=decided)
    for kind in (Kind.INTENT_RECORDED, Kind.COMMAND_SENT):
        yield replace(whole, kind=kind, actor="service", body=both)


def as_before(entries: list[Entry]) -> list[Entry]:
    """The same stretch of the journal as earlier versions wrote it."""
    written = [(entry.time, new) for entry in entries for new in four_of(entry)]
    return [Entry(**new.values(), seq=seq, time=time) for seq, (time, new) in enumerate(written, 1)]


@pytest.fixture
async def forms(home: Home) -> tuple[list[Entry], list[Entry]]:
    """The entries of a run of one read, as they are written and as they were."""
    async with open_rig(home) as rig:
        await rig.journal.append(started())
        await look(rig)
        await rig.journal.append(ended())
        entries = await rig.entries(f"run:{RUN}")
    return entries, as_before(entries)


def test_a_read_that_is_simply_allowed_has_one_entry_before_its_outcome(
    forms: tuple[list[Entry], list[Entry]],
) -> None:
    now, before = forms
    assert [entry.kind for entry in now] == [
        Kind.RUN_STARTED,
        Kind.COMMAND_SENT,
        Kind.RESULT_RECORDED,
        Kind.RUN_FINISHED,
    ]
    sent = now[1]
    assert (sent.actor, sent.tool, sent.device) == ("agent:ada", "get_system_info", DEVICE)
    assert sent.body["parameters"] == {"info_type": "cpu"}
    assert (sent.body["said"], sent.body["decision"]["answer"]) == ("How busy is it?", "allow")
    assert len(before) == 7


def test_the_projection_reads_the_same(forms: tuple[list[Entry], list[Entry]]) -> None:
    told = []
    for entries in forms:
        for count in range(1, len(entries) + 1):
            state = CommandState("c")
            for entry in entries[:count]:
                if entry.call_id:
                    state.apply(entry, event_of(entry))
        assert state.prepared is not None
        assert state.decided is not None
        told.append((state.prepared.event, state.decided.event, state.progress, state.result))
    assert told[0] == told[1]


def test_the_history_of_runs_reads_the_same(forms: tuple[list[Entry], list[Entry]]) -> None:
    now, before = (rebuild_run(entries) for entries in forms)
    assert now == before
    [cell] = now.cells
    assert cell.result is not None
    assert cell.result.decision is not None
    summaries = []
    for entries in forms:
        ends = [entry for entry in entries if entry.kind in END_KINDS]
        summaries.append(summary_of(ends, [entry for entry in entries if entry.call_id]))
    assert summaries[0] == summaries[1] == now.summary
    assert now.summary.effect


def test_replay_and_the_record_of_a_command_read_the_same(forms: tuple[list[Entry], list[Entry]]) -> None:
    now, before = (build_timeline(entries, "a run", RUN) for entries in forms)
    assert [span.model_dump(exclude={"seq"}) for span in now.spans] == [
        span.model_dump(exclude={"seq"}) for span in before.spans
    ]
    assert now.lanes == before.lanes
    records = [read_command(entry for entry in entries if entry.call_id) for entries in forms]
    facts = [(one.digest, one.contract, one.parameters, one.asker, one.said, one.decision) for one in records]
    assert facts[0] == facts[1]
    assert all(facts[0])


def test_the_title_says_who_asked_and_that_it_was_allowed(forms: tuple[list[Entry], list[Entry]]) -> None:
    now, before = forms
    title = title_of(now[1])
    assert title.startswith(f"ada asked for get_system_info, which was allowed and sent to {DEVICE}: ")
    assert title_of(before[4]) == f"get_system_info was sent to {DEVICE}"


def test_what_an_agent_did_reads_the_same(forms: tuple[list[Entry], list[Entry]]) -> None:
    now, before = (
        agent_command(entries[1], entries[1:-1]).model_copy(update={"seq": 0}) for entries in forms
    )
    assert now == before
    assert now.said == "How busy is it?"


@pytest.mark.parametrize("earlier", [False, True])
async def test_who_queries_the_journal_finds_it(home: Home, earlier: bool) -> None:
    async with open_rig(home) as rig:
        await rig.journal.append(started())
        await look(rig)
        await rig.call("screenshot")
        if earlier:
            calls = await rig.entries("tool:get_system_info,screenshot")
            for entry in calls:
                again = [replace(new, call_id=f"{new.call_id}-2") for new in four_of(entry)]
                await rig.journal.append_many(again)
        await rig.journal.settle()
        tally = (await AgentActivity(rig.journal).tallies())["ada"]
        page = await AgentActivity(rig.journal).commands("ada", None, 10)
        trial = await try_over_journal(rig.journal, parse_policy(DENIES), lambda name: None, 100)
        found = await rig.journal.search_runs("effect:cpu", {})
        count = 1 + earlier
        assert (tally.asked, tally.given, len(page.commands)) == (count, count, count)
        assert (trial.commands, trial.denied) == (2 * count, count)
        assert found.runs == [RUN]
        assert (await rig.journal.verify()).ok


@pytest.mark.parametrize("earlier", [False, True])
async def test_a_read_that_was_sent_and_not_answered_is_closed_as_a_read(home: Home, earlier: bool) -> None:
    async with open_rig(home) as rig:
        asked, never = asyncio.Event(), asyncio.Event()

        async def wait(command: object) -> None:
            asked.set()
            await never.wait()

        rig.tools.answers["get_system_info"] = wait
        await rig.journal.append(started())
        looking = rig.tasks.spawn("look", look(rig))
        await asked.wait()
        await rig.journal.settle()
        [sent] = (await rig.journal.query(f"run:{RUN} kind:{Kind.COMMAND_SENT}")).entries
        if earlier:
            await rig.journal.append(replace(started(), run="r-0002"))
            place = {"run": "r-0002", "call_id": "c-2"}
            await rig.journal.append_many([replace(new, **place) for new in four_of(sent)])
        before = rig.journal.state.entries
        await recover(rig.journal)
        closed = (await rig.journal.query("", after=before)).entries
        results = [entry for entry in closed if entry.kind is Kind.RESULT_RECORDED]
        assert [entry.body["result"]["error"]["code"] for entry in results] == ["timeout"] * (1 + earlier)
        assert {entry.verdict for entry in results} == {"unknown"}
        never.set()
        await looking


@pytest.mark.parametrize("earlier", [False, True])
async def test_the_picture_of_a_device_is_found(home: Home, earlier: bool) -> None:
    pictured = {"evidence": [{"blob": "ab" * 32, "media_type": "image/png", "size": 1, "what": "picture"}]}
    async with open_rig(home) as rig:
        await rig.call("screenshot")
        [sent, result] = await rig.entries("tool:screenshot")
        body = {**result.body, "result": {**result.body["result"], **pictured}}
        entries = [*(four_of(sent) if earlier else [new_of(sent)])]
        entries.append(replace(new_of(result), body=body))
        await rig.journal.append_many([replace(new, call_id="c-2") for new in entries])
        facts = await remembered_devices(rig.journal, {DEVICE})
        assert facts[DEVICE].picture == "ab" * 32
