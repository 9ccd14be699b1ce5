"""What is there now beside what would be: a file's change line by line, or the target on a picture."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from PySide6.QtCore import Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.images import ImageCache, ImageKey, image_problem
from app.screens.approvals.target_preview import TargetPreview
from app.screens.approvals.text import local_time
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.buttons import Segmented
from app.widgets.diff_view import DiffView
from app.widgets.icon_label import IconLabel
from app.widgets.labels import ElidedLabel, Label
from app.widgets.layouts import vbox
from app.widgets.section import Section
from app.widgets.text_diff import FileDiff, diff_of, shows_all_of
from core.approvals.models import Approval
from core.approvals.preview_models import Preview
from core.errors import QuarterdeckError
from core.models.tool_names import CLOSE_APPLICATION
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS, SCREEN_TARGETS
from core.service.console import Console

FILE_TOOLS = tuple(name for name, tool in BUILT_IN_TOOLS.items() if tool.writes_files)
SCREEN_TOOLS = tuple(SCREEN_TARGETS)
HELD = "If the target changes before it is sent, the command is held and nothing is sent."
OLD_S = 60.0
"""Seconds after which a picture may well show another screen than the one that is there."""
_TITLES = {
    "click_element": "Where it would click",
    "click_point": "Where it would click",
    "type_text": "Where it would type",
    "press_key": "Where it would press keys",
    "scroll": "Where it would scroll",
}


@dataclass(frozen=True, slots=True)
class PreviewData:
    """A preview with what the window made of it: a change, or a picture."""

    approval: str
    preview: Preview
    diff: FileDiff | None = None
    picture: QImage = field(default_factory=QImage)
    whole: bool = False


def has_preview(approval: Approval) -> bool:
    """Whether there is something to look at before this kind of request is answered."""
    return approval.request.tool_name in (*FILE_TOOLS, *SCREEN_TOOLS, CLOSE_APPLICATION)


async def look(console: Console, approval: Approval, images: ImageCache) -> PreviewData:
    """Read the preview of a request, and what it names; comparing is done in a thread."""
    preview = await console.approvals.preview(approval.id)
    if preview.picture is not None:
        try:
            picture = await images.load(console, ImageKey(preview.picture))
        except QuarterdeckError as error:
            update = {"problem": image_problem(error), "picture": None}
            return PreviewData(approval.id, preview.model_copy(update=update))
        return PreviewData(approval.id, preview, picture=picture)
    # What is there is compared with only where it is known, or known not to be there.
    unknown = preview.before is None and not preview.is_new
    if preview.after is None or unknown:
        return PreviewData(approval.id, preview)
    found = await asyncio.to_thread(diff_of, preview.before or "", preview.after)
    content = approval.request.parameters.get("content")
    whole = not isinstance(content, str) or shows_all_of(content, preview.before, preview.after)
    return PreviewData(approval.id, preview, diff=found, whole=whole)


class DiffPart(QWidget):
    """A file's change. The counts are placed by the widget that has a line for them.

    Signals:
        end_seen: the last changed line was on the screen.
    """

    end_seen = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.view = DiffView()
        self.added = Label("", "meta_strong", "ok")
        self.removed = Label("", "meta_strong", "fail")
        self.read_at = ""
        vbox(self.view, parent=self, spacing=None)
        self.view.end_seen.connect(self.end_seen)

    def show_looked(self, looked: PreviewData, device: str, alone: bool) -> None:
        """Show a change; `alone` is off when other devices' files were not read."""
        if looked.diff is None:
            return
        self.view.show_diff(looked.diff)
        self.added.setText(f"+{looked.diff.added}")
        self.removed.setText(f"−{looked.diff.removed}")
        preview = looked.preview
        words = f"old content read {local_time(preview.taken_at)}" if preview.before is not None else ""
        if preview.before is None:
            words = one_line(preview.problem).rstrip(".") or "there is no such file yet"
        if not alone:
            words += f", on {one_line(device)} only"
        self.read_at = words

    def clear(self) -> None:
        """Nothing of the last request's file stays."""
        self.view.show_diff(FileDiff((), 0, 0))
        self.read_at = ""


class ProgramSection(Section):
    """The program that would be closed: its process, its windows, its command line."""

    def __init__(self) -> None:
        super().__init__("What would be closed")
        self.program = Label("", wrap=True)
        self.add(self.program)

    def show_waiting(self) -> None:
        """Nothing has come in yet."""
        self.head.set_hint("")
        self.program.setText("Reading the device's processes …")

    def show_looked(self, preview: Preview) -> None:
        """Show the program, or why it is not known."""
        self.program.setText(one_line(preview.label or preview.problem))
        self.head.set_hint(f"read {local_time(preview.taken_at)}" if preview.taken_at else "")


