"""Badges, chips, pills and the marks of production. Each is colour, word and shape at once."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app.theme.shapes import paint_glyph
from app.theme.state_looks import StateLook, cell_look, health_look, plan_look, risk_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.animation_timer import AnimationTimer, animation_timer_of
from app.widgets.util import set_visible

RISK_SHAPE = 11
VERDICT_SHAPE = 14
HEALTH_SHAPE = 12


class _Mark(QWidget):
    """A painted mark of fixed size."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def minimumSizeHint(self) -> QSize:
        """Marks are never cut."""
        return self.sizeHint()


def paint_risk(
    painter: QPainter, rect: QRectF, risk: str, theme: Theme, boxed: bool, role: str = "badge"
) -> float:
    """Draw a risk as shape and word, on its tint when `boxed`; returns the width taken.

    Critical is white on a fill when boxed.
    """
    look = risk_look(risk)
    word_width = painting.text_width(look.word, theme, role)
    pad = 7.0 if boxed else 0.0
    width = pad + RISK_SHAPE + 6 + word_width + pad
    color = look.color
    if boxed:
        height = 20.0
        place = QRectF(rect.x(), rect.y() + (rect.height() - height) / 2, width, height)
        painting.box(painter, place, RADIUS.badge, theme.color(look.tint))
        if look.word == "Critical":
            color = "on_critical"
    shape = QRectF(rect.x() + pad, rect.y() + (rect.height() - RISK_SHAPE) / 2, RISK_SHAPE, RISK_SHAPE)
    paint_glyph(painter, shape, look.glyph, theme.color(color))
    words = QRectF(shape.right() + 6, rect.y(), word_width + 1, rect.height())
    painting.text(painter, words, look.word, theme, role, color)
    return width


def paint_state(
    painter: QPainter,
    rect: QRectF,
    look: StateLook,
    theme: Theme,
    shape: int = VERDICT_SHAPE,
    role: str = "body",
    step: int = 0,
) -> float:
    """Draw a state as shape and word without a box; returns the width taken. `step` turns a ring."""
    side = float(shape)
    place = QRectF(rect.x(), round(rect.y() + (rect.height() - side) / 2), side, side)
    paint_glyph(painter, place, look.glyph, theme.color(look.color), step)
    left = place.right() + 6
    words = QRectF(left, rect.y(), max(0.0, rect.right() - left), rect.height())
    return side + 6 + painting.text(painter, words, look.word, theme, role, look.word_color)


