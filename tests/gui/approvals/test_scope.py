"""The card says what the tool needs and reaches besides its contract, each fact with who says so."""

from __future__ import annotations

from pathlib import Path

from app.screens.approvals.screen import ApprovalsScreen
from app.theme.theme import Theme
from app.widgets.property_list import whole
from core.models.tools import Fact, Source
from tests.fakes.window import seen
from tests.fakes.window_on_service import open_on_service


async def test_the_card_shows_the_scope_of_exactly_the_tool_that_it_is_about(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        await bay.beside.runs.call("this-computer", "shell_execute", {"command": "true"})
        bay.desk.window.open("approvals")
        screen = bay.desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        card = screen.card
        await seen(card.scope.isVisible)

        def line(name: str) -> str:
            return whole(card.scope.value(name).text())

        assert line("Sign-in") == "none (built-in)"
        assert line("Network") == "whatever its user may reach (built-in)"
        assert line("Processes") == "starts a shell with the line (built-in)"
        assert line("Acts as") == "the user of the device client (built-in)"
        assert "this-computer" in line("Served by")
        assert "quarterdeck devices doctor this-computer" in line("If it fails")
        assert card.scope.value("Network").toolTip() == "The line decides."
        # By now the tool may be another one; the approval is about the one that was asked for.
        described = await bay.beside.devices.describe("this-computer", "shell_execute")
        scope = described.scope.model_copy(
            update={"network": Fact(value="none", source=Source.DECLARED, why="It says so.")}
        )
        contract = described.tool.contract.model_copy(update={"digest": "0" * 64})
        tool = described.tool.model_copy(update={"contract": contract})
        card.show_scope(described.model_copy(update={"scope": scope, "tool": tool}))
        assert line("Network") == "whatever its user may reach (built-in)"
