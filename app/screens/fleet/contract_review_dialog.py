"""Review of a changed tool: what changed of it, what it now counts as, and trust or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from PySide6.QtWidgets import QWidget

from app.form_dialog import FormDialog
from app.query import Query
from app.screens.fleet.contract_diff import Change, change_of, turns
from app.screens.fleet.contract_view import ContractFacts, DefinitionBox
from app.screens.fleet.device_columns import tool_title
from app.service_client import ConsoleLink
from app.signing.change_signing import ChangeSigning
from app.theme.tokens import FRAME
from app.widgets.banner import Notice
from app.widgets.diff_view import DiffView
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, vbox
from app.widgets.util import ScrollArea
from core.models.tools import Tool
from core.service.console import Console, ContractChange
from core.service.wishes import contract_change

WIDTH = 820
DEFINITION = "Trust this definition"
_AROUND = 300
"""What title, words and answers of the sheet need of the window's height."""


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


def trust_words(change: ContractChange) -> str:
    """What is trusted with a press: the definition, or only what the device claims beside the trusted one."""
    claims = {"claimed_risk", "client"} & set(change.changed)
    if change.before is None or not claims or len(claims) < len(change.changed):
        return DEFINITION
    if len(claims) == 2:
        return "Trust these claims"
    if "client" in claims:
        return "Trust it from this client"
    return "Trust it without the claim" if change.after.get("claimed_risk") is None else "Trust this claim"


def start_review(
    window: QWidget, link: ConsoleLink, signing: ChangeSigning, tool: Tool, on_trusted: Callable[[], None]
) -> None:
    """Show what changed; trusting it is signed, and refused when the tool changed once more."""

    async def trust() -> None:
        await signing.carry_out(
            contract_change(tool),
            lambda console, signed: console.devices.review_tool(
                tool.device, tool.tool_key, tool.contract.digest, signed
            ),
        )

    sheet = ContractReviewDialog(window, link, tool, trust, on_trusted)

    async def compare(console: Console) -> tuple[Change, str]:
        change = await console.devices.tool_change(tool.device, tool.tool_key)
        return await asyncio.to_thread(change_of, change), trust_words(change)

    sheet.open(sheet.answer("cancel"))
    Query[tuple[Change, str]](
        sheet,
        link,
        lambda compared: sheet.show_change(*compared),
        lambda error: sheet.say(error.message),
        "compare the definitions",
    ).load(compare)


class ContractReviewDialog(FormDialog):
    """Both definitions in one, the facts, and two answers. Trust waits until the end was on the screen."""

    def __init__(
        self,
        window: QWidget,
        link: ConsoleLink,
        tool: Tool,
        trust: Callable[[], Awaitable[None]],
        on_trusted: Callable[[], None],
    ) -> None:
        super().__init__(
            window,
            link,
            f"{tool_title(tool)} on {tool.device} is not what was trusted",
            "Read all of it: nothing checks what a device says of its tools. Until it is trusted, "
            "no call of this tool leaves.",
            width=WIDTH,
        )
        self.what = Label("Asking for the trusted definition…", "head", wrap=True)
        self.not_kept = Notice(
            "warn",
            "The trusted definition was not kept.",
            "It was pinned by its digest only, so what changed cannot be shown. The device says this now.",
        )
        self.not_kept.hide()
        self.diff = DiffView()
        self.diff.setAccessibleName("What changed in the definition")
        self.diff.hide()
        self.now = DefinitionBox("Definition, as the device gives it")
        self.now.show_json(definition_of(tool))
        self.turns = Label("", "meta_strong", "warn", wrap=True)
        self.turns.hide()
        self.counts = Label("What it counts as now", "head")
        self.facts = ContractFacts()
        self.facts.show_contract(tool)
        self._tool = tool
        self.add(self._scrolled())
        self.first = Label("Scroll to the end of what changed: then it can be trusted.", "meta", "text2")
        self.first.hide()
        self.add(self.first)
        what, leave = "trust the definition", "Leave it blocked"
        self.trust = self.add_act("trust", DEFINITION, trust, what, on_trusted, "normal", cancel=leave)
        self.trust.set_off("What changed is not shown yet.")

    def _scrolled(self) -> ScrollArea:
        inner = QWidget()
        inner.setProperty("clear", "true")
        column = vbox(
            self.what,
            self.turns,
            self.not_kept,
            self.diff,
            self.now,
            self.counts,
            self.facts,
            STRETCH,
            parent=inner,
            spacing=8,
        )
        self._inner, self._column = inner, column
        self.read_area = ScrollArea(inner, "What changed")
        return self.read_area

    def show_change(self, change: Change, trust: str = DEFINITION) -> None:
        """Show what was compared; `trust` says what would be trusted."""
        self.trust.set_words(trust)
        known = change.diff is not None
        self.diff.setVisible(known)
        self.now.setVisible(not known)
        self.not_kept.setVisible(not known)
        self.what.setVisible(known)
        self.facts.show_contract(self._tool, change.before)
        if change.diff is None:
            self.trust.set_off("")
        else:
            self.what.setText(f"Changed: {change.parts}. {change.diff.words().capitalize()}.")
            self.trust.set_off("Scroll to the end of what changed first.")
            self.first.show()
            self.diff.end_seen.connect(self._all_was_seen)
            self.diff.show_diff(change.diff)
        self._show_turns(change)
        self._fit()

    def _show_turns(self, change: Change) -> None:
        """Say what the change makes of the tool, before its lines are read."""
        told = "What it counts as now"
        if change.diff is not None and change.before is None:
            told += "; what it counted as before is not known"
        self.counts.setText(told)
        if change.before is not None:
            changed = turns(self._tool.contract, change.before)
            self.turns.setText("\n".join(changed) or "It counts as the same as before.")
            self.turns.set_tone("warn" if changed else "text2")
            self.turns.show()

    def _all_was_seen(self) -> None:
        self.trust.set_off("")
        self.first.hide()
        self._fit()

    def _fit(self) -> None:
        if hasattr(self, "read_area"):
            room = self._window.height() - FRAME.top_bar - FRAME.status_bar - _AROUND
            wanted = self._column.totalHeightForWidth(self.card.width() - 52)
            self.read_area.setFixedHeight(
                max(120, min(room, max(wanted, self._inner.sizeHint().height()) + 4))
            )
        super()._fit()
