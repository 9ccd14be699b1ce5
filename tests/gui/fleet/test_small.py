"""The fleet in the smallest window: nothing is painted over its neighbour, nothing is cut without a sign."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton, QScrollArea, QWidget

from app.items.cell_painter import cell_width, text_that_fits
from app.items.table_model import Cell
from app.main import ConsoleApplication
from app.records.rejected_connections import REFUSED_COLUMNS, refusal_rows
from app.screens.fleet.device_columns import DEVICE_COLUMNS
from app.screens.fleet.history_tab import COLUMNS
from app.screens.fleet.pairing_dialog import LISTENS, PairingDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenDevice
from app.theme.theme import Theme
from app.widgets import painting
from core.fleet.models import Check, CheckState, Refusal
from tests.fakes.fleet_data import ago, make_devices
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import PanelPage, ToolPage

SMALLEST = (1024, 640)
NAME = "build-lnx-03"


async def fleet_with(desk: ConsoleApplication, tab: str) -> FleetScreen:
    desk.window.open("fleet", OpenDevice(NAME, tab, "action::shell_execute"))
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    await seen(lambda: fleet.panel.overview.notice.isVisibleTo(fleet.panel.overview))
    await seen(lambda: fleet.panel.tools_tab.table.current_key() == "action::shell_execute")
    return fleet


def squeezed(whole: QWidget) -> list[str]:
    """The texts within `whole` that have less room than they need."""
    return [
        label.text()
        for label in whole.findChildren(QLabel)
        if label.isVisibleTo(whole)
        and (
            label.height() < (label.heightForWidth(label.width()) if label.wordWrap() else 0)
            or label.width() < label.minimumSizeHint().width()
        )
    ]


def beyond_the_edge(area: QScrollArea) -> list[str]:
    """What stands further right in the area than anyone can see."""
    edge = area.viewport().width()
    return [
        part.accessibleName() or str(part.property("text"))
        for kind in (QLabel, QPushButton)
        for part in area.widget().findChildren(kind)
        if part.isVisibleTo(area.widget()) and part.mapTo(area.widget(), part.rect().topRight()).x() >= edge
    ]


async def test_the_overview_of_a_device_scrolls_where_it_has_no_room(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story(), SMALLEST) as desk:
        overview = (await fleet_with(desk, "overview")).panel.overview
        await seen(lambda: overview.area.verticalScrollBar().maximum() > 0)
        await seen(lambda: not squeezed(overview) and not beyond_the_edge(overview.area))
        places = [
            QRect(part.mapTo(overview.area.widget(), part.rect().topLeft()), part.size())
            for part in (overview.notice, overview.facts, overview.plot, overview.table)
        ]
        assert all(above.bottom() < below.top() for above, below in pairwise(places))
        assert overview.area.verticalScrollBar().value() == 0
        shown = overview.area.viewport().rect()
        assert shown.contains(
            QRect(overview.notice.mapTo(overview.area.viewport(), QPoint()), overview.notice.size())
        )


async def test_words_and_controls_above_the_devices_are_whole_and_the_filter_gives_way(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story(), SMALLEST) as desk:
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        for wall, filtered in ((False, "os:linux"), (True, "os:linux"), (True, "")):
            fleet.show_as(wall)
            fleet.filter_field.setText(filtered)
            fleet.filter_field.apply()
            fleet.listing.set_marks(frozenset({"lab-lnx-01", "lab-lnx-02"} if filtered else ()))
            head = fleet.head
            parts = [head.title, head.detail, *(one for one in head.controls() if one.isVisible())]
            wanted = {part: part.sizeHint().width() for part in parts if part is not fleet.filter_field}
            await seen(lambda wanted=wanted: all(part.width() >= width for part, width in wanted.items()))
            assert head.width() <= desk.window.width()
        # With less beside it, it is as wide as before.
        fleet.show_as(False)
        await seen(lambda: fleet.filter_field.width() == 208)


async def test_what_tells_lines_apart_beside_the_devices_is_not_cut(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story(), SMALLEST) as desk:
        panel = (await fleet_with(desk, "link")).panel
        assert panel.overview.facts.value("Refused").text().startswith("3 attempts in its name")
        refused = panel.link_tab.refused
        await seen(lambda: refused.rows_model.rowCount() == 2 and refused.columnWidth(2) > 0)
        peer, reason = (refused.sizeHintForIndex(refused.model().index(0, column)) for column in (1, 2))
        assert refused.model().index(0, 2).data() == "This token was revoked."
        assert peer.width() <= refused.columnWidth(1)
        assert reason.width() <= refused.columnWidth(2)
        flood = refusal_rows([Refusal(at=ago(1), peer="10.4.9.31:1", name=NAME, reason="", count=1_000_000)])
        assert cell_width(REFUSED_COLUMNS[3], flood[0].cells[3], theme) + 16 <= REFUSED_COLUMNS[3].width
        panel.show_tab("recent")
        recent = panel.recent.table
        await seen(lambda: recent.rows_model.rowCount() > 3)
        calls = [recent.rows_model.cell(row, 1) for row in range(recent.rows_model.rowCount())]
        tools = [cell.text.partition(",")[0] for cell in calls if isinstance(cell, Cell)]
        assert {"get_system_info", "shell_execute"} <= set(tools)
        width = max(cell_width(COLUMNS[1], tool, theme) for tool in tools)
        assert width <= recent.columnWidth(1) - 16


async def test_words_without_a_space_are_broken_and_push_no_button_out_of_sight(
    theme: Theme, tmp_path: Path
) -> None:
    word = "one_long-word.without/a:space" * 6
    console = story()
    changed = [
        tool.model_copy(update={"tool_name": f"{word}{place}", "description": word, "changed": place == 1})
        for place, tool in enumerate(console.tools_of[NAME])
    ]
    console.tools_of[NAME] = changed
    console.change_device(NAME, system=word, client=word, agent=word, changed_tools=[changed[1].tool_key])
    console.checks = [Check(name="dns", state=CheckState.FAILED, found=word, next=word)]

    async with open_window(theme, tmp_path, console, SMALLEST) as desk:
        desk.window.open("fleet", OpenDevice(NAME, "tools", changed[1].tool_key))
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        panel = fleet.panel
        panel.link_tab.doctor.run()
        await seen(lambda: panel.tools_tab.chosen() is not None and panel.link_tab.doctor.rows())
        for wide in (False, True):
            if wide:
                fleet.listing.opened.emit(NAME)
            for tab, area in (
                ("overview", panel.overview.area),
                ("tools", panel.tools_tab.details),
                ("link", panel.link_tab),
            ):
                panel.show_tab(tab)
                await seen(lambda area=area: not beyond_the_edge(area))
        value = panel.overview.facts.value("System")
        assert isinstance(value, QLabel)
        assert value.accessibleName() == f"System: {word}"
        value.setSelection(0, len(value.text()))
        value.setFocus()
        QTest.keyClick(value, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        assert QGuiApplication.clipboard().text() == word


async def test_the_page_of_a_device_shows_names_contract_and_call_in_the_smallest_window(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story(), SMALLEST) as desk:
        fleet = await fleet_with(desk, "tools")
        fleet.listing.opened.emit(NAME)
        tools = fleet.panel.tools_tab
        await seen(lambda: fleet.panel.is_wide and tools.table.isVisible())
        await seen(lambda: tools.table.columnWidth(0) >= tools.table.sizeHintForColumn(0))
        await seen(lambda: not beyond_the_edge(tools.details))
        await seen(lambda: not squeezed(fleet.panel))


def test_a_quick_answer_is_not_shown_as_none_at_all() -> None:
    trip = next(column for column in DEVICE_COLUMNS if column.key == "round_trip")
    assert trip.cell is not None

    def shown(ms: float) -> str:
        cell = trip.cell(make_devices()[0].model_copy(update={"round_trip_ms": ms}))
        assert isinstance(cell, Cell)
        return cell.text

    assert [shown(ms) for ms in (0.5, 5.4, 12.4)] == ["0.5", "5.4", "12"]


def test_the_tag_prod_is_never_cut_by_the_tags_before_it(theme: Theme) -> None:
    column = next(column for column in DEVICE_COLUMNS if column.key == "tags")
    assert column.cell is not None
    for tags in (["db", "lab", "prod"], ["floor", "warehouse-2", "linux", "prod"], ["a" * 64, "prod"]):
        cell = column.cell(make_devices()[0].model_copy(update={"tags": tags}))
        assert isinstance(cell, Cell)
        assert cell.bold == "prod"
        room = column.width - 16 - painting.text_width(cell.bold, theme, "head") - 4
        shown = text_that_fits(cell, room, theme, "body")
        assert painting.text_width(shown, theme) <= room, "it has its room, and what is before it is not cut"
        assert "+" in shown or shown == cell.text
        assert text_that_fits(cell, 2_000, theme, "body") == ", ".join(tags[:-1]) + ","
        assert cell.tip == ", ".join(tags)


def edge_of(widget: QWidget, point: QPoint) -> QColor:
    return QColor(widget.grab().toImage().pixel(point))


async def test_fields_of_many_lines_have_an_edge_that_can_be_seen(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = await fleet_with(desk, "tools")
        fleet.pair()
        sheet = next(one for one in desk.window.findChildren(PairingDialog) if one.isVisible())
        sheet.form.direction.choose(LISTENS)
        sheet.form.direction.chosen.emit(LISTENS)
        field = sheet.form.string_field
        await seen(field.isVisible)
        assert edge_of(field, QPoint(field.width() // 2, 0)) == theme.color("control")
        sheet.dismiss()
        schema = ToolPage(fleet).schema
        assert edge_of(schema, QPoint(schema.width() // 2, 0)) == theme.color("border2")


async def test_the_tools_beside_the_devices_are_named_whole(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story(), SMALLEST) as desk:
        tools = (await fleet_with(desk, "tools")).panel.tools_tab
        await seen(lambda: tools.table.columnWidth(0) >= tools.table.sizeHintForColumn(0))
        await seen(lambda: not beyond_the_edge(tools.details))


async def test_the_name_of_a_device_is_broken_into_lines_and_never_cut(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story(), SMALLEST) as desk:
        title = PanelPage(await fleet_with(desk, "overview")).title
        for name in (NAME, "x86-builder-in-the-second-hall", "a" * 64):
            title.set_name(name)
            await seen(lambda: not squeezed(title.parentWidget()))
            assert title.accessibleName() == name
            room = QRect(0, 0, title.width(), 1000)
            flags = Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap
            words = title.fontMetrics().boundingRect(room, flags, title.text())
            assert words.width() <= title.width()
            assert words.height() <= title.height()
