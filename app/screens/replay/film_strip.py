"""The film strip: one frame for each picture and each action, painted only where it is seen."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QImage,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTransform,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.screens.replay.images import ImageDifference, ImagePair, Job, Problem, ReplayImages, ScaledImage
from app.screens.replay.text import Clock, tool_icon
from app.screens.replay.timeline_index import TimelineIndex
from app.text import one_line
from app.theme.icons import paint_icon
from app.theme.shapes import paint_glyph
from app.theme.state_looks import cell_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import RADIUS, SPACE
from app.widgets import painting
from app.widgets.badges import paint_production_band
from app.widgets.labels import escaped_tooltip
from core.replay.models import Frame

GAP = 8
AHEAD = 8
PLATE = 16
FOOT = 16
# Of a tool's name at least this part is shown; else its icon stands for it.
LEAST_PART = 0.6


class FilmStrip(QWidget):
    """Frames side by side; the one of the playhead has a ring and is kept in sight.

    Signals:
        chosen(seq): the operator clicked on the frame of this entry.
    """

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reel: TimelineIndex | None = None
        self._shelf: ReplayImages | None = None
        self._clock = Clock()
        self._production: frozenset[str] = frozenset()
        self._current: int | None = None
        self._offset = 0.0
        self._frame = QSize(128, 80)
        self.setProperty("surface", "base")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setProperty("own_ring", True)
        self.setAccessibleName("Film strip")
        self.set_compact(False)

    def set_shelf(self, shelf: ReplayImages) -> None:
        """Where pictures come from."""
        self._shelf = shelf
        shelf.came.connect(self._came)

    def set_compact(self, low: bool) -> None:
        """Frames of 128 × 80, or 90 × 56 in a low window."""
        self._frame = QSize(90, 56) if low else QSize(128, 80)
        self.setFixedHeight(84 if low else 116)
        self._keep_in_sight()
        self.update()

    def show_reel(
        self, reel: TimelineIndex | None, clock: Clock, production: frozenset[str] = frozenset()
    ) -> None:
        """Show another timeline, or a longer one; the place in the strip stays."""
        self._reel, self._clock, self._production = reel, clock, production
        self._current = None
        self._offset = min(self._offset, self._most_offset())
        self._ask()
        self.update()

    def show_clock(self, clock: Clock) -> None:
        """Write times another way."""
        self._clock = clock
        self.update()

    def show_current(self, number: int | None) -> None:
        """Ring this frame and keep it in sight."""
        if number == self._current:
            return
        self._current = number
        self._keep_in_sight()
        frames = self._reel.frames if self._reel else []
        words = f"frame {number + 1} of {len(frames)}" if number is not None else "no frame"
        device = one_line(frames[number].device) if number is not None else ""
        self.setAccessibleDescription(f"{words}, {device}" if device else words)
        self._ask()
        self.update()

    @property
    def current(self) -> int | None:
        """The number of the ringed frame."""
        return self._current

    def frame_rect(self, number: int) -> QRectF:
        """Where the picture of a frame is in the widget."""
        x = SPACE.pane + number * self._pitch() - self._offset
        return QRectF(round(x), SPACE.small, self._frame.width(), self._frame.height())

    def visible_frames(self) -> range:
        """The frames that are seen, wholly or in part."""
        count = len(self._reel.frames) if self._reel else 0
        pitch = self._pitch()
        first = int((self._offset - SPACE.pane) // pitch)
        last = int((self._offset + self.width() - SPACE.pane) // pitch) + 1
        return range(max(0, first), max(0, min(count, last)))

    def _pitch(self) -> int:
        return self._frame.width() + GAP

    def _most_offset(self) -> float:
        count = len(self._reel.frames) if self._reel else 0
        return max(0.0, count * self._pitch() - GAP + 2 * SPACE.pane - self.width())

    def _keep_in_sight(self) -> None:
        if self._current is not None:
            left = self._current * self._pitch()
            right = left + self._frame.width() + 2 * SPACE.pane
            margin = self._pitch() if self.width() > 4 * self._pitch() else 0
            if left - margin < self._offset:
                self._offset = left - margin
            elif right + margin > self._offset + self.width():
                self._offset = right + margin - self.width()
        self._offset = max(0.0, min(self._offset, self._most_offset()))

    # Pictures

    def _device_size(self) -> QSize:
        ratio = self.devicePixelRatioF()
        return QSize(round(self._frame.width() * ratio), round(self._frame.height() * ratio))

    def ask_again(self) -> None:
        """Want the pictures that are seen; after the shelf was told to stop."""
        self._ask()

    def _ask(self) -> None:
        """Want what is seen first, from the playhead outwards, then a little more on both sides."""
        if self._shelf is None or self._reel is None:
            return
        seen = self.visible_frames()
        middle = self._current if self._current in seen else (seen.start + seen.stop) // 2
        around = range(max(0, seen.start - AHEAD), min(len(self._reel.frames), seen.stop + AHEAD))
        order = sorted(around, key=lambda number: (number not in seen, abs(number - (middle or 0))))
        jobs: list[Job] = []
        for number in order:
            if blob := self._reel.frames[number].blob:
                jobs.append(self._small(blob))
        for number in order:
            if number in seen and (pair := self._reel.pair_of(number)):
                jobs.append(ImagePair(*pair))
        self._shelf.want("film", jobs)

    def _small(self, blob: str) -> ScaledImage:
        size = self._device_size()
        return ScaledImage(blob, size.width(), size.height())

    def _came(self, job: object) -> None:
        if isinstance(job, ScaledImage | ImagePair):
            self.update()

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the frames that are seen."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color("base"))
        if self._reel is not None:
            for number in self.visible_frames():
                self._paint_frame(painter, number, self._reel.frames[number], theme)
            if self._current is not None:
                ring = self.frame_rect(self._current).adjusted(-2, -2, 2, 2)
                painting.ring(painter, ring, RADIUS.badge + 2, theme.color("accent"))
            self._paint_place(painter, theme)
        if self.hasFocus():
            painter.fillRect(QRectF(0, 0, 2, self.height()), theme.color("accent"))
        painter.end()

    def _paint_frame(self, painter: QPainter, number: int, frame: Frame, theme: Theme) -> None:
        rect = self.frame_rect(number)
        painting.box(painter, rect, RADIUS.badge, theme.color("sunken"))
        image = self._shelf.get(self._small(frame.blob)) if self._shelf and frame.blob else None
        if isinstance(image, QImage):
            self._paint_picture(painter, rect, image, number)
        else:
            damaged = isinstance(image, Problem)
            icon = "failed" if damaged else tool_icon(frame.tool) if not frame.blob else "picture"
            place = QRectF(rect.center().x() - 11, rect.center().y() - 11, 22, 22)
            paint_icon(painter, place, icon, theme.color("fail" if damaged else "text3"))
        if frame.ended:
            self._paint_ended(painter, rect, frame.ended, theme)
        if self._reel is not None and self._reel.many_devices and frame.device:
            self._paint_device(painter, rect, frame.device, theme)
        if frame.device in self._production:
            band = QRectF(rect.x() + 1, rect.y(), rect.width() - 2, 5)
            paint_production_band(painter, band, theme)
        painting.box(painter, rect, RADIUS.badge, edge=theme.color("border2"))
        if frame.blob and (frame.mark or tool_icon(frame.tool) in ("click", "type")):
            self._paint_plate(painter, rect, frame, theme)
        chosen = number == self._current
        words = QRectF(rect.x(), rect.bottom() + 4, rect.width() + 2, 16)
        time = self._clock.words(frame.time, frame.at)
        role, tone = ("hint_strong", "text") if chosen else ("hint", "text3")
        used = painting.text(painter, words, time, theme, role, tone)
        rest = words.adjusted(used + 6, 0, 0, 0)
        tone, name = "text2" if chosen else "text3", one_line(frame.tool)
        if painting.text_width(name, theme, "mono_hint") * LEAST_PART <= rest.width():
            painting.text(painter, rest, name, theme, "mono_hint", tone)
        else:
            place = QRectF(rest.x(), rest.y() + 2, 12, 12)
            paint_icon(painter, place, tool_icon(frame.tool), theme.color(tone))

    def _paint_ended(self, painter: QPainter, rect: QRectF, ended: str, theme: Theme) -> None:
        """Say of a command that did not succeed how it ended, in the corner of its frame."""
        look = cell_look(ended)
        place = QRectF(rect.x() + 3, rect.y() + 7, PLATE, PLATE)
        painting.box(painter, place, 3, theme.color("base"))
        paint_glyph(painter, place.adjusted(1, 1, -1, -1), look.glyph, theme.color(look.color))

    def _paint_device(self, painter: QPainter, rect: QRectF, device: str, theme: Theme) -> None:
        """Name the device at the foot of its frame, opaque: pictures of devices look alike."""
        foot = QRectF(rect.x() + 1, rect.bottom() - FOOT, rect.width() - 2, FOOT - 1)
        painter.fillRect(foot, theme.color("raised"))
        words, room = one_line(device), foot.adjusted(5, 0, -5, 0)
        middle = Qt.TextElideMode.ElideMiddle
        painting.text(painter, room, words, theme, "hint", "text", Qt.AlignmentFlag.AlignLeft, middle)

    def _paint_picture(self, painter: QPainter, rect: QRectF, image: QImage, number: int) -> None:
        ratio = self.devicePixelRatioF()
        width, height = image.width() / ratio, image.height() / ratio
        place = QRectF(
            rect.x() + (rect.width() - width) / 2, rect.y() + (rect.height() - height) / 2, width, height
        )
        clip = QPainterPath()
        clip.addRoundedRect(rect, RADIUS.badge, RADIUS.badge)
        painter.save()
        painter.setClipPath(clip)
        painter.drawImage(place, image)
        pair = self._reel.pair_of(number) if self._reel else None
        spots = self._shelf.spots(*pair) if self._shelf and pair else None
        if isinstance(spots, ImageDifference) and spots.same_size and not spots.path.isEmpty():
            _paint_spots(painter, place, spots, theme_of(self))
        painter.restore()

    def _paint_plate(self, painter: QPainter, rect: QRectF, frame: Frame, theme: Theme) -> None:
        place = QRectF(rect.right() - PLATE - 3, rect.y() + 3, PLATE, PLATE)
        painting.box(painter, place, 3, theme.color("picture_ink"))
        icon = tool_icon(frame.tool)
        icon = icon if icon in ("click", "type") else "click"
        paint_icon(painter, place.adjusted(2, 2, -2, -2), icon, theme.color("picture_mark"))

    def _paint_place(self, painter: QPainter, theme: Theme) -> None:
        """A thin line at the bottom: which part of a long strip is seen."""
        most = self._most_offset()
        if most <= 0:
            return
        whole = self.width() + most
        width = max(24.0, self.width() * self.width() / whole)
        x = (self.width() - width) * self._offset / most
        painter.fillRect(QRectF(x, self.height() - 3, width, 2), theme.color("border2"))

    # Hands

    def frame_under(self, point: QPointF) -> int | None:
        """The number of the frame at a point."""
        number = int((point.x() + self._offset - SPACE.pane) // self._pitch())
        count = len(self._reel.frames) if self._reel else 0
        inside = 0 <= number < count and point.x() <= self.frame_rect(number).right()
        return number if inside else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Go to the frame's moment."""
        number = self.frame_under(event.position())
        if number is not None and event.button() == Qt.MouseButton.LeftButton and self._reel:
            self.chosen.emit(self._reel.frames[number].seq)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Move the strip sideways."""
        turned = event.angleDelta()
        step = turned.x() or turned.y()
        self._offset = max(0.0, min(self._offset - step, self._most_offset()))
        self._ask()
        self.update()
        event.accept()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the chosen frame in sight."""
        super().resizeEvent(event)
        self._keep_in_sight()
        self._ask()

    def event(self, event: QEvent) -> bool:
        """Say of a frame what it is."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            number = self.frame_under(QPointF(event.pos()))
            if number is None or self._reel is None:
                QToolTip.hideText()
            else:
                QToolTip.showText(
                    event.globalPos(), escaped_tooltip(self._tip(self._reel.frames[number])), self
                )
            return True
        return super().event(event)

    def _tip(self, frame: Frame) -> str:
        parts = [f"{self._clock.words(frame.time, frame.at)}, entry {frame.seq:,}"]
        parts.append(f"{one_line(frame.tool) or 'command'} on {one_line(frame.device) or 'no device'}")
        image = self._shelf.get(self._small(frame.blob)) if self._shelf and frame.blob else None
        if isinstance(image, Problem):
            parts.append(image.words)
        elif not frame.blob:
            parts.append("without a picture")
        if frame.ended:
            parts.append(cell_look(frame.ended).word)
        return "\n".join(parts)


def _paint_spots(painter: QPainter, place: QRectF, spots: ImageDifference, theme: Theme) -> None:
    """Draw changed tiles so that frames that look alike can be told apart."""
    scale = place.width() / max(1, spots.size[0])
    way = QTransform().translate(place.x(), place.y()).scale(scale, scale)
    fill = QColor(theme.color("picture_mark"))
    fill.setAlphaF(0.3)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(theme.color("picture_mark"), 1))
    painter.setBrush(fill)
    painter.drawPath(way.map(spots.path))
