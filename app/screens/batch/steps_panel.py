"""The column of steps: its head with undo and redo, the cards, and what to do while there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.screens.batch.document import BatchDocument
from app.screens.batch.document_controller import DocumentController
from app.screens.batch.document_io import examples
from app.screens.batch.steps_view import StepsView
from app.screens.batch.text import one_line, settings_line
from app.text import plural
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton, ActionIconButton, ActionLink
from app.widgets.empty_state import EmptyState
from app.widgets.labels import ElidedLabel, Label, Link, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.section import Card
from app.widgets.util import ScrollArea
from core.batch.models import flatten

FIRST_EXAMPLES = ("first-steps", "look-at-this-computer", "clean-when-full")


@dataclass(frozen=True, slots=True)
class StepActions:
    """What the screen can do with the steps, and with the batch that they make."""

    tools: Action
    ask: Action
    undo: Action
    redo: Action
    double: Action
    recover: Action
    group: Action
    switch: Action
    about: Action


class StepsPanel(QWidget):
    """Cards, or the first things one can do.

    Signals:
        example_wanted(path): begin with this example.
        recent_wanted(name): open this saved batch again.
    """

    example_wanted = Signal(object)
    recent_wanted = Signal(str)

    def __init__(self, acts: StepActions) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Steps of the batch")
        self.count = Label("", tone="text3")
        self._acts = acts
        self.undo, self.redo = ActionIconButton(acts.undo), ActionIconButton(acts.redo)
        self.ask = ActionIconButton(acts.ask)
        self.tools = ActionButton(acts.tools, "ghost", "Tools", with_key=True)
        self.hint = Label("Alt+↑ ↓ moves", tone="text3")
        head = hbox(margins=(12, 4, 12, 4), spacing=4)
        head.addWidget(Label("Steps", "head"))
        head.addSpacing(4)
        head.addWidget(self.count)
        head.addStretch(1)
        head.addWidget(self.tools)
        head.addWidget(self.ask)
        head.addWidget(self.undo)
        head.addWidget(self.redo)
        head.addSpacing(4)
        head.addWidget(self.hint)
        self.about = ActionLink(acts.about, "The batch", "meta")
        self.settings = ElidedLabel("", "meta", "text3")
        about = hbox(self.about, (self.settings, 1), margins=(12, 0, 12, 0), spacing=8)
        self.view = StepsView([acts.double, acts.group, acts.recover, acts.switch])
        self.empty = _NoSteps(acts.tools)
        self.empty.example_wanted.connect(self.example_wanted)
        self.empty.recent_wanted.connect(self.recent_wanted)
        self.stack = QStackedWidget()
        self.stack.addWidget(self.view)
        self.stack.addWidget(self.empty)
        vbox(head, about, (self.stack, 1), parent=self, margins=(0, 4, 0, 0), spacing=2)
        self.set_compact(False)

    def serve(self, editor: DocumentController) -> None:
        """Let this editor do what is wanted here."""
        view = self.view
        view.chosen.connect(editor.choose)
        view.move_wanted.connect(editor.move_to)
        view.delete_wanted.connect(editor.remove)
        self._editor = editor
        editor.saved_changed.connect(self._show_undo)
        self._show_undo()

    def place_for(self, at: QPoint) -> int | None:
        """Where a tool that is let go at this point of the screen goes; None when that is not here."""
        place = self.view.tool_dropped(at)
        if place is None and not self.view.isVisible() and self.rect().contains(self.mapFromGlobal(at)):
            return 0
        return place

    def set_compact(self, compact: bool) -> None:
        """Offer the tools as a button where they have no column of their own."""
        self.tools.setVisible(compact)
        self.hint.setVisible(not compact)

    def show_settings(self, content: BatchDocument) -> None:
        """Say in a line what the batch says beside its steps."""
        words = settings_line(content)
        self.settings.set_text(words or "no inputs, one wave")
        self.about.setAccessibleName(f"The batch: {words}" if words else "The batch")

    def show_count(self, count: int) -> None:
        """Say how many steps there are; without any, say what to do."""
        self.count.setText(str(count) if count else "")
        page = self.view if count else self.empty
        if self.stack.currentWidget() is not page:
            focus = self.window().focusWidget()
            had_focus = focus is not None and self.stack.isAncestorOf(focus)
            self.stack.setCurrentWidget(page)
            if had_focus:
                home = self.view if count else self.empty.first
                home.setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_undo(self) -> None:
        stack = self._editor.undo_stack
        self._acts.undo.set_label(f"Undo {stack.undoText()}".strip())
        self._acts.redo.set_label(f"Redo {stack.redoText()}".strip())
        self._acts.undo.refresh()
        self._acts.redo.refresh()


class _NoSteps(ScrollArea):
    """The empty batch: what adds a step, and below it batches that were open lately, and three examples."""

    example_wanted = Signal(object)
    recent_wanted = Signal(str)

    def __init__(self, tools: Action) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.state = EmptyState(
            "This batch has no steps yet.",
            "A step calls one tool on each device. Nothing is sent until you press Run.",
            (tools, "Add a tool", "add"),
        )
        self.state.setProperty("clear", "true")
        self.first = self.state.button
        self.first.set_words("Add a tool", key="A")
        self.state.more.setSpacing(SPACE.small)
        self.state.more.addSpacing(SPACE.medium)
        self._recent = vbox(spacing=2)
        self.state.more.addLayout(self._recent)
        self.state.more.addWidget(Label("Or begin with an example", "label", "text3"))
        batches = {path.stem: (path, batch) for path, batch in examples()}
        for path, batch in (batches[name] for name in FIRST_EXAMPLES if name in batches):
            steps = len(flatten(batch.steps))
            self.state.more.addWidget(self._example(path, batch.name, batch.description, steps))
        self.setWidget(self.state)

    def show_recent(self, names: Sequence[str]) -> None:
        """Offer the saved batches that were open lately."""
        while (item := self._recent.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        if names:
            self._recent.addWidget(Label("Or go on with one that was open lately", "label", "text3"))
        for name in names:
            link = Link(one_line(name), "name")
            link.setAccessibleName(f"Open {one_line(name)}")
            link.clicked.connect(lambda _on=False, name=name: self.recent_wanted.emit(name))
            self._recent.addWidget(link)
        self.state.setMinimumHeight(self.state.needed_height(self.viewport().width()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Scroll where there is not room for all of it."""
        super().resizeEvent(event)
        self.state.setMinimumHeight(self.state.needed_height(self.viewport().width()))

    def _example(self, path: Path, name: str, description: str, steps: int) -> Card:
        card = Card()
        head = hbox(Label(name, "name"), STRETCH, spacing=None)
        link = Link("Begin", "name")
        link.setAccessibleName(f"Begin with the example {name}")
        link.clicked.connect(lambda: self.example_wanted.emit(path))
        head.addWidget(link)
        card.body.addLayout(head)
        card.add(Label(f"{plural(steps, 'step')}. {description}", "meta", "text2", wrap=True))
        return card
