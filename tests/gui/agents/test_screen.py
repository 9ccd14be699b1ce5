"""Agents: who is there, what each said, sent and did, and how an operator holds one."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QPlainTextEdit, QWidget

from app.main import ConsoleApplication
from app.screens.agents.agent_dialogs import TokenDialog
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.targets import OpenAgent
from app.shell.command_palette import CommandPalette
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.audit.entries import Kind
from core.errors import DeviceError
from core.policy.agent_models import AgentSettings, ClientProgram, token_prefix
from core.policy.models import Profile
from core.service.console import AgentConnection, AgentTally
from core.tokens import token_digest
from tests.fakes.agents_story import (
    CLERK,
    DENIED,
    MISMATCH,
    NIGHT,
    OPEN_RUN,
    TESTER,
    UNKNOWN,
    add_agents,
    agent_command,
)
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import ago
from tests.fakes.sign_sheets import do_not_sign, operator_of, sign
from tests.fakes.window import open_frame, seen
from tests.gui.agents.page import AgentsPage


def with_agents(folder: Path) -> FakeConsole:
    return add_agents(FakeConsole(operators=[operator_of(folder)]))


async def test_the_list_says_who_is_connected_with_what_and_how_much_was_given(
    theme: Theme, tmp_path: Path
) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk)
        await seen(lambda: any("1,204" in row for row in page.rows()))
        clerk, night, tester = page.rows()
        assert "connected" in clerk
        assert "claude-code 2.0.14, Studio[U+200B] 1.3" in clerk
        assert clerk.endswith("\t1\t1,204\t1,180\t17")
        assert "paused" in night
        assert night.endswith("\t88\t80\t6")
        assert "not connected" in tester
        assert tester.endswith("\t0\t0\t0")
        assert page.detail == "1 of 3 connected, 1 request waits for you"
        assert page.name == CLERK
        page.filter("observe")
        await seen(lambda: len(page.rows()) == 1)
        assert page.name == NIGHT
        page.filter("nothing like this")
        await seen(lambda: page.in_place_of_the_list)
        assert page.in_place_of_the_list.startswith("No agent matches this filter.")
        QTest.keyClick(page.screen.field, Qt.Key.Key_Escape)
        await seen(lambda: len(page.rows()) == 3)


async def test_what_happens_to_an_agent_is_shown_as_it_happens(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk, OpenAgent(TESTER))
        await seen(lambda: page.name == TESTER)
        assert page.standing == "State: not connected"
        program = ClientProgram.called("probe", "9")
        console.agent_connections[TESTER].append(
            AgentConnection(transport="http", program=program, since=ago(1))
        )
        console.agent_tallies[TESTER] = AgentTally(asked=5, given=4, denied=1)
        console.put_agent(TESTER, AgentSettings(profile=Profile.LOCKDOWN))
        await seen(lambda: page.standing == "State: connected")
        await seen(lambda: page.rows()[2].endswith("\t5\t4\t1"))
        page.tab("Limits and connections")
        await seen(lambda: "probe 9, over HTTP" in page.facts().values())
        await console.agents.revoke(TESTER)
        await seen(lambda: page.name != TESTER)
        assert len(page.rows()) == 2


async def test_what_it_said_stands_beside_what_it_sent_and_did(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk)
        await seen(lambda: len(page.commands()) == 7)
        page.choose_command(MISMATCH.call_id)
        assert "“I only list the files of the build folder.”" in page.said()
        assert page.said().startswith("The agent says (not checked)")
        assert (
            "It sent\nDeletes files: /srv/build/cache and all below\nshell_execute\nlab-lnx-01" in page.sent()
        )
        assert '"command": "rm -rf /srv/build/cache"' in page.sent()
        assert page.done().startswith("Outcome: unverified\nGiven by harbour, 310 ms.")
        assert '"exit_code": 0' in page.done()
        page.choose_command(DENIED.call_id)
        assert "service[U+202E] so" in page.said()
        assert page.sent().startswith("It asked for\n")
        assert "Denied by harbour." in page.done()
        assert "Not on a Friday." in page.done()
        page.choose_command(UNKNOWN.call_id)
        assert page.said() == "It said nothing about this command."
        assert "It did not become a command." in page.sent()
        assert "has no tool 'delete_everything'" in page.done()


async def test_older_commands_are_read_a_page_at_a_time_and_new_ones_as_they_come(
    theme: Theme, tmp_path: Path
) -> None:
    console = with_agents(tmp_path)
    console.agent_commands[CLERK] = [agent_command(number) for number in range(1, 121)]

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk)
        for count in (50, 100, 120):
            await seen(lambda count=count: len(page.commands()) == count)  # type: ignore[misc]
            if count < 120:
                page.press("Show older")
        assert not page.screen.panel.commands.older.isVisible()
        console.agent_commands[CLERK].append(agent_command(121, effect="Writes a file"))
        console.write(Kind.SERVICE_STARTED, "service")
        await seen(lambda: len(page.commands()) == 121)
        assert "Writes a file" in page.commands()[0]


async def test_commands_that_cannot_be_read_say_so_and_are_read_again(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)
    console.fail_next["agent_commands"] = DeviceError("The disk does not answer.")

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk)
        await seen(lambda: page.screen.panel.commands.place.words.startswith("What it asked for could not"))
        assert "The disk does not answer." in page.screen.panel.commands.place.words
        page.press("Read again")
        await seen(lambda: len(page.commands()) == 7)


async def test_pausing_holds_at_once_and_going_on_is_signed(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        await seen(lambda: desk.keys.unlocked)
        page = AgentsPage(desk)
        page.press("Pause")
        await seen(lambda: page.standing == "State: paused, connected")
        assert console.agent_acts == [("pause_agent", CLERK)]
        await seen(lambda: page.is_on("Let it go on…"))
        page.press("Let it go on…")
        await do_not_sign(desk)
        await seen(lambda: page.is_on("Let it go on…"))
        assert page.standing == "State: paused, connected"
        page.press("Let it go on…")
        shown = await sign(desk)
        assert (shown.before["paused"], shown.after["paused"]) == (True, False)
        await seen(lambda: page.standing == "State: connected")
        assert page.problem == ""


async def test_a_pause_that_fails_says_so(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)
    console.fail_next["pause_agent"] = DeviceError("The line broke.")

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk)
        page.press("Pause")
        await seen(lambda: page.problem)
        assert page.problem.startswith("The line broke.")
        assert page.standing == "State: connected"


async def test_stopping_and_revoking_ask_first(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk)
        page.press("Stop…")
        assert "1 open ticket" in page.words_in_sheet
        page.answer("Cancel")
        await seen(lambda: not has_sheet(desk))
        assert console.agent_acts == []
        page.press("Stop…")
        page.answer("Stop")
        await seen(lambda: page.standing == "State: paused")
        page.press("Revoke…")
        page.answer("Revoke")
        await seen(lambda: page.name != CLERK)
        assert console.agent_acts == [("stop_agent", CLERK), ("revoke_agent", CLERK)]


async def test_an_agent_is_added_signed_and_its_token_is_shown_once(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        await seen(lambda: desk.keys.unlocked)
        page = AgentsPage(desk)
        QTest.keyClick(page.screen.table, Qt.Key.Key_A)
        await seen(lambda: has_sheet(desk))
        assert not page.answer_is_on("Make the token…")
        page.type("Name", "CLERK")
        assert not page.answer_is_on("Make the token…")
        page.type("Name", "reports")
        page.type("Devices", "nosuch:field")
        assert not page.answer_is_on("Make the token…")
        page.type("Devices", "tag:lab")
        page.type("Commands a minute", "0")
        assert not page.answer_is_on("Make the token…")
        page.type("Commands a minute", "12")
        page.answer("Make the token…")
        shown = await sign(desk)
        assert (shown.subject, shown.after["targets"], shown.after["per_minute"]) == (
            "reports",
            "tag:lab",
            12,
        )
        await seen(lambda: page.to_copy())
        token = page.to_copy()["Token"]
        assert token.startswith(token_prefix("reports"))
        assert token_digest(token) == shown.after["token_sha256"]
        assert '"reports"' in page.to_copy()["For a program that starts the gateway (.mcp.json)"]
        assert f"Bearer {token}" in page.to_copy()["For a program that speaks HTTP"]
        page.answer("Done")
        assert "not shown again" in page.problem_in_sheet
        page.press_in_sheet("Copy: Token")
        assert QGuiApplication.clipboard().text() == token
        page.answer("Done")
        await seen(lambda: not has_sheet(desk))
        await seen(lambda: page.name == "reports")
        # Nowhere in the window is it any more.
        assert not [one for one in QApplication.allWidgets() if token in shown_by(one)]


async def test_a_token_that_is_not_signed_for_is_not_made(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        await seen(lambda: desk.keys.unlocked)
        page = AgentsPage(desk)
        page.tab("Limits and connections")
        page.press("New token…")
        page.answer("Make the token…")
        await do_not_sign(desk)
        await seen(lambda: page.answer_is_on("Make the token…"))
        assert console.agent_acts == []
        page.answer("Make the token…")
        shown = await sign(desk)
        assert shown.after["targets"] == "tag:lab"
        await seen(lambda: page.to_copy())
        assert isinstance(page.sheet(), TokenDialog)
        page.sheet().dismiss()


async def test_limits_that_tighten_hold_at_once_and_those_that_loosen_are_signed(
    theme: Theme, tmp_path: Path
) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        await seen(lambda: desk.keys.unlocked)
        page = AgentsPage(desk)
        page.tab("Limits and connections")
        page.press("Change the limits…")
        page.type("Commands a minute", "5")
        page.answer("Save")
        await seen(lambda: page.facts()["Commands a minute"] == "5")
        await seen(lambda: not has_sheet(desk))
        assert console.signed == []
        page.press("Change the limits…")
        page.type("Commands a minute", "500")
        page.answer("Save")
        shown = await sign(desk)
        assert shown.after["per_minute"] == 500
        await seen(lambda: page.facts()["Commands a minute"] == "500")


async def test_an_open_ticket_says_what_it_waits_for_and_is_cancelled(theme: Theme, tmp_path: Path) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk)
        page.tab("Open tickets")
        await seen(lambda: page.tickets())
        [ticket] = page.tickets()
        assert ticket.startswith(OPEN_RUN)
        assert "you: Writes /srv/reports/today.md on lab-lnx-01" in ticket
        page.press("Show the request")
        assert desk.window.current.name == "approvals"
        page = AgentsPage(desk)
        page.press("Cancel the run…")
        page.answer("Cancel the run")
        await seen(lambda: not page.tickets())
        assert "cancel_run" in console.asked


async def test_a_card_says_that_what_is_approved_for_a_paused_agent_is_held(
    theme: Theme, tmp_path: Path
) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("approvals")
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        await seen(lambda: screen.card.approval is not None)
        banner = screen.card.banner
        assert not banner.isVisible()
        await console.agents.pause(CLERK)
        await seen(banner.isVisible)
        assert "This agent is paused." in banner.accessibleName()
        console.put_agent(CLERK)
        await seen(lambda: not banner.isVisible())


async def test_the_palette_finds_an_agent_by_what_its_program_calls_itself(
    theme: Theme, tmp_path: Path
) -> None:
    console = with_agents(tmp_path)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open_palette("claude-code")
        palette = desk.window.findChild(CommandPalette)
        assert isinstance(palette, CommandPalette)
        await seen(lambda: palette.isVisible())
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Return)
        await seen(lambda: desk.window.current is not None and desk.window.current.name == "agents")
        page = AgentsPage(desk)
        await seen(lambda: page.name == CLERK)


async def test_without_an_agent_it_says_how_one_is_added_and_connected(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])

    async with open_frame(theme, tmp_path, console) as desk:
        page = AgentsPage(desk)
        await seen(lambda: page.in_place_of_the_list.startswith("There is no agent yet."))
        assert page.name == ""
        assert '"--token-file"' in page.screen.setup.text()
        QTest.mouseClick(page.screen.setup.button, Qt.MouseButton.LeftButton)
        assert QGuiApplication.clipboard().text() == page.screen.setup.text()
        QTest.mouseClick(page.screen.place.empty.button, Qt.MouseButton.LeftButton)
        await seen(lambda: has_sheet(desk))
        page.sheet().dismiss()
        await console.agents.list()
        console.put_agent("first")
        await seen(lambda: page.name == "first")


def shown_by(widget: QWidget) -> str:
    """The text of a widget, whatever shows it."""
    if isinstance(widget, QPlainTextEdit):
        return widget.toPlainText()
    return widget.text() if isinstance(widget, QLabel | QLineEdit) else ""


def has_sheet(desk: ConsoleApplication) -> bool:
    return any(one.isVisible() for one in desk.window.findChildren(Dialog))
