"""A step between two commands in Replay, each with a picture of 1920×1080: CPU of the window's thread.

From the step until both pictures, what changed between them and the details are painted and nothing comes
any more. The window is a process of its own, whose loop is Qt's.
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
from datetime import timedelta
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QApplication

from app.overrides import install_guard
from app.qt_loop import run_on_qt
from app.screens.replay.screen import ReplayScreen
from app.screens.targets import OpenReplay
from app.theme.theme import Theme
from core.audit.entries import Kind
from tests.bench.figures import Figure, Figures, Scale
from tests.bench.lines import ROOT
from tests.fakes.bay_count import DEVICE, RUN
from tests.fakes.console import FakeConsole
from tests.fakes.journal import at
from tests.fakes.pictures import desktop_png
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen

SIZE = (1920, 1080)
COMMANDS, FEWEST = 24, 3
QUIET_S = 0.1


def run(scale: Scale) -> Figures:
    """Step through the commands of a run."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.replay_step_bench", str(scale.of(COMMANDS, FEWEST))],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_LOGGING_RULES": "*=false"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if ended.returncode:
        raise AssertionError(ended.stderr[-500:])
    steps: list[float] = json.loads(ended.stdout.splitlines()[-1])
    remark = f"most {max(steps):.1f} ms of {len(steps)}"
    return [Figure("step between commands with pictures", statistics.median(steps), "ms", None, remark)]


def add_commands(console: FakeConsole, count: int) -> int:
    """Let a run go on with commands, each of which ends with another picture of its device's screen.

    Returns the number of the first entry.
    """
    journal = console.fake_journal
    began = at(0)

    def write(seconds: float, kind: Kind, actor: str, **fields: Any) -> None:
        journal.write(kind, actor, began + timedelta(seconds=seconds), run=RUN, **fields)

    first = journal.status.entries + 1
    for number in range(count):
        place = {"step": f"s{number}", "device": DEVICE, "call_id": f"c-step-{number}", "tool": "screenshot"}
        body = {"tool_type": "data_collection", "parameters": {}}
        write(number + 0.1, Kind.COMMAND_PREPARED, "agent:clerk", body=body, **place)
        write(number + 0.2, Kind.COMMAND_SENT, "service", **place)
        blob = journal.add_blob(desktop_png(f"{DEVICE} {number}", lines=8 + number, size=SIZE))
        evidence = {"blob": blob, "media_type": "image/png", "width": SIZE[0], "height": SIZE[1]}
        write(
            number + 0.8,
            Kind.RESULT_RECORDED,
            f"device:{DEVICE}",
            status="success",
            verdict="confirmed",
            body={"result": {"evidence": [evidence], "result": {}}},
            blobs=[blob],
            **place,
        )
    return first


async def steps_ms(theme: Theme, folder: Path, commands: int) -> list[float]:
    """The milliseconds of each step but the first."""
    console = story()
    first = add_commands(console, commands)
    async with open_frame(theme, folder, console) as desk:
        desk.window.open("replay", OpenReplay(run=RUN, at=first))
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        await seen(lambda: screen.reel is not None and screen.place > 0)
        await quiet(screen)
        # The first picture is compared with one of another size.
        await step(screen)
        return [await step(screen) for _ in range(commands - 1)]


async def step(screen: ReplayScreen) -> float:
    """Go to the next picture; gives the milliseconds of this thread's CPU until all of it is painted."""
    pictures = screen.pictures
    before = pictures.after.blob
    began = time.thread_time()
    screen.next_change(1)
    assert pictures.after.blob != before, "there is no further picture"
    await seen(lambda: not pictures.changed.image().isNull() and not pictures.after.image().isNull())
    await quiet(screen)
    return (time.thread_time() - began) * 1000


async def quiet(screen: ReplayScreen) -> None:
    """Wait until no picture comes any more: the ones for the next steps are read ahead."""
    came = asyncio.Event()

    def note() -> None:
        came.set()

    screen.shelf.came.connect(note)
    try:
        while True:
            came.clear()
            await asyncio.wait_for(came.wait(), QUIET_S)
    except TimeoutError:
        pass
    finally:
        screen.shelf.came.disconnect(note)


def main(commands: int) -> None:
    """Print the milliseconds as one JSON line."""
    install_guard()
    app = QApplication(sys.argv[:1])
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=app)
    theme.apply(app)

    async def measure(folder: Path) -> None:
        print(json.dumps(await steps_ms(theme, folder, commands)), flush=True)

    with tempfile.TemporaryDirectory(prefix="replay-step-bench-") as folder:
        run_on_qt(app, measure(Path(folder)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
