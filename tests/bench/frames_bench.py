"""What the window's thread does in one go, in time of its processor, each against the same in plain Qt.

`make test` holds the same work to numbers of calls, which see neither Qt's own work nor a slow call.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QApplication, QFormLayout, QLabel, QLineEdit, QTableView, QWidget

from app.forms import SchemaForm
from app.overrides import install_guard
from app.qt_loop import run_on_qt
from app.screens.fleet.screen import FleetScreen
from app.theme.theme import Theme
from core.service.console import DeviceChanged
from tests.bench.figures import Figure, Figures, Peer, Scale
from tests.bench.lines import ROOT
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import many_devices
from tests.fakes.story import story
from tests.fakes.window import open_window, seen

DEVICES, FEWEST_DEVICES, COLUMNS = 1_000, 20, 9
ROUNDS = 5
FIELDS = {
    "as many fields as a form shows": 119,
    "as many parts as a schema may have": 3_900,
}


def run(scale: Scale) -> Figures:
    """Measure in a process of its own, whose loop is Qt's."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.frames_bench", str(scale.of(DEVICES, FEWEST_DEVICES))],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_LOGGING_RULES": "*=false"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if ended.returncode:
        raise AssertionError(ended.stderr[-500:])
    rows = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
    return [Figure(name, ours, "ms", Peer(peer, peer_ms)) for name, ours, peer, peer_ms in rows]


def best_ms(work: Callable[[], object]) -> float:
    """The least of some rounds, in milliseconds of this thread's processor."""
    times = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times) * 1000


async def longest_turn_ms(until: Callable[[], object]) -> float:
    """The most that this thread does between two ticks of its loop, until something holds."""
    worst = 0.0
    async with asyncio.timeout(120):
        while not until():
            began = time.thread_time()
            await asyncio.sleep(0.002)
            worst = max(worst, time.thread_time() - began)
    return worst * 1000


def tell(name: str, ours_ms: float, peer: str, peer_ms: float) -> None:
    """Print a figure as a JSON line."""
    # What takes less than a millisecond is measured too roughly to be a peer.
    print(json.dumps([name, ours_ms, peer, max(1.0, peer_ms)]), flush=True)


def plain_table(devices: int) -> QTableView:
    """Qt's own table of as many devices."""
    table, model = QTableView(), QStandardItemModel(devices, COLUMNS)
    for row in range(devices):
        for column in range(COLUMNS):
            model.setItem(row, column, QStandardItem(f"value {row} {column}"))
    table.setModel(model)
    model.setParent(table)
    table.resize(1000, 700)
    table.show()
    return table


def plain_form() -> QWidget:
    """As many fields as a form shows, of Qt's own."""
    form = QWidget()
    layout = QFormLayout(form)
    for number in range(FIELDS["as many fields as a form shows"]):
        layout.addRow(QLabel(f"field {number}"), QLineEdit())
    form.show()
    form.grab()
    return form


async def fleet(theme: Theme, folder: Path, devices: int) -> None:
    console = FakeConsole(many_devices(devices), story().operators)
    async with open_window(theme, folder, console) as desk:
        desk.window.open("fleet")
        screen = desk.window.current
        assert isinstance(screen, FleetScreen)
        began = time.thread_time()
        table = plain_table(devices)
        filled = (time.thread_time() - began) * 1000
        painted = best_ms(table.viewport().grab)
        for wall in (False, True):
            screen.show_as(wall)
            view, name = screen.listing.view, "tiles" if wall else "a table"
            await seen(lambda view=view: screen.listing.shown_count() == devices and view.isVisible())
            tell(f"devices painted as {name}", best_ms(view.viewport().grab), "a plain table", painted)
            changed = [
                device.model_copy(update={"tool_count": device.tool_count + 1 + wall})
                for device in console.fleet.values()
            ]
            shown: list[None] = []
            screen.listing.filled.connect(lambda shown=shown: shown.append(None))
            for device in changed:
                console.emit(DeviceChanged(device=device))
            longest = await longest_turn_ms(lambda shown=shown: shown)
            tell(f"devices change at once, longest turn, {name}", longest, "a plain table filled", filled)
        table.deleteLater()


async def forms() -> None:
    began = time.thread_time()
    plain = plain_form()
    peer = (time.thread_time() - began) * 1000
    for name, count in FIELDS.items():
        form = SchemaForm()
        form.resize(420, 700)
        form.show()
        form.set_schema(
            {
                "type": "object",
                "properties": {f"p{n}": {"type": "string", "maxLength": 9} for n in range(count)},
            }
        )
        longest = await longest_turn_ms(lambda form=form: form.is_checked)
        tell(f"a form, longest turn, {name}", longest, "119 plain fields made at once", peer)
        form.deleteLater()
    plain.deleteLater()


def main() -> int:
    install_guard()
    app = QApplication(sys.argv[:1])
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=app)
    theme.apply(app)
    with tempfile.TemporaryDirectory(prefix="frames-bench-") as folder:
        run_on_qt(app, fleet(theme, Path(folder), int(sys.argv[1])))
    run_on_qt(app, forms())
    return 0


if __name__ == "__main__":
    sys.exit(main())
