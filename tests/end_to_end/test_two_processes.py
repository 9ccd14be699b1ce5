"""Service and window are two processes: either may be killed, and the work and the truth survive."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication, attach
from app.qt_loop import run_on_qt
from app.state import Link
from app.theme.theme import Theme
from core.approvals.operator_keys import OperatorKey
from core.batch.models import RunState
from core.home import Home
from core.service.console import Console
from core.service.control import ensure_service, stop_service
from core.service.rpc.client import RemoteConsole
from tests.fakes.desk import Whistle, approve, choose_channel, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import anna
from tests.fakes.window import seen

ROOT = Path(__file__).parents[2]


@pytest.fixture
def theme(qapp: QApplication) -> Theme:
    qapp.setQuitOnLastWindowClosed(False)
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=qapp)
    theme.apply(qapp)
    return theme


@asynccontextmanager
async def attached(home: Home) -> AsyncIterator[RemoteConsole]:
    """Another client of the same service, which is started when there is none."""
    console = await ensure_service(home, "test", "operator:anna")
    try:
        yield console
    finally:
        await console.close()


async def registered(home: Home, console: Console) -> OperatorKey:
    key = anna(home)
    await console.approvals.register_operator(key.operator)
    return key


def play(
    home: Home, theme: Theme, scenario: Callable[[ConsoleApplication], Coroutine[Any, Any, None]]
) -> None:
    """The real window on the real service of a home; afterwards that service is stopped."""

    async def main() -> None:
        desk = ConsoleApplication(home, theme, attach(home))
        desk.begin()
        try:
            await seen(lambda: desk.state.loaded, 30)
            await scenario(desk)
        finally:
            await desk.end()
            await stop_service(home, cancel_work=True)

    app = QApplication.instance()
    assert isinstance(app, QApplication)
    run_on_qt(app, main())


@pytest.mark.story
def test_a_run_goes_on_when_its_window_is_killed_and_the_next_window_shows_it(
    home: Home, theme: Theme, whistle: Whistle, tmp_path: Path
):
    choose_channel(home, "in-process")
    done = tmp_path / "done"
    command = f"echo began > '{whistle.path}'; read go < '{tmp_path}/go'; echo done > '{done}'"
    os.mkfifo(tmp_path / "go")

    async def start_and_kill() -> str:
        async with attached(home) as console:
            key = await registered(home, console)
            environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
            window = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.fakes.window_that_runs",
                str(home.path),
                command,
                stdout=asyncio.subprocess.PIPE,
                cwd=ROOT,
                env=environment,
            )
            assert window.stdout is not None
            run = (await asyncio.wait_for(window.stdout.readline(), PATIENCE_S)).decode().strip()
            await approve(console, await next_approval(console), key)
            await whistle.blown()
            window.kill()
            await window.wait()
            assert (await console.runs.get(run)).summary.state is RunState.RUNNING
            (tmp_path / "go").write_text("go\n")
            ended = await console.runs.wait(run, PATIENCE_S)
            assert ended.summary.state is RunState.DONE
            assert done.read_text() == "done\n"
            return run

    run = asyncio.run(start_and_kill())

    async def next_window(desk: ConsoleApplication) -> None:
        assert desk.state.runs[run].state is RunState.DONE

    play(home, theme, next_window)


def test_when_the_service_is_killed_the_window_says_so_starts_it_again_and_shows_what_is_unknown(
    home: Home, theme: Theme, whistle: Whistle, tmp_path: Path
):
    count = tmp_path / "count"
    command = f"echo x >> '{count}'; echo began > '{whistle.path}'; sleep 60"

    async def scenario(desk: ConsoleApplication) -> None:
        async with attached(home) as console:
            key = await registered(home, console)
            await seen(lambda: desk.state.devices["this-computer"].tool_count > 0, 30)
            started = await console.runs.call("this-computer", "shell_execute", {"command": command})
            run = started.summary.id
            await approve(console, await next_approval(console), key)
            await whistle.blown()
            first = (await console.service.state()).service_pid
        lost: list[str] = []

        def look() -> None:
            if desk.state.service.link is Link.LOST:
                lost.append(desk.window.status_bar.accessibleName())

        desk.state.service_changed.connect(look)
        os.kill(first, signal.SIGKILL)
        await seen(lambda: lost, 30)
        assert lost[0] == "Status: the service is lost"
        await seen(lambda: desk.state.service.link is Link.CONNECTED, 30)
        await seen(lambda: desk.state.runs[run].state is RunState.UNKNOWN, 30)
        assert desk.state.service_pid != first
        assert count.read_text() == "x\n"

    play(home, theme, scenario)


def test_the_service_ends_by_itself_when_the_window_has_gone_and_nothing_runs(home: Home, theme: Theme):
    choose_channel(home, "in-process")

    async def main() -> None:
        desk = ConsoleApplication(home, theme, attach(home))
        desk.begin()
        await seen(lambda: desk.state.loaded, 30)
        pid = desk.state.service_pid
        await desk.end()
        await seen(lambda: not _alive(pid), 20)
        assert not home.socket.exists()

    app = QApplication.instance()
    assert isinstance(app, QApplication)
    run_on_qt(app, main())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
