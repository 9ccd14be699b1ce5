"""The table console answers as it is told, and fails a test that does not fit the API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.commands.results import CommandResult
from core.errors import BadInput, DeviceError, Refused, ServiceError
from core.fleet.models import Pairing
from core.models.devices import Device, Health
from core.service.console import DeviceForgotten, RunPage
from tests.fakes.table_console import Call, Misuse, TableConsole

HERE = Device(name="here", health=Health.ONLINE, since="2026-01-01T00:00:00Z")


async def misused(console: TableConsole, call: Any) -> str:
    """What is wrong with a call, which is forgotten for the end of this test."""
    with pytest.raises(Misuse) as caught:
        await call(console)
    with pytest.raises(Misuse):
        Misuse.check()
    return str(caught.value)


async def test_a_value_is_answered_an_error_is_raised_and_a_function_gets_what_it_names():
    console = TableConsole(
        {
            "match_devices": [HERE],
            "doctor": DeviceError("here is offline."),
            "runs": lambda limit, active: [] if (limit, active) == (50, True) else None,
        }
    )
    assert await console.devices.match("all") == [HERE]
    with pytest.raises(DeviceError):
        await console.devices.diagnose("here")
    assert await console.runs.list(active=True) == []
    assert console.asked == ["match_devices", "doctor", "runs"]
    assert console.calls[-1] == Call("runs", {"before": None, "limit": 50, "active": True})
    assert console.calls_of("match_devices") == [{"targets": "all"}]


async def test_a_method_of_a_subclass_is_in_the_table_until_a_test_answers_otherwise():
    class Console(TableConsole):
        async def on_batches(self) -> list[str]:
            return ["one"]

    console = Console()
    assert await console.runs.batch_names() == ["one"]
    console.answer("batches", ["two"])
    assert await console.runs.batch_names() == ["two"]


async def test_what_comes_back_is_what_json_leaves_of_the_answer():
    found = [HERE]
    answer = await TableConsole({"match_devices": found}).devices.match("all")
    assert answer == found
    assert answer[0] is not HERE
    assert await TableConsole({"blob": b"\x00\xff"}).journal.blob("ab") == b"\x00\xff"


async def test_a_call_fails_once_waits_or_finds_the_connection_lost():
    console = TableConsole({"batches": []})
    console.fail_next["batches"] = Refused("Not now.")
    with pytest.raises(Refused):
        await console.runs.batch_names()
    go = console.hold_back("batches")
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(console.runs.batch_names())
        await asyncio.sleep(0)
        assert console.asked == ["batches"] * 2
        assert not call.done()
        go.set()
    assert call.result() == []
    console.lose()
    with pytest.raises(ServiceError):
        await console.runs.batch_names()
    console.come_back()
    assert await console.runs.batch_names() == []


async def test_events_reach_every_listener_until_the_connection_is_lost_or_closed():
    console = TableConsole()
    one, other = console.events(), console.events()
    console.emit(DeviceForgotten(name="here"))
    assert await anext(one) == await anext(other) == DeviceForgotten(name="here")
    console.lose("It ended.")
    with pytest.raises(ServiceError, match="It ended"):
        await anext(one)
    last = console.events()
    await console.close()
    assert [event async for event in last] == []


async def test_an_agent_may_call_what_the_api_lets_agents_call():
    console = TableConsole({"batches": [], "grants": []})
    console.actor = "agent:x"
    assert await console.runs.batch_names() == []
    with pytest.raises(Refused, match="may not"):
        await console.approvals.grants()


@pytest.mark.parametrize(
    ("answers", "call", "words"),
    [
        ({}, lambda console: console.runs.batch_names(), "no answer to it"),
        ({"tools": []}, lambda console: console.devices.tools(), "missing a required argument"),
        ({"tools": []}, lambda console: console.devices.tools("x", 2), "too many positional"),
        ({"tools": []}, lambda console: console.devices.tools(name="x"), "missing a required"),
        ({"tools": []}, lambda console: console.devices.tools(device=5), "tools: device has another type"),
        ({"batches": None}, lambda console: console.runs.batch_names(), "The answer to batches has another"),
        ({"batches": [1]}, lambda console: console.runs.batch_names(), "The answer to batches has another"),
        ({"match_devices": (HERE,)}, lambda console: console.devices.match(""), "has another type"),
        (
            {"match_devices": [HERE.model_copy(update={"health": "well"})]},
            lambda console: console.devices.match(""),
            "cannot be read",
        ),
        (
            {"find_runs": CommandResult.model_construct()},
            lambda console: console.runs.find("x"),
            "instance of RunPage",
        ),
    ],
)
async def test_what_does_not_fit_the_api_is_refused(answers: dict[str, Any], call: Any, words: str):
    assert words in await misused(TableConsole(answers), call)


def test_a_table_with_an_unknown_method_or_a_function_of_unknown_arguments_is_refused():
    for answers, words in (
        ({"tool": []}, "no method 'tool'"),
        ({"tools": lambda computer: []}, "no argument computer"),
        ({"find_runs": lambda words, page: RunPage(runs=[])}, "no argument page"),
    ):
        with pytest.raises(Misuse, match=words):
            TableConsole(answers)
    with pytest.raises(Misuse, match="tools has no argument computer"):

        class Drifted(TableConsole):
            async def on_tools(self, computer: str) -> list[Pairing]:
                return []

    with pytest.raises(Misuse):
        Misuse.check()


def test_what_is_no_event_is_refused():
    with pytest.raises(Misuse, match="no event of the API"):
        TableConsole().emit(HERE)  # type: ignore[arg-type]
    with pytest.raises(Misuse):
        Misuse.check()


async def test_what_has_no_json_form_is_bad_input_as_of_a_service():
    console = TableConsole({"call": None})
    for value in (float("nan"), "\ud800"):
        with pytest.raises(BadInput):
            await console.runs.call("here", "echo", {"x": value})
    assert console.calls == []


def test_every_test_ends_with_a_look_at_what_did_not_fit(request: pytest.FixtureRequest):
    assert "_fakes_of_the_console_fit_its_api" in request.fixturenames
