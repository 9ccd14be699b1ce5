"""Pictures of the real window on invented data: `python -m tests.gui.shots [SET] [NAME…]`.

What the pictures show is invented, how they look is the program's own.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication

from app.qt_loop import run_on_qt
from app.theme.icons import load_icons
from app.theme.tokens import Mode
from tests.gui.shots import approvals, screens, settings, signing
from tests.gui.shots.studio import Studio

SETS = {"screens": screens, "approvals": approvals, "settings": settings, "signing": signing}


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures and say where they are."""
    parser = argparse.ArgumentParser(prog="python -m tests.gui.shots")
    parser.add_argument("set", choices=SETS, nargs="?", default="screens")
    parser.add_argument("names", nargs="*", default=[], help="which of the set; all without any")
    parser.add_argument("--out", type=Path, default=Path("build/shots"))
    parser.add_argument("--size", default="1440x900")
    parser.add_argument("--mode", action="append", default=[], choices=["dark", "light"])
    given = parser.parse_args(arguments)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    gc.disable()  # as `app.main.run` does, and for its reason
    app = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(app, QApplication)
    load_icons()
    given.out.mkdir(parents=True, exist_ok=True)
    width, height = (int(part) for part in given.size.split("x"))
    modes: list[Mode] = given.mode or ["dark", "light"]
    for mode in modes:
        studio = Studio(app, mode, QSize(width, height), given.out)
        for path in run_on_qt(app, SETS[given.set].shoot(studio, given.names)):
            sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
