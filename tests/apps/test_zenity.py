"""zenity (GTK 3): dialogs whose answers are lines on their stdout and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.conftest import Session, Start
from tests.apps.driver import EFFECT_S, Driver
from tests.apps.pictures import is_black
from tests.apps.programs import Started, needs

PROGRAM = "zenity"
pytestmark = [needs("zenity"), pytest.mark.asyncio(loop_scope="session")]
SECRET = "s3cret-größer-漢"


async def answers(driver: Driver, zenity: Started, wanted: str, code: int = 0) -> None:
    """The acts so far were right if the dialog ends with this line."""
    try:
        ended = await zenity.ends(EFFECT_S)
    except TimeoutError:
        driver.judge(False, "The dialog has not ended.")
    else:
        driver.judge(ended == (code, wanted), f"The dialog ended with {ended}, not {(code, wanted)}.")


async def test_a_line_is_typed_and_entered(driver: Driver, start: Start) -> None:
    async with start("zenity", "--entry", "--title=Ask", "--text=Name?", title="Ask") as zenity:
        await driver.type("é 漢 😀", process_name="zenity")
        await driver.press("Enter")
        await answers(driver, zenity, "é 漢 😀\n")


async def test_a_line_end_in_a_single_line_is_enter(driver: Driver, start: Start) -> None:
    async with start("zenity", "--entry", "--title=Ask", "--text=Name?", title="Ask") as zenity:
        field = await driver.control(role="text")
        await driver.type("Ann\n", control_id=field["id"])
        await answers(driver, zenity, "Ann\n")


async def test_fields_of_a_form_are_known_by_their_labels(driver: Driver, start: Start) -> None:
    words = ("--forms", "--title=Form", "--add-entry=Name", "--add-entry=City", "--add-password=Word")
    lists = ("--add-combo=Colour", "--combo-values=red|green|blue")
    async with start("zenity", *words, *lists, title="Form") as zenity:
        for name, role, text in (
            ("City", "text", "Brünn"),
            ("Name", "text", "Ann"),
            ("Word", "password text", SECRET),
        ):
            field = await driver.control(name, role)
            await driver.type(text, control_id=field["id"], secret=role != "text")
        await driver.click("Colour", "combo box")
        await driver.click("green", "menu item")
        await driver.click("OK", "push button")
        await answers(driver, zenity, f"Ann|Brünn|{SECRET}|green\n")
    assert not driver.said(SECRET)


async def test_fields_of_a_form_are_walked_by_keys(driver: Driver, start: Start) -> None:
    words = ("--forms", "--title=Form", "--add-entry=Name", "--add-entry=City")
    async with start("zenity", *words, title="Form") as zenity:
        await driver.type("Ann")
        await driver.press("Tab")
        await driver.type("Brünn")
        await driver.press("Tab", "Tab", "Enter")
        await answers(driver, zenity, "Ann|Brünn\n")


async def test_a_row_of_a_list_is_chosen(driver: Driver, start: Start) -> None:
    words = ("--list", "--title=Fruit", "--column=Fruit", "apple", "pear", "plum")
    async with start("zenity", *words, title="Fruit") as zenity:
        await driver.click("pear", "table cell")
        await driver.click("OK", "push button")
        await answers(driver, zenity, "pear\n")


async def test_a_row_of_a_long_list_is_scrolled_to_and_opened(driver: Driver, start: Start) -> None:
    rows = [f"row {number}" for number in range(400)]
    async with start("zenity", "--list", "--title=Rows", "--column=Row", *rows, title="Rows") as zenity:
        await driver.click("row 2", "table cell")
        await driver.press("End", then=lambda: driver.control("row 399", "table cell"))
        await driver.click("row 397", "table cell", double_click=True)
        await answers(driver, zenity, "row 397\n")


async def test_boxes_of_a_list_are_ticked(driver: Driver, start: Start) -> None:
    words = ("--list", "--checklist", "--title=Boxes", "--column=Pick", "--column=Fruit", "--separator=,")
    async with start(
        "zenity", *words, "FALSE", "apple", "TRUE", "pear", "FALSE", "plum", title="Boxes"
    ) as zenity:
        await driver.click("plum", "table cell")
        await driver.press("Left", "space")
        await driver.click("OK", "push button")
        await answers(driver, zenity, "pear,plum\n")


async def test_a_question_is_denied(driver: Driver, start: Start) -> None:
    async with start("zenity", "--question", "--title=Sure", "--text=Really?", title="Sure") as zenity:
        await driver.click("No", "push button")
        await answers(driver, zenity, "", code=1)


async def test_lines_are_lines_in_text(driver: Driver, start: Start, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("first\n")
    async with start(
        "zenity", "--text-info", "--editable", f"--filename={text}", "--title=Text", title="Text"
    ) as zenity:
        field = await driver.control(role="text")
        await driver.press("ctrl+End")
        await driver.type("é\n漢\n", control_id=field["id"])
        await driver.click("OK", "push button")
        await answers(driver, zenity, "first\né\n漢\n")


async def test_a_scale_is_moved_by_keys(driver: Driver, start: Start) -> None:
    async with start("zenity", "--scale", "--title=Scale", "--value=10", title="Scale") as zenity:
        await driver.press("Right", "Right", "Right")
        await driver.click("OK", "push button")
        await answers(driver, zenity, "13\n")


async def test_a_path_that_is_typed_arrives_whole(driver: Driver, start: Start, tmp_path: Path) -> None:
    wanted = tmp_path / "a folder" / "größer.txt"
    wanted.parent.mkdir()
    wanted.write_text("x")
    async with start("zenity", "--file-selection", "--title=Pick", title="Pick") as zenity:
        await driver.type(str(wanted))
        await driver.press("Enter")
        await answers(driver, zenity, f"{wanted}\n")


async def test_a_password_is_typed_and_never_shown(driver: Driver, start: Start, session: Session) -> None:
    async with start("zenity", "--password", "--title=Secret", title="Secret") as zenity:
        field = await driver.control(role="password text")
        await driver.type(SECRET, control_id=field["id"], secret=True)
        tree = await driver.tree()
        assert [one.get("value") for one in tree if one["role"] == "password text"] == [None]
        seen, picture = await driver.picture()
        assert field["box"] in seen["masked"]
        assert is_black(picture, field["box"])
        await driver.click("OK", "push button")
        await answers(driver, zenity, f"{SECRET}\n")
    assert not driver.said(SECRET)
    assert not any(
        SECRET.encode() in path.read_bytes() for path in session.home.path.rglob("*") if path.is_file()
    )


async def test_the_one_of_two_dialogs_is_meant_by_its_window(driver: Driver, start: Start) -> None:
    async with (
        start("zenity", "--entry", "--title=First", "--text=1", title="First") as first,
        start("zenity", "--entry", "--title=Second", "--text=2", title="Second") as second,
    ):
        words = await driver.is_refused("click_element", process_name="zenity", role="push button", name="OK")
        assert "2" in words
        below = await driver.window("First")
        await driver.type("one", window_id=below.window_id)
        await driver.act("click_element", window_id=below.window_id, role="push button", name="OK")
        await answers(driver, first, "one\n")
        await driver.type("two", process_name="zenity")
        await driver.press("Enter")
        await answers(driver, second, "two\n")
