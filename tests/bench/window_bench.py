"""Start of the real window, and what window and service cost while nothing happens.

The peer of the start is an empty PySide6 window in the same run: what Qt itself takes on this machine.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from core.home import Home
from core.service.control import ensure_service, stop_service
from tests.bench.figures import Figure, Figures, Peer, Scale
from tests.bench.lines import ROOT
from tests.tour.display import some_display

STARTS = 5
IDLE_SECONDS, LEAST_IDLE_SECONDS = 10.0, 0.2
# What starts late, such as icons and the first verification, is over after that.
SETTLE_SECONDS = 3.0
EMPTY_WINDOW = (
    "import sys; from PySide6.QtWidgets import QApplication, QWidget; app = QApplication([]); "
    "w = QWidget(); w.resize(1440, 900); w.show(); w.repaint(); print('usable', flush=True); "
    "sys.stdin.readline()"
)


def run(scale: Scale) -> Figures:
    """Measure on a virtual display."""
    with some_display(1440, 900), tempfile.TemporaryDirectory(prefix="window-bench-") as folder:
        return asyncio.run(_measure(Home(Path(folder) / "home").create(), scale))


async def _measure(home: Home, scale: Scale) -> Figures:
    starts = scale.of(STARTS, 1)
    ours = [sys.executable, "-m", "tests.bench.window_probe", str(home.path)]
    empty = [sys.executable, "-c", EMPTY_WINDOW]
    async with _started(ours) as (_, cold):
        lines: Figures = [Figure("first start, service started with it", cold, "s")]
    keep = await ensure_service(home, "test", "operator:bench", stay=True)
    try:
        peer = Peer(
            "an empty Qt window", statistics.median([await _start_once(empty) for _ in range(starts)])
        )
        warm = statistics.median([await _start_once(ours) for _ in range(starts)])
        lines.append(Figure("warm start to a usable window", warm, "s", peer))
        service = psutil.Process(keep.welcome.pid)
        async with _started(ours) as (window, _):
            lines += await _idle(psutil.Process(window), service, scale)
    finally:
        await keep.close()
        await stop_service(home, cancel_work=True)
    return lines


async def _start_once(command: list[str]) -> float:
    async with _started(command) as (_, took):
        return took


@asynccontextmanager
async def _started(command: list[str]):
    """Start a window; gives its process number and the seconds until it said that it is usable."""
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "QT_LOGGING_RULES": "*=false"},
    )
    assert process.stdout is not None
    assert process.stdin is not None
    async with asyncio.timeout(60):
        assert (await process.stdout.readline()).strip() == b"usable"
    took = time.perf_counter() - started
    try:
        yield process.pid, took
    finally:
        process.stdin.write(b"end\n")
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 20)


async def _idle(window: psutil.Process, service: psutil.Process, scale: Scale) -> Figures:
    parts = {"window": [window], "service": [service], "device client": service.children()}
    await asyncio.sleep(SETTLE_SECONDS if not scale.smallest else 0.0)
    seconds = IDLE_SECONDS if not scale.smallest else LEAST_IDLE_SECONDS
    before = {name: _cpu(processes) for name, processes in parts.items()}
    await asyncio.sleep(seconds)
    shares = {name: (_cpu(processes) - before[name]) / seconds * 100 for name, processes in parts.items()}
    sizes = {
        name: sum(one.memory_full_info().uss for one in processes) / 2**20
        for name, processes in parts.items()
    }
    return [
        *(Figure(f"idle CPU, {name}", share, "%") for name, share in shares.items()),
        *(Figure(f"idle memory, {name}", size, "MB", remark="unique set") for name, size in sizes.items()),
        Figure("idle memory, window and service", sizes["window"] + sizes["service"], "MB"),
    ]


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)
