"""Opens the window for each sitting of the story, closes it, and opens it again on the same home."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication, attach, layout_store, theme_from
from core.approvals.operator_keys import load_operator_key
from core.changes import change_statement
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.service.console import Console
from core.service.control import ensure_service, stop_service
from core.service.wishes import agent_added
from tests.tour.after_restart import AFTER_RESTART
from tests.tour.agents_scenario import AGENT_SCENES
from tests.tour.album import Album
from tests.tour.approval_scenario import APPROVAL_SCENES
from tests.tour.context import PASSPHRASE, Scene, TourContext, play
from tests.tour.devices import DemoDevices, free_port
from tests.tour.fleet_scenario import FLEET_SCENES
from tests.tour.main_scenario import SCENES
from tests.tour.policy_scenario import POLICY_SCENES
from tests.tour.ui_driver import TourInput, UiDriver

SIZE = QSize(1440, 900)
AGENT = "surveyor"
OPERATOR = "harbour"
# A free port, so that it meets no other program, and after each restart the same one.
_SETTINGS = 'listen = "127.0.0.1:{port}"\n'
# Settings that were accepted in the first sitting hold in the second.
SITTINGS: list[list[Scene]] = [
    [*SCENES, *FLEET_SCENES],
    [*APPROVAL_SCENES, *POLICY_SCENES, *AGENT_SCENES],
    AFTER_RESTART,
]


async def perform(app: QApplication, home: Home, album: Album, folder: Path) -> None:
    """Play the whole story; the service that was started for it is stopped at the end, whatever happened.

    Raises:
        StepDidNotHappen: something did not come about.
    """
    work = folder / "work"
    work.mkdir()
    (home.path / "settings.toml").write_text(_SETTINGS.format(port=free_port()), "utf-8")
    theme = theme_from(layout_store(home))
    theme.setParent(app)
    theme.apply(app)
    crew = DemoDevices(folder / "devices")
    try:
        for scenes in SITTINGS:
            await _play(
                home, ConsoleApplication(home, theme, attach(home), TourInput()), crew, scenes, work, album
            )
    finally:
        crew.close()


async def _agent(home: Home) -> Console:
    """A new connection of the tour's agent, which its operator signs in for each sitting."""
    key = load_operator_key(home, OPERATOR, PASSPHRASE)
    terminal = await ensure_service(home, client="cli", actor="cli:tour")
    try:
        settings = AgentSettings()
        proposal = await terminal.service.propose(agent_added(AGENT, settings))
        signed = key.sign_change(change_statement(proposal, key.name))
        token = (await terminal.agents.add(AGENT, settings, signed)).token
    finally:
        await terminal.close()
    agent = await ensure_service(home, client="agent", actor=f"agent:{AGENT}", token=token)
    await agent.agents.introduce("stdio", "field-survey", "1.4")
    return agent


async def _play(
    home: Home, desk: ConsoleApplication, crew: DemoDevices, scenes: list[Scene], work: Path, album: Album
) -> None:
    hand = UiDriver(desk.window, desk.link, album)
    desk.window.resize(SIZE)
    async with AsyncExitStack() as stack:
        doors: list[Console] = []

        async def agent() -> Console:
            if not doors:
                doors.append(await _agent(home))
                stack.push_async_callback(doors[0].close)
            return doors[0]

        try:
            desk.begin()
            # A bare display has no window manager, so the window asks for the keyboard itself.
            desk.window.activateWindow()
            await hand.until("the window has the keyboard", desk.window.isActiveWindow)
            await play(TourContext(desk, hand, work, crew, agent), scenes)
        finally:
            await stack.aclose()
            await desk.end()
            await stop_service(home, cancel_work=True)
