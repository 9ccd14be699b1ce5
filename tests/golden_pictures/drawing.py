"""Draws scenes at the scale of this process: one fork for each, so that none sees what another left."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import PySide6
from PySide6.QtCore import qVersion
from PySide6.QtGui import QFontInfo
from PySide6.QtWidgets import QApplication

import app
from app.qt_loop import run_on_qt
from app.theme.theme import make_font
from tests.golden_pictures.comparison import ENVIRONMENT
from tests.golden_pictures.scenes import SCENES
from tests.golden_pictures.studio import Studio

# Only a scene that hangs takes so long; it is ended and named.
LONGEST_SCENE_S = 300


def draw(out: Path, scenes: Sequence[str], looks: Sequence[str], scale: str) -> list[str]:
    """Draw scenes into a folder; returns those that could not be drawn, whose errors are printed.

    Raises:
        RuntimeError: the program that Python imports is not that of the present folder.
    """
    if Path.cwd() not in Path(app.__file__).resolve().parents:
        raise RuntimeError(f"{app.__file__} is not the code of {Path.cwd()}.")
    if _forked(partial(_write_environment, out)) != 0:
        raise RuntimeError("Qt does not start here.")
    return [name for name in scenes if _forked(partial(_draw, name, out, looks, scale)) != 0]


def _forked(work: Callable[[QApplication], None]) -> int:
    """Do something with Qt in a fork; returns its exit code."""
    child = os.fork()
    if child == 0:
        os._exit(_worked(work))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _worked(work: Callable[[QApplication], None]) -> int:
    signal.alarm(LONGEST_SCENE_S)
    faulthandler.enable()
    try:
        gc.disable()  # as `app.main.run` does, and for its reason
        application = QApplication(["quarterdeck-pictures"])
        application.setCursorFlashTime(0)
        work(application)
    except BaseException:  # noqa: BLE001  # the edge of a process: printed, and told by the exit code
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _draw(name: str, out: Path, looks: Sequence[str], scale: str, application: QApplication) -> None:
    try:
        run_on_qt(application, SCENES[name](Studio(application, out, looks, scale)))
    except Exception as error:
        error.add_note(f"in the scene {name}")
        raise


def _write_environment(out: Path, _application: QApplication) -> None:
    """What pixels depend on beside the code."""
    environment = {
        "Python": platform.python_version(),
        "Qt": qVersion(),
        "PySide6": PySide6.__version__,
        "font of words": QFontInfo(make_font("body")).family(),
        "font of bytes": QFontInfo(make_font("mono")).family(),
    }
    (out / ENVIRONMENT).write_text(json.dumps(environment, indent=2) + "\n")
