"""Rows and columns of widgets in one expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget


@dataclass(frozen=True, slots=True)
class Gap:
    """Room between two parts: so many logical px, or what is left over where it stretches."""

    px: int = 0
    stretch: int = 0


STRETCH = Gap(stretch=1)
Item = QWidget | QLayout
Part = Item | Gap | tuple[Item, int] | tuple[Item, int, Qt.AlignmentFlag]
Margins = int | tuple[int, int, int, int]
Box = TypeVar("Box", bound=QBoxLayout)


def hbox(
    *parts: Part, parent: QWidget | None = None, margins: Margins | None = 0, spacing: int | None = 0
) -> QHBoxLayout:
    """The parts from left to right; see `vbox`."""
    return _filled(QHBoxLayout() if parent is None else QHBoxLayout(parent), parts, margins, spacing)


def vbox(
    *parts: Part, parent: QWidget | None = None, margins: Margins | None = 0, spacing: int | None = 0
) -> QVBoxLayout:
    """The parts from top to bottom: each alone, or with its stretch factor, or with that and an alignment.

    With `parent` it becomes the layout of that widget. Margins are the same on all sides, or left, top, right
    and bottom; they and the spacing are the style's where they are None.
    """
    return _filled(QVBoxLayout() if parent is None else QVBoxLayout(parent), parts, margins, spacing)


def _filled(box: Box, parts: tuple[Part, ...], margins: Margins | None, spacing: int | None) -> Box:
    if margins is not None:
        box.setContentsMargins(*(margins if isinstance(margins, tuple) else (margins,) * 4))
    if spacing is not None:
        box.setSpacing(spacing)
    for part in parts:
        if isinstance(part, Gap):
            box.addStretch(part.stretch) if part.stretch else box.addSpacing(part.px)
            continue
        item, stretch = (part[0], part[1]) if isinstance(part, tuple) else (part, 0)
        if isinstance(item, QLayout):
            box.addLayout(item, stretch)
        elif isinstance(part, tuple) and len(part) == 3:
            box.addWidget(item, stretch, part[2])
        else:
            box.addWidget(item, stretch)
    return box
