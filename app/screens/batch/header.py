"""The line above the batch: its name, the devices it is for, and what can be done with it as a whole."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.screens.batch.inline_edit import InlineEdit
from app.text import plural
from app.theme.tokens import FRAME, SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.badges import ProductionTag
from app.widgets.fields import TextField, mark_failed
from app.widgets.labels import Label, separator, set_surface
from app.widgets.layouts import hbox, vbox


class BatchHeader(QWidget):
    """Name, devices, Save, Open, Plan, Run.

    Signals:
        renamed(name), targets_typed(filter): while the operator types.
    """

    renamed = Signal(str)
    targets_typed = Signal(str)

    def __init__(self, open_: Action, save: Action, plan: Action, run: Action) -> None:
        super().__init__()
        set_surface(self, "base")
        self.name = InlineEdit("Name of the batch", "title", least=60, most=300)
        self.name.setMaxLength(200)
        self.name.typed.connect(self.renamed)
        self.mark = Label("", tone="warn")
        self.targets = TextField("Devices, as a filter", "os:linux tag:lab !name:db-*", mono=True)
        self.targets.textEdited.connect(self.targets_typed)
        self.count = Label("", "head")
        self.production = ProductionTag(0)
        self.open = ActionButton(open_, "ghost")
        self.save = ActionButton(save, icon="")
        self.plan = ActionButton(plan, words="Plan", icon="", with_key=True)
        self.run = ActionButton(run, "primary", "Run")
        self.error = Label("", "meta", "fail", wrap=True)
        self.error.setContentsMargins(SPACE.pane, 0, SPACE.pane, 6)
        self.error.hide()
        self._build()

    def _build(self) -> None:
        row = hbox(self.name, self.mark, margins=(SPACE.pane - 5, 0, SPACE.pane, 0), spacing=SPACE.small)
        line = separator(Qt.Orientation.Vertical)
        line.setFixedHeight(20)
        row.addSpacing(4)
        row.addWidget(line)
        row.addSpacing(4)
        self._devices = Label("Devices", tone="text2")
        self._devices.setBuddy(self.targets)
        row.addWidget(self._devices)
        row.addWidget(self.targets, 4)
        row.addWidget(self.count)
        row.addWidget(self.production)
        row.addStretch(1)
        for button in (self.open, self.save, self.plan, self.run):
            row.addWidget(button)
        bar = QWidget()
        bar.setFixedHeight(FRAME.screen_head)
        bar.setLayout(row)
        self.targets.setMaximumWidth(320)
        self.targets.setMinimumWidth(150)
        vbox(bar, self.error, parent=self)

    def show_batch(self, name: str, targets: str) -> None:
        """Show name and filter; what is typed just now is left alone."""
        self.name.show_text(name)
        if targets != self.targets.text():
            self.targets.setText(targets)
            self.targets.setCursorPosition(0)

    def show_saved(self, unsaved: bool, asking_name: bool) -> None:
        """Say whether something is not saved, or that a name is asked for."""
        words = "name it, Enter saves" if asking_name else "• not saved" if unsaved else ""
        self.mark.set_tone("accent" if asking_name else "warn")
        self.mark.setText(words)
        self.mark.setVisible(bool(words))
        self.save.action.set_off("" if unsaved or asking_name else "Everything is saved.")

    def show_devices(self, matched: int, production: int, error: str) -> None:
        """Say how many devices the filter means now, or what is wrong with it."""
        mark_failed(self.targets, bool(error))
        self.targets.setAccessibleDescription(error)
        self.error.setText(error)
        self.error.setVisible(bool(error))
        self.count.setText("" if error else plural(matched, "device"))
        self.count.set_tone("text" if matched else "warn")
        self.production.set_count(0 if error else production)

    def show_run(self, matched: int, asks: bool) -> None:
        """Name the button by how many devices it means; `asks`: a question follows."""
        self.run.set_words(f"Run on {matched}{'…' if asks else ''}" if matched else "Run")
        self.run.action.refresh()
        self.plan.action.refresh()
