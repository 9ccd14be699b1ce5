"""The frame of the window: navigation, keys, Stop all, profile, banners, closing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from PySide6.QtCore import QMargins, QPoint, QRect, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QMenu

from app.main import ConsoleApplication, layout_store
from app.qt_loop import ended
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenSection
from app.shell.status_bar import StatusPart
from app.theme.theme import Theme
from app.widgets.dialog import Dialog, Overlay
from app.window import fitted
from core.batch.models import RunState
from core.errors import DeviceError, ServiceError
from core.home import Home
from core.models.devices import Health
from core.policy.models import Profile
from tests.fakes.console import FakeConsole
from tests.fakes.sign_sheets import do_not_sign, operator_of, sign, sign_sheet
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.shell.page import screen_line, status_part


def sheet_of(desk: ConsoleApplication) -> Dialog:
    return next(one for one in desk.window.findChildren(Dialog) if one.isVisible())


def has_sheet(desk: ConsoleApplication) -> bool:
    return any(one.isVisible() for one in desk.window.findChildren(Dialog))


async def test_alt_digits_bring_the_screens_to_the_front(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        QTest.keyClick(desk.window, Qt.Key.Key_8, Qt.KeyboardModifier.AltModifier)
        assert desk.window.current.name == "settings"
        QTest.keyClick(desk.window, Qt.Key.Key_1, Qt.KeyboardModifier.AltModifier)
        assert desk.window.current.name == "fleet"


@pytest.mark.parametrize("kept", ["approvals", "batch", "runs", "journal", "settings"])
async def test_a_window_that_opens_has_the_keyboard_in_its_screen(
    theme: Theme, tmp_path: Path, kept: str
) -> None:
    store = layout_store(Home(tmp_path).create())
    store.setValue("window/screen", kept)
    store.sync()

    async with open_window(theme, tmp_path, story()) as desk:
        assert desk.window.current.name == kept
        await seen(desk.window.isActiveWindow)
        await seen(lambda: desk.window.current.isAncestorOf(QApplication.focusWidget() or desk.window))


async def test_what_waits_is_counted_in_navigation_status_bar_and_title(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        count = len(desk.state.approvals)
        assert count > 5
        assert desk.window.windowTitle() == f"({count}) Quarterdeck"
        assert status_part(desk, "waiting").text_shown() == f"{count} waiting for you"


async def test_stop_all_acts_at_once_and_the_banner_says_what_was_stopped(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        chord = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        QTest.keyClick(desk.window, Qt.Key.Key_X, chord)
        await seen(lambda: console.stopped)
        assert not has_sheet(desk), "Stop all must not ask"
        await seen(lambda: any("runs were stopped" in words for words in desk.window.notices.words()))
        assert not desk.state.open_runs()


async def test_stop_all_is_in_reach_while_a_question_covers_the_window(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.control.choose_profile(Profile.TRUSTED)
        await seen(lambda: has_sheet(desk))
        button = desk.window.top_bar.stop
        place = button.mapTo(desk.window, button.rect().center())
        assert desk.window.childAt(place) is button
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
        await seen(lambda: console.stopped)


async def test_stop_all_that_does_not_reach_the_service_says_so(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    console.fail_next["stop_all"] = ServiceError("The line broke.")

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.control.stop_all()
        await seen(lambda: any("did not reach the service" in one for one in desk.window.notices.words()))


async def test_resume_is_signed_first(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    console.stopped, console.stopped_note = True, "2 runs were stopped."

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.control.start_resume()
        assert (await do_not_sign(desk)).before == {"stopped": "2 runs were stopped."}
        assert console.stopped
        assert "resume" not in console.asked
        desk.window.control.start_resume()
        await sign(desk)
        await seen(lambda: not console.stopped)
        await seen(lambda: not desk.window.notices.words())


@pytest.mark.parametrize("signed", [False, True])
async def test_a_laxer_profile_is_signed_before_it_is_set(theme: Theme, tmp_path: Path, signed: bool) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(desk)
        assert console.policy_status.profile is Profile.GUARDED
        assert "low and medium risk run" in " ".join(label.text() for label in sheet.findChildren(QLabel))
        await (sign if signed else do_not_sign)(desk)
        if signed:
            await seen(lambda: desk.window.top_bar.profile.text() == "trusted")
        assert console.policy_status.profile is (Profile.TRUSTED if signed else Profile.GUARDED)
        assert ("set_profile" in console.asked) is signed


async def test_a_stricter_profile_is_set_without_a_question_also_while_something_waits_to_be_accepted(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()

    async with open_window(theme, tmp_path, console) as desk:
        console.changed_by_another_program(console.policy_on_disk.replace("<=medium", "<=high"))
        await seen(lambda: desk.state.policy and desk.state.policy.pending)
        desk.window.choose_profile(Profile.LOCKDOWN)
        await seen(lambda: console.policy_status.profile is Profile.LOCKDOWN)
        assert "propose" not in console.asked
        assert console.policy_status.pending, "what was to be looked at still is"


async def test_a_broken_policy_stands_in_a_banner_until_it_is_mended(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    console.policy_status = console.policy_status.model_copy(update={"problem": "line 3: unknown key"})

    async with open_window(theme, tmp_path, console) as desk:
        await seen(lambda: any("everything asks" in one for one in desk.window.notices.words()))
        desk.window.notices.dismiss_newest()
        assert desk.window.notices.words(), "what is true cannot be put away"
        console.policy_status = console.policy_status.model_copy(update={"problem": ""})
        console.tell_control()
        await seen(lambda: not desk.window.notices.words())


async def test_a_wish_without_an_error_place_fails_in_the_banner_with_the_next_step(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    console.fail_next["set_profile"] = DeviceError("policy.toml cannot be written.")

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.choose_profile(Profile.OBSERVE)
        await seen(lambda: any("policy.toml cannot be written" in one for one in desk.window.notices.words()))


async def test_an_error_in_a_slot_is_shown_and_the_window_goes_on(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_window(theme, tmp_path, FakeConsole(), has_faults=True) as desk:

        def broken() -> None:
            raise KeyError("surprise")

        # As a slot: from Qt's loop, with nobody to catch it.
        desk.window.navigation.chosen.disconnect()
        desk.window.navigation.chosen.connect(lambda _name: broken())
        screen_line(desk, "runs").click()
        await seen(lambda: any("surprise" in one for one in desk.window.notices.words()))
        desk.window.open("settings")
        assert desk.window.current.name == "settings"
    capsys.readouterr()


async def test_an_error_in_a_background_task_is_shown(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_window(theme, tmp_path, FakeConsole(), has_faults=True) as desk:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await seen(lambda: any("ZeroDivisionError" in one for one in desk.window.notices.words()))
    capsys.readouterr()


async def test_escape_closes_the_innermost_first(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        desk.window.fail("A failure.", "Details.")
        desk.window.show_keys()
        assert has_sheet(desk)
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        assert not has_sheet(desk)
        assert desk.window.notices.words()
        while desk.window.current.escape():
            pass
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        assert not desk.window.notices.words()


async def test_tab_stays_inside_a_question(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        desk.window.choose_profile(Profile.TRUSTED)
        await seen(lambda: has_sheet(desk))
        sheet = sheet_of(desk)
        for _ in range(5):
            focus = QApplication.focusWidget()
            assert focus is not None
            QTest.keyClick(focus, Qt.Key.Key_Tab)
            focus = QApplication.focusWidget()
            assert focus is not None
            assert sheet.isAncestorOf(focus)


async def test_no_cover_reaches_into_the_top_bar(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        desk.window.open_palette()
        desk.window.show_keys()
        for cover in desk.window.findChildren(Overlay):
            assert cover.geometry().top() >= 44


async def test_the_window_gets_compact_when_it_is_small(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        assert desk.window.navigation.width() == 176
        desk.window.resize(1280, 720)
        assert desk.window.navigation.width() == 52
        assert desk.window.top_bar.search.sizeHint().width() == 400
        assert desk.theme.metrics.table_row == 24
        desk.window.resize(1440, 900)
        assert desk.theme.metrics.table_row == 28


async def test_the_last_screen_and_section_are_remembered(theme: Theme, tmp_path: Path) -> None:

    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        desk.window.open("settings", OpenSection("policy"))

    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        assert isinstance(desk.window.current, SettingsScreen)
        assert desk.window.current.list.current_key() == "policy"


async def test_the_status_bar_says_once_that_the_service_is_lost(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = FakeConsole()

    async with open_window(theme, tmp_path, console) as desk:
        console.lose("The connection to the service was lost.")
        lost = status_part(desk, "service-lost")
        await seen(lost.text_shown)
        words = lost.text_shown()
        assert words.startswith("The connection to the service was lost. Trying again")
        assert words.count("lost") == 1
    capsys.readouterr()


async def test_a_lost_service_turns_the_status_bar_into_words_and_comes_back(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = FakeConsole()

    async with open_window(theme, tmp_path, console) as desk:
        console.lose("The service was killed.")
        lost, online = status_part(desk, "service-lost"), status_part(desk, Health.ONLINE.value)
        await seen(lambda: "The service is lost. The service was killed." in lost.text_shown())
        assert "unknown" in lost.text_shown()
        assert not online.text_shown(), "what is not known is not shown as known"
        console.come_back()
        lost.click()
        await seen(lambda: online.text_shown() == "20 online")
        assert not lost.text_shown()
    capsys.readouterr()


async def test_an_unverified_journal_warns_and_a_bad_entry_fails(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_window(theme, tmp_path, console) as desk:
        assert status_part(desk, "verified").text_shown() == "not verified yet"
        console.fake_journal.status = console.fake_journal.status.model_copy(
            update={"verified_ok": False, "first_bad": 9412, "verified_at": "2026-01-01T00:00:00Z"}
        )
        console.write("run_started", "service")  # type: ignore[arg-type]  # pydantic reads the word
        await seen(lambda: status_part(desk, "verified").text_shown() == "entry 9,412 does not verify")


async def test_closing_with_nothing_running_agrees_at_once(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        agreed = []
        desk.leaving.agreed.connect(lambda: agreed.append(True))
        desk.window.close()
        assert agreed == [True]
        assert desk.window.isVisible(), "main ends the window, not the close event"


@pytest.mark.parametrize("answer", ["stay", "leave", "cancel"])
async def test_closing_with_work_running_asks(theme: Theme, tmp_path: Path, answer: str) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        agreed: list[bool] = []
        desk.leaving.agreed.connect(lambda: agreed.append(True))
        desk.window.close()
        await seen(lambda: has_sheet(desk))
        assert not agreed
        sheet = sheet_of(desk)
        waiter = ended(sheet.finished)
        sheet.answer(answer).click() if answer else None
        waiter.close()
        if answer == "stay":
            await seen(lambda: not has_sheet(desk))
            assert not agreed
        else:
            await seen(lambda: agreed)
        running = [run for run in console.work.summaries() if not run.state.ended]
        assert bool(running) is (answer != "cancel")
        if answer == "cancel":
            assert any(run.state is RunState.CANCELLED for run in console.work.summaries())


# The off-screen platform has no pop-up grabs; Qt says so.
@pytest.mark.qt_log_ignore("This plugin does not support")
async def test_choosing_a_profile_shows_a_menu_without_a_nested_loop(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        desk.window.top_bar.profile.click()
        menu = next(one for one in desk.window.findChildren(QMenu) if one.isVisible())
        assert [action.text().partition(":")[0] for action in menu.actions()] == [
            one.value for one in Profile
        ]
        menu.close()


@pytest.mark.parametrize("size", [(1440, 900), (1024, 720)])
async def test_a_toast_covers_nothing_and_takes_no_clicks(
    theme: Theme, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_window(theme, tmp_path, story(), size=size) as desk:
        for screen in desk.window.screen_names:
            desk.window.open(screen)
            desk.window.toast("Copied the exact bytes")
            toast = desk.window.status_bar.toast
            await seen(toast.isVisible)
            place = QRect(toast.mapTo(desk.window, QPoint()), toast.size())
            assert not place.isEmpty()
            below = QRect(desk.window.stack.mapTo(desk.window, QPoint()), desk.window.stack.size())
            assert not place.intersects(below)
            for part in desk.window.status_bar.findChildren(StatusPart):
                assert not part.isVisible() or not toast.geometry().intersects(part.geometry())


async def test_a_window_fits_its_screen_with_its_frame_and_has_an_icon(theme: Theme, tmp_path: Path) -> None:
    below_a_bar, frame = QRect(0, 28, 1440, 872), QMargins(1, 37, 1, 1)
    place = fitted(QRect(0, 28, 1440, 872), below_a_bar, frame)
    assert below_a_bar.contains(place.marginsAdded(frame))
    assert place.size() == QSize(1438, 834)
    assert fitted(QSize(1440, 900), QRect(0, 0, 2560, 1400), QMargins()).size() == QSize(1440, 900)

    async with open_window(theme, tmp_path, story()) as desk:
        assert not desk.window.windowIcon().pixmap(64, 64).isNull()
        room = desk.window.screen().availableGeometry()
        assert room.contains(desk.window.frameGeometry())
