"""What the fleet's table does when devices change, counted: cells painted, rows made and put in order."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtTest import QAbstractItemModelTester

from app.items.table_model import Cell, Row, TableModel, cell_text
from app.items.table_view import CellDelegate
from app.main import ConsoleApplication
from app.screens.fleet import devices_view as listing_module
from app.screens.fleet.device_rows import DEVICE_COLUMNS, device_row
from app.screens.fleet.device_table import DeviceRows
from app.screens.fleet.devices_view import MOST_AT_ONCE
from app.screens.fleet.screen import FleetScreen
from app.text import last_heard
from app.theme.theme import Theme
from core.fleet.models import Device, Health
from core.service.console import DeviceChanged
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices, many_devices
from tests.fakes.patience import PATIENCE_S
from tests.fakes.story import story
from tests.fakes.turns import Turns
from tests.fakes.window import play, seen

COUNT = 1000
NAMES = [column.key for column in DEVICE_COLUMNS]
# Half of what a table of this height has in sight, whatever of it changed.
MOST_CELLS_A_TURN = 130


class Painted(QObject):
    """Notes what is painted of a viewport."""

    def __init__(self, viewport: QObject) -> None:
        super().__init__(viewport)
        self.areas: list[tuple[int, int]] = []
        viewport.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint and isinstance(event, QPaintEvent):
            rect = event.region().boundingRect()
            self.areas.append((rect.width(), rect.height()))
        return False

    def take(self) -> bool:
        """Whether anything was painted since the last time."""
        some, self.areas = bool(self.areas), []
        return some


class Work:
    """Counts, from `begin` to `end`, the cells painted and the rows made in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.painted: Counter[int] = Counter()
        self.made: Counter[int] = Counter()
        self._turns: Turns | None = None
        paint, make = CellDelegate.paint, listing_module.device_row

        def counted_paint(delegate: CellDelegate, painter: QPainter, *rest: Any) -> None:
            self._note(self.painted)
            paint(delegate, painter, *rest)

        def counted_make(device: Device, marked: bool = False) -> Row:
            self._note(self.made)
            return make(device, marked)

        # Before there is a delegate: Qt looks for its methods once.
        monkeypatch.setattr(CellDelegate, "paint", counted_paint)
        monkeypatch.setattr(listing_module, "device_row", counted_make)

    def _note(self, what: Counter[int]) -> None:
        if self._turns is not None:
            what[self._turns.count] += 1

    def begin(self) -> None:
        self._turns = Turns()

    def end(self) -> None:
        assert self._turns is not None
        self._turns.close()
        self._turns = None


def crowded() -> FakeConsole:
    return FakeConsole(many_devices(COUNT), story().operators)


async def fleet_of(desk: ConsoleApplication) -> FleetScreen:
    desk.window.resize(1440, 900)
    desk.window.open("fleet")
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    fleet.show_as(False)
    await seen(lambda: fleet.table.rows_model.rowCount() == COUNT and fleet.table.isVisible())
    fleet.table.sort_by("device")
    return fleet


async def at_rest(fleet: FleetScreen) -> None:
    """Until all that changed is shown and painted."""
    busy = (fleet.listing._soon, fleet.listing._go_on)
    await seen(lambda: not any(timer.isActive() for timer in busy))
    painted = Painted(fleet.table.viewport())
    quiet = 0
    while quiet < 3:
        await asyncio.sleep(0)
        quiet = 0 if painted.take() else quiet + 1


def wholly_changed(device: Device, number: int) -> Device:
    """The device with something else in every one of its cells but its name."""
    return device.model_copy(
        update={
            "health": Health.BUSY if device.health is not Health.BUSY else Health.ONLINE,
            "tags": [f"tag-{number}", *(["prod"] if device.production else [])],
            "tool_count": number,
            "round_trip_ms": float(number),
            "round_trips_ms": [float(number), 1.0, float(number + 1)],
            "cpu_percents": [float(number % 80), 3.0],
            "memory_percents": [1.0, float(number % 80)],
            "doing": f"step {number}",
            "last_heard": f"2026-01-01T00:{number % 60:02}:00Z",
        }
    )


