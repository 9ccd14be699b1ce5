"""The form to try a tool with, where its schema takes long: no call leaves on what is not known."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtTest import QTest

from app.forms.validator import validator_process
from app.main import ConsoleApplication
from app.screens.fleet.call_tab import CallTab
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenDevice
from app.theme.theme import Theme
from tests.fakes.console import FakeConsole
from tests.fakes.slow_schema import LARGE, while_checking
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.forms.page import is_being_checked


def console_with_a_slow_shell() -> FakeConsole:
    console = story()
    for tools in console.tools_of.values():
        for place, tool in enumerate(tools):
            if tool.tool_name == "shell_execute":
                tools[place] = tool.model_copy(update={"input_schema": LARGE})
    return console


async def tab_of(desk: ConsoleApplication) -> CallTab:
    validator_process().stop()
    desk.window.open("fleet", OpenDevice("lab-lnx-01", "try", "action::shell_execute"))
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    tab = fleet.panel.try_tab
    await seen(lambda: tab.chosen() is not None and tab.call.isEnabled())
    await seen(lambda: tab.form.is_checked)
    return tab


async def test_a_call_waits_until_its_arguments_are_checked(theme: Theme, tmp_path: Path) -> None:
    console = console_with_a_slow_shell()

    async with open_window(theme, tmp_path, console) as desk:
        tab = await tab_of(desk)

        async def press() -> None:
            QTest.keyClicks(tab.form.inputs()[0], "uptime")
            tab.call.setFocus()
            tab.call.click()
            assert tab.call.is_working
            assert tab.call.toolTip() == "The arguments are being checked."
            await seen(lambda: is_being_checked(tab.form))
            assert "call" not in console.asked

        await while_checking(press)
        await seen(lambda: "waits for your approval" in tab.outcome.text())
        assert console.asked.count("call") == 1


async def test_typing_on_while_a_call_waits_takes_the_press_back(theme: Theme, tmp_path: Path) -> None:
    console = console_with_a_slow_shell()

    async with open_window(theme, tmp_path, console) as desk:
        tab = await tab_of(desk)

        async def press_and_type() -> None:
            QTest.keyClicks(tab.form.inputs()[0], "uptime")
            tab.call.click()
            QTest.keyClicks(tab.form.inputs()[0], " -p")
            assert not tab.call.is_working
            assert tab.outcome.text().startswith("Nothing was sent: the arguments are others")

        await while_checking(press_and_type)
        await seen(lambda: tab.form.is_checked)
        assert "call" not in console.asked
        tab.call.click()
        await seen(lambda: "waits for your approval" in tab.outcome.text())
        run = console.work.summaries()[0]
        assert [one.request.parameters for one in console.queue.values() if one.run == run.id] == [
            {"command": "uptime -p"}
        ]


async def test_what_is_wrong_keeps_the_call_from_leaving_when_it_becomes_known(
    theme: Theme, tmp_path: Path
) -> None:
    console = console_with_a_slow_shell()

    async with open_window(theme, tmp_path, console) as desk:
        tab = await tab_of(desk)
        QTest.keyClicks(tab.form.inputs()[0], "ls")
        tab.call.click()
        await seen(lambda: tab.outcome.text() == "Nothing was sent: a field needs another value.")
        assert not tab.call.is_working
        assert ("command",) in tab.form.errors
        assert "call" not in console.asked


async def test_another_tool_takes_the_press_back(theme: Theme, tmp_path: Path) -> None:
    console = console_with_a_slow_shell()

    async with open_window(theme, tmp_path, console) as desk:
        tab = await tab_of(desk)

        async def press_and_choose() -> None:
            QTest.keyClicks(tab.form.inputs()[0], "uptime")
            tab.call.click()
            tab.choose("data_collection::list_processes")
            assert not tab.call.is_working

        await while_checking(press_and_choose)
        await seen(lambda: tab.form.is_checked)
        assert "call" not in console.asked
