"""One application for all window tests: off screen, dark, every Qt warning a failure."""

from __future__ import annotations

import asyncio
import gc
import os

os.environ.setdefault("QT_API", "pyside6")

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QSettings
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app import qt_loop
from app.overrides import install_guard
from app.theme.theme import Theme
from tests.fakes.approvals_desk import DeskWith, open_desk
from tests.fakes.patience import PATIENCE_S
from tests.fakes.window import apply_to_parts

# As the window does where it starts.
install_guard()

KEEPERS_OWN_TESTS = "test_garbage_keeper.py"


PATIENCE_MS = round(PATIENCE_S * 1000)


class PatientQtBot(QtBot):
    """pytest-qt's, with our own patience in place of its five seconds: a busy machine fails no test."""

    def waitUntil(self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS) -> None:
        """Wait for what the callback says."""
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(self, signal: Any, *, timeout: int = PATIENCE_MS, **more: Any) -> Any:
        """Wait for a signal."""
        return super().waitSignal(signal, timeout=timeout, **more)

    def waitExposed(self, widget: QWidget, *, timeout: int = PATIENCE_MS) -> Any:
        """Wait until a window is on its screen."""
        return super().waitExposed(widget, timeout=timeout)

    def waitCallback(self, *, timeout: int = PATIENCE_MS, **more: Any) -> Any:
        """Wait until what this gives is called."""
        return super().waitCallback(timeout=timeout, **more)


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> QtBot:
    """What a test of widgets waits with; what it was handed is closed by pytest-qt."""
    del qapp
    return PatientQtBot(request)


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    """A program name of our own, so that settings never land in another program's file."""
    return ["quarterdeck-tests"]


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_on_the_clipboard(qapp: QApplication) -> Iterator[None]:
    """The off-screen platform keeps what was copied until after Python has ended, and crashes then."""
    yield
    qapp.clipboard().clear()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """In memory; a real service has it on the disk, since commands name its files and are judged by that."""
    if request.path.stem.endswith("_real"):
        return tmp_path
    in_memory: Path = request.getfixturevalue("memory_path")
    return in_memory


@pytest.fixture(autouse=True)
def settings_stay_in_the_test(tmp_path: Path) -> None:
    """Column widths and splitters are remembered in the test's own folder only."""
    QCoreApplication.setOrganizationName("quarterdeck-tests")
    QCoreApplication.setApplicationName("quarterdeck-tests")
    QSettings.setDefaultFormat(QSettings.Format.IniFormat)
    QSettings.setPath(QSettings.Format.IniFormat, QSettings.Scope.UserScope, str(tmp_path))


class CollectorOfTests:
    """The module `gc` as the window's keeper uses it, but what was there before the test stays frozen.

    The keeper's `unfreeze` would have each test end with a look at every library that is loaded.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(gc, name)

    def freeze(self) -> None:
        """Not while a test runs."""

    def unfreeze(self) -> None:
        """Not while a test runs."""


@pytest.fixture(autouse=True)
def the_keeper_leaves_frozen_what_was_there(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window's keeper collects what its own test has made, as `pytest_runtest_protocol` does after it."""
    if request.path.name != KEEPERS_OWN_TESTS:
        monkeypatch.setattr(qt_loop, "gc", CollectorOfTests())


@pytest.fixture
def theme(qapp: QApplication) -> Theme:
    """The dark, comfortable theme, applied; whatever a test switches is gone after it."""
    qapp.setQuitOnLastWindowClosed(False)
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=qapp)
    apply_to_parts(theme, qapp)
    return theme


@pytest.fixture
def desk_with(theme: Theme, tmp_path: Path) -> DeskWith:
    """Opens an Approvals screen of its own, as `open_desk` is told."""
    return partial(open_desk, tmp_path / "home")


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Async tests of the window run on Qt's loop, as the window does."""
    return {"qt": _loop_on_qt}


def _loop_on_qt() -> asyncio.AbstractEventLoop:
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    loop: asyncio.AbstractEventLoop = qt_loop.QtEventLoop(app)
    return loop


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Qt's own warnings fail a window test, as Python's do."""
    del config
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.qt_log_level_fail("WARNING"))
            # The off-screen platform says this of every fixed size and of every pop-up, which gets its keys
            # all the same; a broken emoji font says the other.
            told = ("propagateSizeHints", "grabbing the keyboard", r"raise\(\)", "load glyph failed")
            item.add_marker(pytest.mark.qt_log_ignore(*told, extend=True))
