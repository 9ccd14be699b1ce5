"""Rules: written, checked, tried on the journal and saved; then two operators, grants, and why."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QPlainTextEdit, QTableView

from app.widgets.dialog import Dialog
from tests.tour.approval_scenario import ask, card_is_ready
from tests.tour.context import Scene, TourContext, says
from tests.tour.fleet_scenario import DIALS, LISTENS
from tests.tour.signing import pending_policy, sign
from tests.tour.ui_driver import StepDidNotHappen, UiDriver

# Where two must approve, the operator whose agent asks does not count.
OTHERS = {"bosun": "any port in a storm", "mate": "one hand for the ship"}
RULES = """
[[rule]]
id = "two-for-production"
decision = "ask"
production = true
tool = "shell_execute"
approvers = 2
reason = "Two operators look at each line that runs in production."

[[rule]]
id = "no-system-files"
decision = "deny"
tool = ["write_file", "shell_execute"]
reason = "System files are managed elsewhere."
[rule.parameters.file_path]
below = "/etc"
[[rule.match]]
tool = "write_file"
parameters = {file_path = "/etc/hosts"}
[[rule.not_match]]
tool = "write_file"
parameters = {file_path = "/etcetera"}
"""
# Too wide: the time machine shows that a person said no to what it would let run.
TOO_WIDE = """
[[rule]]
id = "printing-is-harmless"
decision = "allow"
tool = "shell_execute"
risk = ["high"]
[rule.parameters.command]
pattern = "^printf "
"""


async def more_operators(stage: TourContext) -> None:
    """Other operators make their keys here; the first signs for each."""
    hand = stage.hand
    await hand.press("Settings")
    await _section(hand, "Operators")
    for number, (name, passphrase) in enumerate(OTHERS.items()):
        await hand.write("Name", name)
        await hand.write("Passphrase", passphrase)
        await hand.write("Passphrase again", passphrase)
        await hand.press("Create key")
        await sign(stage, "" if number else "sign-operator")
        await hand.until(f"{name} can approve", partial(_is_operator, stage, name))
    await hand.look("settings-operators")


async def policy(stage: TourContext) -> None:
    """Two rules with examples: checked as they are typed, run over the journal, saved."""
    hand = stage.hand
    stage.desk.theme.set_mode("light")
    await _section(hand, "Policy")
    editor = await hand.find(QPlainTextEdit, "policy.toml")
    await hand.until("the policy is read", lambda: says(hand, "Empty: the built-in default is in force"))
    editor.setFocus(Qt.FocusReason.TabFocusReason)
    await _paste(editor, TOO_WIDE + RULES)
    await hand.until("it is edited and without a fault", lambda: says(hand, "Edited, not in force"))
    await hand.press("Examples 2")
    await hand.look("policy-examples")
    await hand.press("Time machine")
    await hand.press("Run over the journal")
    await hand.until("it tells what a person denied", lambda: says(hand, "denied by a human then"))
    await hand.look("policy-time-machine")
    await _paste(editor, RULES)
    await hand.press("Save")
    # The rules only tighten, but what they say on cards is signed.
    await sign(stage)
    await hand.until("it is in force", lambda: says(hand, "Saved; this is in force"))


async def why(stage: TourContext) -> None:
    """What would be said of a call that is not made, and which rule says so."""
    hand = stage.hand
    await hand.press("Why?")
    await hand.pick("Device", DIALS)
    await hand.pick("Tool", "shell_execute")
    await hand.write_lines("command, required", "systemctl restart orders")
    await hand.until("the rule answers", lambda: says(hand, "two-for-production"))
    await hand.look("policy-why")


async def several_approvers(stage: TourContext) -> None:
    """Production asks two operators other than the one whose agent asks; each unlocks a key for it."""
    hand, state = stage.hand, stage.desk.state
    stage.desk.theme.set_mode("dark")
    written = stage.crew.folder(DIALS) / "restarted"
    await ask(stage, DIALS, "shell_execute", {"command": f"touch {written}"}, "The new limit needs it.")
    await card_is_ready(stage)
    await hand.until("it needs others", lambda: says(hand, "you do not count"))
    for number, (name, passphrase) in enumerate(OTHERS.items(), 1):
        if written.exists():
            raise StepDidNotHappen(f"it ran with {number - 1} of two approvals")
        await hand.press("Another operator…")
        sheet = await hand.find(Dialog, "Another operator approves")
        await hand.write("Passphrase", passphrase, sheet)
        if number == 1:
            await hand.look("approvals-second")
        await hand.press("Approve once", sheet)
        await hand.until("one more has approved", partial(_has_approved, stage, name))
        if number == 1:
            await hand.look("approvals-one-of-two")
    await hand.until("all have approved", lambda: not state.waiting())
    await hand.until("it ran", written.exists)


def _is_operator(stage: TourContext, name: str) -> bool:
    return name in {known.name for known in stage.desk.state.operators}


def _has_approved(stage: TourContext, name: str) -> bool:
    """Also where theirs was the last approval that was wanted."""
    waiting = stage.desk.state.waiting()
    return not waiting or name in waiting[0].approved_by


async def remove_operator(stage: TourContext) -> None:
    """One operator less: what follows is said first, and another operator signs it."""
    hand, state = stage.hand, stage.desk.state
    await hand.press("Settings")
    await _section(hand, "Operators")
    await hand.choose(await hand.find(QTableView, "Operators"), "mate")
    await hand.press("Remove…")
    await sign(stage, "sign-remove")
    await hand.until("mate decides nothing any more", lambda: len(state.operators) == 2)


async def grants(stage: TourContext) -> None:
    """What runs without asking: listed with its last use, and taken back."""
    hand = stage.hand
    await hand.press("Settings")
    await _section(hand, "Grants")
    table = await hand.find(QTableView, "Grants")
    await hand.until("the grant is listed", lambda: table.model().rowCount() == 1)
    await hand.choose(table, LISTENS)
    await hand.find(QAbstractButton, "Revoke…")
    await hand.look("settings-grants")


async def _paste(editor: QPlainTextEdit, text: str) -> None:
    """As from the clipboard: typed letter by letter, the editor would indent it once more."""
    editor.selectAll()
    editor.insertPlainText(text)


async def _section(hand: UiDriver, title: str) -> None:
    await hand.choose(await hand.find(QTableView, "Sections"), title)


POLICY_SCENES: list[Scene] = [
    more_operators,
    policy,
    why,
    several_approvers,
    remove_operator,
    grants,
    pending_policy,
]
