"""The window around the screens as a person sees it: status bar, screens at the left, banners, palette."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from PySide6.QtWidgets import QAbstractButton, QWidget

from app.main import ConsoleApplication
from app.shell.command_palette import CommandPalette
from app.shell.navigation_bar import NavLine
from app.shell.palette_matcher import COMMANDS, Match, Result
from app.shell.shortcuts_dialog import ShortcutsDialog
from app.shell.status_bar import StatusPart
from app.widgets.banner import Banner
from app.widgets.labels import Label
from app.widgets.shortcut_label import ShortcutLabel
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


def commands_of(desk: ConsoleApplication, words: str) -> dict[str, Result]:
    """What the palette offers to do when these words are typed, by its words."""
    desk.window.open_palette(words)
    palette = desk.window.findChild(CommandPalette)
    assert isinstance(palette, CommandPalette)
    found = [line.hit for line in lines_of(palette) if isinstance(line, Match)]
    palette.dismiss()
    return {hit.title: hit for hit in found if hit.group == COMMANDS}


def keys_listed(desk: ConsoleApplication) -> list[tuple[str, str]]:
    """What F1 says: each chord of the screen in front, and what it does."""
    desk.window.show_keys()
    [sheet] = visible(desk.window, ShortcutsDialog)
    parts = [one for one in sheet.findChildren(QWidget) if isinstance(one, ShortcutLabel | Label)]
    sheet.dismiss()
    return [
        (cap.accessibleName(), words.text())
        for cap, words in pairwise(parts)
        if isinstance(cap, ShortcutLabel) and isinstance(words, Label)
    ]