class ScreenSection(Section):
    """A picture of the screen with the target on it, and how old it is."""

    def __init__(self) -> None:
        super().__init__("Where it would act")
        self.zoom = Segmented([("fit", "Fit"), ("full", "100 %")], "Zoom", in_bar=True)
        self.head.add(self.zoom)
        self.view = TargetPreview()
        self.add(self.view)
        self.box = ElidedLabel("", "meta", "text2")
        self.add(self.box)
        row = QHBoxLayout()
        row.setSpacing(SPACE.snug)
        self._eye = IconLabel("eye", "text3", 14)
        # What is wrong with the picture, never cut off; else what follows if the target changes.
        self.held = Label("", "meta", "text3", wrap=True)
        row.addWidget(self._eye)
        row.addWidget(self.held, 1)
        self.body.addLayout(row)
        self.zoom.chosen.connect(self._zoom)
        self.clock: Callable[[], float] = time.monotonic
        self._taken_at = ""
        # By `clock`; the device's own clock may be wrong.
        self._taken: float | None = None

    def show_waiting(self, approval: Approval) -> None:
        """Nothing has come in yet."""
        self.head.title.setText(_TITLES.get(approval.request.tool_name, "Where it would act"))
        self._taken = None
        self.show_age()
        self.box.set_text("")
        self.view.set_empty_text("Taking a picture of the screen …")
        self.view.set_image(QImage())
        self.view.show_target(None, None, "")
        self._show_rest(False)

    def show_looked(self, looked: PreviewData, approval: Approval) -> None:
        """Show the picture, or why there is none."""
        preview = looked.preview
        problem = one_line(preview.problem) or "There is no picture of this screen."
        self.view.set_empty_text(problem)
        self.view.set_image(looked.picture)
        known = not looked.picture.isNull()
        self._say_held(one_line(preview.problem) if known else "", preview.compared)
        label = one_line(preview.label) or _label_of(approval)
        self.view.show_target(preview.target, preview.point, label if known else "")
        self.view.fit()
        self.zoom.choose("fit")
        self._show_rest(known)
        self._taken_at = local_time(preview.taken_at)
        is_dated = known and preview.age_s is not None
        self._taken = self.clock() - (preview.age_s or 0.0) if is_dated else None
        self.show_age()
        if not known:
            return
        words = []
        if preview.target is not None:
            box = preview.target
            words.append(f"box {box.x}, {box.y}, {box.width} × {box.height}")
        if preview.point is not None:
            words.append(f"point {preview.point[0]}, {preview.point[1]}")
        if not words and not preview.problem:
            words.append("where on the picture it lies is not known")
        self.box.set_text("   ".join(words))
        self.box.setVisible(bool(words))

    def show_age(self) -> None:
        """Say how old the picture is by now."""
        age = None if self._taken is None else self.clock() - self._taken
        words = "" if age is None else f"picture {self._taken_at}, {age_words(age)}"
        if words == self.head.hint.text():
            return
        self.head.set_hint(words)
        self.head.hint.set_tone("warn" if age is not None and age >= OLD_S else "text3")
        self.head.hint.setAccessibleName(f"Age of the picture: {words}" if words else "")

    def _show_rest(self, known: bool) -> None:
        self.zoom.setVisible(known)
        self.box.setVisible(known)
        self.held.setVisible(known and bool(self.held.text()))
        self._eye.setVisible(known and bool(self.held.text()))

    def _say_held(self, problem: str, compared: bool) -> None:
        self.held.setText(problem or (HELD if compared else ""))
        self.held.set_tone("warn" if problem else "text3")

    def _zoom(self, key: str) -> None:
        if key == "fit":
            self.view.fit()
        else:
            self.view.show_actual_size()


def _label_of(approval: Approval) -> str:
    summary = one_line(approval.decision.summary)
    return summary[:1].lower() + summary[1:]


def age_words(seconds: float) -> str:
    """The age of a picture, in steps that do not make a reader look up each second."""
    whole = int(seconds)
    if whole < 5:
        return "just now"
    if whole < 60:
        return f"{whole - whole % 5} s old"
    return f"{whole // 60} min old" if whole < 5400 else f"{whole // 3600} h old"
