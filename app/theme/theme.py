"""The theme: one mode and one density, applied to the application as palette, style sheet and fonts.

Painted widgets read their colours while painting, so a switch at run time needs no bookkeeping: applying
the style sheet sends every widget a `StyleChange`, which repaints and measures it again.
"""

from __future__ import annotations

import re
from pathlib import Path
from weakref import WeakSet

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QColor, QFont, QIcon, QPalette
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from app.theme.icons import ThemedIcon
from app.theme.tokens import (
    DENSITIES,
    MODES,
    MONO_FAMILIES,
    RADIUS,
    TYPE,
    UI_FAMILIES,
    Density,
    Metrics,
    Mode,
    Tokens,
)

STYLE_SHEET = Path(__file__).resolve().parents[2] / "resources" / "style" / "quarterdeck.qss"
_PROPERTY = "quarterdeck_theme"
_NAME_IN_TEMPLATE = re.compile(r"\{(\w+)\}")


class Theme(QObject):
    """Colours, fonts and heights of the window.

    Signals:
        changed: mode, density or motion is another one now; already applied.
    """

    changed = Signal()

    def __init__(
        self,
        mode: Mode = "dark",
        density: Density = "comfortable",
        reduced_motion: bool = False,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._mode: Mode = mode
        self._density: Density = density
        self._reduced_motion = reduced_motion
        self._windows: WeakSet[QWidget] = WeakSet()
        self._app: QApplication | None = None
        self._fonts: dict[str, QFont] = {}
        self._colors: dict[str, QColor] = {}

    @property
    def mode(self) -> Mode:
        """`dark` or `light`."""
        return self._mode

    @property
    def density(self) -> Density:
        """`comfortable` or `compact`."""
        return self._density

    @property
    def reduced_motion(self) -> bool:
        """True when nothing may slide, fade or turn."""
        return self._reduced_motion

    @property
    def tokens(self) -> Tokens:
        """The colours of the current mode."""
        return MODES[self._mode]

    @property
    def metrics(self) -> Metrics:
        """The heights of the current density."""
        return DENSITIES[self._density]

    def color(self, role: str) -> QColor:
        """The current colour of a token by its name."""
        if (color := self._colors.get(role)) is None:
            color = self._colors[role] = QColor(getattr(self.tokens, role))
        return color

    def font(self, role: str) -> QFont:
        """The font of a type role; fonts do not depend on mode or density."""
        if (font := self._fonts.get(role)) is None:
            font = self._fonts[role] = make_font(role)
        return font

    def icon(self, concept: str, role: str = "text2", disabled_role: str = "text3") -> QIcon:
        """An icon that follows the theme and is sharp at any size."""
        return ThemedIcon.make(self, concept, role, disabled_role)

    def set_mode(self, mode: Mode) -> None:
        """Switch between dark and light."""
        self._change(mode, self._density, self._reduced_motion)

    def set_density(self, density: Density) -> None:
        """Switch the heights of rows and controls."""
        self._change(self._mode, density, self._reduced_motion)

    def set_reduced_motion(self, reduced: bool) -> None:
        """Allow motion, or forbid it."""
        self._change(self._mode, self._density, reduced)

    def _change(self, mode: Mode, density: Density, reduced: bool) -> None:
        if (mode, density, reduced) == (self._mode, self._density, self._reduced_motion):
            return
        self._mode, self._density, self._reduced_motion = mode, density, reduced
        self._colors.clear()
        if self._app is not None:
            self._dress(self._app)
        self.changed.emit()

    def apply(self, app: QApplication) -> None:
        """Make this the application's theme; `theme_of` finds it from then on. `dress` each window."""
        self._app = app
        if self.parent() is None:
            # The property below holds a bare pointer: without an owner the theme would be gone with the last
            # Python name for it, and the next widget that asks for it would crash the process.
            self.setParent(app)
        app.setProperty(_PROPERTY, self)
        app.setStyle("Fusion")
        app.setFont(self.font("body"))
        self._dress(app)

    def dress(self, window: QWidget) -> None:
        """Give a window, and whatever comes into it, the style sheet; now and whenever that is another one.

        The application has none: by that each widget would be styled again at each step of its way into a
        window, which takes longer than making it, and a switch of the theme four times as long.
        """
        self._windows.add(window)
        window.setStyleSheet(self.style_sheet())

    def _dress(self, app: QApplication) -> None:
        app.setPalette(self.palette())
        sheet = self.style_sheet()
        for window in self._windows:
            if isValid(window):
                window.setStyleSheet(sheet)

    def palette(self) -> QPalette:
        """The tokens as Qt's own roles, for what the style sheet does not reach."""
        role, group = QPalette.ColorRole, QPalette.ColorGroup
        palette = QPalette()
        for place, name in (
            (role.Window, "app"),
            (role.WindowText, "text"),
            (role.Base, "base"),
            (role.AlternateBase, "raised"),
            (role.Text, "text"),
            (role.PlaceholderText, "text3"),
            (role.Highlight, "selected"),
            (role.HighlightedText, "text"),
            (role.Accent, "accent"),
            (role.Button, "raised"),
            (role.ButtonText, "text"),
            (role.BrightText, "fail"),
            (role.ToolTipBase, "raised"),
            (role.ToolTipText, "text"),
            (role.Link, "accent"),
            (role.LinkVisited, "accent"),
            (role.Light, "hover"),
            (role.Midlight, "border"),
            (role.Mid, "border2"),
            (role.Dark, "border2"),
            (role.Shadow, "sunken"),
        ):
            palette.setColor(place, self.color(name))
        for place in (role.WindowText, role.Text, role.ButtonText):
            palette.setColor(group.Disabled, place, self.color("text3"))
        return palette

    def style_sheet(self) -> str:
        """The style sheet with every `{name}` replaced.

        Raises:
            KeyError: the template names a token that does not exist.
        """
        metrics = self.metrics
        values = self.tokens.as_dict() | {
            "control_height": str(metrics.control),
            "control_inner": str(metrics.control - 2),
            "table_head": str(metrics.table_head),
            "tree_row": str(metrics.tree_row),
            "radius_badge": str(RADIUS.badge),
            "radius_control": str(RADIUS.control),
            "radius_card": str(RADIUS.card),
            "radius_dialog": str(RADIUS.dialog),
        }
        # The first line differs for every combination: equal texts would not restyle what is on the screen.
        first = f"/* {self._mode} {self._density} {'still' if self._reduced_motion else 'moving'} */\n"
        template = STYLE_SHEET.read_text(encoding="utf-8")
        return first + _NAME_IN_TEMPLATE.sub(lambda match: values[match[1]], template)


def make_font(role: str) -> QFont:
    """Build the font of a type role.

    UI text has figures of one width; monospace has no ligatures, because an approver must see the bytes.
    """
    kind = TYPE[role]
    font = QFont()
    font.setFamilies(list(MONO_FAMILIES if kind.mono else UI_FAMILIES))
    font.setPixelSize(kind.px)
    font.setWeight(QFont.Weight(kind.weight))
    font.setItalic(kind.italic)
    if kind.mono:
        font.setStyleHint(QFont.StyleHint.Monospace)
        font.setFixedPitch(True)
        font.setFeature(QFont.Tag("calt"), 0)
        font.setFeature(QFont.Tag("liga"), 0)
    else:
        font.setFeature(QFont.Tag("tnum"), 1)
    if kind.spacing:
        font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, kind.spacing)
    return font


def theme_of(widget: QWidget | None = None) -> Theme:
    """The theme that was applied to the application.

    Raises:
        RuntimeError: no theme was applied yet.
    """
    del widget  # one theme per application today; callers say whose, so that this can change
    app = QApplication.instance()
    theme = app.property(_PROPERTY) if app is not None else None
    if not isinstance(theme, Theme):
        raise RuntimeError("Apply a Theme to the QApplication before making widgets.")
    return theme
