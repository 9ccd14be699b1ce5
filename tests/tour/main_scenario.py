"""The story: from a fresh home to a batch approved, looked at, replayed, and still there after a restart."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QPlainTextEdit, QTabBar, QTableView, QWidget

from core.batch.models import CellState, RunState, RunSummary
from core.models.devices import Health
from tests.tour.context import PASSPHRASE, Scene, TourContext, says
from tests.tour.signing import sign
from tests.tour.ui_driver import StepDidNotHappen, UiDriver

WRITTEN = "note.txt"


async def first_run(stage: TourContext) -> None:
    """A fresh home: this computer comes online by itself; the operator makes a key and takes a picture."""
    hand, state = stage.hand, stage.desk.state
    await hand.until(
        "this computer is online",
        lambda: any(device.health is Health.ONLINE for device in state.devices.values()),
    )
    stage.desk.theme.set_mode("light")
    await hand.write("Your name on approvals", "harbour")
    await hand.write("Passphrase", PASSPHRASE)
    await hand.look("first-run")
    await hand.press("Create key")
    await hand.until("the key is registered", lambda: bool(state.operators))
    await hand.press("Take a picture")
    await hand.until("the first picture", lambda: any(device.picture for device in state.devices.values()))
    await hand.look("first-run-done")
    stage.desk.theme.set_mode("dark")
    await hand.press("Open the fleet")


async def fleet(stage: TourContext) -> None:
    """The one device, its health, its tools with their contracts."""
    hand = stage.hand
    table = await hand.find(QTableView, "Devices")
    await hand.choose(table, "this-computer")
    await hand.look("fleet")
    await hand.key("Return", table)
    tools = await hand.find(QTableView, "All tools of the device")
    await hand.choose(tools, "shell_execute")
    await hand.look("fleet-tool-contract")
    await hand.key("Escape", hand.window)


async def batch(stage: TourContext) -> None:
    """Three steps with forms from the tools' schemas, their plan, and Run."""
    hand = stage.hand
    await hand.press("Batch")
    await hand.look("batch-empty")
    await _add_step(hand, "get_system_info")
    await hand.pick("info_type, required", "memory")
    await _add_step(hand, "screenshot")
    await _add_step(hand, "shell_execute")
    await hand.write_lines("command, required", _shell_line(stage))
    # Beside its steps it has a column with why one will not go.
    plan = await hand.find(QTableView, "Plan: what each step would do on each device")
    await hand.until("the plan has three steps", lambda: plan.model().columnCount() >= 4)
    await hand.until("the shell step asks", lambda: says(hand, "1 ask"))
    await hand.look("batch")
    await hand.press("Run on 1")


async def run_waits(stage: TourContext) -> None:
    """The reads are done at once; the shell step waits for the operator."""
    hand, state = stage.hand, stage.desk.state
    await hand.until("a request waits", lambda: bool(state.waiting()))
    await hand.until("the run is on the screen", lambda: hand.window.current.name == "runs")
    await hand.until("the reads are done", lambda: _latest(stage).counts.get(CellState.DONE) == 2)
    await hand.look("runs-waiting")


async def approve(stage: TourContext) -> None:
    """The card with the exact bytes; approved by chord."""
    hand, state = stage.hand, stage.desk.state
    await hand.press("Approvals, 1 waiting for you")
    await hand.find(QPlainTextEdit, "Exactly what will be sent")
    await hand.find(QAbstractButton, "Approve once")
    await hand.look("approvals")
    if (stage.folder / WRITTEN).exists():
        raise StepDidNotHappen("the command ran before it was approved")
    await hand.key("Ctrl+Return")
    await hand.until("the request is answered", lambda: not state.waiting())
    await hand.until("the run is done", lambda: _latest(stage).state is RunState.DONE)
    await hand.until("the file is written", (stage.folder / WRITTEN).exists)


async def result(stage: TourContext) -> None:
    """The run as a matrix, the result as a tree, the screenshot full size and zoomed."""
    hand = stage.hand
    await hand.press("Runs")
    cells = await hand.find(QTableView, "Cells of the run")
    await _open_cell(hand, cells, 0)
    await hand.press("Result")
    await hand.look("runs-result")
    await _open_cell(hand, cells, 2)
    await hand.press("Decision")
    await hand.look("runs-decision")
    await _open_cell(hand, cells, 1)
    await hand.press("Picture")
    await hand.look("runs-picture")
    await hand.press("100 %")
    await hand.press("Closer")
    await hand.look("runs-picture-zoomed")


