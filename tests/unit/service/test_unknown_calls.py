"""Devices that lie about earlier calls, swarms of unknown calls, and what is not asked about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from core.aip.extensions import RecalledResult
from core.aip.pairing import decode_pairing
from core.audit.entries import Entry, Kind
from core.audit.events import LateAnswerReceived
from core.batch.models import Cell, CellState
from core.cli.show import late_answer_text
from core.commands.results import Basis, Verdict
from core.dispatch import late_results
from core.fleet import connections
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.replay.titles import KNOWS_NOTHING
from core.service import unknown_calls
from core.service.console import Console
from core.service.service import Service
from tests.fakes.awaited import entries_when
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.scripted_device import ScriptedDevice, scripted, tool
from tests.fakes.signing import anna

# Without `terms`, so that the console keeps the timeout.
FEATURES = ["cancel", "recall"]
NAME = "lab-1"


class Lab:
    """A scripted device that knows calls, and the console that asks it."""

    def __init__(self, service: Service, console: Console, url: str, token: str) -> None:
        self.service, self.console, self._url, self._token = service, console, url, token

    @asynccontextmanager
    async def device(self) -> AsyncIterator[ScriptedDevice]:
        """The device, online."""
        async with scripted(self._url, self._token, NAME, features=FEATURES) as device:
            await stands(self.console, NAME, Health.ONLINE)
            yield device

    async def unknown(self, tool: str = "poke") -> tuple[str, str]:
        """A run of one command that the device did not answer before its link was lost; its call, too."""
        async with self.device() as device:
            run = (await self.console.runs.call(NAME, tool, {}, timeout=0.2)).summary.id
            await approve(self.console, await next_approval(self.console), anna(self.service.home))
            while (action := (await device.command())["actions"][0])["tool_name"] != tool:
                pass  # It is asked about earlier calls.
            call_id = action["call_id"]
            cell = await self.cell(run)
            assert cell.state is CellState.UNKNOWN
        await stands(self.console, NAME, Health.RECONNECTING, Health.OFFLINE)
        return run, call_id

    async def cell(self, run: str) -> Cell:
        return (await self.console.runs.wait(run, PATIENCE_S)).cells[0]

    async def late(self, count: int = 1) -> list[Entry]:
        return await entries_when(self.service.journal, f"kind:{Kind.LATE_ANSWER_RECEIVED}", count)


@pytest.fixture
async def lab(service: Service, console: Console) -> Lab:
    await console.approvals.register_operator(anna(service.home).operator)
    made = await console.devices.pair(NAME, DeviceSettings())
    return Lab(service, console, made.url, decode_pairing(made.string).token)


async def recalled(device: ScriptedDevice) -> tuple[dict[str, Any], list[str]]:
    """The next recall, and the calls that it asks for."""
    frame = await device.command()
    [ask] = frame["actions"]
    assert ask["tool_name"] == "quarterdeck.recall"
    return frame, ask["parameters"]["call_ids"]


def done(call_id: str, value: object = "done after all", status: str = "success") -> dict[str, Any]:
    return {"state": "done", "result": {"status": status, "result": value, "call_id": call_id}}


async def test_a_device_that_is_back_is_asked_and_its_answer_counts(lab: Lab) -> None:
    run, call_id = await lab.unknown()
    async with lab.device() as device:
        frame, asked = await recalled(device)
        assert asked == [call_id]
        await device.answer(frame, {call_id: done(call_id)})
        [late] = await lab.late()
    cell = await lab.cell(run)
    assert cell.state is CellState.DONE
    assert cell.result is not None
    assert (cell.result.verdict, cell.result.result) == (Verdict.UNVERIFIED, "done after all")
    assert LateAnswerReceived.read(late.body).recalled
    assert not lab.service.unknown_calls


async def test_the_first_of_two_different_answers_stands_and_the_second_is_journalled(lab: Lab) -> None:
    async with lab.device() as device:
        run = (await lab.console.runs.call(NAME, "poke", {}, timeout=0.2)).summary.id
        await approve(lab.console, await next_approval(lab.console), anna(lab.service.home))
        command = await device.command()
        call_id = command["actions"][0]["call_id"]
        assert (await lab.cell(run)).state is CellState.UNKNOWN
        frame, _ = await recalled(device)
        await device.answer(frame, {call_id: done(call_id, "first")})
        await lab.late(1)
        await device.answer(command, "second")
        first, second = await lab.late(2)
    assert LateAnswerReceived.read(first.body).outcome is not None
    assert (second.call_id, second.body["result"]) == (call_id, "second")
    assert LateAnswerReceived.read(second.body).outcome is None
    cell = await lab.cell(run)
    assert cell.result is not None
    assert cell.result.result == "first"
    record = await lab.console.journal.command(call_id)
    assert record.result is not None
    assert record.result.result == "first"


@pytest.mark.parametrize(
    "answer",
    [
        lambda call_id: {call_id: done("another")},
        lambda call_id: {call_id: {"state": "done", "result": {"status": "maybe"}}},
        lambda call_id: {call_id: {"state": "done", "result": None}},
    ],
)
async def test_an_answer_for_another_call_changes_nothing_and_is_journalled(lab: Lab, answer: Any) -> None:
    run, call_id = await lab.unknown()
    async with lab.device() as device:
        frame, _ = await recalled(device)
        await device.answer(frame, answer(call_id))
        [late] = await lab.late()
    assert late.call_id == call_id
    assert late.body["problem"]
    assert LateAnswerReceived.read(late.body).outcome is None
    assert (await lab.cell(run)).state is CellState.UNKNOWN


async def test_calls_that_it_was_not_asked_for_are_journalled_and_count_for_nothing(lab: Lab) -> None:
    first, second = await lab.unknown(), await lab.unknown()
    async with lab.device() as device:
        frame, asked = await recalled(device)
        assert asked == [first[1]]
        # Of its own calls only the one that was asked for counts, too.
        await device.answer(frame, {first[1]: done(first[1]), second[1]: done(second[1]), "x": "y"})
        [stranger] = [entry for entry in await lab.late(2) if entry.call_id is None]
        assert f"it was not asked for {second[1]}, x" in stranger.body["problem"]
        assert (await lab.cell(second[0])).state is CellState.UNKNOWN
        frame, asked = await recalled(device)
        assert asked == [second[1]]
        await device.answer(frame, {second[1]: {"state": "never_seen"}})
        await lab.late(3)
    assert (await lab.cell(first[0])).state is CellState.DONE
    assert (await lab.cell(second[0])).state is CellState.FAILED


async def test_a_device_that_says_nothing_of_the_call_is_asked_again_over_its_next_link(lab: Lab) -> None:
    run, call_id = await lab.unknown()
    async with lab.device() as device:
        frame, _ = await recalled(device)
        await device.answer(frame, {"nonsense": 1})
        await lab.late()
    await stands(lab.console, NAME, Health.RECONNECTING, Health.OFFLINE)
    async with lab.device() as device:
        frame, asked = await recalled(device)
        assert asked == [call_id]
        await device.answer(frame, {call_id: done(call_id)})
        await lab.late(2)
    assert (await lab.cell(run)).state is CellState.DONE


async def test_an_answer_to_a_recall_that_comes_after_its_time_counts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_calls, "RECALL_TIMEOUT", 0.0)
    run, call_id = await lab.unknown()
    async with lab.device() as device:
        frame, _ = await recalled(device)
        await device.answer(frame, {call_id: done(call_id)})
        [late] = await lab.late()
    assert late.call_id == call_id
    assert (await lab.cell(run)).state is CellState.DONE


async def test_never_seen_counts_only_while_the_device_would_still_know(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_results, "_NEVER_SEEN_HOLDS", timedelta(0))
    run, call_id = await lab.unknown()
    async with lab.device() as device:
        frame, _ = await recalled(device)
        await device.answer(frame, {call_id: {"state": "never_seen"}})
        [late] = await lab.late()
    cell = await lab.cell(run)
    assert cell.state is CellState.UNKNOWN
    assert cell.result is not None
    assert cell.result.basis is Basis.DEVICE_DOES_NOT_KNOW
    assert "no longer" in cell.note
    assert late.verdict == "unknown"
    # It was asked, and is not asked again.
    assert not lab.service.unknown_calls


async def test_never_seen_counts_only_if_the_records_reach_back_to_the_call(lab: Lab) -> None:
    run, call_id = await lab.unknown()
    async with lab.device() as device:
        frame, _ = await recalled(device)
        # Its database was made after the call was sent.
        told = {"state": "never_seen", "known_for_s": 0.0, "reads_known_for_s": 1_000.0}
        await device.answer(frame, {call_id: told})
        [late] = await lab.late()
    cell = await lab.cell(run)
    assert (cell.state, late.verdict) == (CellState.UNKNOWN, "unknown")
    assert cell.result is not None
    assert cell.result.basis is Basis.DEVICE_DOES_NOT_KNOW
    assert late_answer_text(late) == f"{KNOWS_NOTHING} when asked; now unknown"
    assert not lab.service.unknown_calls


async def test_a_device_that_was_paired_anew_is_not_asked_about_the_calls_of_the_one_before(lab: Lab) -> None:
    run, _ = await lab.unknown()
    assert len(lab.service.unknown_calls) == 1
    made = await lab.console.devices.pair(NAME, DeviceSettings())
    assert not lab.service.unknown_calls
    again = Lab(lab.service, lab.console, made.url, decode_pairing(made.string).token)
    async with again.device() as device:
        assert device.commands.empty()
    assert (await lab.cell(run)).state is CellState.UNKNOWN
    anew = unknown_calls.UnknownCalls(lab.service.tasks)
    await anew.restore(lab.service.journal)
    assert not anew


async def test_what_is_restored_from_the_journal_is_what_no_device_has_answered(lab: Lab) -> None:
    answered, open_ = await lab.unknown(), await lab.unknown()
    async with lab.device() as device:
        frame, asked = await recalled(device)
        assert asked == [answered[1]]
        await device.answer(frame, {answered[1]: done(answered[1])})
        await lab.late()
    anew = unknown_calls.UnknownCalls(lab.service.tasks)
    await anew.restore(lab.service.journal)
    assert anew.of(NAME) == [open_[1]]
    assert anew.from_earlier_service(open_[1])


class Swarm:
    """Links that count how many recalls are open at once, each until it is let go."""

    def __init__(self, count: int) -> None:
        self.features = frozenset({"recall"})
        self.is_open = True
        self.asked = self.at_once = self.most = 0
        self.count, self.all_asked = count, asyncio.Event()

    async def recall(self, call_ids: list[str], timeout: float) -> dict[str, Any]:
        self.asked += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.asked == self.count:
            self.all_asked.set()
        return {call_id: RecalledResult(state="never_seen") for call_id in call_ids}


async def test_a_swarm_of_unknown_calls_is_asked_about_a_few_at_a_time_and_is_bounded(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_calls, "MOST_REMEMBERED", 300)
    swarm = Swarm(300)
    calls = unknown_calls.UnknownCalls(service.tasks)
    for number in range(1_000):
        calls.add(f"d{number % 100}", f"c{number}")
    assert len(calls) == 300

    class Late:
        async def record(self, device: str, late: Any) -> None:
            calls.answered(late.call_ids[0])

    calls.begin(lambda device: swarm, Late())  # type: ignore[arg-type, return-value]
    for number in range(100):
        calls.connected(f"d{number}")
    await asyncio.wait_for(swarm.all_asked.wait(), PATIENCE_S)
    assert swarm.most <= unknown_calls.MOST_ASKED_AT_ONCE
    assert swarm.asked == 300


async def test_a_list_of_tools_that_comes_late_is_taken(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LISTING_IS_LATE", 0.05)
    async with scripted(lab._url, lab._token, NAME, ["nobody"], features=FEATURES) as device:
        await stands(lab.console, NAME, Health.OFFLINE, reason="its list of tools is awaited")
        checks = {check.name: check for check in await lab.console.devices.diagnose(NAME)}
        assert "asked for again while the link lives" in checks["tools"].next
        assert "MCP server of its agent" not in checks["tools"].next
        await device.answer(await device.listing(), device.tools)
        await stands(lab.console, NAME, Health.ONLINE)
        assert device.unanswered.empty()


async def test_a_list_of_tools_that_was_refused_is_asked_for_again_while_the_link_lives(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LIST_AGAIN_FIRST_S", 0.01)
    async with scripted(lab._url, lab._token, NAME, ["nobody"], features=FEATURES) as device:
        for _ in range(2):
            await device.answer(await device.listing(), [{"no": "tool"}])
            await stands(lab.console, NAME, Health.OFFLINE, reason="of no use yet")
        await device.answer(await device.listing(), [tool("poke")])
        await stands(lab.console, NAME, Health.ONLINE)
