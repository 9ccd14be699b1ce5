"""Every screen, its parts, and what can be opened over them."""

from __future__ import annotations

from functools import partial

from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication
from app.screens.agents.screen import AgentsScreen
from app.screens.batch.document_io import EXAMPLES
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.runs.screen import RunsScreen
from app.screens.targets import (
    OpenBatch,
    OpenDevice,
    OpenEntry,
    OpenPairing,
    OpenQuery,
    OpenReplay,
    OpenRun,
    OpenSection,
    OpenVerification,
    Target,
)
from core.approvals.operator_keys import create_operator_key
from core.batch.batch_file import read_batch
from core.home import Home
from core.service.console import Console
from tests.fakes.agents_story import add_agents
from tests.fakes.bay_count import RUN
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices
from tests.fakes.story import LAST_ENTRY, story
from tests.golden_pictures.studio import Studio, settled
from tests.gui.page import button_named

_SCREENS = ("fleet", "batch", "approvals", "runs", "replay", "journal", "agents", "settings")
_SHELL = "action::shell_execute"
_BUSY = "build-lnx-03"
# The screen and what is opened on it.
_TARGETS: dict[str, tuple[str, Target | None]] = {
    **{
        f"device-{tab}": ("fleet", OpenDevice(_BUSY, tab, _SHELL))
        for tab in ("tools", "servers", "try", "recent", "link")
    },
    "device-offline": ("fleet", OpenDevice("kiosk-yard")),
    "batch-saved": ("batch", OpenBatch("free-disk-space")),
    "runs-result": ("runs", OpenRun("r-0418", "lab-lnx-01", "disk")),
    "runs-output": ("runs", OpenRun("r-0418", "lab-lnx-01", "clean")),
    "runs-picture": ("runs", OpenRun("r-0418", "lab-lnx-01", "shot")),
    "runs-decision": ("runs", OpenRun("r-0418", "lab-lnx-01", "clean")),
    "runs-entries": ("runs", OpenRun("r-0418", "lab-lnx-01", "clean")),
    "runs-failed": ("runs", OpenRun("r-0411", "edge-gw-11", "check")),
    "runs-alike": ("runs", OpenRun("r-0418", "lab-lnx-01", "disk")),
    "runs-rows": ("runs", OpenRun("r-0418", "lab-lnx-01", "disk")),
    "replay-run": ("replay", OpenReplay(run=RUN)),
    "journal-query": ("journal", OpenQuery("tool:shell_execute")),
    "journal-no-match": ("journal", OpenQuery("device:nowhere")),
    "journal-verified": ("journal", OpenVerification()),
    "settings-devices": ("settings", OpenSection("devices")),
    "settings-this-computer": ("settings", OpenSection("this-computer")),
    "settings-about": ("settings", OpenSection("about")),
}
_ENTRY_TABS = ("entry", "proof", "around", "pictures")
_OVER = ("palette", "keys", "unlock", "wall", "pairing", "device-doctor", "device-page",
         "batch-run", "batch-open", "batch-flow", "batch-form", "batch-inputs",
         "replay-side", "replay-change", "stopped")  # fmt: skip


async def _play(name: str, studio: Studio) -> None:
    consoles: list[FakeConsole] = []

    def tell(home: Home) -> Console:
        passphrase = "a long passphrase" if name == "unlock" else None
        consoles.append(story([create_operator_key(home, "harbour", passphrase).operator]))
        return consoles[0]

    async with studio.desk(tell) as desk:
        if name in _TARGETS:
            desk.window.open(*_TARGETS[name])
        elif name.startswith("journal-") and name.removeprefix("journal-") in _ENTRY_TABS:
            tab = name.removeprefix("journal-")
            desk.window.open("journal", OpenEntry(_entry_for(tab, consoles[0]), tab))
        elif name in _OVER:
            await _open_over(desk, name, consoles[0])
        else:
            desk.window.open(name)
        await settled(desk.window)
        if name == "fleet":
            _fleet(desk).listing.choose(_BUSY)
        elif name in ("runs-alike", "runs-rows"):
            runs = desk.window.current
            assert isinstance(runs, RunsScreen)
            runs.views.show_view("results")
            button_named(runs.views.results.kind, name.removeprefix("runs-").capitalize()).click()
            await settled(desk.window)
        elif name.startswith("runs-") and name != "runs-failed":
            runs = desk.window.current
            assert isinstance(runs, RunsScreen)
            runs.drawer.choose_tab(name.removeprefix("runs-"))
        await studio.take(desk, name)


