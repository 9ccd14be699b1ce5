"""Settings, Policy: typing, live checks, saving, and whose text it is when two write."""

from __future__ import annotations

import asyncio
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.settings.merge_dialog import KEEP, TAKE
from app.screens.settings.policy_diagnostics import bare_message, precise_line
from app.screens.settings.policy_document import FILE
from app.screens.settings.policy_page import line_of
from app.screens.targets import OpenSection
from app.theme.theme import Theme
from core.errors import BadInput, ServiceError
from core.policy.models import PolicyProblem
from core.service.console import ControlChanged
from tests.fakes.console import FakeConsole
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.page import link_in
from tests.gui.settings.page import (
    dialog_in_front,
    messages,
    open_policy,
    settings_in_front,
    type_at_end,
    undo_all,
)

CTRL = Qt.KeyboardModifier.ControlModifier
RULE = '\n[[rule]]\nid = "typed"\ndecision = "ask"\n'
LOOSE = """[[rule]]
id = "look"
decision = "allow"
tool = "shell_execute"
risk = "<=high"
[rule.parameters.command]
pattern = 'git status'
"""


async def test_a_window_that_opens_on_the_policy_reads_it_when_the_service_answers(
    theme: Theme, tmp_path: Path
) -> None:
    answers = asyncio.Event()

    async def door() -> FakeConsole:
        await answers.wait()
        return story()

    async with open_frame(theme, tmp_path, door, wait=False) as desk:
        desk.window.open("settings", OpenSection("policy", line=3))
        page = settings_in_front(desk).policy
        await asyncio.sleep(0)
        assert not page.banner.isVisible(), "nothing failed yet"
        answers.set()
        await seen(lambda: page.work.base is not None)
        assert not page.banner.isVisible()
        assert page.editor.current_line() == 3


