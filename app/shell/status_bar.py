"""The status bar: what is healthy, what waits, the journal, the service; each part opens its screen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app.screens.targets import OpenQuery
from app.state import AppState, Link
from app.text import clock, count_words, milliseconds, parse_time
from app.theme.icons import ICONS, paint_icon
from app.theme.shapes import paint_glyph
from app.theme.state_looks import HEALTHS
from app.theme.theme import theme_of
from app.theme.tokens import FRAME
from app.widgets import painting
from app.widgets.labels import set_surface
from app.widgets.layouts import hbox
from app.widgets.toast import Toast
from core.models.devices import Health

VERIFIED_IS_OLD = timedelta(hours=24)
GLYPH = 12


class StatusPart(QAbstractButton):
    """One part of the status bar: a shape and words."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self._glyph, self._color, self._words = "", "text2", ""
        self._word_color, self._strong = "text2", False
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_words(
        self,
        words: str,
        glyph: str = "",
        color: str = "text2",
        word_color: str = "text2",
        strong: bool = False,
        tip: str = "",
    ) -> None:
        """Show other words; `glyph` is a painted shape or an icon's concept. Empty words hide the part."""
        self._words, self._glyph, self._color = words, glyph, color
        self._word_color, self._strong = word_color, strong
        self.setAccessibleName(words)
        self.setToolTip(tip)
        self.setVisible(bool(words))
        self.updateGeometry()
        self.update()

    def text_shown(self) -> str:
        """The words on the screen."""
        return self._words

    def sizeHint(self) -> QSize:
        """Shape and words with room around them."""
        theme = theme_of(self)
        role = "meta_strong" if self._strong else "meta"
        width = painting.text_width(self._words, theme, role) + (GLYPH + 6 if self._glyph else 0) + 16
        return QSize(round(width), FRAME.status_bar - 1)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw shape and words."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        if self.underMouse() or self.hasFocus():
            painter.fillRect(rect, theme.color("hover"))
        x = 8.0
        if self._glyph:
            place = QRectF(x, (rect.height() - GLYPH) / 2, GLYPH, GLYPH)
            draw = paint_icon if self._glyph in ICONS else paint_glyph
            draw(painter, place, self._glyph, theme.color(self._color))
            x += GLYPH + 6
        role = "meta_strong" if self._strong else "meta"
        room = QRectF(x, 0, rect.width(), rect.height())
        painting.text(painter, room, self._words, theme, role, self._word_color)
        painter.end()


