"""Windows that are covered, minimised, on another workspace, or one of several of a program."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apps.conftest import Session, Start
from tests.apps.driver import Driver, has
from tests.apps.programs import needs
from tests.apps.screen import Window, until

PROGRAM = "mousepad"
pytestmark = [needs("mousepad"), needs("zenity"), pytest.mark.asyncio(loop_scope="session")]
Pair = tuple[Window, Window]


@pytest_asyncio.fixture(loop_scope="session")
async def two(start: Start, driver: Driver, tmp_path: Path) -> AsyncIterator[Pair]:
    """Two windows of one process, with a file each; the second one is in front."""
    for name in ("first.txt", "second.txt"):
        (tmp_path / name).write_text("")
    files = str(tmp_path / "first.txt"), str(tmp_path / "second.txt")
    async with start("mousepad", "--disable-server", "--opening-mode=window", *files, title="first.txt"):
        first, second = await driver.window("first.txt"), await driver.window("second.txt")
        driver.screen.place(first, 40, 60, 700, 500)
        driver.screen.place(second, 100, 100, 700, 500)
        driver.screen.raise_window(second)
        await until(lambda: is_active(driver, second), "the second window is active")
        yield first, second


def is_active(driver: Driver, window: Window) -> bool:
    """Whether a window has the keyboard."""
    active = driver.screen.active()
    return active is not None and active.id == window.id


async def test_text_and_keys_go_to_the_window_that_is_named(
    two: Pair, driver: Driver, tmp_path: Path
) -> None:
    first, second = two
    done = await driver.type("to the first", window_id=first.window_id)
    assert done["window"]["window_id"] == first.window_id
    await driver.act(
        "press_key", key="ctrl+s", window_id=first.window_id, then=has(tmp_path / "first.txt", "to the first")
    )
    await driver.type("to the second", window_id=second.window_id)
    await driver.act(
        "press_key",
        key="ctrl+s",
        window_id=second.window_id,
        then=has(tmp_path / "second.txt", "to the second"),
    )


async def test_the_same_control_of_two_windows_is_meant_by_its_window(two: Pair, driver: Driver) -> None:
    first, second = two
    await driver.type("x", window_id=first.window_id)
    await driver.type("y", window_id=second.window_id, then=lambda: driver.is_open("*" + str(second.title)))
    await driver.act("click_element", window_id=first.window_id, role="menu", name="Search")
    await driver.act(
        "click_element",
        window_id=first.window_id,
        role="menu item",
        name="Go to...",
        then=lambda: driver.is_open("Go To"),
    )
    await driver.press("Escape", then=lambda: not driver.is_open("Go To"))


async def test_a_minimised_window_comes_back(two: Pair, driver: Driver) -> None:
    first, _ = two
    driver.screen.minimise(first)
    await until(lambda: as_it_is(driver, first).minimised, "the first window is an icon")
    await driver.act("activate_window", window_id=first.window_id, then=lambda: is_active(driver, first))
    assert not as_it_is(driver, first).minimised


async def test_a_window_of_another_workspace_comes_back(two: Pair, driver: Driver, tmp_path: Path) -> None:
    first, _ = two
    driver.screen.move_to_workspace(first, 2)
    await until(lambda: as_it_is(driver, first).workspace == 2, "the first window is on another workspace")
    await driver.type("from afar", window_id=first.window_id)
    await driver.press("ctrl+s", then=has(tmp_path / "first.txt", "from afar"))
    driver.screen.show_workspace(0)


async def test_windows_are_listed_as_they_are(two: Pair, driver: Driver) -> None:
    first, second = two
    driver.screen.minimise(first)
    await until(lambda: as_it_is(driver, first).minimised, "the first window is an icon")
    rows = {row["id"]: row for row in (await driver.read("list_windows", process_name=PROGRAM))["windows"]}
    assert (rows[first.window_id]["minimized"], rows[first.window_id]["active"]) == (True, False)
    assert (rows[second.window_id]["minimized"], rows[second.window_id]["active"]) == (False, True)


async def test_keys_for_one_program_never_reach_another(
    two: Pair, driver: Driver, start: Start, session: Session, tmp_path: Path
) -> None:
    _, second = two
    async with start("zenity", "--entry", "--title=Above", "--text=Name?", title="Above") as zenity:
        await driver.type("for the editor", window_id=second.window_id)
        await driver.act(
            "press_key",
            key="ctrl+s",
            window_id=second.window_id,
            then=has(tmp_path / "second.txt", "for the editor"),
        )
        words = await driver.is_refused("press_key", key="ctrl+q", process_name="gimp")
        assert "gimp" in words
        await driver.type("for the dialog", process_name="zenity")
        await driver.act("press_key", key="Enter", process_name="zenity")
        assert await zenity.ends() == (0, "for the dialog\n")
        driver.judge(True)


async def test_a_window_that_is_gone_is_refused(two: Pair, driver: Driver) -> None:
    await driver.is_refused("activate_window", window_id="0x7fffff")
    await driver.is_refused("type_text", text="lost", window_id="0x7fffff")


async def test_a_control_behind_another_program_is_pressed_or_refused(
    two: Pair, driver: Driver, start: Start
) -> None:
    _, second = two
    async with start("zenity", "--info", "--title=In the way", "--text=" + "wide " * 40, title="In the way"):
        above = await driver.window("In the way")
        driver.screen.place(above, 100, 100, 700, 500)
        await driver.act("click_element", window_id=second.window_id, role="menu", name="Search")
        await driver.act(
            "click_element",
            window_id=second.window_id,
            role="menu item",
            name="Go to...",
            then=lambda: driver.is_open("Go To"),
        )
        await driver.press("Escape", then=lambda: not driver.is_open("Go To"))


def as_it_is(driver: Driver, window: Window) -> Window:
    """A window as it is now."""
    return next(one for one in driver.screen.windows() if one.id == window.id)
