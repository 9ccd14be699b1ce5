"""A production device carries its colour band, or its tag, in every view that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QWidget

from app.main import ConsoleApplication
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.batch.screen import BatchScreen
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.journal.screen import JournalScreen
from app.screens.replay.screen import ReplayScreen
from app.screens.runs.screen import RunsScreen
from app.screens.targets import OpenApproval, OpenBatch, OpenDevice, OpenQuery, OpenReplay, OpenRun
from app.shell.command_palette import CommandPalette
from app.theme.theme import Theme
from app.widgets.badges import ProductionStrip, ProductionTag
from app.widgets.dialog import Dialog
from tests.fakes.sign_sheets import operator_of, sign, sign_sheet
from tests.fakes.story import story
from tests.fakes.window import open_window, seen

DEVICE = "build-lnx-03"
LEAST_PIXELS = 20


def magenta(widget: QWidget, theme: Theme) -> int:
    """How many pixels of a widget have the colour that nothing but production has."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    wanted = QColor(theme.color("prod_fill")).rgb()
    data = bytes(image.constBits())
    return data.count(wanted.to_bytes(4, "little"))


async def banded(widget: QWidget, theme: Theme) -> None:
    """Wait until a view shows the band."""
    await seen(lambda: widget.isVisible() and magenta(widget, theme) >= LEAST_PIXELS)


@pytest.mark.parametrize("mode", ["dark", "light"])
async def test_every_view_of_a_production_device_shows_that_it_is_one(
    theme: Theme, tmp_path: Path, mode: str
) -> None:
    console = story([operator_of(tmp_path)])
    # The run with pictures is this one's.
    console.change_device("stock-pc-02", production=True)
    theme.set_mode("light" if mode == "light" else "dark")

    async with open_window(theme, tmp_path, console) as desk:
        window = desk.window
        await _fleet(desk, theme)
        await _batch(desk, theme)
        waiting = next(one for one in console.queue.values() if one.request.device == DEVICE)
        window.open("approvals", OpenApproval(waiting.id))
        approvals = window.current
        assert isinstance(approvals, ApprovalsScreen)
        await banded(approvals.queue.view, theme)
        await seen(lambda: any(one.isVisible() for one in approvals.findChildren(ProductionStrip)))
        await _runs_and_replay(desk, theme)
        window.open("journal", OpenQuery(f"device:{DEVICE}"))
        journal = window.current
        assert isinstance(journal, JournalScreen)
        await banded(journal.table, theme)
        await seen(lambda: any(one.isVisible() for one in journal.findChildren(ProductionStrip)))
        window.open_palette(DEVICE)
        await banded(window.findChildren(CommandPalette)[0], theme)
        window.findChildren(CommandPalette)[0].dismiss()


async def _fleet(desk: ConsoleApplication, theme: Theme) -> None:
    window = desk.window
    window.open("fleet", OpenDevice(DEVICE))
    fleet = window.current
    assert isinstance(fleet, FleetScreen)
    await banded(fleet.table.viewport(), theme)
    await banded(fleet.panel.strip, theme)
    await seen(lambda: fleet.panel.picture.has_picture)
    await banded(fleet.panel.picture, theme)
    fleet.show_as(True)
    await banded(fleet.wall.viewport(), theme)
    fleet.panel.link_tab.revoke.click()
    sheet = window.findChildren(Dialog)[0]
    await seen(lambda: any(one.isVisible() for one in sheet.findChildren(ProductionStrip)))
    sheet.dismiss()
    fleet.pair()
    pairing = window.findChildren(PairingDialog)[0]
    pairing.name_field.setText("db-9")
    pairing.production.setChecked(True)
    await seen(lambda: pairing.answer("pair").isEnabled())
    pairing.answer("pair").click()
    sheet = await sign_sheet(desk)
    await seen(lambda: any(one.isVisible() for one in sheet.findChildren(ProductionStrip)))
    await sign(desk)
    await banded(pairing.result.strip, theme)
    pairing.dismiss()
    fleet.show_as(False)


async def _batch(desk: ConsoleApplication, theme: Theme) -> None:
    desk.window.open("batch", OpenBatch("free-disk-space"))
    batch = desk.window.current
    assert isinstance(batch, BatchScreen)
    await banded(batch.head.production, theme)
    await banded(batch.dock, theme)


async def _runs_and_replay(desk: ConsoleApplication, theme: Theme) -> None:
    window = desk.window
    window.open("runs", OpenRun("r-0415", DEVICE, "list"))
    runs = window.current
    assert isinstance(runs, RunsScreen)
    await banded(runs.matrix, theme)
    await banded(runs.head.production, theme)
    await banded(runs.drawer.production, theme)
    window.open("replay", OpenReplay("r-0414"))
    replay = window.current
    assert isinstance(replay, ReplayScreen)
    await banded(replay.lanes, theme)
    await banded(replay.film, theme)
    await seen(lambda: any(one.isVisible() for one in replay.findChildren(ProductionTag)))
