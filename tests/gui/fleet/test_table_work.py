"""What the fleet's table does when devices change, counted: rows painted, cells made, rows put in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from app.items.table_model import Cell, Column, cell_text
from app.main import ConsoleApplication
from app.screens.fleet import device_columns
from app.screens.fleet.device_columns import DEVICE_COLUMNS, DeviceModel
from app.screens.fleet.screen import FleetScreen
from app.theme.theme import Theme
from core.models.devices import Device, Health
from core.service.console import DeviceChanged
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices, many_devices
from tests.fakes.painted import Painted, on_screen, painted_anew
from tests.fakes.patience import PATIENCE_S
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.page import is_due

COUNT = 1000
NAMES = [column.key for column in DEVICE_COLUMNS]


class Work:
    """Counts, between `begin` and `end`, the cells that are made for whatever asks: to paint, fit or sort."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: Counter[str] = Counter()
        self._counts = False
        real = DeviceModel.cell_of

        def counted(model: DeviceModel, item: Device, column: int) -> str | Cell:
            if self._counts:
                self.made[item.name] += 1
            return real(model, item, column)

        monkeypatch.setattr(DeviceModel, "cell_of", counted)

    def begin(self) -> None:
        self.made.clear()
        self._counts = True

    def end(self) -> None:
        self._counts = False


def crowded(count: int = COUNT) -> FakeConsole:
    return FakeConsole(many_devices(count), story().operators)


async def fleet_of(desk: ConsoleApplication) -> FleetScreen:
    desk.window.resize(1440, 900)
    desk.window.open("fleet")
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    fleet.show_as(False)
    count = len(desk.state.devices)
    await seen(lambda: fleet.table.devices.rowCount() == count and fleet.table.isVisible())
    fleet.table.sort_by("device")
    return fleet


async def at_rest(fleet: FleetScreen) -> None:
    """Until all that changed is shown and painted."""
    await seen(lambda: not is_due(fleet.listing))
    painted = Painted(fleet.table.viewport())
    quiet = 0
    while quiet < 3:
        await asyncio.sleep(0)
        quiet = quiet + 1 if painted.take().isEmpty() else 0


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


async def test_a_change_of_one_device_paints_its_row_and_no_other(theme: Theme, tmp_path: Path) -> None:
    console = crowded()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = await fleet_of(desk)
        table = fleet.table
        name = table.devices.key_at(3)
        # A time so long ago that its words stay the same while the test runs.
        console.change_device(name, last_heard="2026-01-01T00:00:00Z")
        await seen(lambda: table.devices.items[3].last_heard == "2026-01-01T00:00:00Z")
        await at_rest(fleet)
        painted = Painted(table.viewport())
        console.change_device(name, cpu_percents=[77.0])
        await seen(lambda: painted.regions)
        # Qt paints the line above it too.
        assert painted.most_height() <= table.rowHeight(3) + 1
        assert table.devices.index(3, NAMES.index("cpu")).data() == "77"


