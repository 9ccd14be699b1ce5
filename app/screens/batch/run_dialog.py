"""Before a run: how many devices, which of them are production, what will ask, what will not run."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QVBoxLayout, QWidget

from app.screens.batch.text import BLOCKED, count_outcomes, counted, one_line, outcome_look
from app.text import plural
from app.theme.state_looks import StateLook
from app.widgets.badges import ProductionBand, ProductionTag, StateBadge
from app.widgets.banner import Notice
from app.widgets.dialog import Dialog
from app.widgets.labels import Label
from app.widgets.layouts import hbox
from core.batch.models import Batch, Plan, calls
from core.batch.waves import wave_lines

RUN = "run"
MOST_LISTED = 6


def needs_question(plan: Plan) -> bool:
    """Whether a run of this plan is asked about: several devices, production, or cells that do not run."""
    counts = count_outcomes(plan.cells)
    alone = len(plan.devices) == 1 and not plan.production
    return not alone or any(outcome in counts for outcome in ("denied", "invalid"))


def make_run_sheet(window: QWidget, batch: Batch, plan: Plan) -> Dialog:
    """The question; its answer is `RUN`, or empty."""
    steps = [step for entry in batch.steps for step in calls(entry) if step.enabled]
    devices = plural(len(plan.devices), "device")
    title = f"Run “{one_line(batch.name)}” on {devices}?"
    parallel = f", {batch.rollout.parallel} devices at once" if len(plan.devices) > 1 else ""
    after = "stops" if batch.on_failure == "stop" else "goes on with the next step"
    words = f"{plural(len(steps), 'step')}{parallel}. A device {after} when a step fails."
    sheet = Dialog(window, title, words, width=520)
    if plan.production:
        sheet.add(_production(plan.production))
    if plan.waves:
        sheet.add(_waves(plan))
    sheet.add(_outcomes(plan))
    counts = count_outcomes(plan.cells)
    if counts.get("asks"):
        asks = plural(counts["asks"], "command")
        which = "It waits" if counts["asks"] == 1 else "Each waits"
        sheet.add(Notice("waiting", f"{asks} will ask.", f"{which} in Approvals until an operator answers."))
    blocked = sum(counts.get(outcome, 0) for outcome in BLOCKED)
    if blocked:
        sheet.add(_blocked(plan, blocked, batch.on_failure == "stop"))
    sheet.add_answer("", "Cancel")
    run = sheet.add_answer(RUN, f"Run on {devices}", "primary")
    run.set_words(run.text(), icon="run", key="Enter")
    return sheet


def _waves(plan: Plan) -> QWidget:
    """Which devices begin when: each wave waits for the end of the one before."""
    box = QWidget()
    column = QVBoxLayout(box)
    column.setContentsMargins(0, 4, 0, 4)
    column.setSpacing(2)
    lines = [one_line(line) for line in wave_lines(plan.waves, plan.production)]
    for line in lines:
        column.addWidget(Label(line, wrap=True))
    column.addWidget(Label("A wave begins when the one before it has ended.", "meta", "text3"))
    box.setAccessibleName("Waves")
    box.setAccessibleDescription(". ".join(lines))
    return box


def _production(names: list[str]) -> QWidget:
    box = QWidget()
    row = hbox(ProductionBand(), parent=box, margins=(0, 4, 0, 4), spacing=10)
    column = QVBoxLayout()
    column.setSpacing(4)
    # With a parent from the start: it shows itself, and would be a window of its own for a moment.
    tag = ProductionTag(len(names) if len(names) > 1 else None, box)
    column.addWidget(tag, 0, Qt.AlignmentFlag.AlignLeft)
    # Every name is there to be read: this is where wrong machines are noticed.
    label = Label(", ".join(names), "name", wrap=True)
    if len(names) <= 24:
        column.addWidget(label)
    else:
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFixedHeight(120)
        scroll.setWidget(label)
        scroll.setAccessibleName("Production devices")
        column.addWidget(scroll)
    row.addLayout(column, 1)
    box.setAccessibleName(f"Production: {', '.join(names)}")
    return box


def _outcomes(plan: Plan) -> QWidget:
    box = QWidget()
    row = hbox(parent=box, margins=(0, 2, 0, 2), spacing=16)
    for outcome, number in count_outcomes(plan.cells).items():
        look = outcome_look(outcome)
        shown = StateLook(f"{number:,} {counted(outcome)}", look.glyph, look.color, look.word_color)
        row.addWidget(StateBadge(shown, "Plan"))
    row.addStretch(1)
    return box


def _blocked(plan: Plan, blocked: int, stops: bool) -> QWidget:
    on: dict[tuple[str, str], list[str]] = {}
    for cell in plan.cells:
        if cell.outcome in BLOCKED:
            why = one_line(cell.why) or outcome_look(cell.outcome).word
            on.setdefault((cell.step, why), []).append(cell.device)
    shown = [
        f"{step} on {names[0] if len(names) == 1 else plural(len(names), 'device')}: {why}"
        for (step, why), names in on.items()
    ]
    if len(shown) > MOST_LISTED:
        shown = [*shown[:MOST_LISTED], f"and {len(shown) - MOST_LISTED} more; the plan has them all"]
    end = " What comes after them on these devices does not run either." if stops else ""
    verb = "does" if blocked == 1 else "do"
    return Notice("warn", f"{plural(blocked, 'command')} {verb} not run.{end}", "\n".join(shown))
