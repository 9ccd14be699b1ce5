"""Settings, Policy: the form that writes a rule."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from PySide6.QtTest import QTest

from app.screens.settings.rule_dialog import DraftRule, RuleDialog, rule_id, rule_ids, rule_problem, rule_text
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenSection
from app.theme.theme import Theme
from core.policy.policy_file import parse_policy
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen

WHOLE = DraftRule(
    decision="ask",
    where="lab-*, scan-pc-04",
    tool="write_file",
    argument="file_path",
    condition="below",
    value="/srv/spool",
    approvers=2,
    reason='Because "so"\tit is',
)


def test_what_is_filled_in_becomes_a_rule_that_the_policy_understands() -> None:
    rule = parse_policy(rule_text(WHOLE)).rules[0]
    assert rule.id == "ask-lab-scan-pc-04-write_file-file_path"
    assert rule.device == ["lab-*", "scan-pc-04"]
    assert rule.approvers == 2
    assert rule.reason == 'Because "so"\tit is'
    assert rule.parameters["file_path"].below == "/srv/spool"
    assert rule_problem(WHOLE) == ""


@pytest.mark.parametrize("value", ['a"b', "a\nb = 1", "\\", "\u202e", "'''", "\x7f", "[[rule]]"])
def test_no_value_breaks_out_of_its_text(value: str) -> None:
    draft = DraftRule(tool="t", argument="command", value=value)
    data = tomllib.loads(rule_text(draft))
    assert data["rule"][0]["parameters"]["command"] == {"equals": value.strip()}


def test_an_id_is_never_taken_twice() -> None:
    draft = DraftRule(decision="deny", tool="shell_execute", taken=frozenset({"deny-shell_execute"}))
    assert rule_id(draft) == "deny-shell_execute-2"
    assert rule_problem(DraftRule(name="a", taken=frozenset({"a"}))) == "There is a rule a already."
    assert rule_ids('id = "a"\n  id = \'b\'\n#id = "c"') == {"a", "b"}


def test_what_cannot_be_a_rule_is_said() -> None:
    assert "everything everywhere" in rule_problem(DraftRule(decision="allow"))
    assert "both its name and its value" in rule_problem(DraftRule(tool="t", argument="command"))
    assert "below" in rule_problem(DraftRule(argument="p", condition="below", value="not/absolute"))


async def test_the_form_inserts_at_the_end_and_undo_takes_it_back(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("settings", OpenSection("policy"))
        screen = desk.window.current
        assert isinstance(screen, SettingsScreen)
        page = screen.policy
        await seen(lambda: page.work.base is not None)
        before = page.editor.text()
        page.insert.click()
        await seen(lambda: desk.window.findChildren(RuleDialog))
        sheet = desk.window.findChildren(RuleDialog)[0]
        sheet.decision.choose("deny")
        sheet.decision.chosen.emit("deny")
        QTest.keyClicks(sheet.tool, "kill_process")
        assert b'id = "deny-kill_process"' in sheet.preview.exact_bytes
        sheet.insert.click()
        await seen(lambda: page.editor.text() != before)
        assert page.editor.textCursor().block().text() == "[[rule]]"
        await seen(lambda: page.work.found is not None and page.work.found.ok)
        assert page.work.found is not None
        assert page.work.found.rules == 6
        page.editor.undo()
        assert page.editor.text() == before
