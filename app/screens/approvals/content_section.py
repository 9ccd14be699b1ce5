"""The bytes of a request; for a file, the change they make comes first and the bytes are one press away."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.screens.approvals.bytes_section import BytesSection
from app.screens.approvals.preview_section import DiffPart, PreviewData
from app.screens.approvals.request_payload import Part
from app.text import one_line
from app.widgets.buttons import Segmented
from app.widgets.labels import ElidedLabel
from core.policy.analysis.summaries import size_words

_VIEWS = [("unified", "Unified"), ("side", "Side by side"), ("bytes", "Bytes")]


class ContentSection(BytesSection):
    """Bytes, with a change beside them once it is known. The choice of view outlives the card."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._title, self._wanted, self._whole = title, "unified", False
        self._bytes_words = ""
        self.path = ElidedLabel("", "mono_small", "text2")
        self.head.add_beside_title(self.path)
        self.views = Segmented(_VIEWS, "How the change is shown", in_bar=True)
        self.head.add(self.views)
        self.diff = DiffPart()
        self.body.insertWidget(0, self.diff)
        self.line.insertWidget(0, self.diff.added)
        self.line.insertWidget(1, self.diff.removed)
        self.views.chosen.connect(self._choose)
        self.diff.end_seen.connect(self._diff_seen)
        self._show_view("bytes")
        self._offer(False)

    def show_part(self, part: Part, masked: int = 0) -> None:
        """Show bytes from their beginning; a change of another request is gone."""
        self._whole = False
        self.diff.clear()
        self._offer(False)
        super().show_part(part, masked)
        self._bytes_words = self.facts.text()
        self._show_view("bytes")

    def show_change(self, looked: PreviewData, device: str, alone: bool) -> None:
        """Show what the bytes would change; where it does not show all of them, the bytes stay in front."""
        if looked.diff is None:
            return
        self._whole = looked.whole
        self.diff.show_looked(looked, device, alone)
        self._offer(True)
        self.path.set_text(one_line(looked.preview.label))
        view = self._wanted if looked.whole else "bytes"
        self.views.choose(view)
        self._show_view(view)

    def set_title(self, title: str) -> None:
        """What the bytes are called."""
        self._title = title
        if self.diff.isHidden():
            self.head.title.setText(title)

    def say_no_change(self, problem: str) -> None:
        """Say why there is nothing to compare with."""
        self.head.set_hint(one_line(problem))

    def show_bytes_view(self) -> None:
        """Bring the bytes to the front, where findings are marked."""
        if not self.views.isHidden():
            self.views.choose("bytes")
            self._show_view("bytes")

    def _choose(self, view: str) -> None:
        if self.views.isHidden():
            return
        self._wanted = view
        self._show_view(view)

    def _offer(self, offered: bool) -> None:
        self.views.setVisible(offered)
        self.path.setVisible(offered)
        self.head.hint.setVisible(not offered)

    def _show_view(self, view: str) -> None:
        shows_bytes = view == "bytes"
        self.diff.setVisible(not shows_bytes)
        self.box.setVisible(shows_bytes)
        self.head.title.setText(self._title if shows_bytes else "What would change")
        self.diff.added.setVisible(not shows_bytes)
        self.diff.removed.setVisible(not shows_bytes)
        size = size_words(len(self.box.exact_bytes))
        words = "   ".join([size, self.box.shown.describe_hidden(), self.diff.read_at])
        self.facts.setText(self._bytes_words if shows_bytes else words)
        if not shows_bytes:
            self.diff.view.set_two(view == "side")
        self._show_seen(self.end_was_seen)

    @property
    def end_was_seen(self) -> bool:
        """The bytes' end was on the screen, or that of a change which shows all of them."""
        return self.box.end_was_seen or (self._whole and self.diff.view.end_was_seen)

    @property
    def reader(self) -> QWidget:
        """What is in front and scrolls: the bytes, or the change that they make."""
        return self.box if not self.box.isHidden() else self.diff.view

    def _diff_seen(self) -> None:
        if self._whole:
            self._mark_seen()
