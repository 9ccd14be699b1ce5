"""The agent that asked for things is looked at: what it said, sent and did; then it is held, and goes on."""

from __future__ import annotations

from PySide6.QtWidgets import QTableView

from core.errors import ErrorCode, Refused
from tests.tour.context import Scene, TourContext, says
from tests.tour.signing import sign
from tests.tour.ui_driver import StepDidNotHappen


async def said_and_done(stage: TourContext) -> None:
    """Everything that the agent asked for, and one of its commands in full."""
    hand = stage.hand
    await hand.press("Agents")
    table = await hand.find(QTableView, "What the agent asked for")
    await hand.until("what the agent asked for was read", lambda: table.model().rowCount() > 3)
    await hand.until("it is connected", lambda: says(hand, "State: connected"))
    await hand.look("agents")
    await hand.press("Limits and connections", hand.window.current)
    await hand.look("agents-limits")


async def held(stage: TourContext) -> None:
    """A paused agent gets nothing; it goes on once that is signed."""
    hand, console = stage.hand, await stage.agent()
    await hand.press("Said and done", hand.window.current)
    await hand.press("Pause", hand.window.current)
    await hand.until("it is paused", lambda: says(hand, "State: paused, connected"))
    table = await hand.find(QTableView, "What the agent asked for")
    before = table.model().rowCount()
    try:
        await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
    except Refused as refused:
        if refused.code is not ErrorCode.AGENT_PAUSED:
            raise
    else:
        raise StepDidNotHappen("a paused agent was not refused")
    await hand.until("the refusal is in the list", lambda: table.model().rowCount() > before)
    await hand.look("agents-paused")
    await hand.press("Let it go on…", hand.window.current)
    await sign(stage)
    await hand.until("it may ask again", lambda: says(hand, "State: connected"))


AGENT_SCENES: list[Scene] = [said_and_done, held]
