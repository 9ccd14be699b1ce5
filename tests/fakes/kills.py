"""Kill a core at a random moment and hold its journal against what the device saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind
from core.audit.journal import Journal
from core.home import Home
from core.service.recovery import recover
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, USUAL_TOOLS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One kill: what the device saw, what of it the journal lacks, and what stayed without a result."""

    seen: int
    missing: list[str]
    without_result: list[str]
    verifies: bool


@asynccontextmanager
async def victims() -> AsyncIterator[asyncio.subprocess.Process]:
    """What each victim is forked from."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.kill_victim"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        # It ends with its input.
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def kill_once(victims: asyncio.subprocess.Process, home: Home, rng: random.Random) -> Outcome:
    """Start a victim, let it run for a random while, kill it with SIGKILL, and read what it left."""
    home.create()
    home.policy.write_text('profile = "trusted"\n')
    assert victims.stdin is not None
    assert victims.stdout is not None
    victims.stdin.write(f"{home.path}\n".encode())
    async with asyncio.timeout(PATIENCE_S):
        port, token, pid = (await victims.stdout.readline()).decode().split()
        try:
            seen = await _serve(int(pid), int(port), token, rng)
            assert await victims.stdout.readline() == b"gone\n"
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            raise
    return await _compare(home, seen)


async def _serve(victim: int, port: int, token: str, rng: random.Random) -> list[str]:
    """Be the device: remember each command before answering it, until the far end is dead."""
    seen: list[str] = []
    kill_at = rng.randrange(1, 120)
    loop = asyncio.get_running_loop()
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with connect(f"ws://127.0.0.1:{port}/ws", additional_headers=headers) as link:
            await link.send(json.dumps({"type": "register", "status": "ok", "client_id": DEVICE}))
            async for frame in link:
                message = json.loads(frame)
                if message["type"] != "command":
                    continue
                seen.extend(action["call_id"] for action in message["actions"] if action["call_id"])
                if len(seen) == kill_at:
                    # A little later, so that it dies at any point of what it does next.
                    loop.call_later(rng.uniform(0, 0.012), os.kill, victim, signal.SIGKILL)
                await link.send(json.dumps(_answer(message)))
    except (ConnectionClosed, OSError):
        return seen
    return seen


def _answer(message: dict[str, object]) -> dict[str, object]:
    actions = message["actions"]
    assert isinstance(actions, list)
    results = []
    for action in actions:
        listing = action["tool_name"] == "list_tools"
        value = [info.model_dump(mode="json") for info in USUAL_TOOLS] if listing else {"ok": True}
        results.append({"status": "success", "result": value, "call_id": action["call_id"]})
    return {
        "type": "command_results",
        "status": "continue",
        "client_id": DEVICE,
        "prev_response_id": message["response_id"],
        "session_id": message["session_id"],
        "action_results": results,
    }


async def _compare(home: Home, seen: list[str]) -> Outcome:
    journal = await Journal.open(home.path, load_or_create_journal_key(home.keys / "journal.key"), "test")
    try:
        await recover(journal)
        sent: set[str] = set()
        ended: set[str] = set()
        after = 0
        while entries := (await journal.query("", after=after, limit=500)).entries:
            after = entries[-1].seq
            sent |= {one.call_id for one in entries if one.kind is Kind.COMMAND_SENT and one.call_id}
            ended |= {one.call_id for one in entries if one.kind is Kind.RESULT_RECORDED and one.call_id}
        report = await journal.verify()
    finally:
        await journal.close()
    return Outcome(
        seen=len(seen),
        missing=[call for call in seen if call not in sent],
        without_result=[call for call in seen if call not in ended],
        verifies=report.ok,
    )
