"""The pictures of a moment: before, after, and where they differ."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPixmap, QResizeEvent, QTransform
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.screens.replay.images import ImageDifference, ImagePair, Job, Problem, ReplayImages, ScaledImage
from app.screens.replay.text import Clock, earlier
from app.screens.replay.timeline_index import TimelineIndex
from app.text import one_line
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets import painting
from app.widgets.buttons import Segmented
from app.widgets.image_view import ImageView
from app.widgets.labels import ElidedLabel, Label
from app.widgets.layouts import STRETCH, hbox, vbox
from core.replay.models import Frame

MODES = ("side", "changed", "full")
AHEAD = 4
READING = "Reading the picture…"


class ReplayPicture(ImageView):
    """A picture from the shelf, with changed tiles and the place that was acted on drawn upon it."""

    def __init__(self, name: str, shelf: ReplayImages) -> None:
        super().__init__(name, "No picture")
        self._shelf = shelf
        self._blob: str | None = None
        self._spots: ImageDifference | None = None
        self._mark: tuple[int, int] | None = None
        self._mark_words = ""
        self._whole = False
        self._ready_of: QImage | None = None
        self._ready = QPixmap()
        self.set_overlay(self._paint_over)

    @property
    def blob(self) -> str | None:
        """The digest of the picture whose place this is."""
        return self._blob

    @property
    def problem(self) -> str:
        """Why there is no picture; empty when there is one."""
        return self._empty if self.image().isNull() else ""

    def show_blob(self, blob: str | None, words: str, why_none: str) -> None:
        """Show a picture as soon as it is there; until then, and when it cannot be had, say so."""
        if blob != self._blob:
            self._whole = False
        self._blob = blob
        found = self._shelf.picture(blob) if blob else None
        if isinstance(found, QImage):
            if not self._whole:
                self._whole = True
                self.set_image(found, words)
            return
        self._whole = False
        self.set_empty_text(why_none if not blob else found.words if isinstance(found, Problem) else READING)
        self.set_image(QImage(), self._empty)

    def show_marks(self, spots: ImageDifference | None, mark: tuple[int, int] | None, words: str) -> None:
        """What to draw upon the picture."""
        if (spots, mark, words) != (self._spots, self._mark, self._mark_words):
            self._spots, self._mark, self._mark_words = spots, mark, words
            self.update()

    def fit_size(self) -> QSize:
        """The place of the picture in device pixels."""
        ratio = self.devicePixelRatioF()
        return QSize(round(self.width() * ratio), round(self.height() * ratio))

    def jobs(self, blob: str) -> list[Job]:
        """What this place needs to show a picture."""
        size = self.fit_size()
        return [blob, ScaledImage(blob, size.width(), size.height())]

    def _smaller(self) -> QPixmap:
        # Made small in a thread, ahead of the step; only a zoom in between is scaled here.
        ready = self._shelf.small(self._blob, self.fit_size()) if self._blob and self.is_fitted() else None
        if not isinstance(ready, QImage):
            return super()._smaller()
        if self._ready_of is not ready:
            self._ready_of = ready
            self._ready = QPixmap.fromImage(ready)
            self._ready.setDevicePixelRatio(self.devicePixelRatioF())
        return self._ready

    def _paint_over(self, painter: QPainter, view: ImageView) -> None:
        theme = theme_of(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ink, mark = theme.color("picture_ink"), theme.color("picture_mark")
        if self._spots is not None and self._spots.same_size:
            unit = view.to_view(QRectF(0, 0, 1, 1))
            way = QTransform().translate(unit.x(), unit.y()).scale(unit.width(), unit.height())
            path = way.map(self._spots.path)
            fill = QColor(mark)
            fill.setAlphaF(0.12)
            painter.setBrush(fill)
            painter.setPen(QPen(mark, 1.5))
            painter.drawPath(path)
        if self._mark is not None:
            at = view.to_view(QRectF(self._mark[0] + 0.5, self._mark[1] + 0.5, 0, 0)).topLeft()
            painter.setBrush(Qt.BrushStyle.NoBrush)
            for color, width in ((ink, 5.0), (QColor("white"), 2.0)):
                painter.setPen(QPen(color, width))
                painter.drawEllipse(at, 9.5, 9.5)
            painter.setPen(QPen(ink, 1))
            painter.setBrush(mark)
            painter.drawEllipse(at, 3.5, 3.5)
            self._paint_plate(painter, at)

    def _paint_plate(self, painter: QPainter, at: QPointF) -> None:
        """The words beside the mark, where they hide neither it nor the picture's edge."""
        if not self._mark_words:
            return
        theme = theme_of(self)
        width = painting.text_width(self._mark_words, theme, "meta_strong") + 16
        left = min(max(4.0, at.x() - width / 2), self.width() - width - 4)
        below = at.y() + 18
        top = below if below + 22 < self.height() - 4 else at.y() - 40
        plate = QRectF(left, top, width, 22)
        mark = theme.color("picture_mark")
        painting.box(painter, plate, 4, theme.color("picture_ink"), mark)
        font = theme.font("meta_strong")
        painter.setFont(font)
        painter.setPen(QColor("white"))
        painter.drawText(plate, Qt.AlignmentFlag.AlignCenter, self._mark_words)


