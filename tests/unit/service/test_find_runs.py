"""Runs are found by words over everything the journal has of them, in the service and over the socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.approvals.models import ApprovalState
from core.audit import run_search
from core.audit.entries import Kind, NewEntry
from core.batch.models import Batch, RunState
from core.errors import BadInput
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.fakes.desk import approve, choose_channel, next_approval, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import anna, signing

PAGE = 200


def run_of(
    number: int,
    device: str = "lab-lnx-01",
    tool: str = "read_file",
    actor: str = "agent:clerk",
    state: str = "done",
    effect: str = "Reads /etc/motd",
    name: str = "Batch",
) -> list[NewEntry]:
    """What a run of one call leaves in the journal, as far as a search looks at it."""
    run = f"r-{number:04d}"
    batch = Batch.model_validate({"name": name, "steps": [{"parallel": [{"id": "call", "tool": tool}]}]})
    at = {"run": run, "step": "call", "device": device, "call_id": f"c-{number}", "tool": tool}
    decision = {
        "answer": "allow", "risk": "low", "effect": "observe", "profile": "guarded", "summary": effect,
        "reasons": [],
    }  # fmt: skip
    return [
        NewEntry(
            kind=Kind.RUN_STARTED,
            actor=actor,
            run=run,
            body={
                "batch": batch.model_dump(mode="json", by_alias=True),
                "kind": "batch",
                "devices": [device, "shared-device"],
            },
        ),
        # A read that is simply allowed is judged and sent in one entry.
        NewEntry(
            kind=Kind.COMMAND_DECIDED if number % 2 else Kind.COMMAND_SENT,
            actor="policy",
            body={"decision": decision},
            **at,
        ),
        NewEntry(kind=Kind.RUN_FINISHED, actor="service", run=run, status=state, body={"state": state}),
    ]


@pytest.fixture(params=["in the service", "over the socket"])
async def door(request: pytest.FixtureRequest, home: Home) -> AsyncIterator[tuple[Service, Console]]:
    """A service, and its door from within and from another process' end."""
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        if request.param == "in the service":
            yield service, LocalConsole(service, "operator:anna")
            return
        server = ControlServer(LocalConsoles(service), home)
        await server.open()
        console = await RemoteConsole.connect(home, "test", "operator:anna")
        try:
            yield service, console
        finally:
            await console.close()
            await server.close()


async def found(console: Console, words: str) -> list[str]:
    """The ids of all runs that a search finds, page by page."""
    runs: list[str] = []
    page = await console.runs.find(words, limit=PAGE)
    runs += [run.id for run in page.runs]
    while page.next_before is not None:
        page = await console.runs.find(words, page.next_before, PAGE)
        runs += [run.id for run in page.runs]
    return runs


async def test_one_run_thousands_back_is_found_by_anything_that_is_known_of_it(door):
    service, console = door
    odd = run_of(
        1, "edge-gw-11", "write_file", "agent:night-shift", "unknown", "Deletes /srv/artifacts", "Big sweep"
    )
    await service.journal.append_many(odd)
    for start in range(2, 3002, 500):
        await service.journal.append_many([e for n in range(start, start + 500) for e in run_of(n)])
    for words in (
        "r-0001", "edge-gw-11", "write_file", "night-shift", "unknown", "/srv/artifacts", "big SWEEP",
        "device:edge-gw-11", "tool:write_file", "actor:night-shift", "state:unknown", "effect:artifacts",
        "name:sweep", "id:r-0001", "deletes night edge-gw",
    ):  # fmt: skip
        page = await console.runs.find(words, limit=PAGE)
        assert [run.id for run in page.runs] == ["r-0001"], words
    [run] = (await console.runs.find("r-0001")).runs
    assert (run.effect, run.devices[0], run.actor) == (
        "Deletes /srv/artifacts",
        "edge-gw-11",
        "agent:night-shift",
    )
    assert await found(console, "device:unknown") == []
    assert await found(console, "edge-gw-11 read_file") == []


async def test_runs_come_newest_first_in_bounded_pages_and_each_of_them_once(door):
    service, console = door
    entries = [e for n in range(1, 451) for e in run_of(n, tool="write_file" if n % 2 else "read_file")]
    await service.journal.append_many(entries)
    page = await console.runs.find("write_file", limit=10_000)
    assert len(page.runs) == PAGE
    assert page.next_before is not None
    assert await found(console, "write_file") == [f"r-{n:04d}" for n in range(449, 0, -2)]
    assert await found(console, "") == [f"r-{n:04d}" for n in range(450, 0, -1)]


async def test_wildcards_quotes_and_marks_of_sql_and_json_mean_themselves(door):
    service, console = door
    names = [
        "100% done",
        'say "hi"',
        "under_score",
        "underXscore",
        "a*b",
        "aXb",
        "it's",
        "back\\slash",
        "x[1],y",
    ]
    for number, name in enumerate(names, 1):
        await service.journal.append_many(run_of(number, name=name))
    for words, wanted in (
        ("%", [1]), ('"hi"', [2]), ('"', [2]), ("under_score", [3]), ("a*b", [5]), ("*", [5]), ("it's", [7]),
        ("'", [7]), ("\\", [8]), ("[1],", [9]), ("]", [9]), ("' OR 1=1 --", []), (":word0", []), ("?", []),
        ("{", []),
    ):  # fmt: skip
        assert sorted(await found(console, words)) == [f"r-{n:04d}" for n in wanted], words


async def test_too_many_words_are_refused_in_words(door):
    _, console = door
    for words in ("x " * 33, "x" * 2001, "half \ud800 pair"):
        with pytest.raises(BadInput, match=r"search for runs|no JSON form"):
            await console.runs.find(words)


async def test_a_search_that_runs_out_of_time_says_where_it_goes_on(door, monkeypatch):
    service, console = door
    await service.journal.append_many([e for n in range(1, 101) for e in run_of(n)])
    await service.journal.append_many(run_of(101, tool="write_file"))
    monkeypatch.setattr(run_search, "BUDGET_SECONDS", -1.0)
    monkeypatch.setattr(run_search, "_SPAN", 16)
    page = await console.runs.find("r-0001")
    assert page.runs == []
    assert page.next_before is not None
    assert await found(console, "r-0001") == ["r-0001"]
    assert len(await found(console, "read_file")) == 100


async def test_what_goes_on_is_found_by_how_it_stands_and_says_what_it_would_do(door, tmp_path: Path):
    service, console = door
    key, signed = anna(service.home), signing(LocalConsole(service, "operator:anna"), service.home)
    await signed.approvals.register_operator(key.operator)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    run = await console.runs.call("this-computer", "write_file", {"file_path": first, "content": "x"})
    approval = await next_approval(signed)
    assert await found(console, "state:waiting") == [run.summary.id]
    assert await found(console, "state:interrupted") == []
    [waiting] = (await console.runs.find(first)).runs
    assert waiting.state is RunState.WAITING
    assert waiting.effect == approval.decision.summary
    await signed.approvals.edit(approval.id, {"file_path": second, "content": "y"})
    while (edited := await next_approval(signed)).state is not ApprovalState.WAITING:
        pass
    assert (await console.runs.get(run.summary.id)).summary.effect == edited.decision.summary
    await approve(signed, edited, key)
    ended = await console.runs.wait(run.summary.id, PATIENCE_S)
    assert await found(console, f"state:{ended.summary.state}") == [run.summary.id]
    assert await found(console, "state:waiting") == []
    [told] = (await console.runs.find(second)).runs
    assert told.effect == edited.decision.summary
