"""A desktop session with a window manager and a console on it, for tests with real programs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.home import Home
from core.service.console import Console
from tests.apps.acts import ActRecord, is_good, recorded, summary
from tests.apps.driver import Driver
from tests.apps.programs import Started, started
from tests.apps.screen import Screen, window_manager
from tests.fakes.accessible_session import accessible_session
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import accepted

# The acts run without a card each: what is proved here is what they do.
POLICY = """
profile = "trusted"

[[rule]]
id = "tests-use-this-screen"
decision = "allow"
tool = ["activate_window", "click_element", "click_point", "press_key", "scroll", "type_text"]
risk = "<=critical"
reason = "This screen is a test's own."
"""
_FOLDER = "QUARTERDECK_ACTS"
_FOREIGN = ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE", "AT_SPI_BUS_ADDRESS")


def pytest_configure(config: pytest.Config) -> None:
    """The first process makes the folder of the acts, which its workers inherit by the environment."""
    if not hasattr(config, "workerinput"):
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="acts-")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the tier where too few acts were right."""
    acts = recorded(Path(os.environ[_FOLDER]))
    if not hasattr(session.config, "workerinput") and not is_good(acts) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what became of the acts."""
    if acts := recorded(Path(os.environ[_FOLDER])):
        terminalreporter.section("acts on real programs")
        for line in summary(acts):
            terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The folder of the acts goes."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(_FOLDER), ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Session:
    """A display with a window manager, and a console whose device is on it."""

    environment: dict[str, str]
    screen: Screen
    console: Console
    home: Home


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def session() -> AsyncIterator[Session]:
    """One of each, for all tests of this process."""
    if shutil.which("openbox") is None:
        pytest.skip("openbox is not installed; `apt-get install openbox` lets these tests run")
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        accessible_session() as environment,
    ):
        for key in _FOREIGN:
            patch.delenv(key, raising=False)
        for key, value in environment.items():
            patch.setenv(key, value)
        home = Home(Path(folder) / "home").create()
        (home.path / "settings.toml").write_text("ui_actions_on_this_computer = true\n")
        await accepted(home, POLICY)
        screen = Screen(environment["DISPLAY"])
        try:
            async with window_manager(environment, screen), service_process(home) as service:
                console = await service.console()
                await until_online(console)
                yield Session(environment, screen, console, home)
        finally:
            screen.close()


@pytest.fixture
def driver(session: Session, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """The acts of one test on the program that its file names (`PROGRAM`)."""
    record = ActRecord(Path(os.environ[_FOLDER]), os.environ.get("PYTEST_XDIST_WORKER", "alone"))
    test = request.node.nodeid.rpartition("/")[2]
    built = Driver(session.console, session.home, session.screen, record, request.module.PROGRAM, test)
    yield built
    if request.node.stash.get(_ENDED, "") == "passed":
        built.finish()


_ENDED: pytest.StashKey[str] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember how the test itself ended, for what its fixtures check afterwards."""
    report = yield
    if report.when == "call":
        item.stash[_ENDED] = report.outcome
    return report


Start = Callable[..., AbstractAsyncContextManager[Started]]


@pytest.fixture
def start(session: Session, tmp_path: Path) -> Start:
    """Starts a program in the session; its home is a folder of the test."""

    def begin(*words: str, title: str | None = None, **more: str) -> AbstractAsyncContextManager[Started]:
        environment = {**session.environment, **more}
        return started(environment, tmp_path / "home", session.screen, *words, title=title)

    return begin
