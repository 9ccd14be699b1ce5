"""What is still there when service and window have ended and been started again."""

from __future__ import annotations

from PySide6.QtWidgets import QTableView

from core.batch.models import RunState
from tests.tour.context import Scene, TourContext, says
from tests.tour.fleet_scenario import DIALS, is_online
from tests.tour.ui_driver import StepDidNotHappen


async def still_there(stage: TourContext) -> None:
    """The runs, with their results and pictures, from the journal alone."""
    hand, state = stage.hand, stage.desk.state
    await hand.until("the state was read", lambda: state.loaded)
    states = [run.state for run in state.runs_newest_first() if run.kind == "batch"]
    if states[-2:] != [RunState.REFUSED, RunState.DONE]:
        raise StepDidNotHappen(f"after the restart the runs are {states}")
    await hand.press("Runs")
    await hand.find(QTableView, "Cells of the run")
    await hand.look("after-restart-runs")
    await hand.press("Replay", hand.window.current)
    await hand.look("after-restart-replay")


async def small_window(stage: TourContext) -> None:
    """Each screen in a window of 1280 by 720."""
    hand = stage.hand
    hand.window.resize(1280, 720)
    for screen in ("Batch", "Approvals", "Runs", "Replay", "Journal", "Agents", "Fleet"):
        await hand.press(screen)
        if screen == "Batch":
            await hand.until("the plan is made", lambda: says(hand, "1 ask"))
        if screen == "Fleet":
            await hand.until(f"{DIALS} is back", lambda: is_online(stage, DIALS))
        await hand.look(f"small-{screen.lower()}")


AFTER_RESTART: list[Scene] = [still_there, small_window]
