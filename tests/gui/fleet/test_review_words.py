"""The button of the review sheet says what is trusted with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.screens.fleet.contract_review_dialog import ContractReviewDialog, trust_words
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenDevice
from app.theme.theme import Theme
from core.models.tools import Tool
from core.service.console import ContractChange
from tests.fakes.fleet_data import CHANGED_KEY
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import ToolPage

TRUSTED = {"tool_name": "x", "claimed_risk": "critical", "client": "quarterdeck-device"}


def change(changed: list[str], before: dict[str, Any] | None = TRUSTED, **after: Any) -> ContractChange:
    return ContractChange(
        device="build-lnx-03",
        tool_key=CHANGED_KEY,
        before=before,
        after={**TRUSTED, **after},
        changed=changed,
    )


CASES = {
    "a definition": (change(["description"], description="y"), "Trust this definition"),
    "a definition and a claim": (
        change(["description", "claimed_risk"], description="y", claimed_risk="low"),
        "Trust this definition",
    ),
    "a definition that was not kept": (change([], before=None), "Trust this definition"),
    "a lower claim": (change(["claimed_risk"], claimed_risk="low"), "Trust this claim"),
    "no claim any more": (change(["claimed_risk"], claimed_risk=None), "Trust it without the claim"),
    "another client": (change(["client"], client="another client"), "Trust it from this client"),
    "claim and client": (
        change(["claimed_risk", "client"], claimed_risk=None, client="another client"),
        "Trust these claims",
    ),
}


@pytest.mark.parametrize(("changed", "words"), CASES.values(), ids=CASES.keys())
def test_what_is_trusted_is_named(changed: ContractChange, words: str) -> None:
    assert trust_words(changed) == words


@pytest.mark.parametrize("case", ["a definition", "a lower claim", "another client"])
async def test_the_button_of_the_sheet_names_it(theme: Theme, tmp_path: Path, case: str) -> None:
    console = story()
    console.judge_changed_tools()
    changed, words = CASES[case]
    console.answer("contract_change", changed)

    def chosen(fleet: FleetScreen) -> Tool | None:
        return fleet.panel.tools_tab.chosen()

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.open("fleet", OpenDevice("build-lnx-03", "tools", CHANGED_KEY))
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        await seen(lambda: chosen(fleet) is not None and ToolPage(fleet).name == "indexer.rebuild")
        fleet.panel.tools_tab.details.review_asked.emit()
        await seen(lambda: desk.window.findChildren(ContractReviewDialog))
        sheet = desk.window.findChildren(ContractReviewDialog)[0]
        await seen(sheet.diff.isVisible)
        assert sheet.trust.text() == words
        assert sheet.trust.accessibleName() == words
        sheet.finish("")
