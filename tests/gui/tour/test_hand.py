"""The tour's hand fails when what it looks for is not there: it never passes by."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QAbstractButton, QComboBox

from app.theme.theme import Theme
from core.service.console import Console
from tests.fakes.story import story
from tests.fakes.window import open_window
from tests.tour import ui_driver as tour_hand
from tests.tour.album import INDEX, Album
from tests.tour.context import TourContext
from tests.tour.context import play as play_scenes
from tests.tour.devices import DemoDevices
from tests.tour.ui_driver import StepDidNotHappen, UiDriver


async def nobody() -> Console:
    raise AssertionError("no scene here asks for an agent")


async def test_a_button_that_is_not_there_ends_the_tour_with_its_name_and_a_picture(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour_hand, "PATIENCE_S", 0.1)

    async def presses_nothing(stage: TourContext) -> None:
        await stage.hand.press("Launch the boats")

    async with open_window(theme, tmp_path, story()) as desk:
        album = Album(tmp_path)
        hand = UiDriver(desk.window, desk.link, album)
        with album, pytest.raises(StepDidNotHappen, match=r"presses_nothing: .*Launch the boats"):
            await play_scenes(
                TourContext(desk, hand, tmp_path, DemoDevices(tmp_path), nobody), [presses_nothing]
            )
        assert [path.name for path in album.pictures] == ["01-failed-in-presses_nothing.png"]
        assert album.pictures[0].stat().st_size > 0
        assert album.pictures[0].name in (tmp_path / INDEX).read_text("utf-8")


async def test_a_button_that_is_switched_off_or_hidden_is_not_pressed(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour_hand, "PATIENCE_S", 0.1)

    async with open_window(theme, tmp_path, story()) as desk:
        hand = UiDriver(desk.window, desk.link, Album(tmp_path))
        stop = await hand.find(QAbstractButton, "Stop all")
        stop.setEnabled(False)
        with pytest.raises(StepDidNotHappen):
            await hand.press("Stop all")
        assert not desk.state.stopped


async def test_a_value_is_chosen_from_a_list_whatever_was_chosen_before(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour_hand, "PATIENCE_S", 0.1)

    async with open_window(theme, tmp_path, story()) as desk:
        hand = UiDriver(desk.window, desk.link, Album(tmp_path))
        box = QComboBox(desk.window)
        box.setAccessibleName("Harbour")
        box.addItems(["Aden", "Brest", "Cork"])
        box.setCurrentText("Cork")
        box.show()
        await hand.pick("Harbour", "Brest")
        assert box.currentText() == "Brest"
        with pytest.raises(StepDidNotHappen, match="Dover"):
            await hand.pick("Harbour", "Dover")
