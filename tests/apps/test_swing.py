"""A form of Swing (Java), through its wrapper for accessibility; it prints what it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apps.conftest import Start
from tests.apps.driver import Driver
from tests.apps.pictures import is_black
from tests.apps.programs import Started, needs

PROGRAM = "java"
WRAPPER = Path("/usr/share/java/java-atk-wrapper.jar")
pytestmark = [
    needs("javac", "default-jdk"),
    pytest.mark.skipif(
        not WRAPPER.exists(),
        reason="Java's wrapper is not installed; `apt-get install libatk-wrapper-java` lets these tests run",
    ),
    pytest.mark.asyncio(loop_scope="session"),
]
SECRET = "s3cret-word"


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def form(start: Start) -> AsyncIterator[Started]:
    """The form, compiled when it is started."""
    wrapper = "-Djavax.accessibility.assistive_technologies=org.GNOME.Accessibility.AtkWrapper"
    source = Path(__file__).with_name("Form.java")
    jni = "-Djava.library.path=/usr/lib/jni:/usr/lib/x86_64-linux-gnu/jni"
    words = ("java", wrapper, jni, "-cp", str(WRAPPER), str(source))
    async with start(*words, title="Swing under test") as started:
        yield started


async def prints(driver: Driver, form: Started, wanted: str) -> None:
    """The acts so far were right if this is what the form prints when its button is pressed."""
    await driver.click("Print", "push button")
    line = await form.line()
    driver.judge(line == wanted, f"The form printed {line!r}.")


async def test_fields_and_boxes_are_filled(driver: Driver, form: Started) -> None:
    field = await driver.control("Name", "text")
    await driver.type("größer", control_id=field["id"])
    await driver.click("Agree", "check box")
    await prints(driver, form, "größer|0|true|red")
    await driver.click("Agree", "check box")
    await prints(driver, form, "größer|0|false|red")


async def test_a_choice_is_made_by_keys(driver: Driver, form: Started) -> None:
    combo = await driver.control(role="combo box")
    await driver.act("click_element", control_id=combo["id"])
    await driver.press("Down", "Enter")
    await prints(driver, form, "|0|false|green")


async def test_a_menu_item_is_pressed(driver: Driver, form: Started) -> None:
    await driver.click("File", "menu")
    await driver.click("Leave", "menu item")
    ended, _ = await form.ends()
    driver.judge(ended == 7, f"The form ended with {ended}.")


async def test_a_password_is_typed_and_never_shown(driver: Driver, form: Started) -> None:
    field = await driver.control("Password", "password text")
    await driver.type(SECRET, control_id=field["id"], secret=True)
    seen, picture = await driver.picture()
    assert field["box"] in seen["masked"]
    assert is_black(picture, field["box"])
    await prints(driver, form, f"|{len(SECRET)}|false|red")
    assert not driver.said(SECRET)
