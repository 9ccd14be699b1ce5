"""The palette: what it finds, how it ranks, where it leads; and that it never sends anything."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton

from app.main import ConsoleApplication
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenEntry, OpenQuery, OpenRun, OpenSection, OpenTool, Target
from app.shell.command_palette import CommandPalette, ResultsDelegate
from app.shell.palette_matcher import Match, Result, find, match_hit
from app.shell.shortcuts_dialog import ShortcutsDialog
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.service.console import Console, EntryPage
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.fleet_data import ago
from tests.fakes.patience import PATIENCE_S
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.shell.page import lines_of

SENDS = {
    "call",
    "start_run",
    "decide",
    "decide_many",
    "cancel_run",
    "stop_all",
    "set_profile",
    "review_contract",
    "resume",
}


def hit(title: str, detail: str = "", group: str = "Devices") -> Result:
    return Result(f"{group}/{title}", group, title, detail, "device", "fleet")


def test_a_risk_stands_where_it_stood_when_the_policys_answer_comes(theme: Theme) -> None:
    picture = QImage(640, 36, QImage.Format.Format_ARGB32)
    places = set()
    for more in (
        {},
        {"state": "asks", "state_of": "plan"},
        {"state": "runs", "state_of": "plan"},
        {"note": "9:58 left"},
    ):
        line = replace(hit("shell_execute", group="Call a tool"), risk="high", **more)
        painter = QPainter(picture)
        places.add(ResultsDelegate().paint_right(painter, QRectF(0, 0, 626, 36), Match(line, 1.0), theme))
        painter.end()
    assert len(places) == 1


def test_every_word_must_be_found_somewhere_in_the_line() -> None:
    line = hit("shell_execute", "on build-lnx-03")
    assert match_hit(line, ["shell", "build"]) is not None
    assert match_hit(line, ["shell", "journal"]) is None


def test_the_letters_that_matched_are_marked() -> None:
    found = match_hit(hit("shell_execute", "on build-lnx-03"), ["shell", "build"])
    assert found is not None
    assert found.title_marks == ((0, 5),)
    assert found.detail_marks == ((3, 8),)


def test_a_typing_error_still_finds() -> None:
    assert [one.hit.title for one in find([hit("screenshot"), hit("write_file")], "screnshot")] == [
        "screenshot"
    ]


def test_beginnings_rank_before_middles() -> None:
    found = find([hit("my-lab"), hit("lab-lnx-01"), hit("elaborate")], "lab")
    assert [one.hit.title for one in found] == ["lab-lnx-01", "my-lab", "elaborate"]


def test_what_is_named_exactly_comes_before_all_that_is_only_like_it() -> None:
    tools = [replace(hit("read_file", "on lab-01", "Call a tool"), fits="r-0016") for _ in range(4)]
    run = replace(hit("Night sweep", "r-0016", "Batches and runs"), key="run/r-0016")
    other = replace(hit("Night sweep r-0016", "r-0160", "Batches and runs"), key="run/r-0160")
    assert [one.hit.key for one in find([*tools, other, run], "R-0016")][:2] == ["run/r-0016", "run/r-0160"]


def test_groups_keep_their_order_and_give_way_to_each_other() -> None:
    many = [hit(f"lab-{number}") for number in range(50)] + [hit("lab", group="Call a tool")]
    found = find(many, "lab")
    assert found[0].hit.group == "Call a tool"
    assert len(found) == 5


def palette_of(desk: ConsoleApplication) -> CommandPalette:
    return desk.window.findChild(CommandPalette)  # type: ignore[return-value]  # Qt's stub says object


def groups_in(palette: CommandPalette) -> list[str]:
    return [line for line in lines_of(palette) if isinstance(line, str)]


def found_in(palette: CommandPalette) -> list[Match]:
    return [line for line in lines_of(palette) if isinstance(line, Match)]


def chosen_target(desk: ConsoleApplication, palette: CommandPalette) -> tuple[str, Target | None]:
    opened: list[tuple[str, Target | None]] = []
    desk.window.open = lambda screen, target=None: opened.append((screen, target))  # type: ignore[method-assign]
    QTest.keyClick(palette.field, Qt.Key.Key_Return)
    return opened[0]


async def test_ctrl_k_finds_tools_of_the_device_that_is_named(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        QTest.keyClick(desk.window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
        palette = palette_of(desk)
        QTest.keyClicks(palette.field, "shell build")
        await seen(lambda: "Call a tool" in groups_in(palette))
        await seen(lambda: any(getattr(line, "hit", hit("")).state == "asks" for line in lines_of(palette)))
        assert "Approvals" in groups_in(palette)
        screen, target = chosen_target(desk, palette)
        assert screen == "batch"
        assert target == OpenTool("build-lnx-03", "shell_execute")
        assert not palette.isVisible()
    assert not SENDS & set(console.asked)


@pytest.mark.parametrize("typed", ["", "shell", "Free disk", "scr lab", "r-0418", "zzzz"])
async def test_the_palette_never_sends_anything(theme: Theme, tmp_path: Path, typed: str) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open_palette(typed)
        palette = palette_of(desk)
        await seen(lambda: palette.chosen() is not None)
        for _ in range(3):
            QTest.keyClick(palette.field, Qt.Key.Key_Down)
        chosen_target(desk, palette)
    assert not SENDS & set(console.asked)


async def test_words_become_a_journal_query(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.open_palette("status:failure edge-gw-11")
        palette = palette_of(desk)
        await seen(lambda: "Journal" in groups_in(palette))
        line = next(one for one in found_in(palette) if one.hit.group == "Journal")
        assert line.hit.target == OpenQuery("status:failure device:edge-gw-11")
        await seen(lambda: any("entr" in one.hit.detail for one in found_in(palette)))


async def test_tab_narrows_to_one_kind_and_escape_widens_then_closes(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.open_palette("lab")
        palette = palette_of(desk)
        await seen(lambda: len(groups_in(palette)) > 1)
        QTest.keyClick(palette.field, Qt.Key.Key_Tab)
        assert len(groups_in(palette)) == 1
        QTest.keyClick(palette.field, Qt.Key.Key_Escape)
        assert len(groups_in(palette)) > 1
        assert palette.isVisible()
        QTest.keyClick(palette.field, Qt.Key.Key_Escape)
        assert not palette.isVisible()


async def test_a_click_leads_there_and_is_no_tab_and_lines_that_go_meanwhile_do_no_harm(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.open_palette("lab")
        palette = palette_of(desk)
        await seen(lambda: len(groups_in(palette)) > 1)
        opened: list[tuple[str, Target | None]] = []
        desk.window.open = lambda screen, target=None: opened.append((screen, target))  # type: ignore[method-assign]
        # The same signal tells others, who may bring other lines before the list is done with the click.
        others = palette.view.model()
        palette.view.clicked.connect(lambda _index: others.show_found([]))  # type: ignore[attr-defined]
        before = palette.chosen()
        QTest.mouseClick(
            palette.view.viewport(),
            Qt.MouseButton.LeftButton,
            pos=palette.view.visualRect(palette.view.currentIndex()).center(),
        )
        assert before is not None
        assert opened == [(before.hit.screen, before.hit.target)]
        assert not palette.isVisible()
        # The click went to the line: it did not narrow the list to its kind.
        desk.window.open_palette()
        assert len(groups_in(palette)) > 1


async def test_runs_are_found_by_the_service_by_what_no_line_shows_and_an_exact_id_comes_first(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    pattern = console.work.find("r-0411")
    for number in (16, 106, 160, 166, 161, 116):
        changes = {"id": f"r-{number:04d}", "started_at": ago(90_000)}
        if number == 16:
            changes |= {"tools": ["defragment_everything"], "effect": "Reads /srv/oddity"}
        console.work.add(pattern.model_copy(update={"summary": pattern.summary.model_copy(update=changes)}))
    console.answer("state", lambda: console.on_state().model_copy(update={"runs": []}))

    async with open_frame(theme, tmp_path, console) as desk:
        for query in ("r-0016", "defragment", "oddity"):
            desk.window.open_palette(query)
            palette = palette_of(desk)
            await seen(
                lambda palette=palette: any(one.hit.target == OpenRun("r-0016") for one in found_in(palette))
            )
            runs = [one.hit.target for one in found_in(palette) if isinstance(one.hit.target, OpenRun)]
            assert runs[0] == OpenRun("r-0016"), query
            palette.hide()
        assert "run" not in console.asked


async def test_a_count_that_stops_at_a_bound_says_so(theme: Theme, tmp_path: Path) -> None:
    console = story()

    def entries(query: str, before: int | None, limit: int) -> EntryPage:
        page = console.on_entries(query, before, limit)
        return page.model_copy(update={"total": 10_000, "total_exact": False})

    console.answer("entries", entries)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open_palette("shell")
        palette = palette_of(desk)
        await seen(lambda: any(one.hit.detail == "10,000 or more entries" for one in found_in(palette)))


async def test_an_older_run_is_found_by_its_id(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.answer("state", lambda: console.on_state().model_copy(update={"runs": []}))

    async with open_frame(theme, tmp_path, console) as desk:
        QTest.keyClick(desk.window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
        palette = palette_of(desk)
        QTest.keyClicks(palette.field, "r-0411")
        await seen(lambda: any(one.hit.target == OpenRun("r-0411") for one in found_in(palette)))


def test_what_the_service_found_keeps_its_order_and_what_is_typed_meanwhile_narrows_it() -> None:
    found = [
        replace(
            hit("get_system_info", group="Call a tool"), fits="how much memory", order=0, reason="argument"
        ),
        replace(hit("free_memory", group="Call a tool"), fits="how much memory", order=1),
    ]
    assert [one.hit.title for one in find(found, "how much memory")] == ["get_system_info", "free_memory"]
    assert [one.reason for one in find(found, "how much memory")] == ["argument", ""]
    assert [one.hit.title for one in find(found, "memory")] == ["free_memory"]


def test_a_command_is_found_by_how_its_words_begin_and_nothing_else() -> None:
    stop = replace(hit("Stop all", group="Commands"), act=lambda: None, also="halt")
    assert find([stop], "sto")
    assert find([stop], "all stop")
    assert find([stop], "halt")
    assert not find([stop], "top")
    assert not find([stop], "stpo all")


async def test_a_question_finds_the_tool_by_what_its_device_says_of_it(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        for query in ("memory", "how much memory is free"):
            desk.window.open_palette(query)
            palette = palette_of(desk)
            await seen(
                lambda palette=palette: any(one.hit.title == "get_system_info" for one in found_in(palette))
            )
            line = next(one for one in found_in(palette) if one.hit.title == "get_system_info")
            assert line.reason.startswith("description: memory")
            assert isinstance(line.hit.target, OpenTool)
            row = lines_of(palette).index(line)
            spoken = palette.view.model().index(row, 0).data(Qt.ItemDataRole.AccessibleTextRole)
            assert "description: memory" in str(spoken)
            palette.dismiss()


def commands_in(palette: CommandPalette) -> dict[str, Match]:
    return {one.hit.title: one for one in found_in(palette) if one.hit.group == "Commands"}


def type_and_enter(desk: ConsoleApplication, words: str) -> CommandPalette:
    desk.window.open_palette(words)
    palette = palette_of(desk)
    QTest.keyClick(palette.field, Qt.Key.Key_Return)
    return palette


async def test_commands_are_the_windows_own_actions(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        window = desk.window
        for words, seen_by in (
            ("light theme", lambda: theme.mode == "light"),
            ("dark", lambda: theme.mode == "dark"),
            ("go to runs", lambda: window.current.name == "runs"),
            ("settings grants", lambda: window.current.name == "settings"),
            ("verify", lambda: window.current.name == "journal" and "verify" in console.asked),
            ("narrow", lambda: window.navigation.narrow),
            ("keys of", lambda: any(isinstance(one, ShortcutsDialog) for one in window.findChildren(Dialog))),
        ):
            palette = type_and_enter(desk, words)
            assert not palette.isVisible(), words
            await seen(seen_by)
        # The key, the button and the line of the palette are one object.
        offered = {action.text(): action for action in window.actions()}
        assert offered["Stop all"] is window.commands.stop
        assert offered["Go to Runs"].shortcut().toString() == "Alt+4"
        window.open_palette("go to runs")
        assert commands_in(palette_of(desk))["Go to Runs"].hit.note == "Alt+4"
        window.open_palette("go to")
        notes = [found.hit.note for found in commands_in(palette_of(desk)).values()]
        assert [note for note in notes if note != "G"] == [f"Alt+{number}" for number in range(1, 9)]
    assert not SENDS & set(console.asked)


def theme_shown(settings: SettingsScreen) -> str:
    buttons = settings.appearance.mode.findChildren(QAbstractButton)
    return next(button.text() for button in buttons if button.isChecked())


async def test_the_theme_that_the_palette_chose_is_shown_in_settings_and_kept(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.open("settings", OpenSection("appearance"))
        type_and_enter(desk, "light")
        settings = desk.window.current
        assert isinstance(settings, SettingsScreen)
        assert theme_shown(settings) == "Light"
        assert desk.store.value("appearance/mode") == "light"
        type_and_enter(desk, "dark theme")
        assert theme_shown(settings) == "Dark"


async def test_a_command_that_cannot_be_done_says_why_and_does_nothing(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        palette = type_and_enter(desk, "resume")
        assert palette.isVisible()
        line = commands_in(palette)["Resume…"]
        assert (line.hit.off, line.hit.detail) == ("Nothing is stopped.", "Nothing is stopped.")
        assert not desk.window.commands.resume.isEnabled()
    assert not SENDS & set(console.asked)


def stands_on_stop(palette: CommandPalette) -> bool:
    chosen = palette.chosen()
    return chosen is not None and chosen.hit.title == "Stop all"


@pytest.mark.parametrize("typed", ["sto", "stop", "stop al", "all"])
async def test_stop_all_is_not_met_by_enter_before_it_was_typed_whole(
    theme: Theme, tmp_path: Path, typed: str
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open_palette(typed)
        palette = palette_of(desk)
        assert "Stop all" in commands_in(palette)
        assert not stands_on_stop(palette)
        if palette.chosen() is not None:
            QTest.keyClick(palette.field, Qt.Key.Key_Tab)
            assert not stands_on_stop(palette)
            QTest.keyClick(palette.field, Qt.Key.Key_Tab)
        QTest.keyClick(palette.field, Qt.Key.Key_Return)
    assert "stop_all" not in console.asked


async def test_stop_all_typed_whole_stops(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        type_and_enter(desk, "stop all")
        await seen(lambda: desk.state.stopped)
    assert console.asked.count("stop_all") == 1


async def test_the_key_is_locked_and_unlocked_by_one_command(theme: Theme, tmp_path: Path) -> None:
    create_operator_key(Home(tmp_path).create(), "root", None)

    async with open_frame(theme, tmp_path, story()) as desk:
        await seen(lambda: desk.keys.unlocked)
        type_and_enter(desk, "lock")
        assert not desk.keys.unlocked
        type_and_enter(desk, "unlock")
        await seen(lambda: desk.keys.unlocked)


async def test_entries_show_what_the_policy_said_of_their_command(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open_palette("kind:command_sent")
        palette = palette_of(desk)

        def entries() -> list[Match]:
            return [one for one in found_in(palette) if isinstance(one.hit.target, OpenEntry)]

        await seen(lambda: any(one.hit.state in ("asks", "runs") for one in entries()))
        lines = [one for one in found_in(palette) if one.hit.group == "Journal"]
        assert isinstance(lines[0].hit.target, OpenQuery), "the whole query comes before single entries"
        numbers = [one.hit.target.seq for one in entries() if isinstance(one.hit.target, OpenEntry)]
        assert numbers == sorted(numbers, reverse=True)
        assert all(one.hit.state_of == "plan" for one in entries() if one.hit.state in ("asks", "runs"))


async def test_a_question_finds_this_computers_own_tool_and_its_entries_have_the_policys_answer(
    theme: Theme, tmp_path: Path
) -> None:
    home = Home(tmp_path / "service").create()
    choose_channel(home, "in-process")
    stack = AsyncExitStack()

    async def opened() -> Console:
        service = await stack.enter_async_context(open_service(home))
        console = LocalConsole(service, "window:test")
        run = await console.runs.call("this-computer", "get_system_info", {"info_type": "os"})
        await console.runs.wait(run.summary.id, PATIENCE_S)
        return console

    async with open_frame(theme, tmp_path / "window", opened) as desk:
        for query, reason in (
            ("memory", "argument info_type: memory"),
            ("how much memory is free", "argument info_type: memory; result free_bytes: free"),
        ):
            desk.window.open_palette(query)
            palette = palette_of(desk)
            await seen(
                lambda palette=palette: any(one.hit.title == "get_system_info" for one in found_in(palette))
            )
            line = next(one for one in found_in(palette) if one.hit.title == "get_system_info")
            assert line.reason == reason
            assert line.hit.target == OpenTool("this-computer", "get_system_info")
            palette.dismiss()
        desk.window.open_palette("kind:result_recorded")
        palette = palette_of(desk)
        await seen(
            lambda: any(
                (one.hit.title, one.hit.state) == ("result recorded", "runs") for one in found_in(palette)
            )
        )
        await stack.aclose()
