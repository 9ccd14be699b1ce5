"""The head of a run: what it is, how it stands, what can be done with it, and questions about that."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from app.records.run_text import actor_words, elapsed_words
from app.screens.runs.actions import RunActions
from app.text import one_line
from app.theme.status_styles import cell_look
from app.theme.tokens import SPACE
from app.widgets.badges import ProductionTag, StateBadge
from app.widgets.banner import Banner
from app.widgets.buttons import Button, IconButton
from app.widgets.labels import ElidedLabel, Label, set_surface
from app.widgets.layouts import hbox
from core.batch.models import Batch, CellState, RunState, RunSummary


class RunHeader(QWidget):
    """Title, id, state with its time, who started it; Cancel run…, Replay and more.

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
        self.cancel = Button(actions.cancel.text(), "danger", "stop")
        self.cancel.setToolTip("Start nothing further in this run (Shift+Esc)")
        self.cancel.clicked.connect(actions.cancel.trigger)
        self.replay = Button(actions.replay.text(), icon="replay")
        self.replay.clicked.connect(actions.replay.trigger)
        self.more = IconButton("more", "More about this run", framed=True)
        self.more.clicked.connect(self.open_menu)
        self.menu = QMenu(self)
        self.menu.setAccessibleName("More about this run")
        self.menu.addActions([actions.copy, actions.journal, actions.save])
        row = hbox(parent=self, margins=(SPACE.pane, 0, SPACE.pane, 0), spacing=SPACE.small)
        for widget in (
            self.title, self.show_list, self.number, self.production, self.badge, self.elapsed,
        ):  # fmt: skip
            row.addWidget(widget)
        row.addWidget(self.about, 1)
        for control in (self.cancel, self.replay, self.more):
            row.addWidget(control)

    def open_menu(self) -> None:
        """Open the menu below its button; the window goes on meanwhile."""
        self.menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

    def show_run(self, summary: RunSummary, parallel: int | None) -> None:
        """Show how a run stands; `parallel` is how many devices at once, None when not known."""
        say(self.title, one_line(summary.name))
        self.number.setText(one_line(summary.id))
        if summary.state is not self._state:
            self._state = summary.state
            self.badge.set_look(cell_look(summary.state.value))
        self.tick(summary)
        parts = [actor_words(summary.actor)]
        if parallel is not None and len(summary.devices) > 1:
            parts.append(f"{parallel} at once")
        say(self.about, ", ".join(part for part in parts if part))
        self.cancel.setVisible(not summary.state.ended)
        self.setAccessibleName(f"Run {one_line(summary.name)}, {summary.id}, {summary.state.value}")

    def show_production(self, count: int) -> None:
        """Show how many of the run's devices are production."""
        if count != self._production:
            self._production = count
            self.production.set_count(count)

    def tick(self, summary: RunSummary) -> None:
        """Show the time anew."""
        self.elapsed.setText(elapsed_words(summary))


def say(label: ElidedLabel, words: str) -> None:
    """Show words; those that are there already are not laid out and painted anew, thirty times a second."""
    if label.text() != words:
        label.set_text(words)


def rules_words(summary: RunSummary, batch: Batch) -> str:
    """Which devices the run means, and what a failure does to the rest of a device's steps."""
    targets = one_line(batch.targets)
    if len(summary.devices) * len(summary.steps) <= 1:
        return targets
    return f"{targets}   on failure the device {'stops' if batch.on_failure == 'stop' else 'goes on'}"


def show_notice(banner: Banner, summary: RunSummary) -> None:
    """Say across the pane that a run was interrupted, or that something of it is not known."""
    note = one_line(summary.note)
    if summary.state is RunState.INTERRUPTED:
        fact = note or "The service ended while this run was going on."
        banner.say("fail", fact, "Nothing was sent again. Run the batch anew for what is missing.")
    elif summary.counts.get(CellState.UNKNOWN):
        fact = note or "What became of some commands is not known."
        banner.say("warn", fact, "Nothing was sent again. Look at the device before you run it again.")
    elif note:
        banner.say("info", note)
    else:
        banner.hide()