def on_screen(desk: ConsoleApplication) -> QImage:
    """What was really painted, by whatever was told to be painted anew."""
    window = desk.window
    return window.screen().grabWindow(window.winId()).toImage().convertToFormat(QImage.Format.Format_RGB32)


def painted_anew(desk: ConsoleApplication) -> QImage:
    return desk.window.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def test_a_change_of_one_device_paints_the_cells_that_are_others_now(theme: Theme, tmp_path: Path) -> None:
    console = crowded()

    async def scenario(desk: ConsoleApplication) -> None:
        fleet = await fleet_of(desk)
        table = fleet.table
        row = table.rows_model.row_at(3)
        assert row is not None
        # A time so long ago that its words stay the same while the test runs.
        long_ago, heard = "2026-01-01T00:00:00Z", NAMES.index("heard")
        console.change_device(row.key, last_heard=long_ago)
        await seen(lambda: table.rows_model.index(3, heard).data() == last_heard(long_ago))
        await at_rest(fleet)
        painted = Painted(table.viewport())
        console.change_device(row.key, cpu_percents=[77.0])
        await seen(lambda: painted.areas)
        assert painted.areas == [(table.columnWidth(NAMES.index("cpu")), table.rowHeight(3))]
        assert table.rows_model.index(3, NAMES.index("cpu")).data() == "77"

    play(theme, tmp_path, console, scenario)


