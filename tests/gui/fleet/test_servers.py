"""MCP servers of a device, seen and changed in the window, against a real service with a real device."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.approvals.screen import ApprovalsScreen
from app.screens.fleet.screen import FleetScreen
from app.screens.fleet.servers_tab import AGAIN_MS
from app.screens.targets import OpenDevice
from app.theme.theme import Theme
from core.approvals.models import Approval
from core.audit.entries import Kind
from core.models.devices import Health
from tests.fakes.desk import approve, deny, next_approval
from tests.fakes.mcp_hosted import TOKEN
from tests.fakes.mcp_server import rogue
from tests.fakes.read_shell import NO_READ_SHELL
from tests.fakes.window import seen
from tests.fakes.window_on_service import Bay, open_on_service
from tests.gui.fleet.page import ServersPage

NAME = "this-computer"


def entry(*tools: str, **options: Any) -> dict[str, Any]:
    found = rogue(tools=list(tools), env={"TOKEN": TOKEN}, **options)["rogue"]
    assert isinstance(found, dict)
    return found


def pasted(**servers: dict[str, Any]) -> str:
    return json.dumps({"mcpServers": servers}, indent=2)


@asynccontextmanager
async def open_hosting(
    theme: Theme,
    folder: Path,
    from_console: bool = True,
    own: dict[str, Any] | None = None,
    policy: str = "",
) -> AsyncIterator[tuple[Bay, ServersPage]]:
    """The window on a service whose computer hosts servers, and their tab."""
    device = folder / "home" / NAME
    device.mkdir(parents=True, mode=0o700)
    (folder / "home").chmod(0o700)
    allowed = "servers_from_console = true\n" if from_console else ""
    off = ", ".join(f'"{tool}"' for tool in NO_READ_SHELL)
    lines = f'{allowed}roots = ["{folder}"]\ntools_off = [{off}]\n'
    if own is not None:
        (device / "mcp.json").write_text(json.dumps({"mcpServers": own}))
        lines += 'mcp_servers = "mcp.json"\n'
    (device / "device.toml").write_text(lines)

    async with open_on_service(theme, folder, policy=policy) as bay:
        bay.desk.window.open("fleet", OpenDevice(NAME, "servers"))
        fleet = bay.desk.window.current
        assert isinstance(fleet, FleetScreen)
        yield bay, ServersPage(fleet)


async def approved(bay: Bay, tool: str) -> Approval:
    """Approve what waits, which is a call of this tool."""
    asked = await next_approval(bay.beside)
    assert asked.request.tool_name == tool
    await approve(bay.beside, asked, bay.keys["harbour"])
    return asked


def tools_of(bay: Bay, server: str) -> set[str]:
    fleet = bay.desk.window.current
    assert isinstance(fleet, FleetScreen)
    return {tool.tool_name for tool in fleet.panel.tools if tool.namespace == server}


async def test_a_server_is_pasted_tried_added_switched_removed_and_all_undone(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_hosting(theme, tmp_path) as (bay, page):
        await seen(lambda: "It hosts no MCP server." in page.nothing)
        page.press("Add a server…")
        page.paste(pasted(tickets=entry("list", "close")))
        assert not page.form_problems
        page.press("Try it")
        await seen(lambda: "waits for your approval; nothing was sent yet" in page.outcome)
        # The page leads to the card, and is as it was left when the operator comes back.
        page.press("Open the approval")
        assert isinstance(bay.desk.window.current, ApprovalsScreen)
        bay.desk.window.open("fleet")
        await approved(bay, "try_mcp_server")
        await seen(lambda: "tickets works and lists 2 tools: close, list" in page.outcome)
        assert not page.rows
        page.press("Add the server")
        await seen(lambda: "waits for your approval" in page.outcome)
        await approved(bay, "add_mcp_server")
        await seen(lambda: page.outcome == "tickets is added, and is ready with 2 tools.")
        await seen(lambda: page.rows == {"tickets": ("ready", "2", "console")})
        await seen(lambda: tools_of(bay, "tickets") == {"tickets_list", "tickets_close"})

        page.press("Switch off")
        await approved(bay, "switch_mcp_server")
        await seen(lambda: page.outcome == "tickets is switched off.")
        await seen(lambda: page.rows == {"tickets": ("switched off", "0", "console")})
        await seen(lambda: not tools_of(bay, "tickets"))
        page.press("Undo the call")
        await seen(lambda: "waits for your approval" in page.outcome)
        await approved(bay, "undo")
        await seen(lambda: page.outcome == "The change is undone.")
        await seen(lambda: page.rows == {"tickets": ("ready", "2", "console")})
        page.press("Remove")
        await approved(bay, "remove_mcp_server")
        await seen(lambda: page.outcome == "tickets is removed.")
        await seen(lambda: not page.rows)
        page.press("Undo the call")
        await approved(bay, "undo")
        await seen(lambda: page.rows == {"tickets": ("ready", "2", "console")})
        page.press("Restart")
        await approved(bay, "restart_mcp_server")
        await seen(lambda: page.outcome == "tickets is ready with 2 tools.")

        called = [one.tool or "" for one in await bay.entries(Kind.RESULT_RECORDED)]
        assert [tool for tool in called if not tool.startswith("list_")] == [
            "try_mcp_server",
            "add_mcp_server",
            "switch_mcp_server",
            "undo",
            "remove_mcp_server",
            "undo",
            "restart_mcp_server",
        ]


async def test_what_is_wrong_with_pasted_text_and_fields_is_said_in_place(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_hosting(theme, tmp_path) as (bay, page):
        await seen(lambda: page.offers("Add a server…"))
        page.press("Add a server…")
        page.paste('{"mcpServers": {\n  "a": {"command": "x" "args": []}\n}}')
        assert page.form_problems == "Line 2, column 24: a comma is expected here."
        page.press("Add the server")
        assert "the pasted text cannot be read" in page.form_problems
        page.paste('{"mcpServers": {}}')
        assert "as other MCP hosts have it" in page.form_problems
        # Comments, a trailing comma, and settings that mean something to another host only.
        page.paste(
            '{"servers": {"a": {"command": "x", "autoApprove": [], "env": {},}, // one\n "b": {"url": "u"}}}'
        )
        assert not page.form_problems
        assert page.note == "Left out, as the device does not know it: autoApprove."
        assert page.tab.editor.form.value() == {"name": "a", "entry": {"command": "x", "env": {}}}
        assert [page.tab.editor.chooser.itemText(n) for n in range(2)] == ["a", "b"]
        # Names are shown with what cannot be seen in them; what is too long is not looked at.
        page.paste('{"servers": {"a\\u202e": {"command": "x"}, "b": {"command": "y"}}}')
        assert page.tab.editor.chooser.itemText(0) == "a[U+202E]"
        page.paste('{"servers": ' + '\\"' * 600_000)
        assert "longer than" in page.form_problems
        # Without a name, with a bare entry; the name is then asked for, and a command or a url.
        page.tab.editor.clear()
        page.paste('{"cwd": "/tmp", "command": ""}')
        page.press("Try it")
        await seen(lambda: "a field needs another value" in page.form_problems)
        assert not await bay.beside.approvals.list()


async def test_a_secret_of_an_entry_is_drawn_nowhere_and_leaves_no_trace(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_hosting(theme, tmp_path) as (bay, page):
        await seen(lambda: page.offers("Add a server…"))
        page.press("Add a server…")
        broken = f'{{"mcpServers": {{"a": {{"command": "x",\n "env": {{"TOKEN": "{TOKEN}"}} "args": []}}}}}}'
        page.paste(broken)
        # While it cannot be read it stands there to be corrected, and is drawn as a block.
        assert page.masked == {TOKEN}
        page.paste(pasted(a=entry("read")))
        assert TOKEN not in page.texts
        QTest.keyClick(page.tab.editor.paste, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        assert TOKEN not in page.texts
        page.press("Add the server")
        await approved(bay, "add_mcp_server")
        await seen(lambda: page.rows == {"a": ("ready", "1", "console")})
        assert TOKEN not in page.texts
        # The form has forgotten it.
        page.press("Add a server…")
        assert TOKEN not in json.dumps(page.tab.editor.form.value())
        kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
        holding = {path.name for path in kept if TOKEN.encode() in path.read_bytes()}
        assert holding == {"mcp_servers.json"}


async def test_a_server_that_dies_is_told_with_its_last_words_and_a_taken_name_before_anything_is_sent(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_hosting(theme, tmp_path, own={"own": entry("read")}) as (bay, page):
        await seen(lambda: page.rows == {"own": ("ready", "1", "device.toml")})
        # The servers of the device's own file are its own; why is said where they cannot be changed.
        assert not page.offers("Switch off")
        assert not page.offers("Remove")
        assert "no console can change" in page.tab.details.remove.toolTip()
        page.press("Add a server…")
        page.paste(pasted(own=entry("evil")))
        page.press("Add the server")
        await seen(lambda: "A server of this name is there already" in page.form_problems)
        assert not await bay.beside.approvals.list()
        page.paste(pasted(dead=entry(dead=True)))
        page.press("Try it")
        await approved(bay, "try_mcp_server")
        await seen(lambda: page.outcome.startswith("dead does not work."))
        assert "cannot go on" in page.outcome
        assert page.outcome.endswith("Nothing of it is kept.")
        page.press("Add the server")
        await approved(bay, "add_mcp_server")
        await seen(lambda: page.outcome.startswith("dead is added, and is"))
        await seen(lambda: page.rows.get("dead", ("",))[0] in ("restarting", "failed"))
        page.choose("dead")
        await seen(lambda: "cannot go on" in page.problem)
        assert TOKEN not in page.problem + page.outcome


async def test_a_denied_or_cancelled_call_changes_nothing_and_says_why(theme: Theme, tmp_path: Path) -> None:
    async with open_hosting(theme, tmp_path) as (bay, page):
        await seen(lambda: page.offers("Add a server…"))
        page.press("Add a server…")
        page.paste(pasted(a=entry("read")))
        page.press("Add the server")
        asked = await next_approval(bay.beside)
        await deny(bay.beside, asked, bay.keys["harbour"], "Ask the owner first")
        await seen(lambda: "Ask the owner first" in page.outcome)
        # What was typed is still there: it is asked for again, and taken back by the operator.
        page.press("Add the server")
        await seen(lambda: "waits for your approval" in page.outcome)
        page.press("Cancel the call")
        await seen(lambda: not page.offers("Cancel the call"))
        assert not await bay.beside.approvals.list()
        await seen(lambda: page.offers("Back to the servers"))
        assert bay.desk.window.current is not None
        QTest.keyClick(bay.desk.window, Qt.Key.Key_Escape)
        await seen(lambda: "It hosts no MCP server." in page.nothing)
        assert not page.rows


async def test_a_device_that_takes_none_says_which_line_goes_where(theme: Theme, tmp_path: Path) -> None:
    async with open_hosting(theme, tmp_path, from_console=False) as (bay, page):
        await seen(lambda: page.forbidden)
        assert f"{bay.home.path}/{NAME}/device.toml" in page.forbidden
        assert "above the first line that begins with [" in page.forbidden
        assert page.tab.line.text() == "servers_from_console = true"
        assert not page.offers("Add a server…")
        page.press("Copy: The line for device.toml")
        assert QApplication.clipboard().text() == "servers_from_console = true"


async def test_the_list_follows_what_the_device_announces_and_all_is_reached_by_keyboard(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_hosting(theme, tmp_path) as (bay, page):
        await seen(lambda: page.offers("Add a server…"))
        # Another client adds one; the list shows it without being asked to.
        asked = bay.beside.runs.call(NAME, "add_mcp_server", {"name": "far", "entry": entry("a", "b")})
        run = await asked
        await approved(bay, "add_mcp_server")
        await seen(lambda: page.rows == {"far": ("ready", "2", "console")})
        assert (await bay.beside.runs.get(run.summary.id)).summary.state.ended
        fleet = bay.desk.window.current
        assert isinstance(fleet, FleetScreen)
        # That the device is busy, as with this very list, is no reason to read it again; other tools are.
        again: list[int] = []
        monkeypatch.setattr(page.tab.query, "refresh_within", again.append)
        device, tools = bay.desk.state.devices[NAME], fleet.panel.tools
        page.tab.show_device(device.model_copy(update={"health": Health.BUSY, "doing": "reads"}), tools)
        assert not again
        page.tab.show_device(device.model_copy(update={"tool_count": device.tool_count + 1}), tools)
        assert again == [AGAIN_MS]
        fleet.panel.show_tab("overview")
        fleet.listing.view.setFocus()
        QTest.keyClick(fleet.listing.view, Qt.Key.Key_M)
        assert QApplication.focusWidget() is page.tab.table
        QTest.keyClick(page.tab.table, Qt.Key.Key_Return)
        assert QApplication.focusWidget() is page.tab.details.restart
        QTest.keyClick(page.tab.details.restart, Qt.Key.Key_Tab)
        assert QApplication.focusWidget() is page.tab.details.switch


@pytest.mark.parametrize("profile", ["lockdown"])
async def test_a_list_that_must_be_approved_is_asked_for_only_when_the_operator_wants_it(
    theme: Theme, tmp_path: Path, profile: str
) -> None:
    async with open_hosting(
        theme, tmp_path, own={"own": entry("read")}, policy=f'profile = "{profile}"\n'
    ) as (bay, page):
        await seen(lambda: "Reading the list needs an approval." in page.nothing)
        assert not await bay.beside.approvals.list()
        # The list is read once: of a server that is still starting, it would say that.
        await seen(lambda: tools_of(bay, "own") == {"own_read"})
        page.press("Ask for the list…")
        await approved(bay, "list_mcp_servers")
        await seen(lambda: page.rows == {"own": ("ready", "1", "device.toml")})
