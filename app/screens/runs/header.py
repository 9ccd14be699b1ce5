"""The head of a run: what it is, how it stands, what can be done with it, and questions about that."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QVBoxLayout, QWidget

from app.records.run_text import actor_words, elapsed_words
from app.text import one_line
from app.theme.status_styles import cell_look
from app.theme.tokens import SPACE
from app.widgets.badges import ProductionTag, StateBadge
from app.widgets.banner import Banner
from app.widgets.buttons import Button, IconButton
from app.widgets.fields import TextField
from app.widgets.labels import ElidedLabel, Label, separator, set_surface
from core.batch.file_names import MOST_CHARACTERS
from core.batch.models import Batch, CellState, RunState, RunSummary


class RunHeader(QWidget):
    """Title, id, state with its time, who started it; Cancel run…, Replay and more.

    Signals:
        wished(what): `cancel`, `replay`, `list`, `copy`, `journal` or `save`.
    """

    wished = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_surface(self, "base")
        self.setFixedHeight(48)
        self.setAccessibleName("Run")
        self.title = ElidedLabel("", "title")
        self.title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.show_list = IconButton("down", "Other runs")
        self.show_list.clicked.connect(lambda *_: self.wished.emit("list"))
        self.show_list.hide()
        self.number = Label("", "mono_small", "text2", selectable=True)
        self._state: RunState | None = None
        self._production = 0
        self.badge = StateBadge(cell_look("queued"), "State of the run")
        self.elapsed = Label("", "body", "text2")
        self.production = ProductionTag(0)
        self.about = ElidedLabel("", "body", "text2")
        self.about.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.cancel = Button("Cancel run…", "danger", "stop")
        self.cancel.setToolTip("Start nothing further in this run (Shift+Esc)")
        self.cancel.clicked.connect(lambda *_: self.wished.emit("cancel"))
        self.replay = Button("Replay", icon="replay")
        self.replay.clicked.connect(lambda *_: self.wished.emit("replay"))
        self.more = IconButton("more", "More about this run", framed=True)
        self.more.clicked.connect(self.open_menu)
        self.menu = QMenu(self)
        self.menu.setAccessibleName("More about this run")
        for key, words in (
            ("copy", "Copy run id"),
            ("journal", "Open in journal"),
            ("save", "Save as batch…"),
        ):
            self.menu.addAction(words).triggered.connect(lambda *_, key=key: self.wished.emit(key))
        row = QHBoxLayout(self)
        row.setContentsMargins(SPACE.pane, 0, SPACE.pane, 0)
        row.setSpacing(SPACE.small)
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


class InlineConfirm(QWidget):
    """One question across the pane, asked where the wish was made: words, perhaps a field, two answers.

    Signals:
        answered(text): the operator went on; `text` is what is in the field.
        closed: the question went away, in whichever way.
    """

    answered = Signal(str)
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_surface(self, "raised")
        self.words = Label("", "head")
        self.detail = Label("", "body", "text2", wrap=True)
        self.field = TextField("Name of the batch")
        self.field.setMinimumWidth(200)
        self.field.returnPressed.connect(self._go_on)
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.hide()
        self.keep = Button("")
        self.keep.clicked.connect(lambda *_: self.close_question())
        self.go_on = Button("", "danger")
        self.go_on.clicked.connect(lambda *_: self._go_on())
        row = QHBoxLayout()
        row.setSpacing(SPACE.small)
        row.addWidget(self.words)
        row.addWidget(self.field)
        row.addWidget(self.detail, 1)
        row.addWidget(self.keep)
        row.addWidget(self.go_on)
        inside = QVBoxLayout()
        inside.setContentsMargins(SPACE.pane, 8, SPACE.pane, 8)
        inside.setSpacing(SPACE.tight)
        inside.addLayout(row)
        inside.addWidget(self.problem)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(inside)
        column.addWidget(separator())
        self.hide()

    def ask_to_cancel(self, summary: RunSummary) -> None:
        """Ask whether this run should be cancelled."""
        self.words.setText("Cancel this run?")
        waits = " What waits is withdrawn." if summary.state is RunState.WAITING else ""
        self.detail.setText(f"Nothing further starts.{waits} Devices are asked to stop what they have.")
        self._open("Let it run", "Cancel the run", "danger", None)

    def ask_for_name(self, name: str) -> None:
        """Ask under which name the run's batch is saved."""
        self.words.setText("Save as batch")
        self.detail.setText(f"Under a name of at most {MOST_CHARACTERS} characters")
        self._open("Cancel", "Save", "normal", name)

    def _open(self, keep: str, go_on: str, kind: str, field: str | None) -> None:
        self.problem.hide()
        self.keep.set_words(keep)
        self.go_on.set_words(go_on)
        self.go_on.set_kind("danger" if kind == "danger" else "normal")
        self.field.setVisible(field is not None)
        self.setAccessibleName(self.words.text())
        self.go_on.set_working("")
        self.show()
        if field is not None:
            self.field.setText(field)
            self.field.selectAll()
            self.field.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.keep.setFocus(Qt.FocusReason.TabFocusReason)

    def say(self, problem: str, go_on: str = "") -> None:
        """Say what is in the way; `go_on` are new words for going on all the same."""
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        if go_on:
            self.go_on.set_words(go_on)

    def _go_on(self) -> None:
        if self.go_on.isEnabled():
            self.answered.emit(self.field.text().strip())

    def close_question(self) -> None:
        """Take the question back."""
        if self.isVisible():
            self.hide()
            self.closed.emit()
