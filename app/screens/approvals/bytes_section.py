"""The bytes that would be sent, with their digest, what is hidden in them, and whether their end was seen."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout

from app.screens.approvals.request_payload import Part
from app.theme.tokens import SPACE
from app.widgets.code_view import CodeView, Highlight
from app.widgets.icon_label import IconLabel
from app.widgets.labels import Label, Link
from app.widgets.property_list import short_digest
from app.widgets.section import Section
from core.canonical_json import sha256_hex
from core.policy.analysis.summaries import size_words
from core.text import hidden_characters


class BytesSection(Section):
    """The bytes box with its head and the line of facts below it.

    Signals:
        end_seen: the last byte was on the screen.
        copied: the bytes are on the clipboard.
    """

    end_seen = Signal()
    copied = Signal()

    def __init__(self, title: str, exact: bool = True) -> None:
        """`exact`: the box holds the very bytes; else a list made for reading, not for copying."""
        super().__init__(title)
        self._exact = exact
        self.box = CodeView(title, numbers=exact)
        self.add(self.box)
        # Whole, on a second line where one is too short: how old what was compared with is must be readable.
        self.facts = Label("", "meta", "text3", wrap=True)
        self.alike = Label("", "meta", "warn")
        self._seen_mark = IconLabel("check", "text3", painted=True, size=12)
        self.seen = Label("", "meta", "text2")
        self._copy_mark = IconLabel("copy", "accent", 14)
        self.copy = Link("Copy bytes", "meta_strong")
        row = self.line = QHBoxLayout()
        row.setSpacing(SPACE.small)
        row.addWidget(self.facts, 1)
        row.addWidget(self.alike)
        row.addWidget(self._seen_mark)
        row.addWidget(self.seen)
        row.addSpacing(SPACE.tight)
        row.addWidget(self._copy_mark)
        row.addWidget(self.copy)
        self.body.addLayout(row)
        self.body.setSpacing(2)
        self.copy.clicked.connect(lambda *_: self._copy())
        self.box.end_seen.connect(self._mark_seen)

    def show_part(self, part: Part, masked: int = 0) -> None:
        """Show bytes from their beginning; their end counts as not seen."""
        self.head.set_hint(part.name)
        highlights = [Highlight(one.start, one.end, one.risk, one.number) for one in part.places]
        self.box.show_bytes(part.data, highlights)
        text = part.data.decode("utf-8", "replace")
        # A masked secret is not here: what is shown is then not the bytes, and has no digest worth comparing.
        whole = self._exact and not masked
        lines = self.box.shown.lines
        words = (
            [f"{size_words(len(part.data))}, {lines} {'line' if lines == 1 else 'lines'}"] if whole else []
        )
        if whole:
            words.append(short_digest(sha256_hex(part.data)))
        words.append(self.box.shown.describe_hidden())
        self.copy.setVisible(whole)
        self._copy_mark.setVisible(whole)
        if masked:
            words.append(f"{masked} {'secret' if masked == 1 else 'secrets'} masked")
        self.facts.setText("   ".join(words))
        alike = sum(name.endswith("(in a Latin word)") for _, name in hidden_characters(text))
        self.alike.setText(
            f"{alike} {'letter' if alike == 1 else 'letters'} of another script in Latin words"
        )
        self.alike.setVisible(alike > 0)
        self._show_seen(False)

    @property
    def end_was_seen(self) -> bool:
        """True when all of it was on the screen."""
        return self.box.end_was_seen

    def _mark_seen(self) -> None:
        self._show_seen(True)
        self.end_seen.emit()

    def _show_seen(self, seen: bool) -> None:
        self._seen_mark.set_icon("check" if seen else "dot", "ok" if seen else "text3")
        self.seen.setText("end seen" if seen else "end not seen")

    def _copy(self) -> None:
        self.box.copy_bytes()
        self.copied.emit()
