"""The device client's process against consoles that send what they should not, and its command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from core.aip.frames import acknowledgement
from tests.fakes.device_process import GOOD, HERE, TOKEN, admit, device, forked_device, hear, hostile, run
from tests.fakes.patience import PATIENCE_S


async def test_every_malformed_frame_is_answered_and_the_link_goes_on(tmp_path: Path) -> None:
    async def story(connection: ServerConnection) -> None:
        await admit(connection)
        for data in ("{", "[]", '{"type":"dance","status":"ok"}', b"\xff\xfe", "[" * 5000, "7"):
            await connection.send(data)
            assert (await hear(connection))["type"] == "error"
        batch = [
            {**GOOD, "call_id": "1"},
            {**GOOD, "call_id": "2", "tool_type": "magic"},
            {**GOOD, "call_id": "3"},
        ]
        frame = {"type": "command", "status": "continue", "session_id": "s", "response_id": "r"}
        await connection.send(json.dumps({**frame, "actions": batch, "surplus": 1}))
        answer = await hear(connection)
        assert (answer["type"], answer["prev_response_id"], answer["session_id"]) == (
            "command_results",
            "r",
            "s",
        )
        assert [(result["call_id"], result["status"]) for result in answer["action_results"]] == [
            ("1", "success"),
            ("2", "failure"),
            ("3", "skipped"),
        ]
        # The same frame again: nothing runs twice.
        await connection.send(json.dumps({**frame, "actions": [batch[0]]}))
        (again,) = (await hear(connection))["action_results"]
        assert again["status"] == "failure"
        # As stock: ids that are null come back as null, and binary JSON is JSON.
        await connection.send(json.dumps({**frame, "response_id": None, "actions": [GOOD]}).encode())
        answer = await hear(connection)
        assert answer["prev_response_id"] is None
        assert answer["action_results"][0]["call_id"] is None
        await connection.send(json.dumps({**frame, "response_id": "e", "actions": None}))
        assert (await hear(connection))["action_results"] == []

    async with hostile(story) as (url, done), forked_device(url, tmp_path, TOKEN):
        async with asyncio.timeout(PATIENCE_S):
            await done


async def test_ids_that_are_no_unicode_text_cost_neither_the_link_nor_the_device(tmp_path: Path) -> None:
    half = "\ud800"
    action = {**GOOD, "tool_type": "action"}
    frames: list[dict[str, Any]] = [
        {"response_id": "a", "actions": [{**action, "call_id": half}]},
        # The second time it is refused before anything else is looked at.
        {"response_id": "a", "actions": [{**action, "call_id": half}]},
        {"response_id": half, "actions": [GOOD]},
        {"response_id": half, "actions": [GOOD] * 9_000},
        {"response_id": "b", "session_id": half, "actions": [GOOD]},
        {
            "response_id": "c",
            "actions": [{**GOOD, "tool_name": "quarterdeck.recall", "parameters": {"call_ids": [half]}}],
        },
    ]
    visits = 0

    async def story(connection: ServerConnection) -> None:
        nonlocal visits
        visits += 1
        await hear(connection)
        # Alternately as a stock console, and as one that may ask for earlier results.
        await connection.send(acknowledgement(["recall"] if visits == 2 else []))
        for frame in frames:
            await connection.send(json.dumps({"type": "command", "status": "continue", **frame}))
            said = await hear(connection)
            assert said["type"] in {"error", "command_results"}
        await connection.send(json.dumps({"type": "command", "status": "ok", "actions": [GOOD]}))
        assert (await hear(connection))["action_results"][0]["status"] == "success"
        if visits == 1:
            await connection.close()
            await connection.recv()

    async with hostile(story) as (url, done), device(url, tmp_path) as client:
        async with asyncio.timeout(PATIENCE_S):
            await done
        assert client.process.returncode is None
    assert visits == 2


async def test_an_oversized_frame_costs_the_link_but_not_the_device(tmp_path: Path) -> None:
    visits = 0

    async def story(connection: ServerConnection) -> None:
        nonlocal visits
        visits += 1
        await admit(connection)
        if visits == 1:
            await connection.send("x" * (65 * 1024 * 1024))
            await connection.recv()
        await connection.send(json.dumps({"type": "command", "status": "ok", "actions": [GOOD]}))
        assert (await hear(connection))["action_results"][0]["status"] == "success"

    async with hostile(story) as (url, done), forked_device(url, tmp_path, TOKEN):
        async with asyncio.timeout(PATIENCE_S):
            await done
    assert visits == 2


async def test_a_refused_registration_is_tried_again(tmp_path: Path) -> None:
    visits = 0

    async def story(connection: ServerConnection) -> None:
        nonlocal visits
        visits += 1
        if visits < 3:
            await hear(connection)
            await connection.send('{"type":"error","status":"error","error":"not now"}')
            await connection.wait_closed()
            raise ConnectionClosed(None, None)
        await admit(connection)

    async with hostile(story) as (url, done), forked_device(url, tmp_path, TOKEN):
        async with asyncio.timeout(PATIENCE_S):
            await done


async def test_a_task_is_sent_back_as_stock_devices_do(tmp_path: Path) -> None:
    async def story(connection: ServerConnection) -> None:
        await admit(connection)
        await connection.send(
            '{"type":"task","status":"ok","user_request":"say hi","task_name":"t","session_id":"s"}'
        )
        task = await hear(connection)
        assert (task["type"], task["request"], task["task_name"]) == ("task", "say hi", "t")

    async with hostile(story) as (url, done), forked_device(url, tmp_path, TOKEN):
        async with asyncio.timeout(PATIENCE_S):
            await done


async def test_a_path_closed_on_the_command_line_is_closed(tmp_path: Path) -> None:
    async def story(connection: ServerConnection) -> None:
        await admit(connection)
        write = {
            "tool_name": "write_file",
            "tool_type": "action",
            "parameters": {"file_path": f"{tmp_path}/root/home/journal.db", "content": "forged"},
        }
        await connection.send(json.dumps({"type": "command", "status": "ok", "actions": [write]}))
        (result,) = (await hear(connection))["action_results"]
        assert result["error"].startswith("path_not_allowed: ")

    closed = ("--closed", str(tmp_path / "root" / "home"))
    async with hostile(story) as (url, done), device(url, tmp_path, *closed):
        async with asyncio.timeout(PATIENCE_S):
            await done


def test_check_reports_tools_and_limits_and_ends(tmp_path: Path) -> None:
    ended = run("--check", "--json", "--state", str(tmp_path / "state"))
    assert ended.code == 0
    found = json.loads(ended.out)
    assert "shell_execute" in found["tools"]
    assert found["roots"]
    assert found["link"]["state"] == "none"
    told = run("--check", "--state", str(tmp_path / "state"))
    assert told.code == 0
    for missing in found["unavailable"]:
        assert missing["reason"] in told.out
        assert missing["how_to_fix"] in told.out


@pytest.mark.parametrize("text", ["roots = [", "unknown = 1", "[limits]\nmax_processes = 'many'"])
def test_a_broken_device_toml_ends_it_with_code_2_and_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "device.toml").write_text(text)
    ended = run("--connect", "ws://127.0.0.1:9/ws", "--config", str(tmp_path / "device.toml"))
    assert ended.code == 2
    assert "device.toml" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ((), ""),
        (("--connect", "http://127.0.0.1/ws"), ""),
        (("--connect", "ws://"), ""),
        (("--connect", "ws://127.0.0.1:9/ws", "--token-stdin"), ""),
        (("--connect", "ws://127.0.0.1:9/ws", "--token-stdin"), "two words\n"),
        (("--connect", "ws://127.0.0.1:9/ws", "--token-stdin"), "x" * 5000 + "\n"),
        (("--connect", "ws://127.0.0.1:9/ws", "--state", "/proc/no/such"), ""),
        (("--connect", "ws://10.0.0.7/ws"), ""),
        (("--listen", "127.0.0.1"), ""),
        (("--listen", "127.0.0.1:99999"), ""),
        (("--listen", "127.0.0.1:0", "--connect", "ws://127.0.0.1:9/ws"), ""),
        (("--listen", "127.0.0.1:0", "--pair"), ""),
        (("--listen", "127.0.0.1:7", "--pair", "qd1.x.y"), ""),
        (("--pair", "qd1.damaged.00000000"), ""),
        (("--pair", "-"), "not a pairing string\n"),
    ],
)
def test_bad_arguments_end_it_with_code_2(tmp_path: Path, arguments: tuple[str, ...], stdin: str) -> None:
    state = () if "--state" in arguments else ("--state", str(tmp_path / "state"))
    ended = run(*arguments, *state, stdin=stdin)
    assert ended.code == 2
    assert "Traceback" not in ended.err


def test_it_imports_nothing_of_the_console_but_the_wire() -> None:
    code = "import sys, core.device.__main__; print(*(m for m in sys.modules if m.startswith('core.')))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=HERE, check=True
    ).stdout.split()
    wire = ("core.aip", "core.device", "core.programs")
    # What both ends share: small, without a window, a policy or a journal in it. `core.programs` is data.
    shared = {
        "core.backoff",
        "core.canonical_json",
        "core.changes",
        "core.commitments",
        "core.confusables",
        "core.controls",
        "core.environment",
        "core.error_codes",
        "core.errors",
        "core.files",
        "core.hosted_names",
        "core.ids",
        "core.json_comments",
        "core.broken_text",
        "core.json_walk",
        "core.log",
        "core.log_library",
        "core.machine_id",
        "core.models",
        "core.models.frozen",
        "core.models.tools",
        "core.next_steps",
        "core.own_console",
        "core.private_paths",
        "core.secret_rule",
        "core.statements",
        "core.tasks",
        "core.tcp_owners",
        "core.text",
        "core.text_encodings",
        "core.token_bucket",
        "core.token_formats",
        "core.tokens",
        "core.user",
    }
    assert [name for name in loaded if not name.startswith(wire) and name not in shared] == []
    assert "core.aip.link_server" not in loaded


async def test_arguments_with_half_a_character_are_refused_and_never_changed(tmp_path: Path) -> None:
    """A stock console may send them; ours refuses them before."""
    asked = {**GOOD, "parameters": {"info_type": "memory\ud83d"}}

    async def story(connection: ServerConnection) -> None:
        await hear(connection)
        await connection.send(acknowledgement([]))
        await connection.send(json.dumps({"type": "command", "status": "continue", "actions": [asked]}))
        [result] = (await hear(connection))["action_results"]
        assert result["status"] == "failure"
        assert "not valid Unicode" in result["error"]

    async with hostile(story) as (url, done), forked_device(url, tmp_path, TOKEN):
        async with asyncio.timeout(PATIENCE_S):
            await done
