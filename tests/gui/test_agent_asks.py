"""An agent asks by an official MCP client, and a person answers in the window, with the keyboard."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.approvals.screen import ApprovalsScreen
from app.theme.theme import Theme
from tests.fakes.agents import add_agent
from tests.fakes.gateway import LEGACY, MODERN, asked, in_process, over_stdio, touch
from tests.fakes.window import seen
from tests.fakes.window_on_service import open_on_service


@pytest.mark.parametrize(
    ("connect", "mode"), [(in_process, LEGACY), (over_stdio, MODERN)], ids=["in process", "stdio"]
)
async def test_an_agent_waits_until_a_person_approves_or_denies_in_the_window(
    theme: Theme, tmp_path: Path, connect: Any, mode: str
) -> None:
    made, other = tmp_path / "made", tmp_path / "other"

    async with open_on_service(theme, tmp_path) as bay:
        token = await add_agent(bay.beside, bay.keys["harbour"], "clerk")
        bay.desk.window.open("approvals")
        screen = bay.desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        async with connect(bay.home, token, mode) as client, asyncio.TaskGroup() as group:
            for path in (made, other):
                ticket = (await asked(client, "run_commands", **touch(path), reason="to see it"))["ticket"]
                waits = group.create_task(client.call_tool("wait_run", {"ticket": ticket, "seconds": 45}))
                await seen(screen.bar.approve.isEnabled)
                assert not waits.done()
                assert not path.exists()
                if path == made:
                    QTest.keyClick(screen, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
                    assert (await waits).structured_content["state"] == "done"
                    continue
                QTest.keyClick(screen, Qt.Key.Key_D)
                QTest.keyClicks(screen.bar.reason, "Not on a Friday")
                QTest.keyClick(screen.bar.reason, Qt.Key.Key_Return)
                denied = await waits
                assert denied.is_error
                [result] = denied.structured_content["results"]
                assert result["error"]["code"] == "denied_by_operator"
                assert "Not on a Friday" in result["error"]["message"]
    assert made.exists()
    assert not other.exists()