class StatusBar(QWidget):
    """Health counts, what waits, journal, verification, service.

    Signals:
        opened(screen, target): a part was pressed.
    """

    opened = Signal(str, object)

    def __init__(self, state: AppState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(FRAME.status_bar)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._state = state
        self.lost = StatusPart("service-lost")
        self._health = {health: StatusPart(health.value) for health in Health}
        for health, part in self._health.items():
            part.clicked.connect(
                lambda _checked=False, one=health: self.opened.emit("fleet", OpenQuery(f"health:{one.value}"))
            )
        self._waiting = self._part("waiting", "approvals")
        self._stopped = self._part("stopped", "runs")
        self._journal = self._part("journal", "journal")
        self._verified = self._part("verified", "journal")
        self._service = self._part("service", "settings")
        row = hbox(
            self.lost,
            *self._health.values(),
            self._waiting,
            self._stopped,
            parent=self,
            margins=(4, 1, 4, 0),
            spacing=2,
        )
        self.toast = Toast(self)
        row.addWidget(self.toast, 1)
        for part in (self._journal, self._verified, self._service):
            row.addWidget(part)
        state.devices_changed.connect(self.show_devices)
        state.approvals_changed.connect(self.show_waiting)
        state.journal_changed.connect(self.show_journal)
        state.control_changed.connect(self.show_stopped)
        state.service_changed.connect(self.show_all)
        # "verified 10:41" turns into a warning by the clock alone.
        self._clock = QTimer(self)
        self._clock.setInterval(60_000)
        self._clock.timeout.connect(self.show_journal)
        self._clock.start()
        self.show_all()

    def _part(self, name: str, screen: str) -> StatusPart:
        part = StatusPart(name)
        part.clicked.connect(lambda: self.opened.emit(screen, None))
        return part

    def show_all(self) -> None:
        """Show everything again."""
        lost = self._state.service.link is Link.LOST
        set_surface(self, "")
        self.show_service()
        self.show_devices()
        self.show_waiting()
        self.show_stopped()
        self.show_journal()
        self.setAccessibleName("Status: the service is lost" if lost else "Status")
        self.update()

    def show_devices(self) -> None:
        """Count the devices by health; only online is shown when all are well."""
        counts = self._state.health_counts()
        for health, part in self._health.items():
            number = counts[health] + (counts[Health.BUSY] if health is Health.ONLINE else 0)
            look = HEALTHS[health.value]
            # A busy device is online as well; it has no count of its own.
            if not self._known() or health is Health.BUSY or (not number and health is not Health.ONLINE):
                part.show_words("")
                continue
            needs_look = health in (Health.STALE, Health.RECONNECTING)
            ink = look.word_color if needs_look else "text2"
            part.show_words(f"{number} {look.word.lower()}", look.glyph, look.color, ink, needs_look)

    def show_waiting(self) -> None:
        """Say how many requests wait for the operator."""
        number = len(self._state.approvals)
        if not self._known():
            self._waiting.show_words("")
        elif number:
            words = f"{count_words(number)} waiting for you"
            self._waiting.show_words(words, "sand", "waiting", "waiting", True)
        else:
            self._waiting.show_words("nothing waits for you", word_color="text3")

    def show_stopped(self) -> None:
        """Say that everything is stopped."""
        stopped = self._state.stopped and self._known()
        self._stopped.show_words("stopped" if stopped else "", "stop_ring", "fail", "fail", True)

    def show_journal(self) -> None:
        """Show the journal's size and when it was last verified."""
        journal = self._state.journal
        if journal is None or not self._known():
            self._journal.show_words("")
            self._verified.show_words("")
            return
        if journal.writable:
            self._journal.show_words(f"journal {count_words(journal.entries)} entries")
        else:
            self._journal.show_words(
                "journal cannot be written, no action is sent",
                "cross_octagon",
                "fail",
                "fail",
                True,
                journal.problem,
            )
        self._show_verified()

    def _show_verified(self) -> None:
        journal = self._state.journal
        assert journal is not None
        if journal.first_bad is not None or journal.verified_ok is False:
            words = "journal does not verify"
            if journal.first_bad is not None:
                words = f"entry {count_words(journal.first_bad)} does not verify"
            self._verified.show_words(words, "cross_octagon", "fail", "fail", True)
        elif journal.verified_at is None:
            self._verified.show_words("not verified yet", "half", "warn", "warn")
        elif datetime.now(UTC) - parse_time(journal.verified_at) > VERIFIED_IS_OLD:
            self._verified.show_words(f"verified {clock(journal.verified_at, False)}", "half", "warn", "warn")
        else:
            self._verified.show_words(f"verified {clock(journal.verified_at, False)}", "check_disc", "ok")

    def show_service(self) -> None:
        """Show the line to the service, or in words that it is lost."""
        service = self._state.service
        if service.link is Link.LOST:
            soon = f"in {service.next_try_s:.0f} s" if service.next_try_s >= 1 else "now"
            pause = f"Trying again {soon}, try {service.attempt}."
            # Most problems say why; one that says only that something was lost says the same once more.
            fact = "" if "lost" in service.problem else "The service is lost."
            words = f"{fact} {service.problem} {pause} What it was doing is unknown until then."
            self.lost.show_words(" ".join(words.split()), "cross_octagon", "fail", "fail", True, "Try now")
            self._service.show_words("")
        elif service.link is Link.CONNECTING:
            self.lost.show_words("")
            self._service.show_words("starting the service…", word_color="text3")
        else:
            self.lost.show_words("")
            trip = milliseconds(service.round_trip_ms)
            self._service.show_words(f"service {trip}", word_color="text3", tip="Round trip to the service")

    def _known(self) -> bool:
        return self._state.loaded and self._state.service.link is not Link.LOST

    def paintEvent(self, event: QPaintEvent) -> None:
        """The bar's colour says whether the service is there."""
        theme = theme_of(self)
        painter = QPainter(self)
        lost = self._state.service.link is Link.LOST
        painter.fillRect(self.rect(), theme.color("fail_tint" if lost else "app"))
        painter.fillRect(0, 0, self.width(), 1, theme.color("fail" if lost else "border"))
        painter.end()
