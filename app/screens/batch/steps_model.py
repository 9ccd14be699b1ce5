"""The steps as rows of a list, with what the plan and the tools' schemas say of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import QObject, Qt

from app.items.keyed_model import NO_PARENT, Index, KeyedModel
from app.screens.batch.document import DraftStep
from app.screens.batch.text import counted
from app.theme.state_looks import risk_look
from app.widgets.labels import escaped_tooltip


@dataclass(frozen=True, slots=True)
class StepNote:
    """What is known of a step beside itself.

    `title` is the tool's whole name; an empty `risk` is not known; `problem` says what is wrong; `flow` are
    the lines that say how it goes on.
    """

    summary: str = ""
    title: str = ""
    risk: str = ""
    problem: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    flow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepRow:
    """One card: the step, its number, its place in a group (`first`, `inner`, `last`, or none).

    `recovers` is the id of the step that it recovers, `branch` its place among the recovery steps of that
    (`first`, `inner`, `last`, `only`, or none).
    """

    step: DraftStep
    number: int
    note: StepNote = StepNote()
    bracket: str = ""
    bracket_note: str = ""
    recovers: str = ""
    branch: str = ""


class StepsModel(KeyedModel[StepRow]):
    """One row for each step, and one more at the end into which a tool can be dropped."""

    def __init__(self, parent: QObject | None = None) -> None:
        roles = {
            Qt.ItemDataRole.DisplayRole: spoken_step,
            Qt.ItemDataRole.AccessibleTextRole: spoken_step,
            Qt.ItemDataRole.ToolTipRole: step_tip,
        }
        super().__init__(lambda row: row.step.key, roles, parent)

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        """All steps and the row at the end."""
        return 0 if parent.isValid() else len(self.items) + 1

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """As of every step; the row at the end says what it is for."""
        at_end = index.row() == len(self.items)
        if at_end and role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return "Drop a tool here, or press A"
        return super().data(index, role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Steps can be chosen, the row at the end cannot."""
        if self.item(index.row()) is None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable

    def show(self, rows: Sequence[StepRow]) -> bool:
        """Show these rows; True when steps came, went or moved, so that choices must be made again."""
        if [(row.step.key, row.bracket, row.branch) for row in rows] != [
            (row.step.key, row.bracket, row.branch) for row in self.items
        ]:
            self.reset(rows)
            return True
        self.sync(rows)
        return False


def step_tip(row: StepRow) -> str | None:
    """What is wrong with a step, and what it would do."""
    note = str(row.step.flow.get("note") or "")
    return (
        escaped_tooltip("\n".join(filter(None, (row.note.problem, row.note.summary, *row.note.flow, note))))
        or None
    )


def spoken_step(row: StepRow) -> str:
    """A card as it is read aloud."""
    step, note = row.step, row.note
    kind = "approval" if step.is_approval else note.title or step.tool
    words = [f"Step {row.number}", step.id, kind]
    if row.recovers:
        words.append(f"if {row.recovers} fails")
    if note.risk:
        words.append(f"risk {risk_look(note.risk).word}")
    if not step.enabled:
        words.append("off")
    if row.bracket:
        words.append("in parallel")
    if note.problem:
        words.append(f"problem: {note.problem}")
    if note.summary:
        words.append(note.summary)
    words += note.flow
    words += [f"{number} {counted(outcome)}" for outcome, number in note.counts.items()]
    return ", ".join(words)


def rows_of(steps: Sequence[DraftStep], notes: Mapping[int, StepNote]) -> list[StepRow]:
    """Rows with their brackets: what runs in parallel stands in one, with its head above the first."""
    rows: list[StepRow] = []
    for place, step in enumerate(steps):
        note = notes.get(step.key, StepNote())
        bracket = head_note = ""
        if step.group > 0:
            opens = place == 0 or steps[place - 1].group != step.group
            ends = place + 1 == len(steps) or steps[place + 1].group != step.group
            bracket = "first" if opens else "last" if ends else "inner"
            if opens:
                mine = [one for one in steps if one.group == step.group and not one.recovers]
                head_note = _group_words([notes.get(one.key, StepNote()) for one in mine])
        rows.append(StepRow(step, place + 1, note, bracket, head_note, *_branch_of(steps, place)))
    return rows


def _branch_of(steps: Sequence[DraftStep], place: int) -> tuple[str, str]:
    """The id of the step that the one at a place recovers, and its place among those that do; or nothing."""
    if not steps[place].recovers:
        return "", ""
    owner = next((one for one in reversed(steps[:place]) if not one.recovers), None)
    opens = not steps[place - 1].recovers
    ends = place + 1 == len(steps) or not steps[place + 1].recovers
    branch = "only" if opens and ends else "first" if opens else "last" if ends else "inner"
    return (owner.id if owner else "") or "the step", branch


def _group_words(notes: Sequence[StepNote]) -> str:
    reads = all(note.risk == "low" for note in notes)
    return "reads only" if reads else f"{len(notes)} at once"
