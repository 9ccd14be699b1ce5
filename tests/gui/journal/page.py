"""The Journal as a person sees it: query, rows, the entry beside them, and what is verified."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest

from app.main import ConsoleApplication
from app.screens.journal.screen import JournalScreen
from app.screens.targets import OpenEntry, OpenQuery
from core.audit.entries import Entry
from tests.fakes.window import seen

PLAIN = Qt.KeyboardModifier.NoModifier


async def open_journal(desk: ConsoleApplication, query: str | None = None) -> JournalPage:
    """Bring the Journal to the front, with a query; returns once it has been read."""
    desk.window.open("journal", None if query is None else OpenQuery(query))
    page = JournalPage(desk)
    await seen(lambda: page.screen.feed.loaded and page.settled)
    return page


async def open_entry(desk: ConsoleApplication, seq: int, tab: str = "entry") -> JournalPage:
    """Bring the Journal to the front, at one entry."""
    desk.window.open("journal", OpenEntry(seq, tab))
    page = JournalPage(desk)
    await seen(lambda: page.shown == seq)
    return page


class JournalPage:
    """The Journal screen, which is in front."""

    def __init__(self, desk: ConsoleApplication) -> None:
        screen = desk.window.current
        assert isinstance(screen, JournalScreen)
        self.screen = screen

    # The query
    @property
    def query(self) -> str:
        """The query whose entries are shown."""
        return self.screen.feed.query

    @property
    def settled(self) -> bool:
        """Whether nothing is being read."""
        return not self.screen.feed.loading

    @property
    def typed(self) -> str:
        """The text in the query's field."""
        return self.screen.bar.field.text()

    @property
    def offered(self) -> list[str]:
        """What the list below the field offers; empty while it is closed."""
        field = self.screen.bar.field
        return field.suggestions.choices() if field.list_is_open() else []

    @property
    def problem(self) -> str:
        """What is wrong with the query, below the field; empty while nothing is."""
        error = self.screen.bar.error
        return error.text() if error.isVisible() else ""

    @property
    def underlined_from(self) -> int | None:
        """The place in the text, from 0, from which it is underlined as wrong."""
        return self.screen.bar.field.error_at

    @property
    def count_words(self) -> str:
        """What the field says at its end: how many entries fit."""
        return self.screen.bar.field.accessibleDescription()

    def type(self, text: str) -> None:
        """Type into the query's field."""
        self.screen.bar.field.setFocus()
        QTest.keyClicks(self.screen.bar.field, text)

    def press_in_query(self, key: Qt.Key) -> None:
        """Press a key in the query's field."""
        QTest.keyClick(self.screen.bar.field, key)

    async def pause_typing(self) -> None:
        """Type nothing until what follows a pause has followed; the pause itself is not waited for."""
        pauses = [one for one in self.screen.bar.findChildren(QTimer) if one.isActive()]
        for pause in pauses:
            pause.start(0)
        await seen(lambda: not any(pause.isActive() for pause in pauses))

    def look_for(self, query: str) -> None:
        """Bring a query into force."""
        self.screen.bar.set_query(query)

    # The rows
    @property
    def rows(self) -> int:
        """How many entries the table has."""
        return self.screen.table.entries.rowCount()

    @property
    def newest(self) -> int:
        """The number of the newest entry of the table."""
        return self.screen.table.entries.newest

    @property
    def chosen(self) -> str | None:
        """The number of the entry in the current row."""
        return self.screen.table.current_key()

    def press(self, key: Qt.Key, modifier: Qt.KeyboardModifier = PLAIN) -> None:
        """Press a key in the table."""
        QTest.keyClick(self.screen.table, key, modifier)

    # Beside and above them
    @property
    def entry(self) -> Entry | None:
        """The entry in the pane at the right."""
        return self.screen.pane.entry

    @property
    def shown(self) -> int | None:
        """Its number."""
        return self.entry.seq if self.entry is not None else None

    @property
    def trouble(self) -> str:
        """Why no rows can be shown; empty while they can."""
        return self.screen.trouble.words() if self.screen.trouble.isVisible() else ""

    @property
    def banner(self) -> str:
        """What is said of the verification."""
        return self.screen.verify_banner.banner.words()

    @property
    def banner_kind(self) -> str:
        """How it is said: ok, warn, fail, …"""
        return self.screen.verify_banner.banner.kind

    @property
    def unwritable(self) -> str:
        """What is said of a journal that cannot be written; empty while it can."""
        unwritable = self.screen.verify_banner.unwritable
        return unwritable.words() if unwritable.isVisible() else ""