async def test_the_work_of_a_change_of_all_devices_does_not_grow_with_their_number(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, made = Work(monkeypatch), dict[int, int]()

    for count in (100, COUNT):
        async with open_window(theme, tmp_path / str(count), crowded(count)) as desk:
            fleet = await fleet_of(desk)
            devices = fleet.table.devices
            # Sorted by what changes: of that, one value is made of each device, and no cell.
            fleet.table.sort_by("round_trip")
            await at_rest(fleet)
            seen_before = {devices.key_at(row) for row in fleet.table.rows_in_sight()}
            work.begin()
            for number, (name, device) in enumerate(list(desk.state.devices.items()), 100):
                desk.state.devices[name] = wholly_changed(device, number)
            fleet.listing.show_devices(desk.state.devices.values())
            await at_rest(fleet)
            work.end()
            seen_now = {devices.key_at(row) for row in fleet.table.rows_in_sight()}
            assert work.made.keys() <= seen_before | seen_now, "no cell is made of a device out of sight"
            made[devices.rowCount()] = sum(work.made.values())
            assert on_screen(desk.window) == painted_anew(desk.window)
    assert made[COUNT] <= 1.5 * made[100]


@pytest.mark.parametrize("sorted_by", ["device", "tools"])
async def test_rows_are_put_in_order_only_when_what_they_are_sorted_by_changes(
    theme: Theme, tmp_path: Path, sorted_by: str
) -> None:
    console = crowded()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = await fleet_of(desk)
        table, model = fleet.table, fleet.table.devices
        table.sort_by(sorted_by)
        # Equals stood as before the sort until now; from here on they stand as they are given.
        fleet.listing.due.emit()
        chosen, moved = model.key_at(5), model.key_at(7)
        table.choose(chosen)
        await at_rest(fleet)
        layouts: list[int] = []
        model.layoutChanged.connect(lambda: layouts.append(1))
        console.change_device(moved, doing="looks at the disk")
        await seen(lambda: model.index(7, NAMES.index("doing")).data() == "looks at the disk")
        assert layouts == []
        console.change_device(moved, tool_count=9_999)
        tools = NAMES.index("tools")
        await seen(lambda: model.index(model.row_of(moved), tools).data() == "9999")
        assert bool(layouts) is (sorted_by == "tools")
        assert model.row_of(moved) == (COUNT - 1 if sorted_by == "tools" else 7)
        assert table.current_key() == chosen
        assert table.marked_keys() == [chosen]
        await seen(lambda: on_screen(desk.window) == painted_anew(desk.window))


async def test_changes_that_never_pause_are_shown_all_the_same(theme: Theme, tmp_path: Path) -> None:
    console = crowded()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = await fleet_of(desk)
        model = fleet.table.devices
        filled: list[int] = []
        fleet.listing.filled.connect(lambda: filled.append(1))
        devices = list(console.fleet.items())
        number = 0
        async with asyncio.timeout(PATIENCE_S):
            while len(filled) < 3:
                number += 1
                for name, device in devices:
                    console.fleet[name] = changed = device.model_copy(update={"tool_count": number})
                    console.emit(DeviceChanged(device=changed))
                await asyncio.sleep(0.005)
        # No change comes after these, and the newest is what stays.
        await seen(lambda: {device.tool_count for device in model.items} == {number})


async def test_one_column_more_is_one_line_in_one_place(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Column(
        "system", "System", width=60, cell=lambda device: device.platform, sort=lambda device: device.name
    )
    monkeypatch.setattr(device_columns, "DEVICE_COLUMNS", (*DEVICE_COLUMNS, line))

    async with open_window(theme, tmp_path, crowded(100)) as desk:
        fleet = await fleet_of(desk)
        model, last = fleet.table.devices, len(DEVICE_COLUMNS)
        assert model.headerData(last, Qt.Orientation.Horizontal) == "System"
        fleet.table.sort_by("system", descending=True)
        names = [device.name for device in model.items]
        assert names == sorted(names, reverse=True)
        device = model.items[0]
        assert model.index(0, last).data() == device.platform
        fleet.table.choose(device.name)
        assert fleet.table.copy_marked().endswith(f"\t{device.platform}")


@pytest.mark.parametrize("health", [Health.RECONNECTING, Health.OFFLINE])
def test_what_was_measured_before_the_link_was_lost_is_not_shown_as_now(health: Health) -> None:
    device = next(one for one in make_devices() if one.cpu_percents and one.round_trip_ms is not None)
    now = device.model_copy(update={"health": Health.ONLINE})
    lost = device.model_copy(update={"health": health, "tool_count": 0})
    measured = [one for one in DEVICE_COLUMNS if one.key in ("tools", "round_trip", "cpu", "memory")]
    shown = [[cell_text(one.cell(which)) for one in measured if one.cell] for which in (now, lost)]
    assert "—" not in shown[0]
    assert shown[1] == ["—"] * 4
    assert [one.sort(lost) for one in measured[1:] if one.sort] == [None] * 3