def _entry_for(tab: str, console: FakeConsole) -> int:
    """An entry of a command in the middle; for the pictures' tab one with a picture."""
    if tab != "pictures":
        return LAST_ENTRY - 20
    return next(entry.seq for entry in reversed(console.fake_journal.entries) if entry.blobs)


async def _open_over(desk: ConsoleApplication, name: str, console: FakeConsole) -> None:
    """Bring what a picture shows to the front."""
    window = desk.window
    match name:
        case "palette":
            window.open_palette("shell build")
        case "keys":
            window.open("runs")
            window.show_keys()
        case "unlock":
            window.open("approvals")
            window.start_unlock()
        case "wall":
            _fleet(desk).show_as(True)
            _fleet(desk).listing.choose("db-primary")
        case "pairing":
            window.open("fleet", OpenPairing())
            await settled(window)
            sheet = next(iter(window.findChildren(PairingDialog)))
            sheet.name_field.setText("db-4")
            sheet.tags_field.setText("db prod")
            sheet.production.setChecked(True)
        case "device-doctor":
            window.open("fleet", OpenDevice(_BUSY, "link"))
            await settled(window)
            _fleet(desk).panel.link_tab.doctor.run()
        case "device-page":
            window.open("fleet", OpenDevice(_BUSY, "tools", _SHELL))
            await settled(window)
            _fleet(desk).listing.opened.emit(_BUSY)
        case "batch-run" | "batch-open":
            window.open("batch", OpenBatch("free-disk-space"))
            await settled(window)
            _press("Ctrl+Return" if name == "batch-run" else "Ctrl+O")
        case "batch-flow" | "batch-form" | "batch-inputs":
            example = "canary-then-waves" if name == "batch-form" else "restart-or-the-other-way"
            file = EXAMPLES / f"{example}.yaml"
            console.saved[example] = read_batch(file.read_text(encoding="utf-8"), file.name)
            window.open("batch", OpenBatch(example))
            await settled(window)
            if name != "batch-flow":
                _press("B" if name == "batch-form" else "Ctrl+Return")
        case "replay-side" | "replay-change":
            window.open("replay", OpenReplay(run=RUN))
            await settled(window)
            _press("1" if name == "replay-side" else "Shift+N")
        case "stopped":
            await console.service.stop_all()


def _press(keys: str) -> None:
    """Keys to what has the keyboard."""
    QTest.keySequence(QApplication.focusWidget(), QKeySequence(keys))


def _fleet(desk: ConsoleApplication) -> FleetScreen:
    if desk.window.current.name != "fleet":
        desk.window.open("fleet")
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    return fleet


async def _play_first_run(studio: Studio) -> None:
    own = [device for device in make_devices() if device.name == "this-computer"]
    async with studio.desk(lambda home: FakeConsole(own)) as desk:
        await studio.take(desk, "first-run")


async def _play_agents(part: str, studio: Studio) -> None:
    """One part of the agents' screen, or what is asked over it."""

    def tell(home: Home) -> Console:
        return add_agents(story([create_operator_key(home, "harbour", None).operator]))

    async with studio.desk(tell) as desk:
        desk.window.open("agents")
        await settled(desk.window)
        screen = desk.window.current
        assert isinstance(screen, AgentsScreen)
        if part == "add":
            screen.add_agent()
        else:
            screen.panel.show_tab(part)
        await settled(desk.window)
        await studio.take(desk, f"agents-{part}")


async def _play_empty(screen: str, studio: Studio) -> None:
    """A screen of a fleet with which nothing was done yet."""

    def tell(home: Home) -> Console:
        return FakeConsole(operators=[create_operator_key(home, "harbour", None).operator])

    async with studio.desk(tell) as desk:
        desk.window.open(screen)
        await studio.take(desk, f"empty-{screen}")


SCENES = {
    **{
        name: partial(_play, name)
        for name in (*_SCREENS, *_TARGETS, *(f"journal-{tab}" for tab in _ENTRY_TABS), *_OVER)
    },
    **{
        f"empty-{screen}": partial(_play_empty, screen)
        for screen in ("approvals", "runs", "replay", "journal")
    },
    **{f"agents-{part}": partial(_play_agents, part) for part in ("commands", "tickets", "limits", "add")},
    "first-run": _play_first_run,
}
