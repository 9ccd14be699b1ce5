"""Answers that come when nobody waits any more: journalled, and the first tells an unknown outcome."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from core.aip.extensions import pack_blob
from core.aip.link_events import LateAnswer
from core.aip.messages import Result, ResultStatus
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.models import Page
from core.commands.live_secrets import LiveSecrets
from core.commands.results import Verdict
from core.dispatch.late_results import LateResults
from core.errors import JournalUnavailable
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.service.console import Console
from core.service.service import Service
from core.tasks import TaskGroupOwner
from tests.fakes.awaited import entries_when
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.scripted_device import ScriptedDevice, scripted
from tests.fakes.signing import anna


async def given_up(service: Service, console: Console, device: ScriptedDevice) -> tuple[dict[str, Any], str]:
    """A command that the device has, of a run that has ended without its answer; its frame and call id."""
    await stands(console, "lab-1", Health.ONLINE)
    run = await console.runs.call("lab-1", "poke", {}, timeout=0.2)
    key = anna(service.home)
    await console.approvals.register_operator(key.operator)
    await approve(console, await next_approval(console), key)
    frame = await device.command()
    ended = await console.runs.wait(run.summary.id, PATIENCE_S)
    [cell] = ended.cells
    assert cell.result is not None
    assert cell.result.verdict is Verdict.UNKNOWN
    return frame, frame["actions"][0]["call_id"]


async def late_entries(service: Service, count: int = 1) -> list[Entry]:
    """Late answers as the journal has them, newest first, as soon as there are so many."""
    return (await entries_when(service.journal, f"kind:{Kind.LATE_ANSWER_RECEIVED}", count))[::-1]


async def pairing(console: Console) -> tuple[str, str]:
    from core.aip.pairing import decode_pairing

    made = await console.devices.pair("lab-1", DeviceSettings())
    return made.url, decode_pairing(made.string).token


@pytest.mark.parametrize("features", [{}, {"features": ["terms", "cancel", "binary"]}])
async def test_a_late_answer_has_an_entry_of_its_own_and_tells_the_unknown_outcome(
    service: Service, console: Console, features: dict[str, Any]
) -> None:
    url, token = await pairing(console)
    async with scripted(url, token, "lab-1", **features) as device:
        frame, call_id = await given_up(service, console, device)
        await device.answer(frame, {"pressed": True})
        [entry] = await late_entries(service)
        record = await console.journal.command(call_id)
    assert (entry.device, entry.call_id, entry.tool, entry.status) == ("lab-1", call_id, "poke", "success")
    assert entry.run
    assert entry.step
    assert entry.actor == "device:lab-1"
    assert entry.body["result"] == {"pressed": True}
    assert entry.body["outcome"]["status"] == "success"
    assert "result" not in entry.body["outcome"]
    assert [one.kind for one in record.entries][-2:] == [Kind.RESULT_RECORDED, Kind.LATE_ANSWER_RECEIVED]
    assert record.result is not None
    assert (record.result.verdict, record.result.result) == (Verdict.UNVERIFIED, {"pressed": True})


async def test_a_late_answer_with_a_failure_inside_is_a_failure(service: Service, console: Console) -> None:
    url, token = await pairing(console)
    async with scripted(url, token, "lab-1") as device:
        frame, _ = await given_up(service, console, device)
        await device.answer(frame, {"success": False, "error": "the arm is stuck"})
        [entry] = await late_entries(service)
    assert entry.status == "failure"
    assert entry.body["problem"] == "The tool says it did not succeed: the arm is stuck"
    assert entry.body["result"] == {"success": False, "error": "the arm is stuck"}


async def test_a_late_answer_over_the_next_link_is_known_too(service: Service, console: Console) -> None:
    url, token = await pairing(console)
    async with scripted(url, token, "lab-1") as device:
        frame, call_id = await given_up(service, console, device)
    await stands(console, "lab-1", Health.RECONNECTING, Health.OFFLINE)
    async with scripted(url, token, "lab-1") as device:
        await stands(console, "lab-1", Health.ONLINE)
        await device.answer(frame, "done after all")
        [entry] = await late_entries(service)
    assert (entry.call_id, entry.body["result"]) == (call_id, "done after all")


async def test_a_late_picture_and_a_long_text_are_blobs(service: Service, console: Console) -> None:
    url, token = await pairing(console)
    async with scripted(url, token, "lab-1", features=["binary"]) as device:
        frame, _ = await given_up(service, console, device)
        sha, blob = pack_blob(png(), "image/png")
        await device.connection.send(blob)
        await device.answer(frame, {"shot": {"$blob": sha}, "log": "x" * 100_000})
        [entry] = await late_entries(service)
    assert entry.body["result"]["shot"]["blob"] == sha
    assert entry.body["result"]["log"]["size"] == 100_000
    assert set(entry.blobs) == {one["blob"] for one in entry.body["evidence"]}
    assert await service.journal.get_blob(sha) == png()


async def test_an_answer_that_cannot_be_read_is_an_entry_as_well(service: Service, console: Console) -> None:
    url, token = await pairing(console)
    async with scripted(url, token, "lab-1") as device:
        frame, call_id = await given_up(service, console, device)
        await device.say(
            type="command_results",
            client_id="lab-1",
            status="ok",
            prev_response_id=frame["response_id"],
            action_results="what?",
        )
        [entry] = await late_entries(service)
    assert entry.call_id == call_id
    assert entry.status is None
    assert entry.body["problem"].startswith("it is not AIP")


class Journal:
    """A journal in memory, which may be out of reach."""

    def __init__(self) -> None:
        self.entries: list[NewEntry] = []
        self.kept: list[NewEntry] = []
        self.asked: list[str] = []
        self.down = False

    async def put_blob(self, data: bytes) -> str:
        if self.down:
            raise JournalUnavailable("The disk is full.")
        return "0" * 64

    async def settle(self) -> None:
        return None

    async def query(self, query: str, *, after: int | None = None, limit: int = 1) -> Page:
        self.asked.append(query)
        return Page(
            entries=[],
            count=0,
            count_exact=True,
            complete=True,
            searched_to=0,
            next_before=None,
            next_after=None,
            took_ms=0.0,
        )

    def note_late(self, entries: list[NewEntry]) -> None:
        (self.kept if self.down else self.entries).extend(entries)


async def recorded(journal: Journal, late: LateAnswer) -> None:
    tasks = TaskGroupOwner("test")
    late_answers = LateResults(journal, tasks, LiveSecrets())
    late_answers.take("d1", late)
    await late_answers.done()
    await tasks.close()


def success(call_id: str, value: Any) -> Result:
    return Result(status=ResultStatus.SUCCESS, result=value, call_id=call_id)


async def test_a_result_counts_only_for_a_call_that_was_in_its_frame() -> None:
    journal = Journal()
    await recorded(journal, LateAnswer(("a", "b"), (success("b", 1), success("stranger", 2)), "odd"))
    told = [(one.call_id, one.body.get("result"), one.body.get("problem")) for one in journal.entries]
    assert told == [("a", None, "odd"), ("b", 1, "odd"), (None, 2, "it names call stranger")]


async def test_a_call_id_never_becomes_a_part_of_a_query() -> None:
    journal = Journal()
    odd = 'x" OR run:"r-1'
    await recorded(journal, LateAnswer((odd, "b"), (success(odd, 1), success("b", 2))))
    assert [(one.call_id, one.run) for one in journal.entries] == [(odd, None), ("b", None)]
    [asked] = journal.asked
    assert asked.startswith('call:"b" kind:')


async def test_what_is_no_json_is_said_and_not_written() -> None:
    journal = Journal()
    await recorded(journal, LateAnswer(("a",), (success("a", float("nan")),)))
    [entry] = journal.entries
    assert "result" not in entry.body
    assert "not a JSON number" in entry.body["problem"]


async def test_while_the_disk_is_full_the_entry_is_kept() -> None:
    journal = Journal()
    journal.down = True
    await recorded(journal, LateAnswer(("a",), (success("a", "x" * 100_000),)))
    [entry] = journal.kept
    assert entry.call_id == "a"
    assert "could not be kept" in entry.body["problem"]


def png() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(data, "PNG")
    return data.getvalue()
