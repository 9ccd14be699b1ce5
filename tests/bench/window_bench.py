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

from app.tour.display import some_display
from core.home import Home
from core.service.control import ensure_service, stop_service
from tests.bench.journal_bench import Figures

STARTS = 5
IDLE_SECONDS = 10.0
ROOT = Path(__file__).parents[2]
EMPTY_WINDOW = (
    "import sys; from PySide6.QtWidgets import QApplication, QWidget; app = QApplication([]); "
    "w = QWidget(); w.resize(1440, 900); w.show(); w.repaint(); print('usable', flush=True); "
    "sys.stdin.readline()"
)


def run() -> Figures:
    """Measure on a virtual display; gives names and figures to print."""
    with some_display(1440, 900), tempfile.TemporaryDirectory(prefix="window-bench-") as folder:
        return asyncio.run(_measure(Home(Path(folder) / "home").create()))


async def _measure(home: Home) -> Figures:
    figures: Figures = []
    ours = [sys.executable, "-m", "tests.bench.window_probe", str(home.path)]
    empty = [sys.executable, "-c", EMPTY_WINDOW]
    async with _started(ours) as (_, cold):
        figures.append(("first start, service started with it", f"{cold:.2f} s"))
    keep = await ensure_service(home, "test", "operator:bench", stay=True)
    try:
        peer = [await _start_once(empty) for _ in range(STARTS)]
        warm = [await _start_once(ours) for _ in range(STARTS)]
        figures.append(("an empty Qt window (peer)", f"{statistics.median(peer):.2f} s median"))
        figures.append(
            ("start to usable window, warm (goal: under 1.0 s)", f"{statistics.median(warm):.2f} s median")
        )
        service = psutil.Process(keep.welcome.pid)
        async with _started(ours) as (window, _):
            figures += await _idle(psutil.Process(window), service)
    finally:
        await keep.close()
        await stop_service(home, cancel_work=True)
    return figures


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


async def _idle(window: psutil.Process, service: psutil.Process) -> Figures:
    device = service.children()
    parts = {"window": [window], "service": [service], "device client": device}
    await asyncio.sleep(3.0)  # what starts late, such as icons and the first verification, is over
    before = {name: _cpu(processes) for name, processes in parts.items()}
    await asyncio.sleep(IDLE_SECONDS)
    figures: Figures = []
    for name, processes in parts.items():
        share = (_cpu(processes) - before[name]) / IDLE_SECONDS * 100
        figures.append((f"idle CPU, {name} (goal: under 1 %)", f"{share:.2f} %"))
    sizes = {
        name: sum(one.memory_full_info().uss for one in processes) / 2**20
        for name, processes in parts.items()
    }
    for name, size in sizes.items():
        figures.append((f"idle memory, {name} (unique set size)", f"{size:.0f} MB"))
    both = sizes["window"] + sizes["service"]
    figures.append(("window and service together (goal: under 220 MB)", f"{both:.0f} MB"))
    return figures


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


if __name__ == "__main__":
    for name, figure in run():
        print(f"{name:60} {figure}")