class RiskBadge(_Mark):
    """How risky something is: tint, shape and word."""

    def __init__(self, risk: str = "low", boxed: bool = True, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._boxed = boxed
        self.set_risk(risk)

    def set_risk(self, risk: str) -> None:
        """Show another risk: low, medium, high, critical."""
        self._risk = risk
        self.setAccessibleName(f"Risk: {risk_look(risk).word}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """20 high, as wide as the word."""
        width = painting.text_width(risk_look(self._risk).word, theme_of(self), "badge")
        return QSize(round(width + RISK_SHAPE + 6 + (14 if self._boxed else 0)) + 1, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the badge."""
        painter = QPainter(self)
        paint_risk(painter, self.rect().toRectF(), self._risk, theme_of(self), self._boxed)
        painter.end()


class StateBadge(_Mark):
    """A state as shape and word; a running one turns on the window's shared timer while it is seen."""

    def __init__(
        self,
        look: StateLook,
        what: str,
        shape: int = VERDICT_SHAPE,
        role: str = "body",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._what, self._shape, self._role = what, shape, role
        self._pulse: AnimationTimer | None = None
        self.set_look(look)

    def set_look(self, look: StateLook) -> None:
        """Show another state."""
        self._look = look
        self.setAccessibleName(f"{self._what}: {look.word}")
        self._pulse = animation_timer_of(self) if look.turning else None
        if self._pulse is not None:
            self._pulse.keep_turning(self)
        self.updateGeometry()
        self.update()

    def still_turns(self) -> bool:
        """Asked by the shared timer."""
        return self._look.turning

    def sizeHint(self) -> QSize:
        """As wide as shape and word."""
        width = painting.text_width(self._look.word, theme_of(self), self._role)
        return QSize(round(self._shape + 6 + width) + 2, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the state."""
        painter = QPainter(self)
        step = self._pulse.step if self._pulse is not None else 0
        rect = self.rect().toRectF()
        paint_state(painter, rect, self._look, theme_of(self), self._shape, self._role, step)
        painter.end()


class VerdictBadge(StateBadge):
    """What the console concluded from a result, or a cell's state."""

    def __init__(self, verdict: str, role: str = "body", parent: QWidget | None = None) -> None:
        super().__init__(cell_look(verdict), "Outcome", VERDICT_SHAPE, role, parent)

    def set_verdict(self, verdict: str) -> None:
        """Show another verdict or cell state."""
        self.set_look(cell_look(verdict))


class HealthBadge(StateBadge):
    """How a device is."""

    def __init__(self, health: str, role: str = "body", parent: QWidget | None = None) -> None:
        super().__init__(health_look(health), "Health", HEALTH_SHAPE, role, parent)

    def set_health(self, health: str) -> None:
        """Show another health."""
        self.set_look(health_look(health))


class PlanBadge(StateBadge):
    """What a dry run says about one cell."""

    def __init__(self, state: str, role: str = "body", parent: QWidget | None = None) -> None:
        super().__init__(plan_look(state), "Plan", VERDICT_SHAPE, role, parent)


class CountPill(_Mark):
    """How many wait for the operator; hidden at none."""

    def __init__(self, count: int = 0, what: str = "waiting for you", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._what = what
        self.set_count(count)

    def set_count(self, count: int) -> None:
        """Show another count."""
        self._count = count
        self.setAccessibleName(f"{count} {self._what}")
        set_visible(self, count > 0)
        self.updateGeometry()
        self.update()

    def _words(self) -> str:
        return str(self._count) if self._count < 1000 else "999+"

    def sizeHint(self) -> QSize:
        """16 high, a circle at least."""
        return QSize(max(16, round(painting.text_width(self._words(), theme_of(self), "label")) + 12), 16)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the pill."""
        painter = QPainter(self)
        paint_pill(painter, self.rect().toRectF(), self._words(), theme_of(self))
        painter.end()


def paint_pill(painter: QPainter, rect: QRectF, words: str, theme: Theme) -> None:
    """Draw a count on the waiting colour."""
    painting.box(painter, rect, rect.height() / 2, theme.color("waiting"))
    painting.text(painter, rect, words, theme, "label", "app", Qt.AlignmentFlag.AlignHCenter)


class Chip(QAbstractButton):
    """A small choice or filter; chosen in accent. Also a plain tag when `checkable` is off."""

    def __init__(
        self, text: str, checkable: bool = False, tone: str = "text2", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._tone = tone
        self.setText(text)
        self.setAccessibleName(text)
        self.setCheckable(checkable)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if checkable else Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_words(self, text: str) -> None:
        """Change the words."""
        self.setText(text)
        self.setAccessibleName(text)
        self.updateGeometry()
        self.update()

    def set_tone(self, tone: str) -> None:
        """Change the colour of the words; a token's name."""
        self._tone = tone
        self.update()

    def sizeHint(self) -> QSize:
        """20 high when it is only a tag; 24, the least hit area, when it can be pressed."""
        width = round(painting.text_width(self.text(), theme_of(self), "meta_strong")) + 16
        return QSize(width, 24 if self.isCheckable() else 20)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter presses, as Space does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.isCheckable():
            self.click()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the chip, 20 px high in the middle of its hit area."""
        theme = theme_of(self)
        painter = QPainter(self)
        whole = self.rect().toRectF()
        rect = QRectF(0, (whole.height() - 20) / 2, whole.width(), 20)
        chosen = self.isCheckable() and self.isChecked()
        hot = self.isCheckable() and self.underMouse() and self.isEnabled()
        edge = theme.color("accent" if chosen else "border2" if self.isEnabled() else "border")
        painting.box(painter, rect, RADIUS.badge, theme.color("hover") if hot else None, edge)
        ink = "accent" if chosen else self._tone if self.isEnabled() else "text3"
        painting.text(painter, rect, self.text(), theme, "meta_strong", ink, Qt.AlignmentFlag.AlignHCenter)
        painter.end()


class SecretChip(Chip):
    """Stands where a secret was; not even its length is told."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("••• secret", tone="text3", parent=parent)
        self.setAccessibleName("Secret, not shown")


class ProductionTag(_Mark):
    """ "Production", or how many of several devices are production."""

    def __init__(self, count: int | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.set_count(count)

    def set_count(self, count: int | None) -> None:
        """None: the one device is production. A number: that many of several are; hidden at none."""
        self._words = "Production" if count is None else f"{count} Production"
        self.setAccessibleName(self._words)
        set_visible(self, count is None or count > 0)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """16 high."""
        return QSize(round(painting.text_width(self._words, theme_of(self), "label")) + 10, 16)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the tag."""
        painter = QPainter(self)
        paint_production_tag(painter, self.rect().toRectF(), self._words, theme_of(self))
        painter.end()


def paint_production_tag(painter: QPainter, rect: QRectF, words: str, theme: Theme) -> None:
    """Draw the production tag into `rect`."""
    painting.box(painter, rect, 3, theme.color("prod_fill"))
    painting.text(painter, rect, words, theme, "label", "on_prod", Qt.AlignmentFlag.AlignHCenter)


class ProductionStrip(QWidget):
    """The strip above a card or a device that is production: 64 px of stripes, the word, one detail."""

    def __init__(self, detail: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(22)
        self.set_detail(detail)

    def set_detail(self, detail: str) -> None:
        """Say something beside the word, such as the device's name."""
        self._detail = detail
        self.setAccessibleName(f"Production {detail}".strip())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Stripes, word and detail."""
        theme = theme_of(self)
        words = painting.text_width("Production", theme, "badge") + painting.text_width(
            self._detail, theme, "meta"
        )
        return QSize(72 + round(words) + 24, 22)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw fill, stripes and words."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painter.fillRect(rect, theme.color("prod_fill"))
        paint_production_band(painter, QRectF(0, 0, 64, rect.height()), theme)
        left = QRectF(72, 0, rect.width() - 80, rect.height())
        width = painting.text(painter, left, "Production", theme, "badge", "on_prod")
        rest = left.adjusted(width + 8, 0, 0, 0)
        painting.text(painter, rest, self._detail, theme, "meta", "on_prod")
        painter.end()


def paint_production_band(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    """Fill `rect` with production stripes: row bands (5 px at x = 3), tile edges, strips."""
    painting.stripes(painter, rect, theme.color("prod_fill"), theme.color("prod_stripe"))


class ProductionBand(QWidget):
    """An upright band of stripes, 5 px wide, for rows that are widgets."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedWidth(5)
        self.setAccessibleName("Production")

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the stripes."""
        painter = QPainter(self)
        paint_production_band(painter, self.rect().toRectF(), theme_of(self))
        painter.end()
