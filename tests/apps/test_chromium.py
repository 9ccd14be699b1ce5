"""Chromium on a page of our own, which reports to a local server what reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apps.conftest import Session
from tests.apps.driver import Driver
from tests.apps.pictures import is_black
from tests.apps.programs import needs, started
from tests.apps.screen import until
from tests.apps.web_page import TITLE, WebPage, web_page

PROGRAM = "chromium"
pytestmark = [needs("chromium"), pytest.mark.asyncio(loop_scope="session")]
SECRET = "s3cret-größer"
# No first page, no traffic of its own, and no sandbox, which root may not have.
OPTIONS = (
    "--no-sandbox",
    "--force-renderer-accessibility",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--password-store=basic",
)

# As long as a double click may take, Chromium ignores clicks on a dialog that has just opened, so that none
# is meant for what was there before. Nothing tells when this time is over.
IGNORES_CLICKS_S = 1.0


@pytest.fixture(scope="module")
def served() -> Iterator[WebPage]:
    """The page's server."""
    with web_page() as page:
        yield page


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(
    served: WebPage, session: Session, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[None]:
    """One browser for all tests of this file, which takes seconds to start."""
    home = tmp_path_factory.mktemp("browser")
    words = (PROGRAM, *OPTIONS, f"--user-data-dir={home / 'profile'}", "--start-maximized", served.url)
    async with started(session.environment, home, session.screen, *words, title=TITLE):
        yield


@pytest_asyncio.fixture(loop_scope="session")
async def page(served: WebPage, browser: None, session: Session, driver: Driver) -> WebPage:
    """The page, new for each test and in front."""
    window = await driver.window(TITLE)
    session.screen.raise_window(window)
    await until(lambda: (active := session.screen.active()) and active.id == window.id, "Chromium is active")
    served.state.clear()
    await driver.press("Escape", "ctrl+F5", then=served.shows(page="loaded"))
    return served


async def test_fields_take_text_in_their_own_way(page: WebPage, driver: Driver) -> None:
    for name, text in (("Name", "é 漢 😀"), ("City", "Brünn"), ("Notes", "one\ntwo"), ("Story", "größer")):
        field = await driver.control(name, "entry")
        await driver.type(text, control_id=field["id"], then=page.shows(**{name.lower(): text}))
    await driver.click("Name", "entry")
    await driver.press("Home")
    await driver.type("at first: ", then=page.shows(name="at first: é 漢 😀"))
    await driver.press("ctrl+a")
    await driver.type("all new", then=page.shows(name="all new"))
    await driver.press("Tab")
    await driver.type("!", then=page.shows(city="!"))
    await driver.press("shift+Tab")
    await driver.type("?", then=page.shows(name="?"))


async def test_fields_in_frames_and_shadows_take_text(page: WebPage, driver: Driver) -> None:
    for name in ("Inner", "Shaded"):
        field = await driver.control(name, "entry")
        await driver.type("größer 漢", control_id=field["id"], then=page.shows(**{name.lower(): "größer 漢"}))
        await driver.click(
            f"{name} button", "push button", then=page.shows(**{f"{name.lower()}_button": "pressed"})
        )


async def test_buttons_boxes_tabs_and_links_are_pressed(page: WebPage, driver: Driver) -> None:
    await driver.click("Count", "push button", then=page.shows(count=1))
    await driver.click("Count", then=page.shows(count=2))
    await driver.click("Agree", "check box", then=page.shows(agree=True))
    await driver.click("Agree", "check box", then=page.shows(agree=False))
    await driver.click("Large", "radio button", then=page.shows(size="large"))
    await driver.click("Small", "radio button", then=page.shows(size="small"))
    await driver.click("Second tab", "page tab", then=page.shows(tab="Second tab"))
    await driver.click("Jump to the end", "link", then=page.shows(hash="#end"))


async def test_a_choice_is_made_in_a_combo_box(page: WebPage, driver: Driver) -> None:
    await driver.click("Colour", "combo box")
    await driver.press("Down", "Enter", then=page.shows(colour="green"))
    await driver.click("Colour", "combo box")
    await driver.click("blue", then=page.shows(colour="blue"))


async def test_what_is_off_the_screen_is_scrolled_to(page: WebPage, driver: Driver) -> None:
    await driver.click("Far box", "check box", shown=False, then=page.shows(far=True))
    await driver.press("ctrl+Home")
    await driver.click("Far place", "radio button", shown=False, then=page.shows(place="far"))
    await driver.click("Count", "push button", shown=False, then=page.shows(count=1))
    await driver.click("Far button", "push button", shown=False, then=page.shows(far_button="pressed"))


async def test_the_page_is_scrolled_by_the_wheel(page: WebPage, driver: Driver) -> None:
    control = await driver.control("Everything", "heading")
    await driver.act(
        "scroll", direction="down", amount=5, control_id=control["id"], then=page.shows(scrolled=True)
    )


async def test_an_alert_and_a_dialog_are_answered(page: WebPage, driver: Driver) -> None:
    await driver.click("Alarm", "push button", then=page.shows(alarm="open"))
    await asyncio.sleep(IGNORES_CLICKS_S)
    await driver.click("OK", "push button", then=page.shows(alarm="closed"))
    await driver.click("Open dialog", "push button", then=page.shows(dialog="open"))
    await driver.click("Never", "push button", then=page.shows(dialog="never"))


async def test_late_and_renamed_and_equal_buttons_are_told_apart(page: WebPage, driver: Driver) -> None:
    await driver.click("Load more", "push button")
    await driver.click("Late button", "push button", then=page.shows(late="pressed"))
    await driver.click("Old name", "push button", then=page.shows(renamed="Old name"))
    await driver.click("New name", "push button", then=page.shows(renamed="New name"))
    assert "2" in await driver.is_refused(
        "click_element", process_name=PROGRAM, role="push button", name="OK"
    )
    both = [one for one in await driver.tree() if (one["role"], one["name"]) == ("push button", "OK")]
    for number, button in enumerate(both, 1):
        await driver.act("click_element", control_id=button["id"], then=page.shows(ok=number))
    off = await driver.control("Out of order", "push button")
    assert "disabled" in await driver.is_refused("click_element", control_id=off["id"])


async def test_the_path_of_a_file_arrives_whole(page: WebPage, driver: Driver, tmp_path: Path) -> None:
    chosen = tmp_path / "a folder" / "größer.txt"
    chosen.parent.mkdir()
    chosen.write_text("its content")
    await driver.click("Choose a file: No file chosen", "push button", then=lambda: driver.is_open("Open"))
    await driver.type(str(chosen))
    await driver.press("Enter", then=page.shows(file="größer.txt: its content"))


async def test_a_pixel_of_a_picture_is_pressed(page: WebPage, driver: Driver) -> None:
    button = await driver.control("Count", "push button")
    seen, _ = await driver.picture()
    x, y = (
        button["box"][side] + button["box"][length] // 2 for side, length in (("x", "width"), ("y", "height"))
    )
    await driver.act("click_point", x=x, y=y, observation=seen["observation"], then=page.shows(count=1))


async def test_an_address_is_typed(page: WebPage, driver: Driver) -> None:
    await driver.press("ctrl+l")
    await driver.type(f"{page.url}#typed\n", then=page.shows(hash="#typed"))


async def test_a_password_is_typed_and_never_shown(page: WebPage, driver: Driver, session: Session) -> None:
    field = await driver.control("Password", "password text")
    await driver.type(
        SECRET, control_id=field["id"], secret=True, then=page.shows(length_of_the_password=len(SECRET))
    )
    tree = await driver.tree()
    assert [one.get("value") for one in tree if one["role"] == "password text"] == [None]
    seen, picture = await driver.picture()
    assert field["box"] in seen["masked"]
    assert is_black(picture, field["box"])
    assert not driver.said(SECRET)
    homes = await asyncio.to_thread(
        lambda: [
            path
            for path in session.home.path.rglob("*")
            if path.is_file() and SECRET.encode() in path.read_bytes()
        ]
    )
    assert not homes


# The last one: a browser is busy for seconds with what is left of two thousand rows.
async def test_a_row_far_down_is_pressed_once_it_is_shown(page: WebPage, driver: Driver) -> None:
    await driver.press("ctrl+l")
    await driver.type(f"{page.url}?rows=2000")
    page.state.clear()
    await driver.press("Enter", then=page.shows(page="loaded"))
    await driver.press("ctrl+End", then=page.shows(scrolled=True))
    await driver.click("Row 1995", "table cell", then=page.shows(row="Row 1995"))
