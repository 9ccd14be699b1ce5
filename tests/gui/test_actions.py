"""One act, one `Action`: its key, its buttons and menus, and its lines in F1 and in the palette."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from html import unescape
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QContextMenuEvent, QShortcut
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QApplication, QMenu

import app
from app.screens.screen import Screen
from app.screens.targets import OpenBatch, OpenDevice, OpenRun, OpenSection, Target
from app.shell.screen_registry import SCREENS
from app.theme.theme import Theme
from app.widgets.action import Action, chord_words
from app.widgets.buttons import Button, IconButton
from tests.fakes.agents_story import add_agents
from tests.fakes.console import FakeConsole
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.page import visible
from tests.gui.shell.page import commands_of, keys_listed

# What is opened on a screen, so that there is something to act on.
PLACES: list[tuple[str, Target | None]] = [
    *((entry.name, None) for entry in SCREENS),
    ("fleet", OpenDevice("build-lnx-03")),
    ("fleet", OpenDevice("kiosk-yard")),
    ("batch", OpenBatch("free-disk-space")),
    ("runs", OpenRun("r-0418", "lab-lnx-01", "shot")),
    ("settings", OpenSection("policy")),
]
# A reason is a sentence, or words that fit into the bar of a decision: "scroll to the end first".
REASON = re.compile(r"\S+ .*\.|[a-z']+( [a-z']+)+")


def with_agents() -> FakeConsole:
    console = story()
    add_agents(console)
    return console


def acts_of(screen: Screen) -> list[Action]:
    return [action for action in screen.actions() if isinstance(action, Action)]


def plain(words: str) -> str:
    return words.replace("&&", "&").removesuffix("…").strip()


def tooltip_of(button: QAbstractButton) -> str:
    return unescape(re.sub(r"</?span>", "", button.toolTip().replace("<br>", "\n")))


def says_why(button: QAbstractButton) -> bool:
    """Whether what is off says why, and not only what it is."""
    return bool(REASON.fullmatch(tooltip_of(button)) or REASON.fullmatch(button.accessibleDescription()))


def doing_the_same(acts: Iterable[Action], words: Iterable[str], key: str) -> set[Action]:
    """The actions that have the words or the key of a button or of a line of a menu."""
    named = {plain(one) for one in words if one}
    return {
        action
        for action in acts
        if named & {plain(action.words), plain(action.label)} or (key and key == chord_words(action.keys))
    }


def check_button(button: QAbstractButton, acts: list[Action]) -> None:
    key = button.key_hint if isinstance(button, Button | IconButton) else ""
    own = {action for action in button.actions() if isinstance(action, Action)}
    # One that has an action of its own does what that does: a picture of one device, not of all marked ones.
    words = () if own else (button.text(), button.accessibleName())
    assert doing_the_same(acts, words, key) <= own, button.accessibleName()
    assert len(own) <= 1, button.accessibleName()
    assert button.isEnabled() or says_why(button), button.accessibleName()
    for action in own:
        assert button.isEnabled() == (not action.reason), (button.accessibleName(), action.reason)
        if action.reason:
            assert tooltip_of(button) == action.reason


def menu_lines(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> list[QAction]:
    """The lines of the menus that the lists of a screen open."""
    lines: list[QAction] = []
    # The off-screen platform cannot show one.
    monkeypatch.setattr(QMenu, "popup", lambda menu, *_at: lines.extend(menu.actions()))
    for view in visible(screen, QAbstractItemView):
        middle = QPoint(view.viewport().width() // 2, 40)
        event = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, middle, view.mapToGlobal(middle))
        QApplication.sendEvent(view.viewport(), event)
    return lines


def check_line(line: QAction, acts: list[Action]) -> None:
    words, _, key = line.text().partition("\t")
    same = doing_the_same(acts, (words,), key or chord_words(line.shortcut().toString()))
    assert isinstance(line, Action) or not same, words


@pytest.mark.parametrize(("name", "target"), PLACES)
async def test_what_does_what_a_key_does_is_the_action_of_that_key(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: Target | None
) -> None:
    async with open_frame(theme, tmp_path, with_agents()) as desk:
        desk.window.open(name, target)
        screen = desk.window.current
        await seen(lambda: visible(screen, QAbstractButton) or name == "approvals")
        desk.state.flush()
        acts = acts_of(screen)
        for button in visible(screen, QAbstractButton):
            check_button(button, acts)
        for line in menu_lines(screen, monkeypatch):
            check_line(line, acts)


@pytest.mark.parametrize("name", [entry.name for entry in SCREENS])
async def test_f1_and_the_palette_list_the_same_and_say_why_something_is_off(
    theme: Theme, tmp_path: Path, name: str
) -> None:
    async with open_frame(theme, tmp_path, with_agents()) as desk:
        desk.window.open(name)
        acts = acts_of(desk.window.current)
        assert acts
        listed = keys_listed(desk)
        for action in acts:
            assert action.isEnabled() or action.reason, action.words
            assert not action.reason or REASON.fullmatch(action.reason), action.reason
            if action.keys:
                assert (chord_words(action.keys), action.words) in listed
            found = commands_of(desk, action.words)[action.words]
            assert found.off == found.detail == action.reason
            assert found.note == ("" if action.reason else chord_words(action.keys))


@pytest.mark.parametrize("name", [entry.name for entry in SCREENS])
async def test_without_a_service_each_action_that_is_off_says_why(
    theme: Theme, tmp_path: Path, name: str
) -> None:
    """Nothing is chosen and nothing is known: that must not raise either."""

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        desk.window.open(name)
        for action in acts_of(desk.window.current):
            assert not action.reason or REASON.fullmatch(action.reason), action.reason
            if action.reason:
                action.trigger()


def keys_of(screen: Screen) -> list[str]:
    """The keys that act while a screen is in front: its own, and those of the window."""
    window = screen.window()
    keys = [action.shortcut() for place in (screen, window) for action in place.actions()]
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    keys += [
        shortcut.key()
        for place in (screen, window)
        for shortcut in place.findChildren(QShortcut, options=direct)
    ]
    return [key.toString() for key in keys if not key.isEmpty()]


@pytest.mark.parametrize("name", [entry.name for entry in SCREENS])
async def test_no_two_actions_of_a_screen_and_its_window_share_a_key(
    theme: Theme, tmp_path: Path, name: str
) -> None:
    """Qt would do neither, without a word."""

    async with open_frame(theme, tmp_path, with_agents()) as desk:
        desk.window.open(name)
        screen = desk.window.current
        keys = keys_of(screen)
        assert len(keys) > 15
        assert sorted(keys) == sorted(set(keys))
        # What a part of the screen takes for itself while the keyboard is there is no key of the screen.
        inner = {one.key().toString() for one in screen.findChildren(QShortcut) if one.parent() is not screen}
        assert not inner & set(keys)
        # The test sees what it looks for.
        again = Action("Once more", "runs", lambda: None, keys[0])
        screen.offer(again)
        assert len(set(keys_of(screen))) < len(keys_of(screen))


def called_in(code: ast.expr) -> str:
    """What a slot or the act of an action calls: `_save`, `edit_asked.emit`."""
    match code:
        case ast.Lambda():
            return called_in(code.body)
        case ast.Call():
            return called_in(code.func)
        case ast.Attribute(attr="emit", value=ast.Attribute(attr=signal)):
            return f"{signal}.emit"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


@pytest.mark.parametrize("name", [entry.name for entry in SCREENS])
def test_no_button_is_connected_to_what_an_action_does(name: str) -> None:
    acts: set[str] = set()
    pressed: set[str] = set()
    for file in (Path(app.__file__).parent / "screens" / name).glob("*.py"):
        calls = (one for one in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(one, ast.Call))
        for call in calls:
            match call:
                case ast.Call(func=ast.Name(id="Action"), args=[_, _, act, *_]):
                    acts.add(called_in(act))
                case ast.Call(
                    func=ast.Attribute(attr="connect", value=ast.Attribute(attr="clicked")), args=[slot]
                ):
                    pressed.add(called_in(slot))
    assert acts
    assert not acts & pressed
