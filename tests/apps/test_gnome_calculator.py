"""gnome-calculator (GTK 4): buttons, keys and a menu; results are read from the clipboard."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.apps.conftest import Session, Start
from tests.apps.driver import Driver
from tests.apps.programs import needs

PROGRAM = "gnome-calculator"
pytestmark = [needs("gnome-calculator"), pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def calculator(start: Start) -> AsyncIterator[None]:
    """The program."""
    async with start("gnome-calculator", title="Calculator"):
        yield


async def shows(driver: Driver, session: Session, number: str) -> None:
    """The acts so far were right if this is what the program copies."""

    async def copied() -> bool:
        # The program works a term out beside taking keys, and copies what it shows at that moment.
        await driver.call("press_key", key="ctrl+c")
        return session.screen.clipboard() == number

    await driver.sees(copied)


async def test_buttons_are_pressed(driver: Driver, session: Session) -> None:
    for label in ("7", "×", "6", "="):
        await driver.click(f"{label} {label}", "push button")
    await shows(driver, session, "42")


async def test_a_sum_is_typed_and_worked_out_by_a_line_end(driver: Driver, session: Session) -> None:
    await driver.type("12*12\n", process_name=PROGRAM)
    await shows(driver, session, "144")
    await driver.press("Escape")
    await driver.type("3+4")
    await driver.press("Enter")
    await shows(driver, session, "7")


async def test_keys_are_pressed_one_by_one(driver: Driver, session: Session) -> None:
    await driver.press("1", "0", "/", "4", "Enter")
    await shows(driver, session, "2.5")


async def test_another_mode_is_chosen_in_a_menu(driver: Driver) -> None:
    await driver.click("Basic", "push button")
    await driver.click("Programming", then=lambda: driver.control("Programming", "push button"))
