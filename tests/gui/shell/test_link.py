"""The window's end of the door: attaching, following, missed events, wishes and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from app.state import AppState, Link
from app.theme.theme import Theme
from core.errors import BadInput, QuarterdeckError, ServiceError
from core.models.devices import Health
from core.service.console import Console, DeviceChanged, Missed
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices
from tests.fakes.window import open_window, seen


async def test_events_change_only_their_part_of_the_state(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_window(theme, tmp_path, console) as desk:
        heard: list[str] = []
        desk.state.devices_changed.connect(lambda: heard.append("devices"))
        desk.state.approvals_changed.connect(lambda: heard.append("approvals"))
        console.change_device("lab-lnx-01", health=Health.STALE)
        await seen(lambda: heard)
        assert heard == ["devices"]
        assert desk.state.devices["lab-lnx-01"].health is Health.STALE


def test_a_flood_of_events_becomes_few_signals() -> None:
    state = AppState()
    signals: list[int] = []
    state.devices_changed.connect(lambda: signals.append(1))
    device = make_devices()[0]
    for number in range(1000):
        state.apply(DeviceChanged(device=device.model_copy(update={"tool_count": number})))
    state.flush()
    assert len(signals) == 1
    assert state.devices[device.name].tool_count == 999


async def test_missed_events_make_the_window_read_the_state_again(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_window(theme, tmp_path, console) as desk:
        # Changed behind the window's back: no event tells it.
        gone = console.fleet.pop("kiosk-yard")
        console.emit(Missed(count=40))
        await seen(lambda: gone.name not in desk.state.devices)
        assert console.asked.count("state") == 2


async def test_attaching_is_tried_again_until_it_works(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = FakeConsole()
    tries: list[int] = []

    async def opened() -> Console:
        tries.append(1)
        if len(tries) < 3:
            raise ServiceError("Process 4711 owns the home.")
        return console

    async with open_window(theme, tmp_path, opened, wait=False) as desk:
        await seen(lambda: desk.state.service.link is Link.LOST)
        assert "4711" in desk.state.service.problem
        desk.link.try_now()
        await seen(lambda: desk.state.service.link is Link.CONNECTED)
        assert len(tries) == 3
    capsys.readouterr()


async def test_a_wish_while_the_service_is_lost_fails_where_it_was_made(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def opened() -> Console:
        raise ServiceError("No service.")

    async with open_window(theme, tmp_path, opened, wait=False) as desk:
        errors: list[QuarterdeckError] = []
        desk.link.ask(lambda console: console.runs.batch_names(), on_error=errors.append, what="list batches")
        await seen(lambda: errors)
        assert "not connected" in errors[0].message
    capsys.readouterr()


async def test_an_answer_for_a_widget_that_is_gone_is_dropped(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    class Asker(QObject):
        called = False

        def take(self, _answer: object) -> None:
            Asker.called = True

    async with open_window(theme, tmp_path, console) as desk:
        gate = console.hold_back("batches")
        asker = Asker()
        task = desk.link.ask(lambda door: door.runs.batch_names(), asker.take)
        asker.deleteLater()
        gone: list[bool] = []
        asker.destroyed.connect(lambda: gone.append(True))
        await seen(lambda: gone)
        gate.set()
        await task
        assert not Asker.called


async def test_an_unexpected_error_in_a_wish_is_answered_too(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        errors: list[QuarterdeckError] = []

        async def broken(_console: Console) -> None:
            raise ValueError("odd")

        desk.link.ask(broken, on_error=errors.append, what="do something odd")
        await seen(lambda: errors)
        assert "ValueError: odd" in errors[0].message
    capsys.readouterr()


async def test_a_wish_says_what_it_could_not_do(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    console.fail_next["verify"] = BadInput("The folder is gone.")

    async with open_window(theme, tmp_path, console) as desk:
        desk.link.ask(lambda door: door.journal.verify(), what="verify the journal")
        await seen(lambda: any("Could not verify the journal." in one for one in desk.window.notices.words()))


async def test_the_old_door_stays_when_the_new_one_does_not_open(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = FakeConsole()
    tries: list[int] = []

    async def opened() -> Console:
        tries.append(1)
        if len(tries) > 1:
            raise ServiceError("No.")
        return console

    async with open_window(theme, tmp_path, opened) as desk:
        desk.link.reattach()
        await seen(lambda: len(tries) == 2)
        console.change_device("lab-lnx-01", health=Health.STALE)
        await seen(lambda: desk.state.devices["lab-lnx-01"].health is Health.STALE)
        assert desk.state.service.link is Link.CONNECTED
        assert not console.closed
