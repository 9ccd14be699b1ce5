"""Settings, Grants: what runs without asking, found, read whole and taken back."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

from app.screens.journal.screen import JournalScreen
from app.screens.settings.grants_page import fits_words, grant_scope, grant_state, uses_left
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.audit.entries import Kind
from tests.fakes.console import FakeConsole
from tests.fakes.policy_data import make_grants
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.page import visible
from tests.gui.settings.page import dialog_in_front, open_grants


def test_states_uses_and_scope_in_words() -> None:
    grants = make_grants()
    assert [grant_state(one) for one in grants] == ["holds", "holds", "holds", "used up", "revoked"]
    assert [uses_left(one) for one in grants] == ["any", "1", "any", "0", "any"]
    assert grant_scope(grants[0]) == "write_file: content may be anything, file_path is below /srv/spool"
    assert fits_words(grants[0], "spool STOCK")
    assert not fits_words(grants[0], "spool printer")


async def test_those_in_force_are_listed_and_others_on_demand(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        section = await open_grants(desk)
        await seen(lambda: section.table.rows_model.rowCount() == 3)
        shown, first = section.details.scope_words(), make_grants()[0]
        ends = datetime.fromisoformat(first.terms.expires).astimezone()
        assert shown == [*first.words[:-1], f"Until {ends:%Y-%m-%d %H:%M}"]
        section.which.chosen.emit("all")
        section.which.choose("all")
        section.search.setText("label-win-02")
        assert section.table.rows_model.rowCount() == 1
        section.search.setText("no such words")
        assert section.table.rows_model.rowCount() == 0
        assert not section.details.title.isVisible()


async def test_a_grant_is_revoked_only_after_a_question_that_shows_its_scope(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_grants(desk)
        section.table.choose("g-0030-c0ffee")
        section.details.revoke.click()
        (await dialog_in_front(desk)).answer("keep").click()
        await seen(lambda: not visible(desk.window, Dialog))
        assert "revoke_grant" not in console.asked
        section.details.revoke.click()
        asked = {label.text() for label in (await dialog_in_front(desk)).findChildren(QLabel)}
        assert "\n".join(section.details.scope_words()) in asked, "the very words of the list, local time too"
        (await dialog_in_front(desk)).answer("revoke").click()
        await seen(lambda: section.table.rows_model.rowCount() == 2)
        assert console.fake_journal.entries[-1].kind is Kind.GRANT_REVOKED
        section.begin("g-0030-c0ffee")
        await seen(lambda: section.table.current_key() == "g-0030-c0ffee")
        assert not section.details.revoke.isEnabled()


async def test_what_a_grant_lets_run_is_the_last_to_lose_room(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story(), size=(1024, 640)) as desk:
        table = (await open_grants(desk)).table
        scope = [column.key for column in table.rows_model.columns].index("scope")
        await seen(lambda: table.columnWidth(scope) >= table.rows_model.columns[scope].width)


async def test_a_grants_entries_are_looked_up_in_the_journal(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        section = await open_grants(desk)
        section.details.entries.click()
        journal = desk.window.current
        assert isinstance(journal, JournalScreen)
        assert "g-0031-c0ffee" in journal.bar.field.text()
        assert "grant_used" in journal.bar.field.text()


async def test_where_nothing_was_granted_it_says_how_one_is_given(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        section = await open_grants(desk)
        await seen(section.empty.isVisible)
        assert not section.split.isVisible()


async def test_ctrl_f_finds_a_grant_and_down_goes_to_the_list(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.activateWindow()
        await seen(desk.window.isActiveWindow)
        section = await open_grants(desk)
        QTest.keyClick(desk.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        assert section.search.hasFocus()
        QTest.keyClick(section.search, Qt.Key.Key_Down)
        assert section.table.hasFocus()


async def test_who_revoked_a_grant_is_named_as_who_gave_it(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        section = await open_grants(desk)
        revoked = next(grant for grant in make_grants() if grant.revoked_at is not None)
        assert revoked.revoked_by == "operator:harbour"
        section.details.show_grant(revoked)
        words = section.details.facts.value("Revoked").text()
        assert words.endswith(" by harbour")
        assert section.details.facts.value("Given").text().endswith(" by harbour")
