"""A thousand devices: what the window does at once stays little."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QTimer

from app.screens.fleet import devices_view
from app.screens.fleet.screen import FleetScreen
from app.theme.theme import Theme
from core.service.console import DeviceChanged
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import many_devices
from tests.fakes.qt_turns import most_calls_a_turn
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.fakes.work import most_calls

COUNT = 1000
# About three times what was counted.
APPLY_CALLS = 45_000
PAINT_CALLS = 55_000
TURN_CALLS = 60_000


def change_all(fleet: FleetScreen) -> None:
    """Every device is different: what the state looks like after a thousand events."""
    for place, (name, device) in enumerate(fleet.state.devices.items()):
        # Of its own for each device: a line that another has drawn already costs nothing.
        own = 1.0 + place / 10
        loads = {key: [*getattr(device, key)[-23:], own % 100] for key in ("cpu_percents", "memory_percents")}
        trips = [*device.round_trips_ms[-23:], own]
        fleet.state.devices[name] = device.model_copy(
            update={"round_trip_ms": own, "round_trips_ms": trips, **loads}
        )


@pytest.mark.parametrize("wall", [False, True], ids=["table", "wall"])
async def test_a_thousand_changes_are_applied_and_painted_in_few_calls(
    theme: Theme, tmp_path: Path, wall: bool
) -> None:
    console = FakeConsole(many_devices(COUNT), story().operators)

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        fleet.show_as(wall)
        view = fleet.listing.view
        await seen(lambda: fleet.listing.shown_count() == COUNT and view.isVisible())
        change_all(fleet)
        with most_calls(APPLY_CALLS):
            fleet.listing.due.emit()
        with most_calls(PAINT_CALLS):
            view.viewport().repaint()
        bar = view.verticalScrollBar()
        bar.setValue(bar.value() + 37)
        with most_calls(PAINT_CALLS):
            view.viewport().repaint()


@pytest.mark.parametrize("wall", [False, True], ids=["table", "wall"])
async def test_a_burst_of_a_thousand_events_makes_no_turn_of_the_loop_long(
    theme: Theme, tmp_path: Path, wall: bool
) -> None:
    console = FakeConsole(many_devices(COUNT), story().operators)

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        fleet.show_as(wall)
        await seen(lambda: fleet.listing.shown_count() == COUNT)
        changed = [
            device.model_copy(update={"tool_count": device.tool_count + 1})
            for device in console.fleet.values()
        ]
        shown: list[bool] = []
        fleet.listing.filled.connect(
            lambda: shown.append(fleet.state.devices[changed[-1].name] is changed[-1])
        )
        # Painting has a bound of its own, above; a busy machine does it in the turn of the filling, or later.
        fleet.listing.view.setUpdatesEnabled(False)
        with most_calls_a_turn(TURN_CALLS):
            for device in changed:
                console.emit(DeviceChanged(device=device))
            await seen(lambda: any(shown))


async def test_a_large_fleet_is_shown_at_most_four_times_a_second_and_the_wall_twice(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(devices_view, "time", SimpleNamespace(monotonic=lambda: now))
    console = FakeConsole(many_devices(200), story().operators)

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        await seen(lambda: fleet.listing.shown_count() == 200)
        name = next(iter(console.fleet))
        shown: list[float] = []
        fleet.listing.filled.connect(lambda: shown.append(now))

        def pauses_ms() -> list[int]:
            timers = fleet.listing.findChildren(QTimer)
            return [timer.interval() for timer in timers if timer.isActive() and timer.isSingleShot()]

        for wall, most in ((False, 4), (True, 2)):
            fleet.show_as(wall)
            await seen(lambda: shown)
            shown.clear()
            console.change_device(name, round_trip_ms=float(most))
            # A change asks for the next time, and is shown no earlier.
            await seen(lambda most=most: 1_000 // most + 1 in pauses_ms())
            assert not shown
            now += 1.01 / most
            console.change_device(name, round_trip_ms=most + 0.5)
            await seen(lambda: shown)
            shown.clear()
