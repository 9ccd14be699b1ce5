"""Enter and Down lead from a filter into its rows, and Enter opens the only one."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.agents.screen import AgentsScreen
from app.screens.fleet.screen import FleetScreen
from app.theme.theme import Theme
from tests.fakes.agents_story import add_agents
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen

ENTER, DOWN = Qt.Key.Key_Return, Qt.Key.Key_Down


async def test_in_fleet(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.activateWindow()
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        await seen(fleet.listing.current_key)
        field = fleet.filter_field
        for key in (ENTER, DOWN):
            field.setFocus()
            field.setText("name:lab-*")
            field.apply()
            QTest.keyClick(field, key)
            assert fleet.listing.view.hasFocus()
            assert fleet.listing.current_key().startswith("lab-")
        field.setFocus()
        field.setText("name:none-like-it")
        QTest.keyClick(field, ENTER)
        assert field.hasFocus()
        field.setText("name:build-lnx-03")
        QTest.keyClick(field, ENTER)
        await seen(lambda: fleet.panel.is_wide)
        assert fleet.panel.device_name == "build-lnx-03"


async def test_in_agents(theme: Theme, tmp_path: Path) -> None:
    console = story()
    add_agents(console)
    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.activateWindow()
        desk.window.open("agents")
        screen = desk.window.current
        assert isinstance(screen, AgentsScreen)
        await seen(lambda: screen.table.rows_model.rowCount() > 1)
        screen.field.setFocus()
        QTest.keyClick(screen.field, DOWN)
        assert screen.table.hasFocus()
        name = screen.table.current_key()
        screen.field.setFocus()
        QTest.keyClicks(screen.field, name)
        await seen(lambda: screen.table.rows_model.rowCount() == 1)
        QTest.keyClick(screen.field, ENTER)
        focus = QApplication.focusWidget()
        assert focus is not None
        assert focus is screen.panel.tabs or screen.panel.isAncestorOf(focus)
        screen.field.setFocus()
        QTest.keyClicks(screen.field, " nothing like it")
        QTest.keyClick(screen.field, ENTER)
        assert screen.field.hasFocus()
