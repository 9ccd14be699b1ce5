"""The Live switch: only what is seen is asked for, and nothing any more once nothing is seen."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.images import images_of
from app.items.tile_painter import TileItem
from app.main import ConsoleApplication
from app.screens.fleet import live_preview
from app.screens.fleet.device_tiles import device_tile, newest_picture
from app.screens.fleet.screen import FleetScreen
from app.theme.theme import Theme
from core.errors import BadInput
from core.models.devices import Health
from core.service.console import LivePicture, LiveState
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import ago, make_devices, many_devices
from tests.fakes.pictures import desktop_png
from tests.fakes.qt_turns import most_calls_a_turn
from tests.fakes.story import story
from tests.fakes.window import open_window, seen


def live_wall(desk: ConsoleApplication) -> FleetScreen:
    """The wall in front, with Live turned on by its key."""
    desk.window.open("fleet")
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    fleet.show_as(True)
    fleet.wall.setFocus()
    assert not fleet.live.on
    QTest.keyClick(fleet.wall, Qt.Key.Key_L)
    assert fleet.live.on
    assert fleet.head.live.isChecked()
    return fleet


def in_sight(fleet: FleetScreen) -> set[str]:
    wall = fleet.wall
    model, sight = wall.wall_model, wall.viewport().rect()
    return {
        key
        for place, key in enumerate(model.items)
        if wall.visualRect(model.index(place, 0)).intersects(sight)
    }


def before_now(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def tile(fleet: FleetScreen, name: str) -> TileItem:
    found = fleet.listing.tile(name)
    assert found is not None
    return found


async def test_only_seen_tiles_are_asked_for_and_scrolling_asks_for_others(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(many_devices(200), story().operators)

    async with open_window(theme, tmp_path, console) as desk:
        fleet = live_wall(desk)
        await seen(lambda: console.watched and set(console.watched[-1][0]) == in_sight(fleet))
        first = console.watched[-1][0]
        assert console.watched[0][1]
        assert 0 < len(first) < 60
        bar = fleet.wall.verticalScrollBar()
        bar.setValue(bar.maximum())
        await seen(lambda: fleet.wall.wall_model.items[-1] in console.watched[-1][0])
        last, anew = console.watched[-1]
        assert not anew
        assert set(last) == in_sight(fleet)
        assert not set(last) & set(first)
        fleet.filter_field.setText("name:kiosk-yard-*")
        fleet.filter_field.apply()
        await seen(lambda: set(console.watched[-1][0]) == in_sight(fleet) != set(last))


async def test_small_tiles_are_asked_for_up_to_what_one_lease_may_have(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(many_devices(200), story().operators)

    async with open_window(theme, tmp_path, console, size=(3000, 2000)) as desk:
        fleet = live_wall(desk)
        fleet.head.size_slider.setValue(160)
        await seen(lambda: console.watched and len(console.watched[-1][0]) == live_preview.MOST_SEEN)
        assert len(in_sight(fleet)) > live_preview.MOST_SEEN
        assert set(console.watched[-1][0]) < in_sight(fleet)


async def test_whatever_hides_the_tiles_ends_the_lease_and_showing_them_takes_it_up_again(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = story()
    # At once, and not only when it is renewed.
    monkeypatch.setattr(live_preview, "RENEW_MS", 600_000)

    async with open_window(theme, tmp_path, console) as desk:
        fleet = live_wall(desk)

        async def ended_then_back(hide: object, show: object) -> None:
            await seen(lambda: console.watched and console.watched[-1][0])
            hide()  # type: ignore[operator]
            await seen(lambda: console.watched[-1][0] == [])
            show()  # type: ignore[operator]
            await seen(lambda: console.watched[-1][0])
            # It is the same wish of the operator's: what was refused is not tried again.
            assert not console.watched[-1][1]

        window = desk.window
        await ended_then_back(lambda: window.open("runs"), lambda: window.open("fleet"))
        await ended_then_back(lambda: fleet.show_as(False), lambda: fleet.show_as(True))
        await ended_then_back(lambda: fleet.listing.opened.emit("lab-lnx-01"), fleet.escape)
        await ended_then_back(window.showMinimized, window.showNormal)
        await ended_then_back(window.hide, window.show)
        QTest.mouseClick(fleet.head.live, Qt.MouseButton.LeftButton)
        await seen(lambda: console.watched[-1][0] == [])
        count = len(console.watched)
        fleet.wall.verticalScrollBar().setValue(40)
        await asyncio.sleep(0.3)
        assert len(console.watched) == count


async def test_the_lease_is_renewed_and_taken_anew_from_a_service_that_came_back(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = story()
    monkeypatch.setattr(live_preview, "RENEW_MS", 50)

    async with open_window(theme, tmp_path, console) as desk:
        fleet = live_wall(desk)
        await seen(lambda: len(console.watched) >= 3)
        assert [anew for _, anew in console.watched[:3]] == [True, False, False]
        console.lose()
        await seen(lambda: not desk.link.connected)
        count = len(console.watched)
        console.come_back()
        desk.link.try_now()
        await seen(lambda: len(console.watched) > count)
        assert fleet.live.on
        console.fail_next["watch_pictures"] = BadInput("No.")
        await seen(lambda: not fleet.live.on)
        assert not fleet.head.live.isChecked()


async def test_a_tile_says_that_it_is_live_or_why_it_is_not(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.unwatchable["lab-lnx-04"] = "The policy asks before this."

    async with open_window(theme, tmp_path, console) as desk:
        fleet = live_wall(desk)
        await seen(lambda: tile(fleet, "lab-lnx-05").live)
        refused = tile(fleet, "lab-lnx-04")
        assert not refused.live
        assert "The policy asks" in refused.line
        assert "not live: The policy asks before this." in refused.spoken
        assert not tile(fleet, "kiosk-hall-2").live
        fleet.turn_live()
        assert not tile(fleet, "lab-lnx-05").live
        assert "policy" not in tile(fleet, "lab-lnx-04").line


def test_the_newer_of_the_two_pictures_is_shown_and_beside_live_ones_an_old_one_says_its_age() -> None:
    device = next(one for one in make_devices() if one.name == "lab-lnx-01")
    both = device.model_copy(
        update={
            "picture": "a" * 64,
            "picture_at": before_now(300),
            "glimpse": "b" * 64,
            "glimpse_at": before_now(90),
        }
    )
    assert newest_picture(both)[0] == "b" * 64
    later = both.model_copy(update={"picture_at": before_now(10)})
    assert newest_picture(later)[0] == "a" * 64
    waits = LivePicture(device="lab-lnx-01", state=LiveState.WAITING, why="Everything was stopped.")
    assert device_tile(both).age == ""
    assert device_tile(both, waits).age == "picture 1 min old"
    assert device_tile(both, waits.model_copy(update={"state": LiveState.LIVE})).age == ""
    refused = waits.model_copy(update={"state": LiveState.REFUSED})
    now = both.model_copy(update={"glimpse_at": before_now(0)})
    assert device_tile(now, refused).age == "not live"
    offline = both.model_copy(update={"health": Health.OFFLINE})
    assert not device_tile(offline, waits.model_copy(update={"state": LiveState.LIVE})).live


async def test_the_old_picture_stands_until_the_new_one_has_come_and_is_dropped_then(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    blobs = [console.fake_journal.add_blob(desktop_png(words)) for words in ("one", "two", "three", "four")]

    async with open_window(theme, tmp_path, console) as desk:
        fleet = live_wall(desk)
        thumbs = fleet.listing.thumbnails
        assert thumbs is not None
        width = 320

        def shown() -> int:
            picture = thumbs.get(tile(fleet, "lab-lnx-01").picture, width)
            return 0 if picture is None else picture.cacheKey()

        def kept() -> set[str]:
            return {key.blob for key in images_of(desk.link).kept_keys()}

        before = shown()
        console.change_device("lab-lnx-01", glimpse=blobs[0], glimpse_at=ago(-1))
        # An earlier picture may come until then.
        await seen(lambda: blobs[0] in kept())
        await seen(lambda: shown() not in (0, before))
        gate = console.hold_back("blob")
        first = shown()
        for number in (1, 2):
            console.change_device("lab-lnx-01", glimpse=blobs[number], glimpse_at=ago(-2 - number))
            await seen(lambda number=number: tile(fleet, "lab-lnx-01").picture == blobs[number])
            assert shown() == first
        gate.set()
        await seen(lambda: shown() not in (0, first))
        assert blobs[2] in kept()
        # A picture is kept before the wall is told that it came, which drops the one before.
        await seen(lambda: blobs[0] not in kept())


async def test_two_hundred_live_tiles_make_no_turn_of_the_loop_long_and_few_pictures_are_kept(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(many_devices(200), story().operators)
    blobs = [console.fake_journal.add_blob(desktop_png(f"screen {number}")) for number in range(12)]

    async with open_window(theme, tmp_path, console) as desk:
        fleet = live_wall(desk)
        await seen(lambda: console.watched)
        names = console.watched[-1][0]
        shown: list[None] = []
        fleet.listing.filled.connect(lambda: shown.append(None))
        with most_calls_a_turn(40_000):
            step = 0
            while len(shown) < 4:
                # Twenty pictures a second is what forty tiles with a rest of two seconds come to.
                name = names[step % len(names)]
                console.change_device(name, glimpse=blobs[step % 12], glimpse_at=ago(-step))
                step += 1
                await asyncio.sleep(0.05)
        assert len(images_of(desk.link).kept_keys()) <= 2 * len(blobs)
