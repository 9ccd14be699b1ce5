"""Real MCP servers, as processes, behind a real router: what they send, and what becomes of them."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from core.aip.messages import Command, Result, ResultStatus
from core.device.mcp.server_state import State, Timing
from core.errors import ErrorCode
from core.tasks import TaskGroupOwner
from tests.fakes.desk import Whistle
from tests.fakes.device_process import device, running_console
from tests.fakes.mcp_hosted import QUICK, TOKEN, Hosted, code, hosted
from tests.fakes.mcp_server import SCRIPT, proper, rogue
from tests.fakes.mcp_web import Web, web_server
from tests.fakes.patience import PATIENCE_S


def picture() -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(held, "PNG")
    return held.getvalue()


async def speaks_every_kind(built: Hosted) -> None:
    sent = picture()
    result = await built.call("kinds", picture=base64.b64encode(sent).decode())
    assert result.status is ResultStatus.SUCCESS, result.error
    assert result.result["structured"] == {"zero": 0, "no": False, "empty": "", "list": [], "nothing": None}
    words, image, sound, embedded, packed, link = result.result["content"]
    assert words == {"type": "text", "text": ""}
    assert (image["type"], image["media_type"]) == ("image", "image/png")
    assert base64.b64decode(image["data_base64"]) == sent
    assert (sound["type"], sound["media_type"]) == ("audio", "audio/wav")
    assert base64.b64decode(sound["data_base64"]) == b"RIFF"
    assert embedded == {"type": "resource", "uri": "x:text", "media_type": "text/plain", "text": ""}
    assert (packed["type"], packed["uri"], packed["media_type"]) == ("resource", "x:blob", "application/zip")
    assert base64.b64decode(packed["data_base64"]) == b"PK\x03\x04"
    assert link == {"type": "resource_link", "uri": "x:link", "name": "link", "size": 0}
    assert result.namespace == "proper"


async def behaves(built: Hosted, whistle: Whistle) -> None:
    """What is the same over both transports."""
    assert {info.tool_type for info in map(built.tool, ("kinds", "waited"))} == {"data_collection"}
    assert built.tool("fail").tool_type == "action"
    assert built.tool("kinds").title == "To kinds"
    await speaks_every_kind(built)
    failed = await built.call("fail")
    assert code(failed) is ErrorCode.TOOL_FAILED
    assert "it went wrong" in (failed.error or "")
    assert failed.result["content"][0]["text"] == "it went wrong"
    await built.call("steps")
    assert built.progress == [("step 1", 1, 3), ("step 2", 2, 3), ("step 3", 3, 3)]
    tasks = TaskGroupOwner("test")
    running = tasks.spawn("wait", built.call("wait", call_id="long", fifo=str(whistle.path)))
    await whistle.blown()
    assert (await built.call("waited")).result["structured"] == {"waited": 1}
    assert built.router.executor.cancel("long")
    # Whether it stopped, the server does not say.
    assert code(await running) is ErrorCode.OUTCOME_UNKNOWN
    async with asyncio.timeout(PATIENCE_S):
        while (await built.call("waited")).result["structured"] != {"waited": 0}:
            pass
    before = built.announcements
    await built.call("grow")
    await built.until(lambda: "grown" in built.names("proper"))
    assert built.announcements == before + 1
    await tasks.close()


@pytest.mark.story
async def test_a_server_over_stdio_does_all_that_mcp_has(tmp_path: Path, whistle: Whistle):
    async with hosted(tmp_path, proper()) as built:
        await behaves(built, whistle)
        lost = await built.call("end")
        assert code(lost) is ErrorCode.OUTCOME_UNKNOWN
        await speaks_every_kind(built)


@asynccontextmanager
async def http_server(**options: Any) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", SCRIPT, "http", json.dumps(options)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield int(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("json_answers", [False, True])
async def test_a_server_over_http_does_the_same(tmp_path: Path, whistle: Whistle, json_answers: bool):
    secret = f"Bearer {TOKEN}"
    async with http_server(token=secret, json=json_answers) as port:
        entry = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": secret}}
        async with hosted(tmp_path, {"proper": entry}, replace(QUICK, give_up_after=1000)) as built:
            if json_answers:
                # Such an answer has no room for progress or for news.
                await speaks_every_kind(built)
                return
            await behaves(built, whistle)
            # That it is found again when it comes back is shown in test_mcp_web, with a server that is quick.
            assert code(await built.call("end")) is ErrorCode.OUTCOME_UNKNOWN


async def test_an_http_server_that_refuses_us_is_given_up_on_without_a_word_of_the_token(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    shut = Web(answers=lambda message, headers: (401, {}, headers["authorization"].encode()))
    async with web_server(shut):
        entry = {**shut.entry["web"], "headers": {"Authorization": f"Bearer {TOKEN}"}}
        async with hosted(tmp_path, {"shut": entry}) as built:
            await built.until(lambda: built.state("shut") is State.FAILED)
            [row] = [row for row in built.router.unavailable if row.tool == "shut"]
            assert row.reason
            assert row.how_to_fix
            assert TOKEN not in repr(built.host.states()) + repr(row)
    said = capfd.readouterr()
    assert TOKEN not in said.out + said.err


async def test_falsy_values_and_arguments_arrive_as_they_were_sent(tmp_path: Path):
    falsy: list[dict[str, Any]] = [
        {"content": [{"type": "text", "text": ""}]},
        {"content": [], "structuredContent": {}},
        {"content": [], "structuredContent": {"value": 0}},
        {"content": [], "structuredContent": [False, None, "", 0, 0.5]},
        {"content": [], "structuredContent": False},
        {"content": [], "structuredContent": None},
        {"content": []},
    ]
    odd = {"a": None, "b": [None, {"c": ""}], "d": 2**60, "e": "ä\u2028"}
    async with hosted(tmp_path, rogue(tools=["say"])) as built:
        for answer in falsy:
            result = await built.call("say", answer=answer)
            assert result.status is ResultStatus.SUCCESS, answer
            expected = {"content": answer["content"]}
            if "structuredContent" in answer:
                expected["structured"] = answer["structuredContent"]
            assert json.dumps(result.result) == json.dumps(expected)
        result = await built.call("say", answer={"content": [], "structuredContent": odd})
        assert result.result["structured"] == odd


async def test_what_the_output_schema_does_not_allow_is_a_failure_that_says_so(tmp_path: Path):
    async with hosted(tmp_path, rogue(tools=["say_typed"])) as built:
        good = await built.call("say_typed", answer={"content": [], "structuredContent": {"count": 0}})
        assert good.result["structured"] == {"count": 0}
        for answer in (
            {"content": [], "structuredContent": {"count": "many"}},
            {"content": [], "structuredContent": {}},
            {"content": []},
            {"content": "nonsense", "structuredContent": {"count": 1}},
        ):
            bad = await built.call("say_typed", answer=answer)
            assert code(bad) is ErrorCode.BAD_RESULT, answer
            # It ran, and what came of it is shown all the same.
            shown = None if answer["content"] == "nonsense" else answer.get("structuredContent")
            assert (bad.result or {}).get("structured") == shown
        told = await built.call(
            "say_typed", answer={"content": [{"type": "text", "text": "no"}], "isError": True}
        )
        assert code(told) is ErrorCode.TOOL_FAILED


async def test_a_server_that_dies_in_a_call_leaves_it_unknown_whatever_it_called_it_and_others_alone(
    tmp_path: Path,
):
    servers = rogue("bad", tools=["die", "die_reading"]) | rogue("good", tools=["say"])
    async with hosted(tmp_path, servers) as built:
        assert code(await built.call("die")) is ErrorCode.OUTCOME_UNKNOWN
        fine = await built.call("say", answer={"content": []})
        assert fine.status is ResultStatus.SUCCESS
        assert code(await built.call("die_reading")) is ErrorCode.OUTCOME_UNKNOWN
        # It was started again in between, and its tools were offered all the time.
        assert built.names("bad") == {"die", "die_reading"}
        assert [state.restarts for state in built.host.states()] == [1, 0]


async def test_a_server_that_was_ready_is_started_again_soon_however_often_it_ends(tmp_path: Path):
    # As one behind an address that is restarted some times in a minute; so many failed starts were the end.
    timing = replace(QUICK, give_up_after=2)
    async with hosted(tmp_path, rogue(tools=["die", "say"]), timing) as built:
        [die] = [info.tool_name for info in built.router.tools() if info.tool_name.endswith("die")]
        for _time in range(4):
            assert code(await built.call(die)) is ErrorCode.OUTCOME_UNKNOWN
            await built.until(lambda: built.state("rogue") is not State.READY)
            assert built.state("rogue") is not State.FAILED
            assert [row.tool for row in built.router.unavailable].count("rogue") == 1
            await built.until(lambda: built.state("rogue") is State.READY)
        assert "rogue" not in [row.tool for row in built.router.unavailable]


async def test_a_call_that_hangs_is_ended_by_the_deadline_and_the_server_is_told(tmp_path: Path):
    async with hosted(tmp_path, rogue(tools=["hang", "hang_reading", "cancelled"])) as built:
        assert code(await built.call("hang_reading", deadline_s=0.2)) is ErrorCode.OUTCOME_UNKNOWN
        assert code(await built.call("hang", deadline_s=0.2)) is ErrorCode.OUTCOME_UNKNOWN
        said = await built.call("cancelled")
        assert len(said.result["structured"]["cancelled"]) == 2
        assert [state.restarts for state in built.host.states()] == [0]


async def test_the_task_of_a_cancelled_action_can_do_other_things_afterwards(
    tmp_path: Path, whistle: Whistle
):
    async with hosted(tmp_path, rogue(tools=["hang", "say"])) as built:

        async def both() -> tuple[Result, Result]:
            first = await built.call("hang", call_id="h", fifo=str(whistle.path))
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            return first, await built.call("say", answer={"content": []})

        tasks = TaskGroupOwner("test")
        running = tasks.spawn("both", both())
        await whistle.blown()
        assert built.router.executor.cancel("h")
        first, second = await running
        assert code(first) is ErrorCode.OUTCOME_UNKNOWN
        assert second.status is ResultStatus.SUCCESS
        await tasks.close()


async def test_a_slow_server_holds_up_no_other_and_changes_no_name_when_it_is_ready(tmp_path: Path):
    os.mkfifo(tmp_path / "gate")
    servers = rogue("slow", fifo=str(tmp_path / "gate")) | rogue("quick", tools=["say"])
    async with hosted(tmp_path, servers, wait=False) as built:

        def listed(server: str) -> set[str]:
            return {info.tool_name for info in built.router.tools() if info.namespace == server}

        assert "screenshot" in {info.tool_name for info in built.router.tools()} | {
            row.tool for row in built.router.unavailable
        }
        await built.until(lambda: listed("quick") == {"quick_say"})
        assert built.state("slow") is State.STARTING
        assert (await built.call("quick_say", answer={"content": []})).status is ResultStatus.SUCCESS
        await asyncio.to_thread((tmp_path / "gate").write_text, "go")
        await built.until(lambda: "slow_say" in listed("slow"))
        assert listed("quick") == {"quick_say"}


async def test_a_server_that_is_never_ready_is_given_up_on_with_its_last_words_and_no_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    servers = rogue("dead", env={"TOKEN": TOKEN}, dead=True) | {
        "missing": {"command": "/no/such/program"},
        "line": {"command": "npx -y a-server"},
        "nowhere": {"command": sys.executable, "cwd": "/no/such/folder"},
    }
    async with hosted(tmp_path, servers, wait=False) as built:
        await built.until(lambda: {built.state(name) for name in servers} == {State.FAILED})
        rows = {row.tool: row for row in built.router.unavailable}
        assert "cannot go on: ***" in rows["dead"].reason
        assert "No such file" in rows["missing"].reason
        assert rows["dead"].how_to_fix
        assert rows["missing"].how_to_fix
        assert "in args" in rows["line"].how_to_fix
        assert "cwd is not a folder: /no/such/folder" in rows["nowhere"].reason
        assert "cwd" in rows["nowhere"].how_to_fix
        assert TOKEN not in repr(built.host.states()) + repr(rows)
    said = capfd.readouterr()
    assert TOKEN not in said.out + said.err


async def test_a_hanging_start_is_bounded(tmp_path: Path):
    os.mkfifo(tmp_path / "gate")
    timing = Timing(start_s=0.3, back_off=(0.01, 0.02), give_up_after=1)
    async with hosted(tmp_path, rogue("slow", fifo=str(tmp_path / "gate")), timing) as built:
        assert built.state("slow") is State.FAILED
        assert "not ready within 0.3 s" in next(
            row.reason for row in built.router.unavailable if row.tool == "slow"
        )


async def test_a_changed_list_is_announced_once_and_only_when_it_changed(tmp_path: Path):
    async with hosted(tmp_path, rogue(tools=["grow"])) as built:
        before = built.announcements
        await built.call("grow", names=["fresh", "remote", "bad_schema", "wordy", "long"])
        await built.until(lambda: built.names("rogue") == {"grow", "fresh", "long"})
        assert built.announcements == before + 1
        refused = {row.tool for row in built.router.unavailable}
        assert {"remote", "bad_schema", "wordy"} <= refused
        await built.call("grow", names=["fresh", "remote", "bad_schema", "wordy", "long"])
        await built.call("grow", names=["other"])
        await built.until(lambda: built.names("rogue") == {"grow", "other"})
        assert built.announcements == before + 2
        assert "remote" not in {row.tool for row in built.router.unavailable}


async def test_the_client_as_a_process_offers_the_tools_of_a_server_to_a_console(tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": rogue(tools=["say", "child"])}))
    (tmp_path / "device.toml").write_text(f'roots = ["{tmp_path}/root"]\nmcp_servers = "mcp.json"\n')
    async with running_console() as console, device(console.server.url, tmp_path) as process:
        link = await console.link()
        await process.says("MCP server ready")
        content = {"content": [{"type": "text", "text": "over the wire"}], "structuredContent": 0}

        async def ask(tool: str, **given: Any) -> Result:
            command = Command(
                tool_name=tool, tool_type="action", parameters=given, call_id=os.urandom(8).hex()
            )
            return (await link.send_commands([command], PATIENCE_S))[0]

        result = await ask("rogue_say", answer=content)
        assert result.result == {
            "content": [{"type": "text", "text": "over the wire"}],
            "structured": 0,
        }
        numbers = (await ask("rogue_child")).result["structured"]
        process.process.terminate()
        await process.ended()
        assert not any(
            psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE
            for number in numbers.values()
        )
