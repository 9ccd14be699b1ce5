"""Settings, Policy, Accepted: the text that holds beside policy.toml as it stands, and what waits between."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QScrollArea, QWidget

from app.service_client import ConsoleLink
from app.text import plural
from app.theme.tokens import SPACE
from app.widgets.buttons import Button
from app.widgets.diff_view import DiffView
from app.widgets.empty_state import EmptyState
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.sentences import Sentences
from app.widgets.text_diff import diff_of
from core.policy.models import PolicyText

SAME = "policy.toml is as it was accepted."
SAME_LINE = "What it says and does not hold yet is listed here after a change."
LOOSENS = "policy.toml would loosen what was accepted, and does not until an operator signs it."
TIGHTENS = "policy.toml differs from what was accepted, and lets nothing more run."


class AcceptedPolicyTab(QScrollArea):
    """What differs between the accepted policy and the file, and what to do about it.

    Signals:
        accept_wanted: the operator wants to look at the difference and sign it.
        restore_wanted(text): the operator wants the accepted text in the editor.
    """

    accept_wanted = Signal()
    restore_wanted = Signal(str)

    def __init__(self, link: ConsoleLink) -> None:
        super().__init__()
        self._link = link
        self._shown: tuple[str, str] | None = None
        self._accepted = ""
        self.sentence = Label("", "head", wrap=True)
        self.pending = Sentences("What waits for a signature")
        self.how = Label("", "label", "text3")
        self.diff = DiffView()
        self.accept = Button("Look and accept…", "primary", icon="key")
        self.restore = Button("Put the accepted text into the editor", icon="undo")
        self.accept.clicked.connect(lambda *_: self.accept_wanted.emit())
        self.restore.clicked.connect(lambda *_: self.restore_wanted.emit(self._accepted))
        buttons = hbox(self.accept, self.restore, STRETCH, spacing=SPACE.small)
        inner = QWidget()
        inner.setProperty("clear", "true")
        column = vbox(
            self.sentence,
            self.pending,
            buttons,
            self.how,
            self.diff,
            parent=inner,
            margins=(SPACE.pane, SPACE.medium, SPACE.pane, SPACE.pane),
            spacing=SPACE.medium,
        )
        self.same = EmptyState(SAME, SAME_LINE)
        column.addWidget(self.same, 1)
        column.addStretch(0)
        self.setWidgetResizable(True)
        self.setAccessibleName("Accepted policy")
        self.setWidget(inner)
        self.show_state(None, [])

    def show_state(self, disk: PolicyText | None, pending: list[str]) -> None:
        """Show the file as it was read, and what of it waits for a signature."""
        accepted, text = (disk.accepted, disk.text) if disk is not None else ("", "")
        differ = accepted != text
        self._accepted = accepted
        self.sentence.setText(LOOSENS if pending else TIGHTENS if differ else "")
        self.sentence.setVisible(bool(pending) or differ)
        self.same.setVisible(not pending and not differ)
        self.pending.show_sentences(pending)
        self.pending.setVisible(bool(pending))
        # Missing or empty, the file can be accepted like that; another fault has to be mended first.
        broken = disk is not None and bool(disk.problem) and bool(text)
        self.accept.setVisible(differ and not broken)
        self.restore.setVisible(differ)
        self.how.setVisible(differ)
        self.diff.setVisible(differ)
        if differ and self._shown != (accepted, text):
            self._shown = accepted, text
            self._link.spawn("compare the policy with the accepted one", self._compare(accepted, text))

    def tab_words(self, pending: list[str]) -> str:
        """What the tab is called: with how much waits, where something does."""
        return f"Accepted {len(pending)}" if pending else "Accepted"

    async def _compare(self, accepted: str, text: str) -> None:
        found = await asyncio.to_thread(diff_of, accepted, text)
        if self._shown == (accepted, text):
            self.how.setText(f"From the accepted text to policy.toml: {found.words()}")
            self.diff.show_diff(found)


def stand_words(pending: list[str]) -> str:
    """How the file stands where it was not edited here and not all of it holds."""
    return f"{plural(len(pending), 'thing')} in it {'waits' if len(pending) == 1 else 'wait'} for a signature"
