"""Empty states: every list, table, dock and page without content shows the same component, in its middle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.main import ConsoleApplication
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.batch.open_dialog import OpenDialog
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.journal.screen import JournalScreen
from app.screens.replay.screen import ReplayScreen
from app.screens.runs.screen import RunsScreen
from app.screens.settings.policy_page import PolicyPage
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenAgent, OpenDevice, OpenQuery, OpenRun, OpenSection
from app.theme.theme import Theme
from app.widgets.buttons import Button
from app.widgets.empty_state import ContentOrEmpty, EmptyState
from core.policy.models import PolicyCheck
from tests.fakes.agents_story import TESTER, add_agents
from tests.fakes.approvals_desk import make_approval
from tests.fakes.batch_screen import batch_of, risky, sheet_of
from tests.fakes.console import FakeConsole
from tests.fakes.runs_screen import change_cell, drawer_of, runs_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.agents.page import AgentsPage
from tests.gui.fleet.page import open_fleet


@dataclass
class Empty:
    """An area without content: where, what its button is called, and what is true once it was pressed."""

    area: QWidget
    button: str = ""
    done: Callable[[], object] = lambda: True
    # What of the area stays above the empty state, such as the heads of a table.
    above: int = 0
    # Labels of the area that are no part of what is said, such as examples below it.
    more: bool = False


Case = Callable[[ConsoleApplication], Awaitable[Empty]]


def with_a_request() -> FakeConsole:
    console = FakeConsole()
    one = make_approval(1, device="lab-lnx-01")
    console.queue[one.id] = one
    return console


def without_result() -> FakeConsole:
    console = story()
    change_cell(console, "lab-lnx-01", "clean", result=None, evidence=[])
    return console


def without_output() -> FakeConsole:
    console = story()
    change_cell(console, "lab-lnx-01", "clean", result={"stdout": "", "stderr": "", "exit_code": 0})
    return console


def with_many_tools() -> FakeConsole:
    console = story()
    tools = console.tools_of["lab-lnx-01"]
    more = [
        tools[0].model_copy(update={"tool_key": f"action::more_{number}", "tool_name": f"more_{number}"})
        for number in range(20)
    ]
    console.tools_of["lab-lnx-01"] = [*tools, *more]
    return console


# Fleet


async def fleet_filter(desk: ConsoleApplication) -> Empty:
    fleet = open_fleet(desk)
    fleet.show_as(False)
    fleet.enter(OpenQuery("tag:nobody"))
    head = fleet.table.horizontalHeader().height()
    return Empty(
        fleet.listing, "Clear the filter", lambda: fleet.listing.shown_count() == 24, above=head, more=True
    )


async def fleet_wall_filter(desk: ConsoleApplication) -> Empty:
    fleet = open_fleet(desk)
    fleet.show_as(True)
    fleet.enter(OpenQuery("tag:nobody"))
    head = fleet.table.horizontalHeader().height()
    return Empty(
        fleet.listing, "Clear the filter", lambda: fleet.listing.shown_count() == 24, above=head, more=True
    )


async def fleet_without_devices(desk: ConsoleApplication) -> Empty:
    fleet = open_fleet(desk)
    fleet.show_as(False)

    def pairs() -> bool:
        return any(sheet.isVisible() for sheet in desk.window.findChildren(PairingDialog))

    head = fleet.table.horizontalHeader().height()
    return Empty(fleet.listing, "Pair a device…", pairs, above=head, more=True)


async def fleet_tools(desk: ConsoleApplication) -> Empty:
    fleet = open_fleet(desk)
    fleet.enter(OpenDevice("lab-lnx-01", "tools"))
    tab = fleet.panel.tools_tab
    await seen(lambda: tab.search.isVisible() and tab.table.rows_model.rowCount())
    tab.search.setText("no such tool")
    return Empty(tab.place, "Clear the search", lambda: tab.table.rows_model.rowCount() > 5)


async def fleet_refused(desk: ConsoleApplication) -> Empty:
    fleet = open_fleet(desk)
    fleet.enter(OpenDevice("lab-lnx-01", "link"))
    await seen(fleet.panel.link_tab.none_refused.isVisible)
    return Empty(fleet.panel.link_tab.none_refused)


# Batch


async def batch_dock_without_steps(desk: ConsoleApplication) -> Empty:
    screen = await batch_of(desk)
    await seen(lambda: "Add a step" in screen.dock.place.words)
    return Empty(screen.dock.place, "Add a tool", screen.tools.search.hasFocus)


async def batch_dock_without_devices(desk: ConsoleApplication) -> Empty:
    screen = await batch_of(desk, risky("name:lab-lnx-01"))
    screen.editor.set_targets("tag:nobody")
    await seen(lambda: "No device matches the filter." in screen.dock.place.words)
    return Empty(screen.dock.place, "Change the filter", screen.head.targets.hasFocus)


async def batch_steps(desk: ConsoleApplication) -> Empty:
    screen = await batch_of(desk)
    return Empty(screen.steps.stack, "Add a tool", screen.tools.search.hasFocus, more=True)


async def batch_step(desk: ConsoleApplication) -> Empty:
    screen = await batch_of(desk)
    return Empty(screen.step.stack)


async def batch_tools(desk: ConsoleApplication) -> Empty:
    screen = await batch_of(desk)
    screen.tools.search.setText("zzqx")
    await seen(lambda: not screen.tools.searching)
    return Empty(screen.tools.place, "Clear the search", lambda: screen.tools.list.tools.items)


async def batch_tools_without_devices(desk: ConsoleApplication) -> Empty:
    screen = await batch_of(desk)
    screen.editor.set_targets("tag:nobody")
    await seen(lambda: screen.tools.place.words)
    return Empty(screen.tools.place)


async def batch_files(desk: ConsoleApplication) -> Empty:
    screen = await batch_of(desk)
    screen.opening.ask()
    await seen(lambda: sheet_of(desk) is not None)
    sheet = sheet_of(desk)
    assert isinstance(sheet, OpenDialog)
    sheet.search.setText("no such batch")
    return Empty(sheet.place, "Clear the search", lambda: sheet.list.rows_model.rowCount())


# Approvals


def approvals_of(desk: ConsoleApplication) -> ApprovalsScreen:
    desk.window.open("approvals")
    screen = desk.window.current
    assert isinstance(screen, ApprovalsScreen)
    return screen


async def approvals_nothing(desk: ConsoleApplication) -> Empty:
    return Empty(approvals_of(desk).stack)


async def approvals_filter(desk: ConsoleApplication) -> Empty:
    screen = approvals_of(desk)
    await seen(lambda: screen.queue.model.rowCount() == 1)
    screen.queue.field.setText("no such request")
    screen.queue.field.apply()
    await seen(lambda: screen.queue.model.rowCount() == 0)
    return Empty(screen.stack, "Clear the filter", lambda: screen.queue.model.rowCount() == 1)


# Runs


async def runs_nothing(desk: ConsoleApplication) -> Empty:
    desk.window.open("runs")
    screen = desk.window.current
    assert isinstance(screen, RunsScreen)
    await seen(screen.empty.isVisible)
    return Empty(screen.pages, "Build a batch", lambda: desk.window.current is not screen)


async def runs_filter(desk: ConsoleApplication) -> Empty:
    screen = await runs_of(desk)
    screen.list.field.setText("no such run")
    screen.list.apply_filter()
    await seen(lambda: "No run matches" in screen.list.place.words)
    return Empty(screen.list.place, "Clear the filter", lambda: screen.list.model.rowCount())


async def runs_failed(desk: ConsoleApplication) -> Empty:
    screen = await runs_of(desk)
    desk.window.open("runs", OpenRun("r-9999"))
    await seen(lambda: "cannot be shown" in screen.message.words())
    return Empty(screen.message, "Read again")


async def runs_result(desk: ConsoleApplication) -> Empty:
    drawer = await drawer_of(desk, "lab-lnx-01", "clean")
    drawer.choose_tab("result")
    await seen(lambda: drawer.result.place.words)
    return Empty(drawer.result.place)


async def runs_output(desk: ConsoleApplication) -> Empty:
    drawer = await drawer_of(desk, "lab-lnx-01", "clean")
    drawer.choose_tab("output")
    await seen(lambda: drawer.output.place.isVisible() and "wrote nothing" in drawer.output.place.words)
    return Empty(drawer.output.place)


# Replay


async def replay_nothing(desk: ConsoleApplication) -> Empty:
    desk.window.open("replay")
    screen = desk.window.current
    assert isinstance(screen, ReplayScreen)
    await seen(lambda: "Nothing has run yet." in screen.empty.words())
    return Empty(screen.pages, "Build a batch", lambda: desk.window.current is not screen)


async def replay_chooser(desk: ConsoleApplication) -> Empty:
    desk.window.open("replay")
    screen = desk.window.current
    assert isinstance(screen, ReplayScreen)
    await seen(lambda: screen.pages.currentIndex() == 0)
    chooser = screen.chooser
    chooser.open_below(screen.head.run)
    chooser.search.setText("no such run")
    await seen(lambda: "No run matches." in chooser.place.words)
    return Empty(chooser.place, "Clear the search", lambda: chooser.table.rows_model.rowCount())


# Journal


async def journal_of(desk: ConsoleApplication, query: str) -> JournalScreen:
    desk.window.open("journal", OpenQuery(query))
    screen = desk.window.current
    assert isinstance(screen, JournalScreen)
    await seen(lambda: screen.feed.loaded and not screen.feed.loading)
    return screen


async def journal_no_match(desk: ConsoleApplication) -> Empty:
    screen = await journal_of(desk, "tool:nothing")
    return Empty(screen.pages, "Clear the query", lambda: screen.table.isVisible())


async def journal_no_entry(desk: ConsoleApplication) -> Empty:
    screen = await journal_of(desk, "tool:nothing")
    return Empty(screen.pane.nothing)


# Settings


def settings_of(desk: ConsoleApplication, section: str) -> SettingsScreen:
    desk.window.open("settings", OpenSection(section))
    screen = desk.window.current
    assert isinstance(screen, SettingsScreen)
    return screen


async def grants_nothing(desk: ConsoleApplication) -> Empty:
    section = settings_of(desk, "grants").grants
    await seen(lambda: "No grant lets" in section.place.words)
    return Empty(section.place)


async def grants_search(desk: ConsoleApplication) -> Empty:
    section = settings_of(desk, "grants").grants
    await seen(lambda: section.table.rows_model.rowCount() == 3)
    section.search.setText("no such words")
    return Empty(section.place, "Clear the search", lambda: section.table.rows_model.rowCount() == 3)


async def operators_nothing(desk: ConsoleApplication) -> Empty:
    section = settings_of(desk, "operators").operators
    await seen(lambda: section.place.words)
    return Empty(section.place, "Make a key", section.name_field.hasFocus)


async def policy_of(desk: ConsoleApplication, tab: str) -> PolicyPage:
    page = settings_of(desk, "policy").policy
    await seen(lambda: page.editor.text())
    page.show_tab(tab)
    return page


async def policy_without_faults(desk: ConsoleApplication) -> Empty:
    page = await policy_of(desk, "check")
    await seen(lambda: "Nothing is wrong" in page.check.place.words)
    return Empty(page.check)


async def policy_not_checked(desk: ConsoleApplication) -> Empty:
    page = await policy_of(desk, "check")
    await seen(lambda: "Nothing is wrong" in page.check.place.words)
    page.check.say_unknown()
    return Empty(page.check, "Check now", lambda: "Nothing is wrong" in page.check.place.words)


async def policy_without_examples(desk: ConsoleApplication) -> Empty:
    page = await policy_of(desk, "examples")
    await seen(lambda: page.examples.table.rows_model.rowCount())
    page.examples.show_check(PolicyCheck(ok=True))
    return Empty(page.examples)


async def agents_filter(desk: ConsoleApplication) -> Empty:
    page = AgentsPage(desk)
    await seen(page.rows)
    page.filter("nothing like this")
    return Empty(page.screen.place, "Clear the filter", lambda: len(page.rows()) == 3)


async def agent_without_commands(desk: ConsoleApplication) -> Empty:
    page = AgentsPage(desk, OpenAgent(TESTER))
    commands = page.screen.panel.commands
    await seen(lambda: commands.place.words.startswith("It has asked for nothing yet."))
    return Empty(commands.place)


async def agent_commands_filter(desk: ConsoleApplication) -> Empty:
    page = AgentsPage(desk)
    await seen(page.commands)
    commands = page.screen.panel.commands
    commands.field.setText("nothing like this")
    return Empty(commands.place, "Clear the filter", lambda: len(page.commands()) == 7)


async def agent_without_tickets(desk: ConsoleApplication) -> Empty:
    page = AgentsPage(desk, OpenAgent(TESTER))
    page.tab("Open tickets")
    return Empty(page.screen.panel.tickets.place)


def with_agents() -> FakeConsole:
    return add_agents(story())


CASES: list[tuple[Callable[[], FakeConsole], Case]] = [
    (with_agents, agents_filter),
    (with_agents, agent_without_commands),
    (with_agents, agent_commands_filter),
    (with_agents, agent_without_tickets),
    (story, fleet_filter),
    (story, fleet_wall_filter),
    (lambda: FakeConsole([], story().operators), fleet_without_devices),
    (with_many_tools, fleet_tools),
    (story, fleet_refused),
    (FakeConsole, batch_dock_without_steps),
    (FakeConsole, batch_dock_without_devices),
    (FakeConsole, batch_steps),
    (FakeConsole, batch_step),
    (FakeConsole, batch_tools),
    (FakeConsole, batch_tools_without_devices),
    (FakeConsole, batch_files),
    (FakeConsole, approvals_nothing),
    (with_a_request, approvals_filter),
    (FakeConsole, runs_nothing),
    (story, runs_filter),
    (story, runs_failed),
    (without_result, runs_result),
    (without_output, runs_output),
    (FakeConsole, replay_nothing),
    (story, replay_chooser),
    (story, journal_no_match),
    (story, journal_no_entry),
    (FakeConsole, grants_nothing),
    (story, grants_search),
    (FakeConsole, operators_nothing),
    (FakeConsole, policy_without_faults),
    (FakeConsole, policy_not_checked),
    (FakeConsole, policy_without_examples),
]


def rect_in(widget: QWidget, area: QWidget) -> QRect:
    return QRect(widget.mapTo(area, QPoint(0, 0)) if widget is not area else QPoint(0, 0), widget.size())


def shown_in(area: QWidget) -> list[EmptyState]:
    found = [one for one in area.findChildren(EmptyState) if one.isVisible()]
    return [area, *found] if isinstance(area, EmptyState) else found


def check_shape(empty: Empty) -> EmptyState:
    """The one empty state of an area: its parts, and that it stands in the middle of what it stands for."""
    (state,) = shown_in(empty.area)
    assert state.heading.isVisible()
    assert state.heading.text()
    buttons = [one for one in state.findChildren(Button) if one.isVisible()]
    assert [one.text() for one in buttons] == ([empty.button] if empty.button else [])
    if not empty.more:
        labels = [one for one in empty.area.findChildren(QLabel) if one.isVisible() and one.text()]
        assert set(labels) <= {state.heading, state.sentence, *state.findChildren(QLabel)}
    whole = empty.area.rect().adjusted(0, empty.above, 0, 0)
    block = rect_in(state.block, empty.area)
    assert abs(block.center().x() - whole.center().x()) <= 2
    assert block.top() >= whole.top(), "nothing is cut off at the top"
    if block.height() <= whole.height():
        assert abs(block.center().y() - whole.center().y()) <= 2
        assert block.bottom() <= whole.bottom()
    return state


@pytest.mark.qt_log_ignore("plugin does not support", extend=True)  # the off-screen one, of a popup
@pytest.mark.parametrize(("console", "case"), CASES, ids=[case.__name__ for _, case in CASES])
async def test_what_has_no_content_says_so_in_one_shape_in_its_middle(
    theme: Theme, tmp_path: Path, console: Callable[[], FakeConsole], case: Case
) -> None:
    async with open_frame(theme, tmp_path, console()) as desk:
        desk.window.activateWindow()
        await seen(desk.window.isActiveWindow)
        empty = await case(desk)
        await seen(lambda: shown_in(empty.area))
        state = check_shape(empty)
        assert state.sentence.text()
        assert state.sentence.isVisible() or empty.area.height() < state.needed_height(empty.area.width())
        if empty.button:
            state.button.click()
            await seen(empty.done)


def test_the_block_stays_in_the_middle_and_a_low_area_loses_the_sentence_first(
    theme: Theme, qtbot: QtBot
) -> None:
    place = ContentOrEmpty(QWidget())
    qtbot.addWidget(place)
    place.resize(500, 300)
    place.show()
    place.say("No run matches.", "A long sentence that says what to do. " * 4, ("clear", "Clear the search"))
    check_shape(Empty(place, "Clear the search"))
    needed = place.empty.needed_height(500)
    place.resize(500, needed)
    assert place.empty.sentence.isVisible()
    place.resize(500, needed - 60)
    assert place.empty.sentence.isHidden()
    assert "says what to do" in place.empty.block.toolTip()
    check_shape(Empty(place, "Clear the search"))
    place.resize(180, 400)
    check_shape(Empty(place, "Clear the search"))
    place.show_content()
    assert not place.words
    assert not shown_in(place)


def test_pressing_the_button_tells_the_key_that_was_said_last(theme: Theme, qtbot: QtBot) -> None:
    state = EmptyState("One.", "First.", ("first", "First"))
    qtbot.addWidget(state)
    told: list[str] = []
    state.acted.connect(told.append)
    state.button.click()
    state.say("Two.", "Second.", ("second", "Second"))
    state.button.click()
    assert told == ["first", "second"]
    state.say("Three.")
    assert state.button.isHidden() or not state.button.isVisibleTo(state)
