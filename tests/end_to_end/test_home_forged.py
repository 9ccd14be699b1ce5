"""Attacks on the files of a home while no service runs, by a program of the user that has no key of ours.

Each begins with the home of a working day whose service was killed, and ends with a real service that starts
on what the attacker left. What the attacker puts into the journal is never obeyed, and is told.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.audit.entries import Entry, Kind, NewEntry
from core.errors import ErrorCode
from core.fleet.models import DeviceSettings
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.policy.models import Answer, Profile
from core.service.console import Console
from tests.end_to_end.test_grants import call, grant, runs_unasked
from tests.fakes.agents import add_agent, set_agent
from tests.fakes.desk import next_approval
from tests.fakes.forged_spool import append
from tests.fakes.kept_home import copy_of
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run
from tests.fakes.remote_device import make_listening_home
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import anna, identify

LAX = """profile = "trusted"
[[rule]]
id = "anything"
decision = "allow"
tool = "*"
risk = "<=critical"
"""
TAGGED = """profile = "guarded"
[[profiles]]
tag = "lab"
profile = "trusted"
"""
LINE = {"command": "printf granted"}
TIGHT = AgentSettings(profile=Profile.OBSERVE, targets="tag:none", paused=True)


@dataclass
class Day:
    """A home that was killed, and what another program read over its socket before."""

    home: Home
    entries: list[Entry] = field(default_factory=list)

    def of(self, kind: Kind, which: int = 0) -> NewEntry:
        """An entry of this kind as the journal gave it, to be written once more."""
        found = [entry for entry in self.entries if entry.kind is kind]
        return again(found[which])


def again(entry: Entry) -> NewEntry:
    return NewEntry(**entry.model_dump(exclude={"seq", "time"}))


async def save(console: Console, text: str) -> None:
    await console.policy.save(text, (await console.policy.text()).digest)


async def live(console: Console, key: OperatorKey) -> None:
    """Sign what loosens, and then what takes it back."""
    await console.approvals.register_operator(key.operator)
    await identify(console, key)
    bob = create_operator_key(Home(Path((await console.service.state()).home)), "bob", None)
    await save(console, LAX)
    await save(console, TAGGED)
    await add_agent(console, key, "night", AgentSettings(profile=Profile.TRUSTED))
    await set_agent(console, key, "night", TIGHT)
    await console.approvals.register_operator(bob.operator)
    await console.approvals.remove_operator("bob")
    await console.devices.pair("prod-1", DeviceSettings(tags=["prod"], production=True))
    await console.devices.pair("lost-1", DeviceSettings())
    await console.devices.revoke("lost-1")
    started = await call(console, **LINE)
    given = await grant(console, key, await next_approval(console), uses=1)
    await console.runs.wait(started.summary.id, PATIENCE_S)
    assert await runs_unasked(console, **LINE)
    await console.approvals.revoke_grant(given.terms.id)
    read = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
    await console.runs.wait(read.summary.id, PATIENCE_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    day = Day(make_listening_home(tmp_path_factory.mktemp("day") / "home"))
    async with service_process(day.home) as service:
        console = await service.console()
        await until_online(console)
        await live(console, anna(day.home))
        page = await console.journal.entries("", limit=1_000)
        day.entries = list(reversed(page.entries))
        await service.kill()
    return day


@pytest.fixture
def day(_day: Day, tmp_path: Path) -> Day:
    """A copy of the day's home for each attack."""
    return Day(copy_of(_day.home.path, tmp_path / "home"), _day.entries)


@asynccontextmanager
async def started(home: Home) -> AsyncIterator[Console]:
    """The service of a home that was attacked; the journal verifies with it."""
    async with service_process(home) as service:
        console = await service.console()
        await until_online(console)
        yield console
        assert (await console.journal.verify()).ok


async def told(console: Console, home: Home, *kinds: str) -> None:
    """What was put into the spool is told in words, journalled and kept, and was not taken."""
    notes = "\n".join((await console.service.state()).policy.notes)
    assert "They were not taken, and are kept in journal.spool.refused-" in notes
    for kind in kinds:
        assert kind in notes
    [recovered] = (await console.journal.entries("kind:journal_recovered refused", limit=1)).entries
    assert recovered.body["refused"] >= len(kinds)
    kept = home.path / str(recovered.body["set_aside"])
    assert all(kind.encode() in kept.read_bytes() for kind in kinds)


