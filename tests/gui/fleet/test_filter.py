"""The filter of the fleet: live count, completion, errors in words, keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.items.filter_edit import offers
from app.screens.fleet.device_filter import WORDS
from app.theme.theme import Theme
from core.models.device_filter import FIELDS
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices, many_devices
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import open_fleet


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("", [f"{key}:" for key in FIELDS]),
        ("he", ["health:"]),
        ("os:li", ["linux"]),
        ("!tag:la", ["lab"]),
        ("tag:lab,ki", ["kiosk"]),
        ("os:linux ta", ["tag:"]),
        ("kio", ["tag:kiosk"]),
        ("nosuch:x", []),
    ],
)
def test_keys_and_values_are_offered_for_what_is_typed(text: str, first: list[str]) -> None:
    found = [one.choice for _, one in offers(WORDS, text, len(text), make_devices())]
    assert found[: len(first)] == first
    assert first or not found


def test_values_come_with_how_many_devices_have_them() -> None:
    [(start, one)] = offers(WORDS, "tag:kio", 7, make_devices())
    assert (start, one.choice, one.note) == (4, "kiosk", "3")


def test_a_value_with_a_space_is_put_in_with_quotes() -> None:
    device = make_devices()[0].model_copy(update={"tags": ["two words"]})
    assert [one.choice for _, one in offers(WORDS, "tag:tw", 6, [device])] == ['"two words"']


async def test_slash_focuses_tab_completes_and_escape_clears(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.table.setFocus()
        QTest.keyClick(fleet.table, Qt.Key.Key_Slash)
        field = fleet.filter_field
        await seen(field.hasFocus)
        QTest.keyClicks(field, "hea")
        assert field.offered() == ["health:"]
        QTest.keyClick(field, Qt.Key.Key_Tab)
        assert field.text() == "health:"
        assert field.hasFocus()
        QTest.keyClicks(field, "sta")
        QTest.keyClick(field, Qt.Key.Key_Tab)
        assert field.text() == "health:stale "
        await seen(lambda: fleet.head.detail.text() == "1 of 24 devices")
        QTest.keyClick(field, Qt.Key.Key_Escape)
        assert field.text() == ""
        await seen(lambda: fleet.head.detail.text() == "24 devices")


async def test_the_count_of_a_thousand_devices_is_live(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole(many_devices(1000), story().operators)) as desk:
        fleet = open_fleet(desk)
        fleet.filter_field.setFocus()
        QTest.keyClicks(fleet.filter_field, "tag:kiosk !os:windows")
        await seen(lambda: fleet.head.detail.text() == "42 of 1,000 devices")
        fleet.show_as(True)
        await seen(lambda: len(fleet.wall.wall_model.items) == 42)


async def test_an_error_names_the_column_and_what_is_allowed(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.show_as(True)
        fleet.filter_field.setText("colour:red")
        await seen(fleet.problem.isVisible)
        assert fleet.problem.text().startswith("Column 1: there is no field")
        assert fleet.filter_field.accessibleDescription() == fleet.problem.text()
        assert len(fleet.wall.wall_model.items) == 24


@pytest.mark.parametrize("size", [(1440, 900), (1024, 720)])
async def test_the_field_stays_where_it_is_while_it_is_typed_into(
    theme: Theme, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_window(theme, tmp_path, story(), size=size) as desk:
        fleet = open_fleet(desk)
        field = fleet.filter_field
        await seen(lambda: "device" in fleet.head.detail.text())
        QApplication.sendPostedEvents()
        place, words = field.x(), fleet.head.detail.text()
        for typed in ("l", "la", "lab-lnx-01", "nosuch", ""):
            field.setText(typed)
            field.apply()
            QApplication.sendPostedEvents()  # lays out
            assert field.x() == place, typed
            assert not typed or fleet.head.detail.text() != words
