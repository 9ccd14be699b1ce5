"""A changed contract: both definitions compared, the facts that change, and what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt

from app.main import ConsoleApplication
from app.screens.fleet.contract_diff import change_of, turns
from app.screens.fleet.contract_review_dialog import ContractReviewDialog
from app.screens.fleet.contract_view import contract_lines
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenDevice
from app.theme.theme import Theme
from core.aip.contract_digest import definition_of
from core.aip.messages import ToolInfo
from core.fleet.contracts import judge
from core.models.tools import Risk, Source
from core.policy.policy_file import Override
from core.service.console import ContractChange
from tests.fakes.fleet_data import CHANGED_KEY
from tests.fakes.sign_sheets import operator_of, sign
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import ToolPage

MILD = ToolInfo(
    tool_key="action::sweep", tool_name="sweep", tool_type="action", description="Sweeps.",
    annotations={"readOnlyHint": True},
)  # fmt: skip
HARSH = MILD.model_copy(update={"description": "Sweeps all.", "annotations": {"destructiveHint": True}})
CHANGE = ContractChange(
    device="lab-1",
    tool_key="action::sweep",
    before=definition_of(MILD),
    after=definition_of(HARSH),
    before_contract=judge(MILD, ours=False),
    changed=["annotations", "description"],
)


def test_the_facts_that_change_are_shown_beside_what_they_were() -> None:
    now, before = judge(HARSH, ours=False), judge(MILD, ours=False)
    changed = {line.name: (line.was, line.value) for line in contract_lines(now, before) if line.was}
    assert changed["Effect"] == (before.effect.value.value, "destroy")
    shown = change_of(CHANGE)
    assert shown.before == before
    assert shown.parts == "what it says of itself, description"
    assert shown.diff is not None
    assert (shown.diff.added, shown.diff.removed) == (2, 2)


def test_what_the_change_makes_of_the_tool_is_said_in_words() -> None:
    before = judge(MILD, ours=False, override=said(risk=Risk.MEDIUM, reversible=True))
    now = judge(HARSH, ours=False, override=said(risk=Risk.HIGH))
    assert turns(now, before) == [
        "effect: unknown → destroy",
        "risk: medium → high",
        "can be undone: yes → no",
    ]
    assert turns(now, now) == turns(now, None) == []


def test_words_of_a_contract_that_cannot_be_seen_are_written_by_name() -> None:
    before = judge(MILD, ours=False, override=said(risk=Risk.LOW, evidence="A \u202elamp is lit."))
    now = judge(MILD, ours=False, override=said(risk=Risk.LOW, evidence="<b>Two\n</b>"))
    [line] = turns(now, before)
    assert "\u202e" not in line
    assert "\n" not in line
    assert "<b>Two" in line


def said(**facts: Any) -> Override:
    return Override.model_validate({"tool": "*", "why": "so it is", **facts})


def test_what_an_operator_set_counts_before_and_after_and_is_marked() -> None:
    override = said(risk=Risk.MEDIUM)
    before = judge(MILD, ours=False, override=override)
    risk = next(
        line
        for line in contract_lines(judge(HARSH, ours=False, override=override), before)
        if line.key == "risk"
    )
    assert (risk.source, risk.was) == (Source.OPERATOR, "")


def test_a_claim_that_was_taken_back_is_told_in_words_and_as_a_line() -> None:
    rated = MILD.model_copy(update={"meta": {"quarterdeck": {"risk": "critical"}}})
    taken_back = ContractChange(
        device="lab-1",
        tool_key="action::sweep",
        before={**definition_of(MILD), "claimed_risk": "critical", "client": "another client"},
        after={**definition_of(MILD), "claimed_risk": None, "client": "quarterdeck-device"},
        before_contract=judge(rated, ours=False),
        changed=["claimed_risk", "client"],
    )
    shown = change_of(taken_back)
    assert shown.parts == "the risk that the device claims, which client offers it"
    assert shown.diff is not None
    assert (shown.diff.added, shown.diff.removed) == (2, 2)
    assert turns(judge(MILD, ours=False), shown.before) == ["risk: critical → high"]


async def review_of(desk: ConsoleApplication) -> ContractReviewDialog:
    desk.window.open("fleet", OpenDevice("build-lnx-03", "tools", CHANGED_KEY))
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    tools = fleet.panel.tools_tab
    await seen(lambda: tools.chosen() is not None and ToolPage(fleet).name == "indexer.rebuild")
    tools.details.review_asked.emit()
    await seen(lambda: desk.window.findChildren(ContractReviewDialog))
    return desk.window.findChildren(ContractReviewDialog)[0]


async def test_the_sheet_shows_the_change_and_trust_waits_for_its_end(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.judge_changed_tools()

    async with open_window(theme, tmp_path, console) as desk:
        sheet = await review_of(desk)
        await seen(sheet.diff.isVisible)
        assert sheet.what.text().startswith("Changed: description, arguments, what it says of itself.")
        assert sheet.turns.isVisible()
        assert sheet.turns.text() == "effect: unknown → destroy"
        assert sheet.turns.textFormat() is Qt.TextFormat.PlainText
        assert any(words.startswith("Effect: destroy, was unknown") for words in sheet.facts.words())
        assert not sheet.trust.isEnabled()
        assert sheet.first.isVisible()
        for area in (sheet.read_area, sheet.diff):
            area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())
        await seen(sheet.trust.isEnabled)
        sheet.finish("")


async def test_a_definition_that_was_not_kept_is_said_and_the_new_one_shown_whole(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.definitions_before.clear()

    async with open_window(theme, tmp_path, console) as desk:
        sheet = await review_of(desk)
        await seen(sheet.not_kept.isVisible)
        assert "was not kept" in sheet.not_kept.accessibleName()
        assert "also deletes" in sheet.now.toPlainText()
        assert sheet.trust.isEnabled()
        sheet.answer("cancel").click()


async def test_a_change_of_words_alone_says_that_it_counts_as_the_same(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.judge_changed_tools()
    tool = next(one for one in console.tools_of["build-lnx-03"] if one.tool_key == CHANGED_KEY)
    console.contracts_before["build-lnx-03", CHANGED_KEY] = tool.contract

    async with open_window(theme, tmp_path, console) as desk:
        sheet = await review_of(desk)
        await seen(sheet.diff.isVisible)
        assert sheet.turns.text() == "It counts as the same as before."
        sheet.finish("")


async def test_what_it_counted_as_before_is_not_guessed(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.judge_changed_tools()
    console.contracts_before.clear()

    async with open_window(theme, tmp_path, console) as desk:
        sheet = await review_of(desk)
        await seen(sheet.diff.isVisible)
        assert sheet.counts.text().endswith("what it counted as before is not known")
        assert not sheet.turns.isVisible()
        assert not any(", was " in words for words in sheet.facts.words())
        sheet.finish("")


async def test_a_claim_alone_that_was_taken_back_can_be_read_and_trusted(
    theme: Theme, tmp_path: Path
) -> None:
    console = story([operator_of(tmp_path)])
    console.judge_changed_tools()
    tool = next(one for one in console.tools_of["build-lnx-03"] if one.tool_key == CHANGED_KEY)
    critical = tool.contract.risk.model_copy(update={"value": Risk.CRITICAL})
    client = "quarterdeck-device"
    change = ContractChange(
        device="build-lnx-03",
        tool_key=CHANGED_KEY,
        before={"tool_name": tool.tool_name, "claimed_risk": "critical", "client": client},
        after={"tool_name": tool.tool_name, "claimed_risk": None, "client": client},
        before_contract=tool.contract.model_copy(update={"risk": critical}),
        changed=["claimed_risk"],
    )
    console.answer("contract_change", change)

    async with open_window(theme, tmp_path, console) as desk:
        sheet = await review_of(desk)
        await seen(sheet.diff.isVisible)
        assert console.calls_of("contract_change")[-1] == {
            "device": change.device,
            "tool_key": change.tool_key,
        }
        assert sheet.what.text().startswith("Changed: the risk that the device claims.")
        assert sheet.turns.text() == "risk: critical → high"
        await seen(sheet.trust.isEnabled)
        sheet.trust.click()
        shown = await sign(desk)
        await seen(lambda: not desk.window.findChildren(ContractReviewDialog))
        assert "review_contract" in console.asked
        [signed] = console.signed
        assert signed.statement.change == shown
        assert shown.after["contract"] == tool.contract.digest
