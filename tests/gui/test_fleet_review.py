"""A changed contract: both definitions compared, the facts that change, and what is not known."""

from __future__ import annotations

from pathlib import Path

from app.look.theme import Theme
from app.main import Desk
from app.screens.base import OpenDevice
from app.screens.fleet.contract import contract_lines
from app.screens.fleet.contract_change import change_of, contract_before
from app.screens.fleet.review import ReviewSheet
from app.screens.fleet.screen import FleetScreen
from core.aip.messages import ToolInfo
from core.fleet.contracts import definition_of, judge
from core.fleet.models import Fact, Risk, Source
from core.service.console import ContractChange
from tests.fakes.fleet_data import CHANGED_KEY
from tests.fakes.story import story
from tests.fakes.window import play, seen

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
    changed=["annotations", "description"],
)


def test_the_facts_that_change_are_shown_beside_what_they_were() -> None:
    now = judge(HARSH, ours=False)
    before = contract_before(CHANGE, now)
    assert before is not None
    changed = {line.name: (line.was, line.value) for line in contract_lines(now, before) if line.was}
    assert changed["Effect"] == (judge(MILD, ours=False).effect.value.value, "destroy")
    shown = change_of(CHANGE, now)
    assert shown.parts == "what it says of itself, description"
    assert shown.diff is not None
    assert (shown.diff.added, shown.diff.removed) == (2, 2)


def test_what_an_operator_set_counts_before_and_after_and_is_marked() -> None:
    override = Fact(value=Risk.MEDIUM, source=Source.OPERATOR, why="Only a test folder.")
    now = judge(HARSH, ours=False).model_copy(update={"risk": override})
    before = contract_before(CHANGE, now)
    assert before is not None
    risk = next(line for line in contract_lines(now, before) if line.key == "risk")
    assert (risk.source, risk.was) == (Source.OPERATOR, "")


def test_facts_that_cannot_be_told_are_not_guessed() -> None:
    strange = judge(HARSH, ours=False).model_copy(
        update={"risk": Fact(value=Risk.CRITICAL, source=Source.HEURISTIC, why="As the service found.")}
    )
    assert contract_before(CHANGE, strange) is None
    assert contract_before(CHANGE.model_copy(update={"before": None}), strange) is None
    assert contract_before(CHANGE.model_copy(update={"before": {"odd": 1}}), judge(HARSH, ours=False)) is None


async def review_of(desk: Desk) -> ReviewSheet:
    desk.window.open("fleet", OpenDevice("build-lnx-03", "tools", CHANGED_KEY))
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    tools = fleet.panel.tools_tab
    await seen(lambda: tools.chosen() is not None and tools.details._key == CHANGED_KEY)
    tools.details.review_asked.emit()
    await seen(lambda: desk.window.findChildren(ReviewSheet))
    return desk.window.findChildren(ReviewSheet)[0]


def test_the_sheet_shows_the_change_and_trust_waits_for_its_end(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.judge_changed_tools()

    async def scenario(desk: Desk) -> None:
        sheet = await review_of(desk)
        await seen(sheet.diff.isVisible)
        assert sheet.what.text().startswith("Changed: description, arguments, what it says of itself.")
        assert any(words.startswith("Effect: destroy, was ") for words in sheet.facts.words())
        assert not sheet.trust.isEnabled()
        assert sheet.first.isVisible()
        for area in (sheet.read_area, sheet.diff):
            area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())
        await seen(sheet.trust.isEnabled)
        sheet.finish("")

    play(theme, tmp_path, console, scenario)


def test_a_definition_that_was_not_kept_is_said_and_the_new_one_shown_whole(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.definitions_before.clear()

    async def scenario(desk: Desk) -> None:
        sheet = await review_of(desk)
        await seen(sheet.not_kept.isVisible)
        assert "was not kept" in sheet.not_kept.accessibleName()
        assert "also deletes" in sheet.now.toPlainText()
        assert sheet.trust.isEnabled()
        sheet.answer("not-yet").click()

    play(theme, tmp_path, console, scenario)
