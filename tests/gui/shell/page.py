"""The window around the screens as a person sees it: status bar, screens at the left, banners, palette."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QAbstractButton

from app.main import ConsoleApplication
from app.shell.command_palette import CommandPalette
from app.shell.navigation_bar import NavLine
from app.shell.palette_matcher import Match
from app.shell.status_bar import StatusPart
from app.widgets.banner import Banner
from tests.gui.page import visible


def status_part(desk: ConsoleApplication, name: str) -> StatusPart:
    """A part of the status bar: a health, or `waiting`, `verified`, `service-lost`."""
    found = desk.window.status_bar.findChild(StatusPart, name)
    assert isinstance(found, StatusPart), name
    return found


def screen_line(desk: ConsoleApplication, screen: str) -> QAbstractButton:
    """The line of a screen at the left edge."""
    return next(line for line in desk.window.navigation.findChildren(NavLine) if line.entry.name == screen)


def banner_with(desk: ConsoleApplication, link: str) -> Banner:
    """The banner below the top bar that offers this link."""
    found = [
        banner
        for banner in visible(desk.window.notices, Banner)
        if link in [button.text() for button in visible(banner, QAbstractButton)]
    ]
    assert len(found) == 1, desk.window.notices.words()
    return found[0]


def lines_of(palette: CommandPalette) -> Sequence[str | Match]:
    """What the palette lists: titles of groups, and what was found."""
    lines: Sequence[str | Match] = palette.view.model().lines  # type: ignore[attr-defined]  # of `ResultsModel`
    return lines
