"""The wall of devices: groups, arrows, marks, sizes, old pictures; only what is seen is painted."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QAbstractItemModel, QPoint, QSize, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QAbstractItemModelTester, QTest

from app.images import ImageError, decode_image
from app.items.tile_layout import LEAST, MOST, USUAL, TileGroup, TileLayout
from app.items.tile_painter import fit_picture
from app.items.tile_view import TileModel
from app.main import ConsoleApplication
from app.screens.fleet.device_tiles import device_tile, group_devices, picture_age
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenBatch, OpenQuery, Target
from app.text import parse_time
from app.theme.theme import Theme
from core.models.devices import Health
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import ago, make_devices, many_devices
from tests.fakes.pictures import desktop_png
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import PanelPage


def wall_of(desk: ConsoleApplication) -> FleetScreen:
    desk.window.open("fleet")
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    fleet.show_as(True)
    fleet.wall.setFocus()
    return fleet


async def test_w_turns_the_table_into_the_wall_and_back_at_the_same_device(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        fleet.table.choose("lab-lnx-03")
        QTest.keyClick(fleet.table, Qt.Key.Key_W)
        await seen(fleet.wall.isVisible)
        assert fleet.wall.current_key() == "lab-lnx-03"
        assert not fleet.panel.isVisible()
        QTest.keyClick(fleet.wall, Qt.Key.Key_Right)
        beside = fleet.wall.current_key()
        QTest.keyClick(fleet.wall, Qt.Key.Key_W)
        await seen(fleet.table.isVisible)
        assert fleet.table.current_key() == beside != "lab-lnx-03"


def test_production_is_the_first_group_and_stands_first_in_every_other(theme: Theme, tmp_path: Path) -> None:
    devices = make_devices()
    names = {device.name for device in devices if device.production}
    assert group_devices(devices, "tag")[0] == TileGroup("Production", tuple(sorted(names)), True)
    for by in ("platform", "health", "none"):
        for group in group_devices(devices, by):
            marks = [name in names for name in group.keys]
            assert marks == sorted(marks, reverse=True)
        assert sorted(name for group in group_devices(devices, by) for name in group.keys) == sorted(
            device.name for device in devices
        )


async def test_g_groups_by_something_else_and_x_closes_a_group(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = wall_of(desk)
        assert fleet.wall.wall_model.groups[0].name == "Production"
        QTest.keyClick(fleet.wall, Qt.Key.Key_G)
        await seen(lambda: fleet.wall.wall_model.groups[0].name == "Linux")
        assert fleet.head.group.currentText() == "Group: platform"
        fleet.wall.choose("db-primary")
        high = fleet.wall.verticalScrollBar().maximum()
        QTest.keyClick(fleet.wall, Qt.Key.Key_X)
        assert fleet.wall.closed_groups == {"Linux"}
        assert fleet.wall.verticalScrollBar().maximum() < high
        assert fleet.wall.isIndexHidden(fleet.wall.currentIndex())
        QTest.keyClick(fleet.wall, Qt.Key.Key_X)
        assert not fleet.wall.closed_groups
        head = fleet.wall.tile_layout.head_rect(fleet.wall.tile_layout.placed[0], 400).center()
        QTest.mouseClick(
            fleet.wall.viewport(),
            Qt.MouseButton.LeftButton,
            pos=QPoint(60, head.y() - fleet.wall.verticalOffset()),
        )
        assert fleet.wall.closed_groups == {"Linux"}


async def test_plus_minus_and_the_slider_change_the_size_within_bounds(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = wall_of(desk)
        assert fleet.wall.tile_size == USUAL
        QTest.keyClick(fleet.wall, Qt.Key.Key_Plus)
        assert fleet.wall.tile_size > USUAL
        assert fleet.head.size_slider.value() == fleet.wall.tile_size
        for _ in range(20):
            QTest.keyClick(fleet.wall, Qt.Key.Key_Minus)
        assert fleet.wall.tile_size == LEAST
        fleet.head.size_slider.setValue(MOST)
        assert fleet.wall.tile_size == MOST
        assert fleet.remembered("tile_size") == MOST


async def test_marked_devices_are_what_a_batch_is_made_for(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = wall_of(desk)
        for name in ("lab-lnx-02", "lab-lnx-04"):
            fleet.wall.choose(name)
            QTest.keyClick(fleet.wall, Qt.Key.Key_Space)
        assert fleet.run_button.text() == "Run on 2…"
        assert "2 marked" in fleet.head.detail.text()
        # Marks are kept while another view, or a filter that hides none of them, is in front.
        fleet.show_as(False)
        devices = fleet.table.devices
        assert devices.style(devices.row_of("lab-lnx-02")).tint == "accent_tint"
        fleet.enter(OpenQuery("tag:lab"))
        opened: list[Target | None] = []
        desk.window.open = lambda screen, target=None: opened.append(target)  # type: ignore[method-assign]
        fleet.table.setFocus()
        QTest.keyClick(fleet.table, Qt.Key.Key_R)
        assert opened == [OpenBatch(targets="name:lab-lnx-02,lab-lnx-04")]
        fleet.filter_field.clear()
        assert fleet.escape()
        await seen(lambda: fleet.run_button.text() == "Run on 24…")


async def test_enter_opens_the_panel_of_the_tile(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = wall_of(desk)
        fleet.wall.choose("edge-gw-11")
        QTest.keyClick(fleet.wall, Qt.Key.Key_Return)
        await seen(fleet.panel.isVisible)
        assert PanelPage(fleet).device == "edge-gw-11"
        assert fleet.escape()
        assert not fleet.panel.isVisible()


async def test_a_picture_can_be_taken_from_the_wall_while_the_panel_is_closed(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = wall_of(desk)
        fleet.wall.choose("lab-lnx-02")
        QTest.keyClick(fleet.wall, Qt.Key.Key_T)
        await seen(lambda: "call" in console.asked)


def test_old_pictures_say_their_age_and_offline_devices_show_none() -> None:
    devices = {device.name: device for device in make_devices()}
    fresh = devices["lab-lnx-01"].model_copy(update={"picture": "a" * 64, "picture_at": ago(0)})
    then = parse_time(ago(0))
    assert picture_age(fresh, then + timedelta(minutes=6)) == ""
    stale = fresh.model_copy(update={"health": Health.STALE})
    assert picture_age(stale, then + timedelta(minutes=6)) == "picture 6 min old"
    assert picture_age(fresh, then + timedelta(hours=5)) == "picture 5 h old"
    offline = fresh.model_copy(update={"health": Health.OFFLINE})
    assert device_tile(offline).picture == ""
    assert "Offline" in device_tile(offline).spoken
    days = fresh.model_copy(update={"picture_at": ago(3 * 86_400)})
    assert device_tile(days).age == "picture 3 d old"


def test_an_old_picture_is_grey(theme: Theme) -> None:
    image = QImage(64, 40, QImage.Format.Format_RGB32)
    image.fill(QColor("#C02020"))
    grey = fit_picture(image, QSize(32, 20), 1.0, grey=True).toImage().pixelColor(5, 5)
    assert grey.red() == grey.green() == grey.blue()
    red = fit_picture(image, QSize(32, 20), 1.0, grey=False).toImage().pixelColor(5, 5)
    assert red.red() > 150


async def test_only_tiles_in_sight_are_painted_and_only_their_pictures_are_fetched(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(many_devices(300), story().operators)
    blobs = {}
    for number, (name, device) in enumerate(console.fleet.items()):
        blobs[name] = console.fake_journal.add_blob(f"picture {number}".encode())
        console.fleet[name] = device.model_copy(update={"picture": blobs[name], "picture_at": ago(1)})

    async with open_window(theme, tmp_path, console) as desk:
        fleet = wall_of(desk)
        await seen(lambda: fleet.wall.painted_keys)
        assert len(fleet.wall.painted_keys) < 60
        await seen(lambda: console.asked.count("blob") > 10)
        assert console.asked.count("blob") < 110
        last = fleet.wall.wall_model.items[-1]
        fleet.wall.choose(last)
        await seen(lambda: last in fleet.wall.painted_keys)


async def test_a_tile_is_read_aloud_with_health_production_and_load(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = wall_of(desk)
        model = fleet.wall.wall_model
        index = model.index_of("db-primary")
        words = str(index.data(Qt.ItemDataRole.AccessibleTextRole))
        assert words.startswith("db-primary, Online, Production")
        assert "CPU" in words
        assert "memory" in words


def test_bytes_that_are_no_picture_become_no_picture() -> None:
    with pytest.raises(ImageError):
        decode_image(b"not an image", 320)
    assert decode_image(desktop_png("x", size=(1280, 800)), 320).width() == 320


def test_the_model_is_a_sound_one(theme: Theme) -> None:
    model = TileModel(lambda _key: None)
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.set_groups(group_devices(make_devices(), "tag"))
    model.set_groups(group_devices(make_devices()[:3], "none"))
    assert isinstance(tester.model(), QAbstractItemModel)
    assert model.rowCount() == 3


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    width=st.integers(200, 2600),
    wanted=st.integers(LEAST, MOST),
    closed=st.sets(st.integers(0, 7)),
)
def test_tiles_never_overlap_and_every_arrow_ends_on_a_shown_tile(
    sizes: list[int], width: int, wanted: int, closed: set[int]
) -> None:
    groups = [
        TileGroup(str(n), tuple(f"{n}-{place}" for place in range(size))) for n, size in enumerate(sizes)
    ]
    layout = TileLayout(groups, frozenset(map(str, closed)), width, wanted, heads=True)
    shown = [n for n in range(sum(sizes)) if not layout.rect(n).isNull()]
    for one, other in pairwise(shown):
        assert not layout.rect(one).intersects(layout.rect(other))
    for number in shown:
        rect = layout.rect(number)
        assert rect.right() < width
        assert layout.at(rect.center().x(), rect.center().y()) == number
        assert layout.step(number, 1) in shown
        assert layout.step(number, -1) in shown
    everything = [n for _, numbers in layout.between(0, layout.height) for n in numbers]
    assert everything == shown


async def test_the_panel_shows_the_device_that_was_chosen_while_it_was_closed(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        # The wall shows no panel until it is asked for.
        fleet = wall_of(desk)
        before = fleet.listing.current_key()
        assert not fleet.panel.isVisible()
        other = next(name for name in desk.state.devices if name != before)
        assert fleet.wall.choose(other)
        fleet.show_as(False)
        assert fleet.panel.isVisible()
        assert (fleet.listing.current_key(), fleet.panel.device_name) == (other, other)