async def decision(console: Console, device: str = "this-computer") -> Answer:
    return (await console.policy.explain(device, "shell_execute", {"command": "touch x"})).answer


async def test_a_signed_policy_that_was_replaced_does_not_come_back(day: Day, tmp_path: Path):
    append(day.home, [day.of(Kind.POLICY_SAVED)])
    day.home.policy.write_text(LAX)
    report = run(day.home, "audit", "verify", "--json")
    assert report.code == 8
    assert "1 record (policy_saved)" in report.json["problem"]
    async with started(day.home) as console:
        status = (await console.service.state()).policy
        assert status.profile is Profile.GUARDED
        assert "Rule anything" in "\n".join(status.pending)
        assert not await runs_unasked(console, command=f"touch {tmp_path / 'touched'}")
        assert "1 record (policy_saved)" in run(day.home, "service", "status").out
        await told(console, day.home, "policy_saved")
    assert not (tmp_path / "touched").exists()
    assert run(day.home, "audit", "verify").code == 0


async def test_an_agent_does_not_get_its_first_limits_back(day: Day):
    append(day.home, [day.of(Kind.AGENT_ADDED)])
    async with started(day.home) as console:
        [night] = await console.agents.list()
        assert night.settings == TIGHT
        await told(console, day.home, "agent_added")


async def test_an_operator_who_was_removed_stays_removed(day: Day):
    append(day.home, [day.of(Kind.OPERATOR_REGISTERED, 1)])
    async with started(day.home) as console:
        assert [operator.name for operator in (await console.service.state()).operators] == ["anna"]
        await told(console, day.home, "operator_registered")


async def test_a_grant_that_is_used_up_and_revoked_lets_nothing_through(day: Day):
    append(day.home, [day.of(Kind.GRANT_GIVEN)])
    async with started(day.home) as console:
        [held] = await console.approvals.grants()
        assert held.over
        assert not await runs_unasked(console, **LINE)
        await told(console, day.home, "grant_given")


async def test_stop_all_is_not_ended_by_a_line_in_the_spool(day: Day):
    async with service_process(day.home) as service:
        console = await service.console()
        await console.service.stop_all()
        await console.journal.entries("")
        await service.kill()
    append(day.home, [NewEntry(kind=Kind.ALL_RESUMED, actor="operator:anna", body={})])
    async with started(day.home) as console:
        assert (await console.service.state()).stopped
        ended = await console.runs.wait((await call(console, **LINE)).summary.id, PATIENCE_S)
        assert ended.cells[0].result
        assert ended.cells[0].result.error
        assert ended.cells[0].result.error.code is ErrorCode.STOPPED
        await told(console, day.home, "all_resumed")


async def test_a_run_that_never_was_is_invented_for_nobody(day: Day):
    async with started(day.home):
        pass
    assert (day.home.path / "journal.spool").read_bytes() == b""
    [read] = [entry.run for entry in day.entries if entry.kind is Kind.RUN_STARTED][-1:]
    words = [json.dumps(again(entry).values()) for entry in day.entries if entry.run == read]
    said = ("get_system_info", "shell_execute"), ('{"info_type":"memory"}', '{"command":"rm -rf /srv"}')
    for old, new in ((read or "", "r-0666"), *said):
        words = [text.replace(old, new) for text in words]
    append(day.home, [NewEntry(**json.loads(text)) for text in words])
    async with started(day.home) as console:
        assert "r-0666" not in [summary.id for summary in await console.runs.list()]
        assert not (await console.journal.entries("run:r-0666")).entries
        await told(console, day.home, "run_started", "command_sent", "result_recorded")


async def test_tags_and_production_stay_as_they_were_signed(day: Day):
    body: dict[str, Any] = {"tags": ["lab"], "production": False, "agent": ""}
    append(day.home, [NewEntry(kind=Kind.DEVICE_SET, actor="cli:root", device="prod-1", body=body)])
    async with started(day.home) as console:
        [found] = await console.devices.match("prod-1")
        assert (found.tags, found.production) == (["prod"], True)
        await told(console, day.home, "device_set")


async def test_a_device_that_was_revoked_is_not_paired_again(day: Day):
    append(day.home, [day.of(Kind.DEVICE_PAIRED, 1)])
    async with started(day.home) as console:
        rows = json.loads(day.home.devices.read_text())["devices"]
        assert [bool(row.get("revoked_at")) for row in rows if row["name"] == "lost-1"] == [True]
        await told(console, day.home, "device_paired")