async def test_without_a_policy_file_the_page_says_that_the_default_holds(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.policy_on_disk = ""

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        await seen(lambda: page.stand.text() == "Empty: the built-in default is in force")


async def test_that_the_policy_could_not_be_read_is_said_no_longer_than_it_is_so(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        console.fail_next["policy_text"] = ServiceError("The line dropped.")
        page.work.read()
        await seen(page.banner.isVisible)
        page.work.read()
        await seen(lambda: not page.banner.isVisible())


async def test_a_fault_is_found_while_typing_underlined_at_its_key_and_led_to(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        page = await open_policy(desk)
        assert page.check.sentence.text() == "Nothing is wrong with this policy."
        assert "5 rules, 4 examples that hold" in page.check.more.text()
        type_at_end(page, '\n[[rule]]\nid = "typed"\ndecision = "ask"\ntol = "write_file"')
        wrong = page.editor.text().split("\n").index('tol = "write_file"') + 1
        await seen(lambda: page.editor.fault_at(wrong))
        assert page.stand.text() == "1 fault: cannot be saved"
        assert not page.save.isEnabled()
        page.editor.go_to(1)
        page.check.table.setFocus()
        page.check.table.choose("p0")
        assert page.editor.current_line() == wrong
        assert page.check.table.hasFocus()  # going through the list stays in the list
        QTest.keyClick(page.check.table, Qt.Key.Key_Return)
        assert page.editor.hasFocus()


async def test_f5_checks_at_once_and_ctrl_s_saves_only_what_is_right(theme: Theme, tmp_path: Path) -> None:
    console = story()
    before = console.policy_on_disk

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        page.show_tab("why")
        type_at_end(page, "nonsense here")
        QTest.keyClick(page.editor, Qt.Key.Key_S, CTRL)
        await seen(lambda: page.work.found is not None and not page.work.found.ok)
        assert "save_policy" not in console.asked
        undo_all(page)
        type_at_end(page, RULE)
        checks = console.asked.count("check_policy")
        QTest.keyClick(page.editor, Qt.Key.Key_F5)
        await seen(lambda: console.asked.count("check_policy") > checks and page.work.found is not None)
        assert page.tabs.current() == "check"
        QTest.keyClick(page.editor, Qt.Key.Key_S, CTRL)
        await seen(lambda: console.policy_on_disk != before and not page.work.dirty)
        assert 'id = "typed"' in console.policy_on_disk
        assert page.stand.text() == "Saved; this is in force"


async def test_saving_right_after_typing_waits_for_the_check(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        type_at_end(page, RULE)
        assert page.work.found is None
        QTest.keyClick(page.editor, Qt.Key.Key_S, CTRL)
        await seen(lambda: 'id = "typed"' in console.policy_on_disk)


async def test_a_file_changed_meanwhile_is_not_overwritten_but_compared(theme: Theme, tmp_path: Path) -> None:
    console = story()
    theirs = console.policy_on_disk.replace('profile = "guarded"', 'profile = "observe"', 1)

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        type_at_end(page, RULE)
        console.accepted_policy, console.policy_on_disk = console.policy_on_disk, theirs
        page.work.save()
        await seen(page.banner.isVisible)
        assert "changed by another program" in page.banner.words()
        assert console.policy_on_disk == theirs
        assert not page.save.isEnabled()
        page.banner.acted.emit("compare")
        (await dialog_in_front(desk)).answer(KEEP).click()
        await seen(lambda: page.work.conflict is None)
        assert page.save.isEnabled()
        page.save.click()
        await seen(lambda: 'id = "typed"' in console.policy_on_disk)


async def test_taking_the_file_can_be_undone(theme: Theme, tmp_path: Path) -> None:
    console = story()
    theirs = console.policy_on_disk + "# theirs\n"

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        type_at_end(page, RULE)
        mine = page.editor.text()
        console.policy_on_disk = theirs
        page.work.read()
        await seen(lambda: page.work.conflict)
        page.compare()
        (await dialog_in_front(desk)).answer(TAKE).click()
        await seen(lambda: page.editor.text() == theirs)
        assert not page.work.dirty
        page.editor.undo()
        assert page.editor.text() == mine


async def test_another_text_on_the_disk_is_shown_when_nothing_was_typed(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        console.changed_by_another_program(console.policy_on_disk + "# by hand\n")
        await seen(lambda: page.editor.text().endswith("# by hand\n"))
        assert not page.work.dirty


async def test_unsaved_text_survives_the_window_and_is_gone_once_saved(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        type_at_end(page, RULE)
        desk.window.open("fleet")
        assert (Path(desk.window.layout_store.fileName()).parent / FILE).exists()
    fresh = story()
    async with open_frame(theme, tmp_path, fresh) as desk:
        page = await open_policy(desk)
        assert 'id = "typed"' in page.editor.text()
        assert page.work.dirty
        await seen(lambda: page.work.found is not None)
        page.save.click()
        await seen(lambda: not page.work.dirty)
        folder = Path(desk.window.layout_store.fileName()).parent
        await seen(lambda: not (folder / FILE).exists())
    assert 'id = "typed"' in fresh.policy_on_disk


async def test_a_draft_of_an_older_file_asks_before_it_replaces_the_newer_one(
    theme: Theme, tmp_path: Path
) -> None:

    changed = story()
    changed.policy_on_disk += "# by somebody else\n"

    async with open_frame(theme, tmp_path, story()) as desk:
        type_at_end(await open_policy(desk), RULE)

    async with open_frame(theme, tmp_path, changed) as desk:
        page = await open_policy(desk)
        assert 'id = "typed"' in page.editor.text()
        assert page.banner.isVisible()
        page.work.save()
        assert "save_policy" not in changed.asked


async def test_a_broken_draft_is_kept_beside_and_said(tmp_path: Path, theme: Theme) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        folder = Path(desk.window.layout_store.fileName()).parent
        (folder / FILE).write_text("{", encoding="utf-8")
        page = await open_policy(desk)
        assert "cannot be read" in page.banner.words()
        assert (folder / FILE).with_suffix(".broken").exists()


async def test_a_broken_policy_says_everywhere_why_everything_asks_and_leads_to_the_line(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.policy_on_disk = console.policy_on_disk.replace('tool = "write_file"', 'tol = "write_file"')
    problem = "policy.toml line 29: rule spool-files: tol: there is no such key"
    console.policy_status = console.policy_status.model_copy(update={"problem": problem})

    async with open_frame(theme, tmp_path, console) as desk:
        window = desk.window
        window.activateWindow()
        await seen(window.isActiveWindow)
        window.open("runs")
        assert any("everything asks" in words and "line 29" in words for words in window.notices.words())
        link_in(window.notices, "Show in Settings").click()
        page = settings_in_front(desk).policy
        await seen(lambda: page.editor.current_line() == 29)
        assert page.editor.hasFocus()
        await seen(lambda: page.editor.fault_at(33))


async def test_examples_are_ticked_or_crossed_with_the_reason(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.policy_on_disk = console.policy_on_disk.replace("/srv/spool/label.txt", "/srv/other.txt")

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        page.show_tab("examples")
        first = page.examples.table.rows_model.item(0)
        assert first is not None
        assert first.cells[0] == "spool-files"
        outcome = first.cells[2]
        assert not isinstance(outcome, str)
        assert outcome.glyph == "cross_octagon"
        assert "does not match" in outcome.text
        assert page.examples.head.hint.text() == "1 of 4 fail"
        page.examples.table.choose(first.key)
        assert page.editor.current_line() == 29


async def test_hidden_characters_are_named(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.policy_on_disk += "# a\u202eb and p\u0430ypal\n"

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        assert page.check.table.rows_model.rowCount() == 2
        words = messages(page)
        assert "RIGHT-TO-LEFT OVERRIDE" in words[0]
        assert "CYRILLIC" in words[1]
        assert len(page.editor.extraSelections()) == 2


async def test_a_loose_pattern_is_warned_of_with_a_line_that_slips_through(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    start = len(console.policy_on_disk.splitlines()) + 1
    console.policy_on_disk += LOOSE

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        page.show_tab("check")
        assert page.check.sentence.text() == "Nothing is wrong with this policy."
        assert "1 pattern lets more through." in page.check.more.text()
        row = page.check.table.rows_model.item(0)
        assert row is not None
        line, what = row.cells
        assert line == str(start)
        assert not isinstance(what, str)
        assert (what.glyph, what.tone) == ("help_rhombus", "warn")
        assert "It allows: 'git status | sh'" in what.text
        page.check.table.choose(row.key)
        assert page.editor.current_line() == start
        assert "| sh" in page.check.whole.text()


async def test_a_refused_save_is_said_where_it_was_asked(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fail_next["save_policy"] = BadInput("policy.toml cannot be written: disk full.")

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        type_at_end(page, RULE)
        page.work.save()
        await seen(lambda: "disk full" in page.banner.words())
        assert page.work.dirty
        assert page.save.isEnabled()


async def test_in_a_narrow_window_the_tabs_are_under_the_editor(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story(), size=(1280, 720)) as desk:
        page = await open_policy(desk)
        assert page.split.orientation() == Qt.Orientation.Vertical
        desk.window.resize(1440, 900)
        await seen(lambda: page.split.orientation() == Qt.Orientation.Horizontal)


async def test_the_profile_is_chosen_by_the_window_and_shown_when_it_holds(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await open_policy(desk)
        page.profile.chosen.emit("lockdown")
        await seen(lambda: page.profile.current() == "lockdown")
        console.emit(
            ControlChanged(stopped=False, stopped_note="", policy=console.policy_status, operators=[])
        )


def test_the_words_of_a_problem_and_its_exact_line() -> None:
    text = '[[rule]]\nid = "a"\n[[rule]]\nid = "b"\ndecision = "no"\n'
    message = "policy.toml line 3: rule b: decision: Input should be 'allow', 'ask' or 'deny'"
    assert precise_line(text, PolicyProblem(line=3, message=message)) == 5
    assert precise_line(text, PolicyProblem(line=0, message=message)) == 0
    assert bare_message(message).startswith("rule b: decision")
    broken = "policy.toml is not TOML: Expected '=' (at line 4, column 2)"
    assert bare_message(broken).startswith("not TOML: Expected")
    assert line_of(broken) == 4
