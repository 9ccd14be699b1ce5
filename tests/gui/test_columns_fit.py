"""Columns fit: in no table of the window is a text cut while another column of it has room to spare."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.items.table_model import Kind, cell_text
from app.items.table_view import TableView
from app.main import ConsoleApplication
from app.screens.batch.open_dialog import OpenDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.journal.screen import JournalScreen
from app.screens.replay.screen import ReplayScreen
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenDevice, OpenEntry, OpenQuery, OpenSection
from app.theme.theme import Theme
from core.policy.models import ExampleResult, PolicyCheck, PolicyProblem
from tests.fakes.agents_story import add_agents
from tests.fakes.batch_screen import batch_of, sheet_of
from tests.fakes.console import FakeConsole
from tests.fakes.runs_screen import drawer_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.agents.page import AgentsPage
from tests.gui.page import is_due

# What these show changes all the time: they keep the width they were made with, which is no room to spare.
LIVE = {Kind.NUMBER, Kind.TIME, Kind.SPARK, Kind.RISK, Kind.VERDICT, Kind.HEALTH, Kind.PLAN}
WIDTHS = [(1024, 640), (1440, 900), (1920, 1080)]

Scene = Callable[[ConsoleApplication], Awaitable[TableView]]


def tagged() -> FakeConsole:
    """The story, with agents, and with tags as a fleet of some years has them."""
    console = add_agents(story())
    for name, device in list(console.fleet.items()):
        more = {
            "edge-gw-11": ["edge", "eu-west", "canary", "prod"],
            "db-primary": ["postgres", "eu-west", "prod"],
            "lab-lnx-01": ["lab", "linux", "arm64", "hall-17"],
        }.get(name)
        if more:
            console.fleet[name] = device.model_copy(update={"tags": more})
    return console


def fleet_of(desk: ConsoleApplication, target: OpenDevice | None = None) -> FleetScreen:
    desk.window.open("fleet", target)
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    return fleet


async def fleet(desk: ConsoleApplication) -> TableView:
    screen = fleet_of(desk)
    screen.show_as(False)
    await seen(lambda: screen.table.rows_model.rowCount() == 24)
    return screen.table


async def fleet_tools(desk: ConsoleApplication) -> TableView:
    table = fleet_of(desk, OpenDevice("lab-lnx-01", "tools")).panel.tools_tab.table
    await seen(lambda: table.isVisible() and table.rows_model.rowCount())
    return table


async def fleet_refused(desk: ConsoleApplication) -> TableView:
    table = fleet_of(desk, OpenDevice("lab-win-03", "link")).panel.link_tab.refused
    await seen(lambda: table.isVisible() and table.rows_model.rowCount())
    return table


async def fleet_recent(desk: ConsoleApplication) -> TableView:
    screen = fleet_of(desk, OpenDevice("lab-lnx-01", "recent"))
    table = next(one for one in screen.findChildren(TableView) if one.accessibleName().startswith("Recent"))
    await seen(lambda: table.isVisible() and table.rows_model.rowCount())
    return table


async def journal(desk: ConsoleApplication) -> TableView:
    desk.window.open("journal", OpenQuery(""))
    screen = desk.window.current
    assert isinstance(screen, JournalScreen)
    await seen(lambda: screen.feed.loaded and not screen.feed.loading and screen.table.isVisible())
    await seen(lambda: screen.table.entries.entry_at(0) and screen.table.entries.entry_at(10))
    return screen.table


async def journal_around(desk: ConsoleApplication) -> TableView:
    desk.window.open("journal", OpenEntry(18_200, "around"))
    screen = desk.window.current
    assert isinstance(screen, JournalScreen)
    await seen(lambda: screen.pane.around.isVisible() and screen.pane.around.table.rows_model.rowCount())
    return screen.pane.around.table


async def run_entries(desk: ConsoleApplication) -> TableView:
    drawer = await drawer_of(desk, "lab-lnx-01", "clean")
    await seen(lambda: drawer.entries.table.rows_model.rowCount())
    drawer.choose_tab("entries")
    await seen(drawer.entries.table.isVisible)
    return drawer.entries.table


async def replay_chooser(desk: ConsoleApplication) -> TableView:
    desk.window.open("replay")
    screen = desk.window.current
    assert isinstance(screen, ReplayScreen)
    await seen(lambda: screen.pages.currentIndex() == 0)
    screen.chooser.open_below(screen.head.run)
    await seen(lambda: screen.chooser.table.rows_model.rowCount() > 3)
    return screen.chooser.table


async def batch_files(desk: ConsoleApplication) -> TableView:
    screen = await batch_of(desk)
    screen.opening.ask()
    await seen(lambda: sheet_of(desk) is not None)
    sheet = sheet_of(desk)
    assert isinstance(sheet, OpenDialog)
    return sheet.list


def settings_of(desk: ConsoleApplication, section: str) -> SettingsScreen:
    desk.window.open("settings", OpenSection(section))
    screen = desk.window.current
    assert isinstance(screen, SettingsScreen)
    return screen


async def grants(desk: ConsoleApplication) -> TableView:
    section = settings_of(desk, "grants").grants
    await seen(lambda: section.table.rows_model.rowCount() == 3)
    return section.table


async def grants_all(desk: ConsoleApplication) -> TableView:
    section = settings_of(desk, "grants").grants
    section.which.choose("all")
    await seen(lambda: section.table.rows_model.rowCount() == 5)
    return section.table


async def operators(desk: ConsoleApplication) -> TableView:
    section = settings_of(desk, "operators").operators
    await seen(lambda: section.table.rows_model.rowCount())
    return section.table


async def refused(desk: ConsoleApplication) -> TableView:
    section = settings_of(desk, "devices").devices
    await seen(lambda: section.refused.rows_model.rowCount())
    return section.refused


async def policy_examples(desk: ConsoleApplication) -> TableView:
    page = settings_of(desk, "policy").policy
    await seen(lambda: page.editor.text() and page.examples.table.rows_model.rowCount())
    page.show_tab("examples")
    wrong = "call match 1 is denied by rule no-deleting-by-line, not asked"
    examples = [
        ExampleResult(rule="spool", wanted=True, number=1, line=4, ok=True),
        ExampleResult(
            rule="two-for-production-on-weekends", wanted=False, number=2, line=9, ok=False, fault=wrong
        ),
    ]
    page.examples.show_check(PolicyCheck(ok=False, examples=examples))
    return page.examples.table


async def policy_faults(desk: ConsoleApplication) -> TableView:
    page = settings_of(desk, "policy").policy
    await seen(
        lambda: page.editor.text() and (page.check.place.words or page.check.table.rows_model.rowCount())
    )
    page.show_tab("check")
    words = "rule spool: decision: must be one of allow, ask, deny"
    page.check.show_check(PolicyCheck(ok=False, problems=[PolicyProblem(line=12, message=words)]), "")
    return page.check.table


async def time_machine(desk: ConsoleApplication) -> TableView:
    page = settings_of(desk, "policy").policy
    await seen(lambda: page.editor.text())
    page.show_tab("time")
    page.time_machine.run.click()
    await seen(lambda: page.time_machine.table.isVisible() and page.time_machine.table.rows_model.rowCount())
    return page.time_machine.table


async def agents(desk: ConsoleApplication) -> TableView:
    page = AgentsPage(desk)
    await seen(lambda: page.rows() and page.rows()[0].endswith("17"))
    return page.screen.table


async def agent_commands(desk: ConsoleApplication) -> TableView:
    page = AgentsPage(desk)
    await seen(lambda: len(page.commands()) == 7)
    return page.screen.panel.commands.table


async def agent_tickets(desk: ConsoleApplication) -> TableView:
    page = AgentsPage(desk)
    page.tab("Open tickets")
    await seen(page.tickets)
    return page.screen.panel.tickets.table


SCENES: list[Scene] = [
    agents,
    agent_commands,
    agent_tickets,
    fleet,
    fleet_tools,
    fleet_refused,
    fleet_recent,
    journal,
    journal_around,
    run_entries,
    replay_chooser,
    batch_files,
    grants,
    grants_all,
    operators,
    refused,
    policy_examples,
    policy_faults,
    time_machine,
]


def cut_beside_room(table: TableView) -> list[str]:
    """Texts in sight that are cut although another column, or the table's edge, has the room they lack."""
    columns = table.rows_model.columns
    shown = [number for number in range(len(columns)) if not table.isColumnHidden(number)]
    spare = {-1: table.viewport().width() - sum(table.columnWidth(number) for number in shown)}
    for number in shown:
        needed = table.needed_width(number)
        if columns[number].kind in LIVE:
            needed = max(needed, columns[number].width)
        spare[number] = table.columnWidth(number) - needed
    faults = []
    for number in shown:
        if columns[number].kind is Kind.VERDICT and columns[number].width < 60:
            continue  # only a shape, the word is its tip
        for row in table.rows_in_sight():
            cell = table.rows_model.cell(row, number)
            missing = table.cell_width(number, cell) - table.columnWidth(number)
            giver = max((one for one in spare if one != number), key=lambda one: spare[one])
            if 0 < missing <= spare[giver]:
                other = columns[giver].key if giver >= 0 else "the right edge"
                words = cell_text(cell)
                faults.append(f"{columns[number].key}: {words} lacks {missing}, {other} has {spare[giver]}")
    return faults


@pytest.mark.qt_log_ignore("plugin does not support", extend=True)  # the off-screen one, of a popup
@pytest.mark.parametrize("scene", SCENES, ids=[scene.__name__ for scene in SCENES])
async def test_no_text_is_cut_while_another_column_has_room_to_spare(
    theme: Theme, tmp_path: Path, scene: Scene
) -> None:
    async def fitted(desk: ConsoleApplication, width: int, height: int) -> TableView:
        desk.window.resize(width, height)
        table = await scene(desk)
        await seen(lambda: table.isVisible() and table.rows_model.rowCount())
        await seen(lambda: not is_due(table))
        return table

    async with open_frame(theme, tmp_path, tagged(), WIDTHS[0]) as desk:
        faults = {width: cut_beside_room(await fitted(desk, width, height)) for width, height in WIDTHS}
        assert faults == {width: [] for width, _ in WIDTHS}
