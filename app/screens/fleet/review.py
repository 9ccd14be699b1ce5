"""Review of a changed tool definition: the whole definition, what it now counts as, and trust or not."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QWidget

from app.components.label import Label
from app.event_loop import ended
from app.link import ConsoleLink
from app.screens.fleet.contract import ContractFacts, DefinitionBox
from app.screens.fleet.rows import tool_title
from app.shell.sheet import Sheet
from core.errors import QuarterdeckError
from core.fleet.models import Tool


def definition_of(tool: Tool) -> dict[str, object]:
    """What the device says of its tool, as it is now."""
    return {
        "name": tool_title(tool),
        "type": tool.tool_type,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
    }


def start_review(window: QWidget, link: ConsoleLink, tool: Tool, on_trusted: Callable[[], None]) -> None:
    """Show the definition; trusting it asks the service, which refuses when it changed once more."""
    link.spawn("review a contract", _review(window, link, tool, on_trusted))


async def _review(window: QWidget, link: ConsoleLink, tool: Tool, on_trusted: Callable[[], None]) -> None:
    sheet = Sheet(
        window,
        f"{tool_title(tool)} on {tool.device} changed its definition",
        "The device sends this now. Read all of it: what it says of itself is not checked by anybody. "
        "Until it is trusted, no call of it leaves.",
        width=640,
    )
    sheet.add(Label("Definition, as the device gives it", "label", "text3"))
    box = DefinitionBox("Definition, as the device gives it")
    box.show_json(definition_of(tool))
    sheet.add(box)
    sheet.add(Label("What it counts as", "label", "text3"))
    facts = ContractFacts()
    facts.show_contract(tool)
    sheet.add(facts)
    sheet.add_answer("not-yet", "Leave it blocked")
    trust = sheet.add_answer("trust", "Trust this definition", closes=False)

    def trusted(_tool: Tool) -> None:
        sheet.finish("trust")
        on_trusted()

    def refused(error: QuarterdeckError) -> None:
        trust.set_off("")
        sheet.say(f"{error.message} {error.info.next}")

    def press() -> None:
        trust.set_off("The service is asked.")
        link.ask(
            lambda console: console.review_contract(tool.device, tool.tool_key, tool.contract.digest),
            trusted,
            refused,
            what="trust the definition",
        )

    trust.clicked.connect(press)
    sheet.open()
    await ended(sheet.finished)
