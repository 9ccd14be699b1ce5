"""The smaller ways in which a secret could come back: late, in progress, with the end of a link, in the log.

The service is real, and so is the WebSocket; the device does as it is told.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from core.aip.pairing import decode_pairing
from core.audit.entries import Kind
from core.commands import live_secrets
from core.commands.request import CommandRequest
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Health
from core.service.console import Console
from core.service.log_setup import logging_to
from core.service.service import Service
from core.token_formats import MASK
from tests.fakes.awaited import entries_when
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.rig import DEVICE, open_rig, tool_info
from tests.fakes.scripted_device import ScriptedDevice, scripted

SAID = "tr0ub4dor&3"
FEATURES = ["terms", "progress", "cancel"]
ALLOWS = '[[rule]]\nid = "all"\ndecision = "allow"\ntool = "poke"\nrisk = ["low", "medium", "high"]\n'


@asynccontextmanager
async def a_device(service: Service, console: Console) -> AsyncIterator[ScriptedDevice]:
    """A device that takes any argument of its one tool; it runs unasked."""
    await console.policy.save(ALLOWS, (await console.policy.text()).digest)
    made = await console.devices.pair("lab-1", DeviceSettings())
    token = decode_pairing(made.string).token
    async with scripted(made.url, token, "lab-1", features=FEATURES) as device:
        await stands(console, "lab-1", Health.ONLINE)
        yield device


async def in_journal(service: Service) -> str:
    await service.journal.settle()
    page = await service.journal.query("", after=0, limit=500)
    return "\n".join(entry.model_dump_json() for entry in page.entries)


async def test_a_late_answer_is_masked_by_what_its_device_and_its_run_were_sent(
    service: Service, console: Console
) -> None:
    async with a_device(service, console) as device:
        run = await console.runs.call("lab-1", "poke", {"password": SAID}, timeout=0.2)
        frame = await device.command()
        assert frame["actions"][0]["parameters"] == {"password": SAID}
        await console.runs.wait(run.summary.id, PATIENCE_S)
        await device.answer(frame, {"said": f"it was {SAID}", "log": "x" * 70_000 + SAID})
        [late] = await entries_when(service.journal, f"kind:{Kind.LATE_ANSWER_RECEIVED}", 1)
        assert late.body["result"]["said"] == f"it was {MASK}"
        for sha in late.blobs:
            assert SAID.encode() not in await service.journal.get_blob(sha)
        assert SAID not in await in_journal(service)


async def test_a_secret_in_a_failure_that_only_the_payload_tells_is_masked(home: Home) -> None:
    home.policy.write_text(ALLOWS)
    poke = tool_info("poke", "action", {"password": {"type": "string"}})
    async with open_rig(home, [poke]) as rig:
        rig.tools.answers["poke"] = lambda command: {"success": False, "error": f"{SAID} is refused"}
        result = await rig.call("poke", password=SAID)
        assert result.error is not None
        assert result.error.message == f"The tool says it did not succeed: {MASK} is refused"
        assert SAID not in result.model_dump_json()


async def test_progress_that_cuts_a_secret_in_two_shows_neither_half(
    service: Service, console: Console
) -> None:
    async with a_device(service, console) as device:
        run = await console.runs.call("lab-1", "poke", {"password": SAID})
        frame = await device.command()
        call_id = frame["actions"][0]["call_id"]
        parts = ["begun\n", "using tr0u", "b4do", "r&3 now\n", f"{SAID} and {SAID[:5]}", "\n", "done\n"]
        for seq, text in enumerate(parts):
            await device.say(
                type="quarterdeck.progress", call_id=call_id, seq=seq, stream="stdout", text=text, unit=SAID
            )
        shown: list[str] = []
        events = console.events()
        async with asyncio.timeout(PATIENCE_S):
            while not (await console.runs.get(run.summary.id)).cells[0].output_tail.endswith("done\n"):
                shown.append((await anext(events)).model_dump_json())
        [cell] = (await console.runs.get(run.summary.id)).cells
        assert cell.output_tail == f"begun\nusing {MASK} now\n{MASK} and tr0ub\ndone\n"
        assert "tr0ub4" not in "".join(shown)
        await device.answer(frame, {"done": True})
        await console.runs.wait(run.summary.id, PATIENCE_S)
        assert "tr0ub4" not in await in_journal(service)


async def test_why_a_device_went_does_not_say_what_it_was_sent(service: Service, console: Console) -> None:
    async with a_device(service, console) as device:
        await console.runs.call("lab-1", "poke", {"password": SAID})
        await device.command()
        await device.connection.close(1000, f"crashed on {SAID}")
        lost = await stands(console, "lab-1", Health.RECONNECTING, Health.OFFLINE)
    assert "crashed on" in lost.reason
    assert SAID not in lost.model_dump_json()
    assert SAID not in await in_journal(service)


async def test_a_frame_that_breaks_the_protocol_says_nothing_in_the_log_or_the_result(
    service: Service, console: Console, tmp_path: Path
) -> None:
    with logging_to(tmp_path / "service.log"):
        async with a_device(service, console) as device:
            run = await console.runs.call("lab-1", "poke", {"password": SAID})
            frame = await device.command()
            await device.say(
                type="error", client_id="lab-1", status="error", error=f"{SAID} broke it", timestamp="x"
            )
            await device.say(
                type="command_results",
                client_id="lab-1",
                status=SAID,
                prev_response_id=frame["response_id"],
                action_results=SAID,
            )
            ended = await console.runs.wait(run.summary.id, PATIENCE_S)
            structlog.get_logger("t").warning("words of a device", words=[{"a": f"is {SAID}"}], token="x")
    log = (tmp_path / "service.log").read_text()
    assert f"is {MASK}" in json.loads(log.splitlines()[-1])["words"][0]["a"]
    assert SAID not in log
    assert SAID not in ended.model_dump_json()
    assert SAID not in await in_journal(service)


def test_tokens_do_not_reach_the_log_whoever_writes_it(tmp_path: Path) -> None:
    token = "ghp_" + "a1" * 18
    with logging_to(tmp_path / "service.log"):
        log = structlog.get_logger("t")
        log.info(f"told {token}", words=f"x={token}")
        try:
            raise ValueError(f"bad token {token}")
        except ValueError:
            log.exception("it failed")
    text = (tmp_path / "service.log").read_text()
    assert token not in text
    assert "bad token" in text


async def test_a_result_with_something_masked_says_so(home: Home) -> None:
    tool = tool_info("poke", "action", {"word": {"type": "string", "writeOnly": True}})
    async with open_rig(home, [tool]) as rig:
        rig.use_policy(ALLOWS)
        rig.tools.answers["poke"] = lambda command: {"was": command.parameters, "and": SAID}
        result = await rig.call("poke", word=SAID)
        assert result.result == {"was": {"word": MASK}, "and": MASK}
        assert "masked in 2 places" in result.note
        rig.tools.answers["poke"] = lambda command: {"fine": 1}
        assert (await rig.call("poke", word=SAID)).note == ""


async def test_a_commands_own_secrets_count_however_many_were_sent_meanwhile(home: Home) -> None:
    tool = tool_info("poke", "action", {"word": {"type": "string", "writeOnly": True}})
    async with open_rig(home, [tool]) as rig:
        rig.use_policy(ALLOWS)
        gate, begun = asyncio.Event(), asyncio.Event()

        async def slow(command: Any) -> Any:
            if command.parameters["word"] == SAID:
                begun.set()
                await gate.wait()
            return dict(command.parameters)

        rig.tools.answers["poke"] = slow
        first = rig.start("poke", word=SAID)
        await begun.wait()
        for number in range(live_secrets.MOST_OF_EACH + 1):
            await rig.call("poke", word=f"another-{number:04}")
        gate.set()
        assert (await first).result == {"word": MASK}
        assert SAID not in str(await rig.entries())


class TestToolsThatAreNotThere:
    IF = "x-quarterdeck-secret-if"

    async def test_a_tool_that_is_away_masks_as_it_was_when_it_was_trusted(self, home: Home) -> None:
        typing = tool_info(
            "type_text",
            "action",
            {"text": {"type": "string", self.IF: "secret"}, "secret": {"type": "boolean"}},
        )
        async with open_rig(home, [typing]):
            pass
        given = {"text": SAID, "secret": True}
        async with open_rig(home, [tool_info("other")]) as rig:
            assert "type_text" not in {tool.tool_name for tool in rig.fleet.tools(DEVICE)}
            shown, said = await rig.dispatcher.redacted([DEVICE], "type_text", given, f"typing {SAID}")
            assert shown["text"].keys() == {"$secret"}
            assert (shown["secret"], said) == (True, f"typing {MASK}")
            plain, _ = await rig.dispatcher.redacted([DEVICE], "type_text", {"text": "hello"})
            assert plain == {"text": "hello"}

    async def test_a_tool_that_another_device_has_masks_as_that_one_says(self, home: Home) -> None:
        async with open_rig(home, [tool_info("log_in", "action", {"x": {"writeOnly": True}})]) as rig:
            rig.fleet.add("lab-2", [])
            shown, _ = await rig.dispatcher.redacted(["lab-2"], "log_in", {"x": SAID, "y": "plain"})
            assert shown["x"].keys() == {"$secret"}
            assert shown["y"] == "plain"

    async def test_of_a_tool_that_was_never_known_only_names_and_types_are_kept(self, home: Home) -> None:
        async with open_rig(home) as rig:
            given = {"text": SAID, "secret": True, "n": 4711, "l": [SAID], "large": "x" * 5_000}
            shown, said = await rig.dispatcher.redacted([DEVICE], "tpye_text", given, f"typing {SAID}")
            assert shown == {
                "text": "str",
                "secret": "bool",
                "n": "int",
                "l": "list",
                "large": "str, 5,000 long",
            }
            assert said == f"typing {MASK}"
            result = await rig.dispatcher.dispatch(
                CommandRequest(DEVICE, "tpye_text", given, "operator:anna")
            )
            assert result.error is not None
            entries = str(await rig.entries())
            assert SAID not in entries
            assert "'text': 'str'" in entries

    async def test_arguments_that_no_call_could_have_are_only_named(self, home: Home) -> None:
        async with open_rig(home) as rig:
            deep: Any = SAID
            for _ in range(300):
                deep = [deep]
            for odd in ({"command": deep}, {"command": {"$secret": SAID}}, {"password": float("nan")}):
                shown, _ = await rig.dispatcher.redacted([DEVICE], "shell_execute", odd)
                assert shown.keys() == odd.keys()
                assert SAID not in str(shown)
                assert all(isinstance(value, str) for value in shown.values())