def test_no_turn_paints_or_makes_much_when_every_cell_of_a_thousand_devices_changes(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = crowded()
    work = Work(monkeypatch)

    async def scenario(desk: ConsoleApplication) -> None:
        fleet = await fleet_of(desk)
        await at_rest(fleet)
        work.begin()
        for number, (name, device) in enumerate(list(console.fleet.items()), 100):
            console.fleet[name] = changed = wholly_changed(device, number)
            console.emit(DeviceChanged(device=changed))
        model, tools = fleet.table.rows_model, NAMES.index("tools")
        wanted = {str(number) for number in range(100, 100 + COUNT)}
        await seen(lambda: {row.cells[tools] for row in model.rows} == wanted)
        await at_rest(fleet)
        work.end()
        in_sight = len(fleet.table.places_in_sight())
        assert in_sight >= 20
        assert sum(work.made.values()) >= COUNT
        assert max(work.made.values()) <= MOST_AT_ONCE
        # What is in sight, but for the names and the columns that the window has no room for.
        assert sum(work.painted.values()) >= in_sight * 5
        assert max(work.painted.values()) <= MOST_CELLS_A_TURN
        assert on_screen(desk) == painted_anew(desk)

    play(theme, tmp_path, console, scenario)


@pytest.mark.parametrize("sorted_by", ["device", "tools"])
def test_rows_are_put_in_order_only_when_what_they_are_sorted_by_changes(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sorted_by: str
) -> None:
    console = crowded()

    async def scenario(desk: ConsoleApplication) -> None:
        fleet = await fleet_of(desk)
        table, model = fleet.table, fleet.table.rows_model
        table.sort_by(sorted_by)
        await seen(lambda: table.rows_model.rowCount() == COUNT)
        fleet._show_devices()
        await at_rest(fleet)
        chosen = model.rows[5].key
        table.choose(chosen)
        sorts: list[int] = []
        real = TableModel._in_order
        monkeypatch.setattr(
            DeviceRows, "_in_order", lambda self, rows: (sorts.append(1), real(self, rows))[1]
        )
        console.change_device(model.rows[7].key, doing="looks at the disk")
        await seen(lambda: model.index(7, NAMES.index("doing")).data() == "looks at the disk")
        assert sorts == []
        moved = model.rows[7].key
        console.change_device(moved, tool_count=9_999)
        await seen(lambda: "9999" in str(model.row_at(model.place_of(moved))))
        assert bool(sorts) is (sorted_by == "tools")
        assert model.place_of(moved) == (COUNT - 1 if sorted_by == "tools" else 7)
        assert table.current_key() == chosen
        assert table.marked_keys() == [chosen]
        await seen(lambda: on_screen(desk) == painted_anew(desk))

    play(theme, tmp_path, console, scenario)


def test_changes_that_never_pause_are_shown_all_the_same(theme: Theme, tmp_path: Path) -> None:
    console = crowded()

    async def scenario(desk: ConsoleApplication) -> None:
        fleet = await fleet_of(desk)
        model = fleet.table.rows_model
        filled: list[int] = []
        fleet.listing.filled.connect(lambda: filled.append(1))
        devices = list(console.fleet.items())
        number, last = 0, devices[-1][0]
        async with asyncio.timeout(PATIENCE_S):
            while len(filled) < 3:
                number += 1
                for name, device in devices:
                    console.fleet[name] = changed = device.model_copy(update={"tool_count": number})
                    console.emit(DeviceChanged(device=changed))
                await asyncio.sleep(0.005)
        # No change comes after these, and the newest is what stays.
        tools = NAMES.index("tools")
        await seen(lambda: model.index(model.place_of(last), tools).data() == str(number))
        await seen(lambda: {row.cells[tools] for row in model.rows} == {str(number)})

    play(theme, tmp_path, console, scenario)


@pytest.mark.parametrize("column", [-1, *map(NAMES.index, ("device", "tools", "doing"))])
def test_the_rows_stand_as_in_any_table_and_a_view_is_told_of_every_cell_that_changed(column: int) -> None:
    chance = random.Random(column)
    plain, quick = TableModel(DEVICE_COLUMNS), DeviceRows()
    tester = QAbstractItemModelTester(quick, QAbstractItemModelTester.FailureReportingMode.Fatal)
    order = chance.choice([Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder])
    devices = {device.name: device for device in many_devices(15)}
    told: dict[str, list[str | Cell]] = {}

    def hear(top: QModelIndex, bottom: QModelIndex) -> None:
        for row in quick.rows[top.row() : bottom.row() + 1]:
            span = slice(top.column(), bottom.column() + 1)
            told[row.key][span] = row.cells[span]

    quick.dataChanged.connect(hear)
    for model in (plain, quick):
        model.set_rows([device_row(device) for device in devices.values()])
        model.sort(column, order)
    for step in range(25):
        told.clear()
        told.update({row.key: list(row.cells) for row in quick.rows})
        for name in chance.sample(sorted(devices), 4):
            change = chance.choice(
                [
                    {"tool_count": chance.randrange(5)},
                    {"doing": chance.choice(["", "a", "b"])},
                    {"production": chance.random() < 0.3},
                ]
            )
            devices[name] = devices[name].model_copy(update=change)
        rows = [device_row(one) for one in devices.values() if step % 5 or chance.random() < 0.8]
        quick.change_rows(rows[: chance.randrange(len(rows))])
        for model in (plain, quick):
            model.set_rows(rows)
        assert quick.rows == plain.rows
        assert all(quick.place_of(row.key) == place for place, row in enumerate(quick.rows))
        assert all(told[row.key] == list(row.cells) for row in quick.rows if row.key in told)
    tester.deleteLater()


@pytest.mark.parametrize("health", [Health.RECONNECTING, Health.OFFLINE])
def test_what_was_measured_before_the_link_was_lost_is_not_shown_as_now(health: Health) -> None:
    device = next(one for one in make_devices() if one.cpu_percents and one.round_trip_ms is not None)
    now = device_row(device.model_copy(update={"health": Health.ONLINE}))
    lost = device_row(device.model_copy(update={"health": health, "tool_count": 0}))
    measured = [
        n for n, one in enumerate(DEVICE_COLUMNS) if one.key in ("tools", "round_trip", "cpu", "memory")
    ]
    assert "—" not in [cell_text(now.cells[n]) for n in measured]
    assert [cell_text(lost.cells[n]) for n in measured] == ["—"] * 4
    assert [lost.order[n] for n in measured[1:]] == [None] * 3
