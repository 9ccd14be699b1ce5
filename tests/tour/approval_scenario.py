"""What an agent asks for, and what an operator answers: files, clicks, groups, scopes, edits."""

from __future__ import annotations

from functools import partial
from typing import Any

from PySide6.QtWidgets import QAbstractButton

from app.screens.approvals.decision_bar import ApproveButton
from app.widgets.dialog import Dialog
from app.widgets.fields import DropDown
from core.batch.models import Batch, Parallel, Run, RunState, Step
from tests.tour.context import PASSPHRASE, Scene, TourContext, says
from tests.tour.device_app import BUTTON
from tests.tour.fleet_scenario import DIALS, LISTENS, is_online
from tests.tour.ui_driver import StepDidNotHappen

_LIMITS = "\n".join(
    ["# orders-primary", *(f"option_{number:02d} = {number * 5}" for number in range(1, 25)), ""]
)
_WAIT_S = 20.0


async def back_at_work(stage: TourContext) -> None:
    """After a restart the key is locked: what the window asks for is not known to be the operator's."""
    hand = stage.hand
    await hand.until("the state was read", lambda: stage.desk.state.loaded)
    await hand.press("Operator key: harbour locked")
    await hand.write("Passphrase of harbour", PASSPHRASE)
    await hand.look("unlock")
    await hand.press("Unlock")
    await hand.until("who is at the window is proved", lambda: hand.window.identity.proved == "harbour")
    for name in (DIALS, LISTENS):
        await hand.until(f"{name} is back", partial(is_online, stage, name))


async def file_card(stage: TourContext) -> None:
    """A file on a production device: what would change stands on the card, and then it did."""
    hand = stage.hand
    path = stage.crew.folder(DIALS) / "limits.conf"
    path.write_text(_LIMITS, "utf-8")
    changed = _LIMITS.replace("option_06 = 30", "option_06 = 90").replace("option_19 = 95\n", "")
    asked = {"file_path": str(path), "content": changed}
    await ask(stage, DIALS, "write_file", asked, "Six is too small since the new load.")
    await _show_queue(stage)
    await hand.until("the change is on the card", lambda: says(hand, "option_06") or says(hand, "What would"))
    await card_is_ready(stage)
    await hand.look("approvals-file")
    await answer_by_chord(stage)
    await hand.until("the file changed", lambda: path.read_text("utf-8") == changed)


async def click_card(stage: TourContext) -> None:
    """A click on a picture: the card shows where, and afterwards the button was really pressed."""
    hand, console = stage.hand, await stage.agent()
    stage.desk.theme.set_mode("dark")
    taken = await _ended(stage, await console.runs.call(LISTENS, "screenshot", {}))
    picture = taken.cells[0].result
    if picture is None or not isinstance(picture.result, dict):
        raise StepDidNotHappen(f"{LISTENS} gave no picture")
    left, top, width, height = BUTTON
    where = {
        "x": left + width // 2,
        "y": top + height // 2,
        "observation": picture.result["observation"],
    }
    await ask(stage, LISTENS, "click_point", where, "The self-test is due.")
    await card_is_ready(stage)
    await hand.look("approvals-click")
    await answer_by_chord(stage)
    await hand.until("the button was pressed", stage.crew.mark(LISTENS).exists)


async def group_card(stage: TourContext) -> None:
    """The same for two devices: one card, one act, a signature each."""
    hand = stage.hand
    devices = (LISTENS, "this-computer")
    line = f"printf 'checked\\n' >> {stage.folder}/checked"
    steps: list[Step | Parallel] = [Step(id="check", tool="shell_execute", parameters={"command": line})]
    batch = Batch(name="Check both", targets="name:" + ",".join(devices), steps=steps)
    await (await stage.agent()).runs.start(batch)
    await hand.until("both wait", lambda: len(stage.desk.state.waiting()) == 2)
    await _show_queue(stage)
    await hand.until("one card for both", lambda: says(hand, "Approve all 2 once"))
    await hand.find(QAbstractButton, "Approve all 2 once")
    await hand.look("approvals-group")
    await answer_by_chord(stage)
    written = stage.folder / "checked"
    await hand.until("both ran", lambda: written.exists() and written.read_text("utf-8") == "checked\n" * 2)


