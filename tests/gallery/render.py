"""Renders every widget to pictures: `python -m tests.gallery --out build/gallery`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from app.theme.theme import Theme
from app.theme.tokens import DENSITIES, MODES, Density
from app.widgets.focus import FocusFrame
from tests.gallery.pages import PAGES


def settle(milliseconds: int = 60) -> None:
    """Let layouts, polish and queued paints happen."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def render(theme: Theme, page: str) -> QWidget:
    """Make one page, laid out at its size."""
    maker, size = PAGES[page]
    widget = maker()
    theme.dress(widget)
    widget.resize(*size)
    frame = FocusFrame(widget)
    frame.setObjectName("focus")
    widget.show()
    widget.activateWindow()
    if widget.focusProxy() is not None:
        widget.setFocus()
    settle()
    return widget


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures; returns the program's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/gallery"))
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    chosen.out.mkdir(parents=True, exist_ok=True)
    app = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(app, QApplication)
    app.setQuitOnLastWindowClosed(False)
    theme = Theme(reduced_motion=True, parent=app)
    theme.apply(app)
    for mode in MODES:
        theme.set_mode(mode)
        densities: tuple[Density, ...] = tuple(DENSITIES) if mode == "dark" else ("comfortable",)
        for density in densities:
            theme.set_density(density)
            for page in PAGES:
                widget = render(theme, page)
                name = f"{page}-{mode}{'-compact' if density == 'compact' else ''}.png"
                widget.grab().save(str(chosen.out / name))
                widget.close()
                widget.deleteLater()
    sys.stdout.write(f"{len(list(chosen.out.glob('*.png')))} pictures in {chosen.out}\n")
    return 0
