"""Settings as a person sees it: its sections, what is typed into the policy, and the questions it asks."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.main import ConsoleApplication
from app.screens.settings.devices_page import DevicesPage
from app.screens.settings.grants_page import GrantsPage
from app.screens.settings.operators_page import OperatorsPage
from app.screens.settings.policy_page import PolicyPage
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenSection
from app.widgets.dialog import Dialog
from app.widgets.labels import Link
from tests.fakes.window import seen
from tests.gui.page import link_in, visible


def settings_in_front(desk: ConsoleApplication) -> SettingsScreen:
    """The Settings screen, which is in front."""
    screen = desk.window.current
    assert isinstance(screen, SettingsScreen)
    return screen


def open_section(desk: ConsoleApplication, section: OpenSection) -> SettingsScreen:
    """Bring Settings to the front, at one section."""
    desk.window.open("settings", section)
    return settings_in_front(desk)


async def open_policy(desk: ConsoleApplication, line: int = 0, tab: str = "") -> PolicyPage:
    """Bring the policy to the front, in the active window, at a line or with a tab; read and checked."""
    desk.window.activateWindow()
    await seen(desk.window.isActiveWindow)
    page = open_section(desk, OpenSection("policy", line=line)).policy
    await seen(lambda: page.work.base is not None and page.work.found is not None)
    if tab:
        page.show_tab(tab)
    return page


def open_devices(desk: ConsoleApplication) -> DevicesPage:
    """Bring the connections of devices to the front."""
    return open_section(desk, OpenSection("devices")).devices


async def open_operators(desk: ConsoleApplication) -> OperatorsPage:
    """Bring the operators to the front."""
    await desk.window.keys.refresh()
    return open_section(desk, OpenSection("operators")).operators


async def open_grants(desk: ConsoleApplication, grant: str = "") -> GrantsPage:
    """Bring the grants to the front; returns once they have been read."""
    page = open_section(desk, OpenSection("grants", grant=grant)).grants
    empty = page.empty
    await seen(
        lambda: page.split.isVisible() or (empty.isVisible() and "Reading" not in empty.accessibleName())
    )
    return page


async def dialog_in_front(desk: ConsoleApplication) -> Dialog:
    """The dialog that is open, as soon as one is."""
    await seen(lambda: visible(desk.window, Dialog))
    return visible(desk.window, Dialog)[0]


def type_at_end(page: PolicyPage, text: str) -> None:
    """Type lines at the end of the policy's text."""
    page.editor.setFocus()
    page.editor.moveCursor(page.editor.textCursor().MoveOperation.End)
    for line in text.split("\n"):
        QTest.keyClicks(page.editor, line)
        QTest.keyClick(page.editor, Qt.Key.Key_Return)


def undo_all(page: PolicyPage) -> None:
    """Take back everything that was typed into the policy."""
    page.editor.undo()
    while page.work.dirty:
        page.editor.undo()


def messages(page: PolicyPage) -> list[str]:
    """What the check found, each in full, as one reads it going through the list."""
    found = []
    for row in range(page.check.table.rows_model.rowCount()):
        page.check.table.choose(f"p{row}")
        found.append(page.check.whole.text())
    return found


def link_of_answer(page: PolicyPage, words: str) -> Link:
    """A link in the answer to Why."""
    return link_in(page.why.answer, words)


def fill_key(page: OperatorsPage, name: str, phrase: str, again: str) -> None:
    """Fill in the form that makes an operator's key."""
    for field, text in ((page.name_field, name), (page.secret_field, phrase), (page.again_field, again)):
        field.clear()
        QTest.keyClicks(field, text)


def operator_row(page: OperatorsPage, name: str) -> list[str]:
    """What the list says of an operator, cell by cell."""
    model = page.table.rows_model
    return model.words(model.row_of(name)).split("\t")
