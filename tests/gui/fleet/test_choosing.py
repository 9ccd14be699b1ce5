"""Choosing devices and what is done with many of them: keys, marks, copying, the menu, a batch for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu

from app.items.cell_painter import cell_width
from app.main import ConsoleApplication
from app.screens.fleet.batch_targets import run_targets
from app.screens.fleet.device_columns import DEVICE_COLUMNS, NAME
from app.screens.fleet.device_menu import device_menu
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenBatch, OpenQuery, Target
from app.theme.theme import Theme
from app.theme.tokens import FRAME
from app.widgets.buttons import Button
from core.errors import BadInput
from core.models.device_filter import parse_filter
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices
from tests.fakes.story import story
from tests.fakes.window import open_window, seen

WHERE = "!name:bench-7*"
SHIFT = Qt.KeyboardModifier.ShiftModifier


def fleet_of(desk: ConsoleApplication, wall: bool = False) -> FleetScreen:
    desk.window.open("fleet")
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    fleet.show_as(wall)
    fleet.listing.view.setFocus()
    return fleet


def opened_batches(desk: ConsoleApplication) -> list[Target | None]:
    opened: list[Target | None] = []
    desk.window.open = lambda screen, target=None: opened.append(target)  # type: ignore[method-assign]
    return opened


def pasted() -> str:
    return QGuiApplication.clipboard().text()


def entries_of(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def press(menu: QMenu, words: str) -> None:
    next(action for action in menu.actions() if action.text() == words).trigger()


def columns_in(desk: ConsoleApplication) -> list[str]:
    head = fleet_of(desk).table.horizontalHeader()
    return [c.key for n, c in enumerate(DEVICE_COLUMNS) if not head.isSectionHidden(n)]


async def test_one_long_name_pushes_no_column_out_for_good_nor_over_a_restart(
    theme: Theme, tmp_path: Path
) -> None:
    few = make_devices()
    long = few[0].model_copy(update={"name": "x" * 64})
    shown: list[list[str]] = []

    async with open_window(
        theme, tmp_path, FakeConsole([*few, long], story().operators), (1700, 900)
    ) as desk:
        table = fleet_of(desk).table
        await seen(lambda: table.rows_model.row_of(long.name) >= 0)
        await seen(lambda: table.columnWidth(NAME) >= table.widest_name())
        assert table.horizontalHeader().length() <= table.viewport().width()
        assert "tags" in columns_in(desk)
        shown.append(columns_in(desk))
        await desk.link.ask(lambda door: door.devices.forget(long.name))
        await seen(lambda: table.rows_model.row_of(long.name) < 0)
        await seen(lambda: table.columnWidth(NAME) < table.widest_name())
        shown.append(columns_in(desk))

    async with open_window(theme, tmp_path, FakeConsole(few, story().operators), (1700, 900)) as desk:
        shown.append(columns_in(desk))
    assert {"tools", "round_trip", "cpu", "memory"} <= set(shown[1])
    assert shown[1] == shown[2]


async def test_names_that_would_look_alike_are_shown_whole_and_other_columns_give_way(
    theme: Theme, tmp_path: Path
) -> None:
    few = make_devices()
    names = [f"{'a' * 25}-{number:02d}-{'b' * 25}" for number in (2, 10)]
    console = FakeConsole(
        [*few, *(few[0].model_copy(update={"name": name}) for name in names)], story().operators
    )

    async with open_window(theme, tmp_path, console) as desk:
        table = fleet_of(desk).table
        await seen(lambda: table.columnWidth(NAME) > table.widest_name())
        name = DEVICE_COLUMNS[NAME]
        room = table.columnWidth(NAME) - FRAME.first_column
        cells = [table.devices.cell(row, NAME) for row in range(table.devices.rowCount())]
        assert all(cell_width(name, cell, theme) <= room for cell in cells)
        assert "tags" not in columns_in(desk)
        places = [table.rows_model.row_of(name) for name in names]
        assert places == sorted(places)


async def test_load_and_round_trip_stand_beside_the_panel_and_last_heard_is_whole(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = fleet_of(desk)
        assert fleet.panel.isVisible()
        head, table = fleet.table.horizontalHeader(), fleet.table
        hidden = [c.key for n, c in enumerate(DEVICE_COLUMNS) if head.isSectionHidden(n)]
        assert hidden == ["tools"]
        heard = len(DEVICE_COLUMNS) - 1
        place = table.rows_model.row_of("kiosk-yard")
        needed = table.sizeHintForIndex(table.model().index(place, heard)).width()
        assert needed <= table.columnWidth(heard)


async def test_a_window_is_found_as_it_was_left_but_for_columns_that_had_no_room_in_it(
    theme: Theme, tmp_path: Path
) -> None:
    hidden: list[int] = []

    async with open_window(theme, tmp_path, story(), (1024, 640)) as desk:
        fleet = fleet_of(desk)
        head = fleet.table.horizontalHeader()
        hidden.append(sum(head.isSectionHidden(n) for n in range(head.count())))
        fleet.panel.show_tab("recent")
        fleet.turn_panel()
        fleet.show_as(True)
        fleet.turn_panel()
        for group in ("Lab", "Production"):
            fleet.wall.toggle_group(group)

    async with open_window(theme, tmp_path, story(), (1900, 900)) as desk:
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        assert fleet.listing.is_wall
        assert fleet.wall.closed_groups == {"Lab", "Production"}
        assert [fleet.panel.isVisible(), fleet.panel.tab] == [True, "recent"]
        fleet.show_as(False)
        assert not fleet.panel.isVisible()
        head = fleet.table.horizontalHeader()
        hidden.append(sum(head.isSectionHidden(n) for n in range(head.count())))
    assert hidden[0] > 2
    assert hidden[1] == 0


@pytest.mark.parametrize("some", [True, False], ids=["filtered", "none"])
async def test_an_empty_list_says_why_and_what_to_do_next(theme: Theme, tmp_path: Path, some: bool) -> None:
    console = FakeConsole(make_devices() if some else [], story().operators)

    async with open_window(theme, tmp_path, console) as desk:
        fleet = fleet_of(desk)
        if some:
            assert not fleet.nothing.isVisible()
            fleet.enter(OpenQuery("tag:nobody"))
        await seen(fleet.nothing.isVisible)
        why = "All 24 devices are hidden by it." if some else "No device is known yet."
        assert why in fleet.nothing.words()
        (button,) = fleet.nothing.findChildren(Button)
        assert button.text() == ("Clear the filter" if some else "Pair a device…")
        button.click()
        if some:
            await seen(lambda: not fleet.nothing.isVisible() and fleet.listing.shown_count() == 24)
        else:
            await seen(lambda: [one for one in desk.window.findChildren(PairingDialog) if one.isVisible()])


async def test_home_and_end_go_to_the_first_and_the_last_device(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = fleet_of(desk)
        names = [device.name for device in fleet.table.devices.items]
        QTest.keyClick(fleet.table, Qt.Key.Key_End)
        assert fleet.table.current_key() == names[-1]
        QTest.keyClick(fleet.table, Qt.Key.Key_Home)
        assert fleet.table.current_key() == names[0]
        QTest.keyClick(fleet.table, Qt.Key.Key_End, SHIFT)
        assert fleet.table.marked_keys() == names


async def test_shift_chooses_the_tiles_between_as_one_reads_and_ctrl_c_copies_all_of_them(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = fleet_of(desk, wall=True)
        wall = fleet.wall
        columns = wall.tile_layout.columns
        fleet.head.group_chosen.emit("none")
        keys = wall.wall_model.items
        wall.choose(keys[columns - 1])
        for _ in range(2):
            QTest.keyClick(wall, Qt.Key.Key_Right, SHIFT)
        chosen = keys[columns - 1 : columns + 2]
        assert wall.marked_keys() == chosen
        QTest.keyClick(wall, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        assert [line.split("\t")[0] for line in pasted().splitlines()] == chosen
        # Space marks what is chosen, and once more takes the marks away.
        QTest.keyClick(wall, Qt.Key.Key_Space)
        assert fleet.listing.marks == frozenset(chosen)
        # A wall is one thing to assistive technology: it is described by the tile at its cursor.
        said = wall.accessibleDescription()
        assert said.startswith(f"{wall.current_key()}, Online, ")
        assert said.endswith(", marked")
        QTest.keyClick(wall, Qt.Key.Key_Space)
        assert fleet.listing.marks == frozenset()


async def test_a_name_is_read_aloud_with_what_its_band_and_its_check_say(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = fleet_of(desk)
        fleet.listing.toggle_mark("db-primary")
        model = fleet.table.rows_model
        said = {
            model.index(place, 0).data(Qt.ItemDataRole.AccessibleTextRole)
            for place in range(model.rowCount())
        }
        assert {"Device: db-primary, production, marked", "Device: db-replica-2, production"} <= said
        assert "Device: lab-lnx-01" in said


async def test_the_menu_key_opens_what_can_be_done_with_the_chosen_devices(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, list[str]]] = []

    def open_menu(fleet: FleetScreen, column: int, point: QPoint) -> None:
        assert fleet.listing.view.rect().contains(fleet.listing.view.mapFromGlobal(point))
        asked.append((column, entries_of(device_menu(fleet, column))))

    monkeypatch.setattr("app.screens.fleet.screen.open_menu", open_menu)

    async with open_window(theme, tmp_path, story()) as desk:
        for wall in (False, True):
            fleet = fleet_of(desk, wall)
            fleet.listing.choose("edge-gw-11")
            key = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(), QPoint())
            QApplication.sendEvent(fleet.listing.view.viewport(), key)
        wanted = {"Page of edge-gw-11", "Take picture", "Run a batch on edge-gw-11…", "Copy name"}
        assert [column for column, _ in asked] == [-1, -1]
        assert all(wanted <= set(entries) for _, entries in asked)


async def test_the_menu_copies_a_cell_narrows_the_filter_and_is_about_the_marked_or_one_beside_them(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = fleet_of(desk)
        fleet.listing.choose("kiosk-hall-2")
        press(device_menu(fleet, len(DEVICE_COLUMNS) - 2), "Copy “No heartbeat for 6 min.”")
        assert pasted() == "No heartbeat for 6 min."
        fleet.listing.set_marks(frozenset({"lab-lnx-01", "lab-lnx-02"}))
        assert "Run a batch on kiosk-hall-2…" in entries_of(device_menu(fleet))
        fleet.listing.choose("lab-lnx-02")
        menu = device_menu(fleet)
        press(menu, "Copy names")
        assert pasted() == "lab-lnx-01\nlab-lnx-02"
        opened = opened_batches(desk)
        press(menu, "Run a batch on 2 devices…")
        assert opened == [OpenBatch(targets="name:lab-lnx-01,lab-lnx-02")]
        press(device_menu(fleet), "Without tag:lab")
        await seen(lambda: fleet.filter_field.filter.text == "!tag:lab")
        await seen(lambda: "lab-lnx-02" not in fleet.listing.shown_names())


async def test_a_batch_is_for_what_is_shown_and_not_for_a_filter_that_is_still_being_typed(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = fleet_of(desk)
        fleet.enter(OpenQuery("tag:kiosk"))
        opened = opened_batches(desk)
        for typed in ("tag:kiosk tagg:", "name:*"):
            fleet.filter_field.setText(typed)
            assert fleet.run_button.text() == "Run on 3…"
            fleet.run_button.click()
        assert opened == [OpenBatch(targets="tag:kiosk")] * 2


def test_a_filter_for_many_chosen_devices_is_one_that_is_short_enough() -> None:
    names = [f"bench-{number:02}-{'x' * 50}" for number in range(80)]
    devices = [make_devices()[0].model_copy(update={"name": name}) for name in names]

    def matched(targets: str) -> list[str]:
        wanted = parse_filter(targets)
        return [device.name for device in devices if wanted.matches(device)]

    shown = matched(WHERE)
    assert run_targets(WHERE, shown, []) == WHERE
    assert run_targets("", names, []) == "name:*"
    for chosen in (shown[:3], shown, shown[1:]):
        assert matched(run_targets(WHERE, shown, chosen)) == chosen
    with pytest.raises(BadInput, match=r"40 devices are longer than a filter may be"):
        run_targets("", names, names[:40])