async def test_a_spool_kept_from_an_earlier_day_means_nothing_later(day: Day):
    """Its records are the journal's own; they are not taken a second time, whatever happened since."""
    kept = (day.home.path / "journal.spool").read_bytes()
    assert kept
    async with started(day.home) as console:
        before = (await console.service.state()).journal.entries
    (day.home.path / "journal.spool").write_bytes(kept)
    assert run(day.home, "audit", "verify").code == 0
    async with started(day.home) as console:
        added = (await console.journal.entries(f"seq:{before + 1}..")).entries
        assert Kind.JOURNAL_RECOVERED not in [entry.kind for entry in added]
        # The day's runs are what the spool has.
        assert {entry.run for entry in added} == {None}


async def test_a_spool_that_was_taken_away_or_cut_is_told(day: Day):
    spool = day.home.path / "journal.spool"
    whole = spool.read_bytes()
    spool.unlink()
    report = run(day.home, "audit", "verify", "--json")
    assert report.code == 8
    assert "journal.spool is missing" in report.json["problem"]
    async with started(day.home) as console:
        [recovered] = (await console.journal.entries("kind:journal_recovered", limit=1)).entries
        assert recovered.body["spool"] == "missing"
    # A record without its end is what a kill in the middle of a write leaves, too.
    spool.write_bytes(whole[:-3])
    async with started(day.home):
        pass


async def test_files_that_say_more_than_the_journal_let_nothing_more_run(day: Day):
    stranger = create_operator_key(Home(day.home.path), "mallory", None)
    home = day.home
    operators = json.loads(home.operators.read_text())
    home.operators.write_text(json.dumps([*operators, stranger.operator.model_dump(mode="json")]))
    home.policy.write_text(LAX)
    settings = home.path / "settings.toml"
    settings.write_text(settings.read_text().replace("127.0.0.1:0", "0.0.0.0:0"))
    (home.device_state / "device.toml").write_text('roots = ["/"]\n')
    # A draft of the window, and its memory of what it showed, are read by the window alone.
    (home.path / "window.ini").write_text("[policy]\ndraft=" + json.dumps(LAX) + "\n")
    (home.batches / "clean.yaml").write_text(
        "name: clean\ntargets: name:this-computer\nsteps:\n"
        "  - {id: a, tool: shell_execute, with: {command: 'rm -rf ~'}}\n"
    )
    async with started(home) as console:
        state = await console.service.state()
        assert [operator.name for operator in state.operators] == ["anna"]
        assert "mallory" in "\n".join(state.policy.notes)
        assert state.policy.profile is Profile.GUARDED
        assert state.policy.pending
        assert state.policy.pending_settings
        assert (await console.devices.listening()).address.startswith("127.0.0.1")
        assert await decision(console) is Answer.ASK
        planned = run(home, "run", "clean", "--plan", "--json")
        assert '"ask"' in planned.out


async def test_a_policy_whose_text_was_exchanged_lets_nothing_run(day: Day):
    saved = [entry for entry in day.entries if entry.kind is Kind.POLICY_SAVED][-1]
    blob = saved.blobs[0]
    path = day.home.path / "blobs" / blob[:2] / blob
    path.chmod(0o600)
    path.write_text(LAX)
    day.home.policy.write_text(LAX)
    assert run(day.home, "audit", "verify").code == 8
    async with service_process(day.home) as service:
        console = await service.console()
        await until_online(console)
        status = (await console.service.state()).policy
        assert status.profile is Profile.LOCKDOWN
        assert "The accepted policy cannot be read" in "\n".join(status.notes)
        assert await decision(console) is Answer.ASK


async def test_a_database_of_an_earlier_moment_does_not_open(day: Day, tmp_path: Path):
    kept = tmp_path / "kept"
    kept.mkdir()
    names = ("journal.db", "journal.db-wal", "journal.spool")
    for name in names:
        shutil.copyfile(day.home.path / name, kept / name)
    async with started(day.home):
        pass
    for name in names:
        shutil.copyfile(kept / name, day.home.path / name)
    report = run(day.home, "audit", "verify", "--json")
    assert report.code == 8
    assert "missing after" in report.json["problem"]
    async with service_process(day.home) as service:
        code, error = await service.ends()
        assert code != 0
        assert error
        assert "missing after" in error.message
