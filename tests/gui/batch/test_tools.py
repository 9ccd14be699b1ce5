"""The tools of Batch: found by the search of the service with its reasons, and a batch made of words."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt

from app.theme.theme import Theme
from core.errors import ServiceError
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, seen
from tests.gui.batch.page import BatchPage

Key, Mod = Qt.Key, Qt.KeyboardModifier


def spoken(page: BatchPage) -> list[str]:
    """The lines of the list of tools as they are read aloud."""
    model = page.screen.tools.list.tools
    role = Qt.ItemDataRole.AccessibleTextRole
    return [str(model.data(model.index(row, 0), role)) for row in range(len(model.items))]


async def test_tools_are_found_by_what_they_do_and_with_typing_errors_each_with_its_reason(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await BatchPage.on(desk)
        everything = spoken(page)
        page.in_window(Key.Key_A, Mod.NoModifier)
        page.type_text("scrensot")
        await seen(lambda: not page.screen.tools.searching)
        assert "search_tools" in console.asked
        first = page.screen.tools.list.current()
        assert first is not None
        assert first.tool.tool_name == "screenshot"
        assert "name: screenshot" in spoken(page)[0]
        page.press(Key.Key_Return)
        await seen(lambda: page.ids() == ["screenshot"])
        assert spoken(page) == everything


async def test_a_tool_that_is_named_in_full_is_added_without_waiting_for_the_search(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await BatchPage.on(desk)
        await seen(lambda: page.screen.tools.list.tools.items)
        console.fail_next["search_tools"] = ServiceError("The service is busy.")
        for name in ("screenshot", "read_file"):
            page.in_window(Key.Key_A, Mod.NoModifier)
            page.type_text(name)
            page.press(Key.Key_Return)
        assert page.ids() == ["screenshot", "read_file"]


async def test_a_search_that_fails_says_so_and_enter_adds_nothing(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await BatchPage.on(desk)
        console.fail_next["search_tools"] = ServiceError("The service is busy.")
        page.in_window(Key.Key_A, Mod.NoModifier)
        page.type_text("picture of it")  # no name in full, which needs no search
        page.press(Key.Key_Return)
        await seen(lambda: not page.screen.tools.searching)
        assert "The service is busy." in page.screen.tools.place.empty.words()
        assert page.ids() == []


async def test_a_batch_is_made_of_words_and_says_what_it_still_needs(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        page = await BatchPage.on(desk)
        page.in_window(Key.Key_A, Mod.NoModifier)
        page.type_text("memory info, then write file /srv/note")
        page.press(Key.Key_Return, Mod.AltModifier)
        await seen(lambda: len(page.ids()) == 2)
        batch = page.screen.editor.content.as_batch()
        assert [step.tool for step in batch.steps] == ["get_system_info", "write_file"]  # type: ignore[union-attr]  # steps
        assert batch.targets == "name:this-computer"
        words = page.screen.notice.accessibleName()
        assert "nothing was sent" in words
        assert "it still needs content" in words
        assert page.screen.editor.dirty
        assert not {"start_run", "call"} & set(console.asked)


async def test_words_that_no_tool_fits_make_no_batch(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        page = await BatchPage.on(desk)
        page.in_window(Key.Key_A, Mod.NoModifier)
        page.type_text("zzqx and qqzz")
        page.screen.tools.propose.click()
        await seen(page.screen.notice.isVisible)
        assert "No tool on name:this-computer fits “zzqx”." in page.screen.notice.accessibleName()
        assert page.ids() == []
