"""Rules: written, checked, tried on the journal and saved; then two operators, grants, and why."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QPlainTextEdit, QTableView

from app.shell.sheet import Sheet
from app.tour.approval_story import answer_by_chord, ask, card_is_ready
from app.tour.fleet_story import DIALS, LISTENS
from app.tour.hand import Hand, StepDidNotHappen
from app.tour.stage import Scene, Stage, says

SECOND, SECOND_PASSPHRASE = "bosun", "any port in a storm"
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


async def second_operator(stage: Stage) -> None:
    """Another operator makes a key here; the first vouches for it."""
    hand, state = stage.hand, stage.desk.state
    await hand.press("Settings")
    await _section(hand, "Operators")
    await hand.write("Name", SECOND)
    await hand.write("Passphrase", SECOND_PASSPHRASE)
    await hand.write("Passphrase again", SECOND_PASSPHRASE)
    await hand.press("Create key")
    await hand.until("both can approve", lambda: len(state.operators) == 2)
    await hand.look("settings-operators")


async def policy(stage: Stage) -> None:
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
    await hand.until("it is in force", lambda: says(hand, "Saved; this is in force"))


async def why(stage: Stage) -> None:
    """What would be said of a call that nobody makes, and which rule says so."""
    hand = stage.hand
    await hand.press("Why?")
    await hand.pick("Device", DIALS)
    await hand.pick("Tool", "shell_execute")
    await hand.write_lines("command, required", "systemctl restart orders")
    await hand.until("the rule answers", lambda: says(hand, "two-for-production"))
    await hand.look("policy-why")


async def several_approvers(stage: Stage) -> None:
    """Production asks two operators: one is not enough, the second unlocks a key for this one decision."""
    hand, state = stage.hand, stage.desk.state
    stage.desk.theme.set_mode("dark")
    written = stage.crew.folder(DIALS) / "restarted"
    await ask(stage, DIALS, "shell_execute", {"command": f"touch {written}"}, "The new limit needs it.")
    await card_is_ready(stage)
    await answer_by_chord(stage, last=False)
    await hand.until("one has approved", lambda: bool(state.waiting() and state.waiting()[0].approved_by))
    await hand.look("approvals-one-of-two")
    if written.exists():
        raise StepDidNotHappen("it ran with one of two approvals")
    await hand.press("Another operator…")
    sheet = await hand.find(Sheet, "Another operator approves")
    await hand.write("Passphrase", SECOND_PASSPHRASE, sheet)
    await hand.look("approvals-second")
    await hand.press("Approve once", sheet)
    await hand.until("both have approved", lambda: not state.waiting())
    await hand.until("it ran", written.exists)


async def grants(stage: Stage) -> None:
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


async def _section(hand: Hand, title: str) -> None:
    await hand.choose(await hand.find(QTableView, "Sections"), title)


POLICY_SCENES: list[Scene] = [second_operator, policy, why, several_approvers, grants]