class _Titled(QWidget):
    """A picture under its title and the time it was taken."""

    def __init__(self, title: str, picture: ReplayPicture) -> None:
        super().__init__()
        self.picture = picture
        self.title = Label(title, "head")
        self.hint = ElidedLabel("", "meta", "text3")
        self.head = hbox(self.title, STRETCH, self.hint, spacing=SPACE.small)
        self.head.addStrut(24)
        vbox(self.head, (picture, 1), parent=self, spacing=SPACE.tight)


class ImageCompare(QWidget):
    """Before, after and changed; or both side by side; or one picture in full.

    Signals:
        mode_chosen(mode): the operator wants `side`, `changed` or `full`.
    """

    mode_chosen = Signal(str)

    def __init__(self, shelf: ReplayImages) -> None:
        super().__init__()
        self._shelf = shelf
        self._reel: TimelineIndex | None = None
        self._place = 0
        self._clock = Clock()
        self._forward = True
        self._width = 252
        self.mode = "changed"
        self.setAccessibleName("Pictures of the moment")
        self.before = ReplayPicture("Before", shelf)
        self.after = ReplayPicture("After", shelf)
        self.changed = ReplayPicture("Changed", shelf)
        self._resized = QTimer(self)
        self._resized.setSingleShot(True)
        self._resized.setInterval(0)
        self._resized.timeout.connect(self._want)
        self._build()
        shelf.came.connect(self._came)

    def _build(self) -> None:
        self.before_box = _Titled("Before", self.before)
        self.after_box = _Titled("After", self.after)
        self.changed_box = _Titled("Changed", self.changed)
        self.words = ElidedLabel("", "meta", "text2")
        self.changed_box.head.insertWidget(1, self.words, 100)
        self.modes = Segmented(
            [("side", "Side by side"), ("changed", "Changed"), ("full", "Full picture")],
            "How pictures are shown",
            in_bar=True,
        )
        self.modes.chosen.connect(self.mode_chosen)
        self._pair = QWidget()
        self._pair_layout = vbox(
            self.before_box, self.after_box, STRETCH, parent=self._pair, spacing=SPACE.small
        )
        self._row = hbox(self._pair, (self.changed_box, 1), spacing=SPACE.large)
        vbox(
            (self._row, 1),
            parent=self,
            margins=(SPACE.pane, SPACE.small, SPACE.large, SPACE.medium),
            spacing=SPACE.tight,
        )
        self.set_mode("changed")

    def set_compact(self, narrow: bool) -> None:
        """Before and after 252 wide, 200 in a narrow window."""
        self._width = 200 if narrow else 252
        self.modes.set_words("side", "Side" if narrow else "Side by side")
        self.modes.set_words("full", "Full" if narrow else "Full picture")
        self._apply_mode()

    def set_mode(self, mode: str) -> None:
        """Show `side`, `changed` or `full`."""
        self.mode = mode if mode in MODES else "changed"
        self.modes.choose(self.mode)
        self._apply_mode()
        self.refresh()
        self._resized.start()

    def _apply_mode(self) -> None:
        side, changed = self.mode == "side", self.mode == "changed"
        self._place_modes(self.after_box if side else self.changed_box)
        self._pair.setVisible(side or changed)
        self.changed_box.setVisible(not side)
        column = QVBoxLayout.Direction.LeftToRight if side else QVBoxLayout.Direction.TopToBottom
        self._pair_layout.setDirection(column)
        self._pair_layout.setStretch(0, 1 if side else 0)
        self._pair_layout.setStretch(1, 1 if side else 0)
        self._pair_layout.setStretch(2, 0 if side else 1)
        self._pair.setMinimumWidth(self._width if changed else 0)
        self._pair.setMaximumWidth(self._width if changed else 16_777_215)
        height = round(self._width * 10 / 16)
        for picture in (self.before, self.after):
            picture.setMinimumHeight(48)
            picture.setMaximumHeight(16_777_215 if side else height)

    def _place_modes(self, box: _Titled) -> None:
        """Keep the choice at the right end, above the picture that is there."""
        if box.head.indexOf(self.modes) >= 0:
            return
        inner = self.focusWidget()
        focused = inner is not None and self.modes.isAncestorOf(inner)
        box.head.addWidget(self.modes)
        self.modes.show()
        if focused and inner is not None:
            inner.setFocus(Qt.FocusReason.OtherFocusReason)

    # What is shown

    def show_moment(self, reel: TimelineIndex | None, place: int, clock: Clock, forward: bool = True) -> None:
        """Show what was known at this moment."""
        self._reel, self._place, self._clock, self._forward = reel, place, clock, forward
        self.refresh()
        self._want()

    def refresh(self) -> None:
        """Draw what is there by now."""
        reel = self._reel
        if reel is None or not len(reel):
            for picture in (self.before, self.after, self.changed):
                picture.show_blob(None, "", "Nothing happened yet.")
            return
        before, after = reel.known_at(self._place)
        moment = reel.moments[self._place]
        who = one_line(moment.device) or "any device"
        none_yet = f"No picture of {who} was known at this moment."
        self._show(self.before_box, before, "No earlier picture")
        self._show(self.after_box, after, "No picture yet")
        spots = self._spots(before, after)
        plain = self.mode == "full" or before is None
        self.changed_box.title.setText("Picture" if plain else "Changed")
        self.words.set_text(self._change_words(before, after, spots))
        self.changed_box.hint.set_text(self._when(after) if plain else "")
        self.changed.show_blob(after.blob if after else None, self._alt(after), none_yet)
        mark = reel.mark_at(self._place)
        words = one_line(moment.tool) if mark else ""
        seen = spots if isinstance(spots, ImageDifference) and not plain else None
        self.changed.show_marks(seen, mark, words)
        self.after.show_marks(seen if self.mode == "side" else None, mark, "")

    def _show(self, box: _Titled, frame: Frame | None, why_none: str) -> None:
        box.hint.set_text(self._when(frame))
        box.picture.show_blob(frame.blob if frame else None, self._alt(frame), why_none)

    def _when(self, frame: Frame | None) -> str:
        if frame is None or self._reel is None:
            return ""
        ago = self._reel.moments[self._place].at - frame.at
        words = self._clock.words(frame.time, frame.at)
        return words if ago < 0.0005 else f"{words}, {earlier(ago)}"

    def _alt(self, frame: Frame | None) -> str:
        return f"{one_line(frame.device)} at {self._clock.words(frame.time, frame.at)}" if frame else ""

    def _spots(self, before: Frame | None, after: Frame | None) -> ImageDifference | Problem | None:
        if before is None or after is None or not before.blob or not after.blob:
            return None
        if before.blob == after.blob:
            return None
        return self._shelf.spots(before.blob, after.blob)

    def _change_words(
        self, before: Frame | None, after: Frame | None, spots: ImageDifference | Problem | None
    ) -> str:
        if after is None:
            return ""
        if before is None:
            return f"the first one of {one_line(after.device)}"
        if before.blob == after.blob:
            return "no difference"
        if isinstance(spots, Problem):
            return f"cannot be compared: {spots.words}"
        if spots is None:
            return "comparing…"
        # The newest picture may be older than the playhead: what changed in it did not change now.
        old = self._reel is not None and self._reel.moments[self._place].seq != after.seq
        return f"{spots.words()}, at {self._clock.words(after.time, after.at)}" if old else spots.words()

    # What is needed

    def ask_again(self) -> None:
        """Want the pictures of this moment; after the shelf was told to stop."""
        self._want()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Want small copies for the new places, once they have been laid out."""
        super().resizeEvent(event)
        self._resized.start()

    def _want(self) -> None:
        """This moment first, then the pictures that the next steps will show."""
        reel = self._reel
        if reel is None or not len(reel):
            self._shelf.want("moment", [])
            return
        jobs: list[Job] = []
        before, after = reel.known_at(self._place)
        for frame, views in ((after, self._views_of_after()), (before, self._views_of_before())):
            if frame is not None and frame.blob:
                jobs += [job for view in views for job in view.jobs(frame.blob)]
        if (
            before is not None
            and after is not None
            and before.blob
            and after.blob
            and before.blob != after.blob
        ):
            jobs.append(ImagePair(before.blob, after.blob))
        self._shelf.want("moment", jobs + self._ahead())

    def _ahead(self) -> list[Job]:
        """The frames around the playhead, first those in the direction of travel."""
        assert self._reel is not None
        number = self._reel.frame_at(self._place)
        if number is None:
            number = -1
        step = 1 if self._forward else -1
        order = [number + step * distance for distance in range(1, AHEAD + 1)]
        order += [number - step * distance for distance in range(1, AHEAD // 2 + 1)]
        jobs: list[Job] = []
        for near in order:
            if not 0 <= near < len(self._reel.frames):
                continue
            blob = self._reel.frames[near].blob
            if blob:
                views = (*self._views_of_after(), *self._views_of_before())
                jobs += [job for view in views for job in view.jobs(blob)]
            if pair := self._reel.pair_of(near):
                jobs.append(ImagePair(*pair))
        return jobs

    def _views_of_after(self) -> tuple[ReplayPicture, ...]:
        return {"side": (self.after,), "full": (self.changed,)}.get(self.mode, (self.changed, self.after))

    def _views_of_before(self) -> tuple[ReplayPicture, ...]:
        return () if self.mode == "full" else (self.before,)

    def _came(self, job: object) -> None:
        if self._reel is None or not len(self._reel):
            return
        if isinstance(job, ScaledImage):
            shown_blobs = (self.before.blob, self.after.blob, self.changed.blob)
            if job.blob in shown_blobs:
                for picture in (self.before, self.after, self.changed):
                    picture.update()
        else:
            self.refresh()