async def replay(stage: TourContext) -> None:
    """Step through what happened, with pictures."""
    hand = stage.hand
    await hand.press("Replay", hand.window.current)
    await hand.until("the replay is on the screen", lambda: hand.window.current.name == "replay")
    await hand.find(QAbstractButton, "Previous entry")
    await hand.look("replay")
    film = await hand.find(QWidget, "Film strip")
    for _ in range(6):
        await hand.key("Left", film)
    await hand.look("replay-earlier")


async def deny(stage: TourContext) -> None:
    """The same again, denied with a reason: nothing is sent, and everything says so."""
    hand, state = stage.hand, stage.desk.state
    (stage.folder / WRITTEN).unlink()
    await hand.press("Batch")
    await hand.press("Run on 1")
    await hand.until("a request waits", lambda: bool(state.waiting()))
    await hand.press("Approvals, 1 waiting for you")
    await hand.find(QAbstractButton, "Deny…")
    await hand.key("D")
    await hand.write("Reason for denying", "Not on a Friday.")
    await hand.look("approvals-deny")
    await hand.key("Return")
    await hand.until("the run is refused", lambda: _latest(stage).state is RunState.REFUSED)
    if (stage.folder / WRITTEN).exists():
        raise StepDidNotHappen("a denied command ran")
    await hand.press("Runs")
    cells = await hand.find(QTableView, "Cells of the run")
    await _open_cell(hand, cells, 2)
    await hand.look("runs-denied")


async def journal(stage: TourContext) -> None:
    """Search, one entry with its proof, and verification, in the light theme."""
    hand = stage.hand
    stage.desk.theme.set_mode("light")
    await hand.press("Journal")
    await hand.press("Verify again")
    await hand.write("Query", "tool:shell_execute ")
    await hand.key("Return")
    rows = await hand.find(QTableView, "Entries")
    await hand.until("entries are found", lambda: rows.model().rowCount() > 0)
    await hand.choose(rows, "result recorded")
    tabs = await hand.find(QTabBar, "About the entry")
    tabs.setCurrentIndex(1)
    await hand.until("the proof holds", lambda: says(hand, "In the journal, unchanged."))
    await hand.look("journal")


async def palette(stage: TourContext) -> None:
    """Everything from one field; it never sends."""
    hand = stage.hand
    await hand.press("Fleet")
    await hand.key("Ctrl+K", hand.window)
    await hand.find(QLineEdit, "Find")
    await hand.type("shell")
    await hand.look("palette")
    await hand.key("Escape")


async def stop_all(stage: TourContext) -> None:
    """One chord; a banner says what was stopped and offers to resume."""
    hand, state = stage.hand, stage.desk.state
    await hand.key("Ctrl+Shift+X", hand.window)
    await hand.until("everything is stopped", lambda: state.stopped)
    await hand.look("stopped")
    await hand.press("Resume…")
    await sign(stage, "sign-resume")
    await hand.until("commands may leave again", lambda: not state.stopped)


async def settings(stage: TourContext) -> None:
    """Appearance, operators, this computer, policy."""
    await stage.hand.press("Settings")
    await stage.hand.look("settings")


SCENES: list[Scene] = [
    first_run,
    fleet,
    batch,
    run_waits,
    approve,
    result,
    replay,
    deny,
    journal,
    palette,
    stop_all,
    settings,
]


async def _add_step(hand: UiDriver, tool: str) -> None:
    await hand.write("Search tools", tool)
    await hand.key("Return")
    await hand.until(f"the step {tool} is open", lambda: says(hand, tool))


async def _open_cell(hand: UiDriver, cells: QTableView, column: int) -> None:
    index = cells.model().index(0, column)
    if not index.isValid():
        raise StepDidNotHappen(f"the run has no column {column}")
    cells.setFocus(Qt.FocusReason.TabFocusReason)
    cells.setCurrentIndex(index)
    await hand.key("Return", cells)


def _latest(stage: TourContext) -> RunSummary:
    return stage.desk.state.runs_newest_first()[0]


def _shell_line(stage: TourContext) -> str:
    return f"printf 'written by an approved command\\n' > {stage.folder / WRITTEN}"
