"""Edit, then approve: the tool's form with what was asked for, and both versions one below the other."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QScrollArea, QSplitter, QWidget

from app.forms import SchemaForm
from app.input_origin import Stake
from app.screens.approvals.edited_section import EditedSection
from app.signing.press_guard import PressGuard
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.dialog import FOCUS_ROOM, Dialog
from app.widgets.labels import Label, set_surface
from app.widgets.layouts import STRETCH, vbox
from core.approvals.models import Approval
from core.canonical_json import canonical_bytes
from core.errors import BadInput
from core.schema_forms.validator import FieldError

WIDTH = 920
AROUND = 300  # bars, title, words and answers; the versions take what a low window leaves
SHOW_AFTER_MS = 150


class EditDialog(Dialog):
    """Comes up before the tool's form is read, so that what is typed meanwhile reaches no key of the card.

    Signals:
        wanted(parameters): ask again with these arguments instead.
    """

    wanted = Signal(object)

    def __init__(self, window: QWidget, approval: Approval, by_hand: PressGuard) -> None:
        width = min(WIDTH, window.width() - 2 * SPACE.wide)
        super().__init__(
            window,
            "Edit, then approve",
            f"{one_line(approval.request.tool_name)} on {one_line(approval.request.device)}. This request "
            "ends, both versions are kept in the journal, and the new one asks for an approval of its own.",
            width=width,
        )
        self._before = approval.request.parameters
        self.has_form = False
        self.form = SchemaForm()
        # Room at the left, too: the focus ring stands outside the fields.
        self.form.setContentsMargins(FOCUS_ROOM, FOCUS_ROOM, SPACE.card, SPACE.card)
        set_surface(self.form, "raised")
        scroll = QScrollArea()
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidgetResizable(True)
        scroll.setWidget(self.form)
        self.versions = EditedSection("Before and after")
        right = QWidget()
        vbox(self.versions, STRETCH, parent=right, margins=(SPACE.medium, 0, 0, 0), spacing=None)
        split = QSplitter()
        split.setChildrenCollapsible(False)
        split.addWidget(scroll)
        split.addWidget(right)
        split.setSizes([width // 2, width // 2])
        # A splitter takes its greatest height from its parts, so something around it has to say it.
        both = QWidget()
        both.setFixedHeight(min(440, max(200, window.height() - AROUND)))
        vbox(split, parent=both, spacing=None)
        self.add(both, focus_room=True)
        self.add(Label("Nothing is sent by this.", "meta", "text3"))
        self.add_answer("cancel", "Cancel")
        self._ask = self.add_answer("ask", "Ask again with this", "primary", closes=False)
        # It runs nothing yet: the new request asks for an approval, with all that this takes.
        low = Stake.of_risk(approval.decision.risk) is Stake.LOW
        by_hand.guard(self._ask, Stake.LOW if low else Stake.MEDIUM, "ask again", self.say, self._go)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(SHOW_AFTER_MS)
        self._soon.timeout.connect(self.show_versions)
        self.form.changed.connect(self._soon.start)
        self._ask.set_off("The tool's form is still being read.")

    @property
    def holds_input(self) -> bool:
        """Whether the arguments are others than those that were asked for."""
        return self.has_form and self._differs()

    def show_form(self, schema: Any) -> None:
        """The tool's schema was read: show its form, with the keyboard in it."""
        self.has_form = True
        self.form.set_schema(schema, self._before)
        self.show_versions()
        self.form.focus_first()

    def show_versions(self) -> None:
        """Show what was asked for and what it is by now."""
        after = self.form.value()
        self.versions.show_versions(self._before, after if isinstance(after, dict) else {})
        self._ask.set_off("" if self._differs() else "Nothing was changed.")

    def _differs(self) -> bool:
        try:
            return canonical_bytes(self.form.value()) != canonical_bytes(self._before)
        except BadInput:
            return True

    def say_wrong(self, problem: str) -> None:
        """The service did not take it."""
        self._ask.set_working("")
        self.say(one_line(problem))

    def _go(self) -> None:
        self.show_versions()
        self._ask.set_working("The arguments are being checked.")
        self.say("")
        self.form.when_checked(self._checked, self._changed_meanwhile)

    def _checked(self, problems: list[FieldError]) -> None:
        if problems:
            self._ask.set_working("")
            self.form.focus_path(problems[0].path)
            self.say("Nothing was changed yet: a field needs another value.")
        elif self._differs():
            self._ask.set_working("The service is asked.")
            self.wanted.emit(self.form.value())
        else:
            self._ask.set_working("")

    def _changed_meanwhile(self) -> None:
        self._ask.set_working("")
        self.say("Nothing was changed yet: the arguments are others than when they were to be checked.")
