"""What every test may use: a virtual display, a home, a service over either channel, an operator."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

# Before anything loads Qt: no test shows a window on somebody's screen unless it asks for a display. The
# platform's own screen, 800 x 800, has no room for the window, and nothing beyond its edge counts as seen.
os.environ.setdefault(
    "QT_QPA_PLATFORM", f"offscreen:configfile={Path(__file__).parent / 'fakes' / 'offscreen.json'}"
)
os.environ.setdefault("QT_API", "pyside6")

import pytest
import structlog
from PySide6.QtCore import QCoreApplication, QEvent

from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.home import Home
from tests import slow_tests
from tests.fakes.compiled import compile_all
from tests.fakes.desk import Whistle
from tests.fakes.display import virtual_display
from tests.fakes.memory_folder import folder_of_a_test, memory_folder
from tests.fakes.run_size import load_profile
from tests.fakes.table_console import Misuse

# A shell starts what runs in its background deaf to Ctrl-C, and every process it starts inherits that;
# tests that press Ctrl-C in another process are the same there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Likewise under nohup, with the hang-up that a closed terminal sends.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Collection makes half a million objects that stay: looking for garbage among them takes a third of its time.
# Afterwards garbage is collected between tests.
gc.disable()

END_TO_END = Path(__file__).parent / "end_to_end"

# Before anything loads a test: its properties take their number of examples from the profile.
load_profile()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile before this process starts its workers."""
    several = session.config.getoption("numprocesses", None)
    if several and not hasattr(session.config, "workerinput"):
        compile_all(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow are end-to-end tests that are no story, and what is measured so; files with one come first.

    Begun last, one would keep one worker while the others have nothing.
    """
    measured = slow_tests.listed()
    for item in items:
        in_place = END_TO_END in item.path.parents and not item.get_closest_marker("story")
        if in_place or item.nodeid in measured:
            item.add_marker("slow")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Collect garbage between tests only: those of windows, and all that run after them in the same process.

    In a worker thread, or while Qt destroys an object, it crashes or hangs; in the program,
    `app.qt_loop.GuiThreadGarbageCollector` sees to that. A fixture would be too early: what a test was
    given is let go after its fixtures have ended, and its windows would then be collected in whichever
    thread of whichever later test. What was there before the test is frozen, so that the collection looks
    only at what the test has made.
    """
    gc.disable()
    gc.freeze()
    result = yield
    gc.collect()
    if QCoreApplication.instance() is not None:
        # What was to be deleted later is deleted now: no loop runs between tests, and thousands of widgets
        # would be styled anew with the next one's.
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # type: ignore[arg-type]
    gc.unfreeze()
    return result


@pytest.fixture(scope="session")
def display() -> Iterator[str]:
    """A virtual X display of this test session."""
    with virtual_display() as name:
        yield name


@pytest.fixture
def on_display(display: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """This test's processes and tools see the virtual display."""
    monkeypatch.setenv("DISPLAY", display)
    return display


@pytest.fixture(scope="session")
def _in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this session's folders in memory lie; on the disk where the machine has no memory for them."""
    with memory_folder() as folder:
        yield folder or tmp_path_factory.getbasetemp()


@pytest.fixture
def memory_path(request: pytest.FixtureRequest, _in_memory: Path) -> Iterator[Path]:
    """As `tmp_path`, but in memory: for a home or a journal, not for files that commands name."""
    with folder_of_a_test(request, _in_memory) as folder:
        yield folder


@pytest.fixture(autouse=True)
def _log_of_its_own() -> Iterator[None]:
    """A test that sends the log somewhere does not send the next one's to a file that is closed by then."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _fakes_of_the_console_fit_its_api() -> Iterator[None]:
    """What does not fit the API fails the test, also where a screen shows it as an error."""
    Misuse.seen.clear()
    yield
    Misuse.check()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A fresh home."""
    return Home(tmp_path / "home").create()


@pytest.fixture
async def operator(home: Home) -> OperatorKey:
    """The key of the operator `anna`, not yet registered."""
    return create_operator_key(home, "anna", None)


@pytest.fixture
def whistle(tmp_path: Path) -> Iterator[Whistle]:
    """A named pipe for one signal of another process."""
    pipe = Whistle(tmp_path / "whistle")
    yield pipe
    pipe.close()
