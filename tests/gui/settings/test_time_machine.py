"""Settings, Policy: the time machine, and why one call would run, ask or be denied."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.journal.screen import JournalScreen
from app.screens.settings.screen import SettingsScreen
from app.screens.settings.simulation_tab import against_words, glimpses_words, trial_words
from app.theme.theme import Theme
from core.errors import BadInput
from core.policy.models import Trial
from core.service.console import WorkProgressed
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.settings.page import link_of_answer, open_policy


def test_the_sentence_counts_what_would_have_been_said() -> None:
    trial = Trial(
        looked_at=1445, commands=1445, allowed=1412, asked=31, denied=2, changed=40,
        allowed_but_denied_by_human=3,
    )  # fmt: skip
    assert trial_words(trial) == "Would have allowed 1,412, asked 31, denied 2."
    assert against_words(trial) == "3 of the allowed were denied by a human then."
    assert against_words(trial.model_copy(update={"allowed_but_denied_by_human": 0})) == ""


def test_live_pictures_are_said_apart_from_the_commands() -> None:
    trial = Trial(
        looked_at=5, commands=5, allowed=5, asked=0, denied=0, changed=0, allowed_but_denied_by_human=0
    )
    assert glimpses_words(trial) == ""
    lit = trial.model_copy(update={"glimpses": 1240})
    assert glimpses_words(lit) == "1,240 live pictures not counted."
    dark = lit.model_copy(update={"glimpses_refused": 310})
    assert glimpses_words(dark) == "1,240 live pictures not counted; 310 of them would be refused."


async def test_the_line_about_live_pictures_stands_below_the_counts(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        machine = (await open_policy(desk, tab="time")).time_machine
        assert machine.glimpses.isHidden()
        console.live_pictures = (1240, 310)
        machine.run.click()
        await seen(lambda: machine.glimpses.isVisible())
        assert "310 of them would be refused" in machine.glimpses.text()
        console.live_pictures = (0, 0)
        machine.run.click()
        await seen(lambda: not machine.running and machine.glimpses.isHidden())


async def test_the_edited_text_is_run_over_the_journal_and_its_rows_lead_there(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk, tab="time")
        machine = page.time_machine
        assert machine.table.isHidden()
        machine.run.click()
        await seen(lambda: machine.table.isVisible())
        assert machine.sentence.text() == "Would have allowed 429, asked 6, denied 3."
        assert "3 of the allowed were denied" in machine.against.text()
        machine.chips["against"].click()
        assert machine.table.rows_model.rowCount() == 3
        first = machine.shown_keys()[0]
        machine.table.choose(first)
        assert "a person denied it; now rule spool-files lets it run" in machine.details.words.text()
        machine.details.rule.click()
        assert page.editor.textCursor().block().text() == 'id = "spool-files"'
        # Another text gives another answer, and the old one says that it is old.
        page.editor.replace_text(page.editor.text().replace('below = "/srv/spool"', 'below = "/srv/none"'))
        assert machine.stale.isVisible()
        machine.run.click()
        await seen(lambda: not machine.running)
        assert machine.against.isHidden()
        assert machine.stale.isHidden()
        machine.chips["all"].click()
        key = machine.shown_keys()[0]
        machine.table.choose(key)
        QTest.keyClick(machine.table, Qt.Key.Key_Return)
        journal = desk.window.current
        assert isinstance(journal, JournalScreen)


async def test_a_run_over_the_journal_can_be_cancelled(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        machine = (await open_policy(desk, tab="time")).time_machine
        held = console.hold_back("try_policy")
        machine.run.click()
        assert machine.progress.isVisible()
        assert "18,204 entries" in machine.progress.words.text()
        assert machine.progress.bar.share() is None
        console.emit(WorkProgressed(what="try_policy", done=9_102, total=18_204))
        await seen(lambda: machine.progress.bar.share() == 0.5)
        assert machine.progress.words.text() == "Judged the commands of 9,102 of 18,204 entries"
        machine.progress.cancel.click()
        assert machine.against.text() == "The run was cancelled."
        assert machine.run.isVisible()
        held.set()


async def test_the_keyboard_is_on_run_again_before_while_and_after_it_runs(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.activateWindow()
        machine = (await open_policy(desk, tab="time")).time_machine
        held = console.hold_back("try_policy")
        machine.run.setFocus(Qt.FocusReason.TabFocusReason)
        await seen(machine.run.hasFocus)
        QTest.keyClick(machine.run, Qt.Key.Key_Return)
        await seen(lambda: "try_policy" in console.asked)
        QTest.keyClick(machine.run, Qt.Key.Key_Return)
        assert machine.run.hasFocus()
        held.set()
        await seen(lambda: not machine.running and machine.run.text() == "Run again")
        assert machine.run.hasFocus()
        assert console.asked.count("try_policy") == 1
        held.clear()
        QTest.keyClick(machine.run, Qt.Key.Key_Return)
        await seen(machine.progress.cancel.isVisible)
        machine.progress.cancel.setFocus(Qt.FocusReason.TabFocusReason)
        QTest.keyClick(machine.progress.cancel, Qt.Key.Key_Return)
        assert machine.against.text() == "The run was cancelled."
        assert machine.run.hasFocus(), "Cancel is gone, and gave the keyboard back"
        held.set()


async def test_a_text_that_cannot_be_run_says_why(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fail_next["try_policy"] = BadInput("policy.toml is not TOML: Expected '='.")

    async with open_frame(theme, tmp_path, console) as desk:
        machine = (await open_policy(desk, tab="time")).time_machine
        machine.run.click()
        await seen(lambda: "not TOML" in machine.against.text())


async def test_why_names_rules_with_lines_near_misses_and_near_grants(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk, tab="why")
        page.why.choose("lab-lnx-01", "shell_execute", {"command": "rm -rf /srv/spool"})
        await seen(lambda: "Files are deleted by hand" in page.why.answer.words())
        assert "It would be denied." in page.why.answer.words()
        link_of_answer(page, "line 8").click()
        assert page.editor.current_line() == 8
        page.why.choose("stock-pc-02", "write_file", {"file_path": "/srv/other/a", "content": "x"})
        near = "Rule spool-files would allow, but file_path does not fit"
        await seen(lambda: near in page.why.answer.words())
        page.why.actor.setText("agent:clerk")
        await seen(lambda: "Grants that nearly covered it" in page.why.answer.words())
        link_of_answer(page, "Grant g-0031-c0ffee").click()
        screen = desk.window.current
        assert isinstance(screen, SettingsScreen)
        await seen(lambda: screen.grants.table.current_key() == "g-0031-c0ffee")


async def test_why_says_how_many_must_approve_and_that_an_edit_is_not_in_force(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        page = await open_policy(desk, tab="why")
        page.why.choose("build-lnx-03", "shell_execute", {"command": "uptime"})
        await seen(lambda: "2 operators have to approve it" in page.why.answer.words())
        assert "Pictures are taken before and after it" in page.why.answer.words()
        assert not page.why.answer.edited.isVisible()
        page.editor.append_text("# typed\n")
        assert page.why.answer.edited.isVisible()


async def test_why_of_a_device_that_is_offline_says_so(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        page = await open_policy(desk, tab="why")
        page.why.choose("kiosk-yard")
        await seen(lambda: "offline" in page.why.answer.nothing.words())
