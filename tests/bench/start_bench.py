"""The processor time that programs without a window take to start and answer, and the wait at a TAB.

A service runs already. The peers are a bare interpreter, an empty typer program, and the SDK's empty server.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from core.completion.scripts import VARIABLE, Shell
from core.environment import TOKEN_VARIABLE
from core.home import Home
from core.service.control import ensure_service, stop_service
from tests.bench.figures import Figure, Figures, Peer, Scale
from tests.bench.lines import PATIENCE, ROOT
from tests.fakes.agents import attached_agent

ROUNDS = 7
BARE = ("-c", "pass")
CONSOLE_API = ("-c", "import core.service.console")
EMPTY_TYPER = (
    "-c",
    "import typer; app = typer.Typer(); app.command()(lambda: print('nothing')); app()",
)
# A TAB behind `quarterdeck call`: the devices, from the service.
COMPLETION = ("-m", "app")
EMPTY_SERVER = ("-m", "tests.bench.empty_mcp")
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "0"},
}
_FIRST_REQUESTS = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def run(scale: Scale) -> Figures:
    """Start each program some times, in turn."""
    with tempfile.TemporaryDirectory(prefix="start-bench-") as folder:
        return asyncio.run(_measure(Home(Path(folder) / "home").create(), scale.of(ROUNDS, 1)))


async def _measure(home: Home, rounds: int) -> Figures:
    keep = await ensure_service(home, "test", "operator:anna", stay=True)
    try:
        agent, token = await attached_agent(home, keep)
        await agent.close()
        devices = ("-m", "app", "--home", str(home.path), "devices")
        gateway = ("-m", "app", "gateway", "--as", "claude", "--home", str(home.path))
        times: dict[tuple[str, ...], list[float]] = {}
        waits: dict[tuple[str, ...], list[float]] = {}
        for _ in range(rounds):
            for program in (BARE, CONSOLE_API, EMPTY_TYPER, devices):
                times.setdefault(program, []).append(await _to_the_end(program))
            for program in (EMPTY_TYPER, COMPLETION):
                waits.setdefault(program, []).append(
                    await asyncio.to_thread(_seconds_until_told, program, home)
                )
            for server in (EMPTY_SERVER, gateway):
                times.setdefault(server, []).append(await _until_it_answers(server, {TOKEN_VARIABLE: token}))
    finally:
        await keep.close()
        await stop_service(home, cancel_work=True)
    medians = {program: statistics.median(took) for program, took in times.items()}
    bare = Peer("a bare interpreter", medians[BARE])
    typer = Peer("an empty typer program", medians[EMPTY_TYPER])
    sdk = Peer("the SDK's empty server", medians[EMPTY_SERVER])
    waited = {program: statistics.median(all_took) for program, all_took in waits.items()}
    return [
        Figure(
            "completion of a device at a TAB",
            waited[COMPLETION],
            "s",
            Peer("an empty typer program", waited[EMPTY_TYPER]),
        ),
        Figure("import of core.service.console, CPU", medians[CONSOLE_API], "s", bare),
        Figure("quarterdeck devices, CPU", medians[devices], "s", typer),
        Figure("gateway, CPU until it answers", medians[gateway], "s", sdk),
    ]


async def _to_the_end(words: tuple[str, ...]) -> float:
    """Seconds of CPU of a program, from its start to its end."""
    return await asyncio.to_thread(_waited_for, words)


def _waited_for(words: tuple[str, ...]) -> float:
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    pid = os.posix_spawn(sys.executable, (sys.executable, *words), environment, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"{' '.join(words)} ended with {status}"
    return usage.ru_utime + usage.ru_stime


def _seconds_until_told(words: tuple[str, ...], home: Home) -> float:
    """Seconds from the start of a program to its end, asked as a shell asks at a TAB."""
    typed = "\0".join(("--home", str(home.path), "call", "", ""))
    started = time.perf_counter()
    done = subprocess.run(
        (sys.executable, *words),
        input=typed.encode(),
        env={**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: Shell.ZSH.value},
        stdout=subprocess.PIPE,
        check=True,
    )
    took = time.perf_counter() - started
    assert words != COMPLETION or b"this-computer" in done.stdout, "the service offered nothing in time"
    return took


async def _until_it_answers(words: tuple[str, ...], more: Mapping[str, str]) -> float:
    """Seconds of CPU of an MCP server, until it has said which tools it has."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **more},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for request in _FIRST_REQUESTS:
            process.stdin.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            answers = [json.loads(await process.stdout.readline())["result"] for _ in range(2)]
        assert "serverInfo" in answers[0], answers
        assert answers[1]["tools"], answers
        used = psutil.Process(process.pid).cpu_times()
    finally:
        process.stdin.close()
        await process.wait()
    return used.user + used.system
