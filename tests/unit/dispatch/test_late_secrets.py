"""What a late answer repeats of a secret is in no file and in nothing that a console shows.

The devices attack: they say the secret, parts of it that no spelling finds, and what stands in a field that
it was typed into, under every name and of any call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from core.aip.pairing import decode_pairing
from core.audit.entries import Entry, Kind
from core.audit.events import LateAnswerReceived
from core.batch.models import CellState
from core.commands.results import Verdict
from core.dispatch.late_results import LEFT_OUT
from core.fleet.models import DeviceSettings
from core.home import Home
from core.ids import now_stamp
from core.models.devices import Health
from core.models.tools import BUILT_IN_NAMESPACE
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.log_setup import logging_to
from core.service.service import Service
from tests.fakes.awaited import entries_when
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import ScriptedDevice, scripted, tool
from tests.fakes.signing import anna, signing

NAME = "lab-1"
# Every part of it that a device says begins with this.
MARKER = "hunter2"
SECRET = f"{MARKER}-and-the-rest"
PART = SECRET[:-3]
UNDO = "u" * 32


def with_secret(name: str, namespace: str = "scripted") -> dict[str, Any]:
    """A tool with an argument that is secret."""
    schema = {"type": "object", "properties": {"text": {"type": "string", "writeOnly": True}}}
    return {**tool(name), "input_schema": schema, "namespace": namespace}


async def typed(
    console: Console, home: Home, device: ScriptedDevice, namespace: str = "scripted", name: str = "type_text"
) -> tuple[str, dict[str, Any]]:
    """A command with the secret that ended as unknown: its run, and the frame that the device has."""
    device.tools = [with_secret(name, namespace)]
    await stands(console, NAME, Health.ONLINE)
    run = (await console.runs.call(NAME, name, {"text": SECRET}, timeout=0.2)).summary.id
    await approve(console, await next_approval(console), anna(home))
    frame = await device.command()
    assert frame["actions"][0]["parameters"] == {"text": SECRET}
    [cell] = (await console.runs.wait(run, PATIENCE_S)).cells
    assert cell.state is CellState.UNKNOWN
    return run, frame


async def say(device: ScriptedDevice, frame: dict[str, Any], *results: dict[str, Any]) -> None:
    """Answer a frame with these results, whatever calls they name."""
    await device.say(
        type="command_results",
        client_type="device",
        client_id=NAME,
        status=frame["status"],
        session_id=frame["session_id"],
        prev_response_id=frame["response_id"],
        timestamp=now_stamp(),
        action_results=list(results),
    )


def result(call_id: str, value: object = None, error: str | None = None) -> dict[str, Any]:
    return {
        "status": "success" if error is None else "failure",
        "error": error,
        "result": value,
        "call_id": call_id,
    }


async def check_hidden(service: Service, console: Console, run: str, call_id: str) -> None:
    """No part of the secret is in a file of the home, nor in what the console shows of the run."""
    await service.journal.settle()
    shown = [
        (await console.runs.get(run)).model_dump_json(),
        (await console.journal.command(call_id)).model_dump_json(),
    ]
    shown += [entry.model_dump_json() for entry in (await service.journal.query("", limit=500)).entries]
    assert not [text for text in shown if MARKER in text]
    files = [path for path in service.home.path.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert not [path for path in files if MARKER.encode() in path.read_bytes()]


async def late(service: Service, count: int = 1) -> list[Entry]:
    return await entries_when(service.journal, f"kind:{Kind.LATE_ANSWER_RECEIVED}", count)


async def paired(console: Console, home: Home) -> tuple[str, str]:
    await console.approvals.register_operator(anna(home).operator)
    made = await console.devices.pair(NAME, DeviceSettings())
    return made.url, decode_pairing(made.string).token


@pytest.mark.parametrize(
    ("value", "error", "hidden"),
    [
        ({"typed": 9, "text_there": PART}, None, {"typed": 9, "text_there": None}),
        ({"typed": 9, "text_there": [PART]}, None, {"typed": 9, "text_there": None}),
        (None, f"tool_failed: Typed 9 of 9: the entry 'Name' now has '{PART}'", None),
    ],
)
async def test_a_late_answer_tells_nothing_of_a_field_that_a_secret_was_typed_into(
    service: Service, console: Console, value: object, error: str | None, hidden: object
) -> None:
    url, token = await paired(console, service.home)
    async with scripted(url, token, NAME) as device:
        run, frame = await typed(console, service.home, device)
        call_id = frame["actions"][0]["call_id"]
        await say(device, frame, result(call_id, value, error))
        [entry] = await late(service)
    assert entry.body.get("result") == hidden
    # What it tells of the call stays.
    assert LateAnswerReceived.read(entry.body).outcome is not None
    await check_hidden(service, console, run, call_id)


async def test_a_late_answer_tells_nothing_of_a_field_by_another_call_either(
    service: Service, console: Console
) -> None:
    url, token = await paired(console, service.home)
    async with scripted(url, token, NAME) as device:
        run, frame = await typed(console, service.home, device)
        call_id = frame["actions"][0]["call_id"]
        echo = {"typed": 9, "text_there": PART}
        await say(device, frame, result(call_id, echo), result("stranger", echo))
        own, stranger = sorted(await late(service, 2), key=lambda entry: entry.call_id or "", reverse=True)
    assert (own.call_id, stranger.call_id) == (call_id, None)
    assert own.body["result"] == stranger.body["result"] == {"typed": 9, "text_there": None}
    await check_hidden(service, console, run, call_id)


async def test_what_stands_in_a_field_stays_where_no_secret_was_typed(
    service: Service, console: Console
) -> None:
    url, token = await paired(console, service.home)
    async with scripted(url, token, NAME) as device:
        device.tools = [tool("type_text")]
        await stands(console, NAME, Health.ONLINE)
        run = (await console.runs.call(NAME, "type_text", {}, timeout=0.2)).summary.id
        await approve(console, await next_approval(console), anna(service.home))
        frame = await device.command()
        await console.runs.wait(run, PATIENCE_S)
        await device.answer(frame, {"typed": 2, "text_there": "hi"})
        [entry] = await late(service)
    assert entry.body["result"] == {"typed": 2, "text_there": "hi"}


def url_of(service: Service, before: str) -> str:
    """Where a device finds this service; the port is another one with each start."""
    port = urlsplit(service.links.listening().url).port
    return before.replace(str(urlsplit(before).port), str(port))


async def check_only_facts(memory_path: Path, namespace: str, value: Any, error: str | None) -> None:
    """A service that did not send a command records of its late answer only what can be no secret."""
    home = make_listening_home(memory_path / "home")
    with logging_to(home.path / "all.log"):
        service = await Service.open(home)
        try:
            console = signing(LocalConsole(service, "operator:anna"), home)
            url, token = await paired(console, home)
            async with scripted(url, token, NAME, features=["recall"]) as device:
                run, frame = await typed(console, home, device, namespace, "write_file")
        finally:
            await service.close()
        call_id = frame["actions"][0]["call_id"]
        service = await Service.open(home)
        try:
            console = signing(LocalConsole(service, "operator:anna"), home)
            async with scripted(url_of(service, url), token, NAME, features=["recall"]) as device:
                device.tools = [with_secret("write_file", namespace)]
                asked = await device.command()
                assert asked["actions"][0]["parameters"] == {"call_ids": [call_id]}
                told = {"state": "done", "result": result(call_id, value, error)}
                await device.answer(asked, {call_id: told})
                [entry] = await late(service)
            facts: dict[str, Any] = {"left_out": LEFT_OUT}
            if namespace == BUILT_IN_NAMESPACE and isinstance(value, dict) and value["undo"] == UNDO:
                facts |= {"exit_code": 3, "undo": UNDO}
            assert entry.body["result"] == facts
            if error is not None:
                assert LEFT_OUT in entry.body["error"]
                assert entry.body["error"].startswith("tool_failed: ")
            [cell] = (await console.runs.get(run)).cells
            assert cell.result is not None
            assert cell.result.verdict is Verdict.UNVERIFIED
            assert cell.result.result == facts
            await check_hidden(service, console, run, call_id)
        finally:
            await service.close()


@pytest.mark.parametrize("namespace", [BUILT_IN_NAMESPACE, "hosted"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (
            {
                "exit_code": 3,
                "undo": UNDO,
                "stdout": f"it is {SECRET}, or {PART}",
                "text_there": PART,
                MARKER: {"deeper": [PART]},
                "success": False,
                "error": PART,
            },
            None,
        ),
        ({"exit_code": 3, "undo": UNDO}, f"tool_failed: {PART} was refused"),
        ({"exit_code": f"3 {PART}", "undo": f"{PART}."}, None),
        ({"exit_code": 3, "undo": UNDO, "typed": PART}, f"{PART}: {SECRET}"),
        (PART, None),
    ],
)
async def test_of_a_secret_command_of_an_earlier_service_only_facts_are_recorded(
    memory_path: Path, namespace: str, value: Any, error: str | None
) -> None:
    await check_only_facts(memory_path, namespace, value, error)


async def test_a_hosted_tool_hides_no_secret_as_an_undo_id(memory_path: Path) -> None:
    await check_only_facts(memory_path, "hosted", {"exit_code": 3, "undo": PART}, None)
