"""The head of a run: what it is, how it stands, what can be done with it, and questions about that."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.records.run_text import actor_words, elapsed_words, inputs_words
from app.screens.runs.actions import RunActions
from app.text import one_line
from app.theme.state_looks import cell_look
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton, ActionMenu
from app.widgets.badges import ProductionTag, StateBadge
from app.widgets.banner import Banner, BannerKind, LinkOffer
from app.widgets.buttons import IconButton
from app.widgets.labels import ElidedLabel, Label, set_surface
from app.widgets.layouts import hbox
from core.batch.models import CellState, Run, RunState, RunSummary


class RunHeader(QWidget):
    """Title, id, state with its time, who started it; what can be done with it now.

    Signals:
        list_wanted: the operator wants the list of runs, which is hidden.
    """

    list_wanted = Signal()

    def __init__(self, actions: RunActions) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setFixedHeight(48)
        self.setAccessibleName("Run")
        self.title = ElidedLabel("", "title")
        self.title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.show_list = IconButton("down", "Other runs")
        self.show_list.clicked.connect(lambda *_: self.list_wanted.emit())
        self.show_list.hide()
        self.number = Label("", "mono_small", "text2", selectable=True)
        self._state: RunState | None = None
        self._production = 0
        self.badge = StateBadge(cell_look("queued"), "State of the run")
        self.elapsed = Label("", "body", "text2")
        self.production = ProductionTag(0)
        self.about = ElidedLabel("", "body", "text2")
        self.about.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._actions = actions
        self.pause = ActionButton(actions.pause)
        self.cancel = ActionButton(actions.cancel, "danger")
        self.resume = ActionButton(actions.resume)
        self.undo = ActionButton(actions.undo)
        self.replay = ActionButton(actions.replay)
        actions.renamed.connect(self._show_actions)
        self.more = IconButton("more", "More about this run", framed=True)
        self.more.clicked.connect(self.open_menu)
        self.menu = ActionMenu("More about this run", self)
        self.menu.addActions([actions.copy, actions.journal, actions.save, actions.export])
        row = hbox(parent=self, margins=(SPACE.pane, 0, SPACE.pane, 0), spacing=SPACE.small)
        for widget in (
            self.title, self.show_list, self.number, self.production, self.badge, self.elapsed,
        ):  # fmt: skip
            row.addWidget(widget)
        row.addWidget(self.about, 1)
        for control in (self.pause, self.cancel, self.resume, self.undo, self.replay, self.more):
            row.addWidget(control)

    def open_menu(self) -> None:
        """Open the menu below its button; the window goes on meanwhile."""
        self.menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

    def show_run(self, summary: RunSummary, parallel: int | None, waves: str) -> None:
        """Show how a run stands; `parallel` is how many devices at once, None when not known.

        `waves` are words about its waves, empty where it has a single one.
        """
        say(self.title, one_line(summary.name))
        self.number.setText(one_line(summary.id))
        if summary.state is not self._state:
            self._state = summary.state
            self.badge.set_look(cell_look(summary.state.value))
        self.tick(summary)
        parts = [actor_words(summary.actor), waves]
        if parallel is not None and len(summary.devices) > 1:
            parts.append(f"{parallel} at once")
        say(self.about, ", ".join(part for part in parts if part))
        self.setAccessibleName(f"Run {one_line(summary.name)}, {summary.id}, {summary.state.value}")

    def _show_actions(self) -> None:
        """Offer what can be done now; a run that is done as a whole is not resumed."""
        actions = self._actions
        going_on = not actions.pause.reason
        icon = "pause" if actions.pause.label == "Pause" else "run"
        if self.pause.icon_concept != icon:
            self.pause.set_words(actions.pause.label, icon)
        for button, action in ((self.pause, actions.pause), (self.cancel, actions.cancel)):
            button.setVisible(going_on and not action.reason)
        self.resume.setVisible(not actions.resume.reason)
        self.undo.setVisible(not actions.undo.reason)

    def show_production(self, count: int) -> None:
        """Show how many of the run's devices are production."""
        if count != self._production:
            self._production = count
            self.production.set_count(count)

    def tick(self, summary: RunSummary) -> None:
        """Show the time again."""
        self.elapsed.setText(elapsed_words(summary))


def say(label: ElidedLabel, words: str) -> None:
    """Show words; those that are there already are not laid out and painted again, thirty times a second."""
    if label.text() != words:
        label.set_text(words)


def rules_words(run: Run) -> str:
    """Which devices the run means, its inputs, and what a failure does to the rest of a device's steps."""
    summary, batch = run.summary, run.batch
    parts = [one_line(batch.targets)]
    if len(summary.devices) * len(summary.steps) > 1:
        parts.append(f"on failure the device {'stops' if batch.on_failure == 'stop' else 'goes on'}")
    return "   ".join(filter(None, [*parts, inputs_words(run)]))


def show_notice(banner: Banner, summary: RunSummary, resume: Action) -> None:
    """Say across the pane what a person must know of the run as a whole."""
    note, origin = one_line(summary.note), summary.resumes or summary.undoes
    again: tuple[LinkOffer, ...] = () if resume.reason else ((resume, resume.label),)
    if summary.resumed_by:
        banner.say("info", f"Resumed as {summary.resumed_by}.", note, (_link_to(summary.resumed_by),))
    elif summary.state is RunState.INTERRUPTED:
        fact = note or "The service ended while this run was going on."
        banner.say("fail", fact, "Nothing was sent again. What is done is not repeated.", again)
    elif summary.counts.get(CellState.UNKNOWN):
        fact = note or "What became of some commands is not known."
        banner.say("warn", fact, _ASKED_AGAIN, again)
    elif summary.state is RunState.PAUSED:
        banner.say("warn", "Paused.", "What runs or waits for you goes on; nothing further starts.")
    elif note or origin:
        fact = f"It goes on where {origin} ended." if summary.resumes else f"It undoes {origin}."
        links = (*again, _link_to(origin)) if origin else again
        kind: BannerKind = "warn" if again and note else "info"
        banner.say(kind, note or fact, fact if note and origin else "", links)
    else:
        banner.hide()


_ASKED_AGAIN = "Nothing was sent again. A device is asked again when it is back, and when this is resumed."


def _link_to(run: str) -> tuple[str, str]:
    return f"run:{run}", f"Open {run}"