async def grant(stage: TourContext) -> None:
    """Approved for a scope: the next identical calls run without asking; another argument asks again."""
    hand, console = stage.hand, await stage.agent()
    asked = {"command": "df -h /"}
    await ask(stage, LISTENS, "shell_execute", asked, "Watching the disk.")
    await card_is_ready(stage)
    await hand.key("G")
    sheet = await hand.find(Dialog, "Approve, and let like requests run without asking")
    await hand.find(QAbstractButton, "Approve and remember", sheet)
    # It begins with one use, as for every request of high risk.
    often = await hand.find(DropDown, "How often", sheet)
    await hand.key("Down", often)
    await hand.until("it is for five uses", lambda: often.currentText() == "5 times")
    await hand.look("approvals-grant")
    await hand.key("Ctrl+Return", sheet)
    await hand.until("it is answered", lambda: not stage.desk.state.waiting())
    again = await _ended(stage, await console.runs.call(LISTENS, "shell_execute", asked))
    if again.summary.state is not RunState.DONE:
        raise StepDidNotHappen(f"the granted call is {again.summary.state}")
    step = Step(id="again", tool="shell_execute", parameters=asked)
    planned = await console.runs.plan(Batch(name="Again", targets=f"name:{LISTENS}", steps=[step]))
    if planned.cells[0].outcome != "runs":
        raise StepDidNotHappen("a granted call would ask")


async def edit(stage: TourContext) -> None:
    """Edit, then approve: the request asks again with what the operator made of it."""
    hand, state = stage.hand, stage.desk.state
    target = stage.crew.folder(LISTENS)
    (target / "old.log").write_text("old\n", "utf-8")
    (target / "keep.txt").write_text("keep\n", "utf-8")
    wanted = f"rm -rf {target}/*"
    await ask(stage, LISTENS, "shell_execute", {"command": wanted}, "Cleaning up.")
    await card_is_ready(stage)
    await hand.look("approvals-shell")
    first = state.waiting()[0].id
    await hand.key("E")
    sheet = await hand.find(Dialog, "Edit, then approve")
    await hand.write_lines("command, required", f"rm -f {target}/old.log", sheet)
    await hand.find(QAbstractButton, "Ask again with this", sheet)
    await hand.look("approvals-edit")
    await hand.press("Ask again with this", sheet)
    await hand.until("it asks again", lambda: [one.id != first for one in state.waiting()] == [True])
    await card_is_ready(stage)
    await hand.look("approvals-edited")
    await answer_by_chord(stage)
    await hand.until("only the old file is gone", lambda: not (target / "old.log").exists())
    if not (target / "keep.txt").exists():
        raise StepDidNotHappen("what was asked for first ran")


async def ask(stage: TourContext, device: str, tool: str, parameters: dict[str, Any], said: str) -> Run:
    """The agent asks; the request is in the window's queue afterwards."""
    before = len(stage.desk.state.waiting())
    run = await (await stage.agent()).runs.call(device, tool, parameters, said=said)
    waiting = stage.desk.state.waiting
    await stage.hand.until(f"{tool} waits for an operator", lambda: len(waiting()) > before)
    return run


async def _ended(stage: TourContext, run: Run) -> Run:
    return await (await stage.agent()).runs.wait(run.summary.id, _WAIT_S)


async def card_is_ready(stage: TourContext) -> None:
    """The card's first moment, in which it takes no answer, is over."""
    await _show_queue(stage)
    await stage.hand.find(QAbstractButton, "Deny…")


async def _show_queue(stage: TourContext) -> None:
    if stage.hand.window.current.name != "approvals":
        await stage.hand.press(f"Approvals, {len(stage.desk.state.waiting())} waiting for you")


async def answer_by_chord(stage: TourContext, last: bool = True) -> None:
    """By chord, once the card takes one; `last`: nothing else waits and no other operator must answer."""
    hand, state = stage.hand, stage.desk.state
    await hand.until("the card can be approved", lambda: _can_approve(stage))
    await hand.key("Ctrl+Return", hand.window.current)
    if last:
        await hand.until("it is answered", lambda: not state.waiting())


def _can_approve(stage: TourContext) -> bool:
    buttons = stage.hand.window.current.findChildren(ApproveButton)
    return any(button.isVisible() and button.isEnabled() for button in buttons)


APPROVAL_SCENES: list[Scene] = [back_at_work, file_card, click_card, group_card, grant, edit]
