"""Finds the control that has the keyboard in a window.

Programs report several controls as focused: Qt a page tab and a scroll area around an editor, browsers the
page beside their own address bar, LibreOffice the sheet behind a dialog. One of them gets the keys.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace

from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.atspi_constants import (
    ACCESSIBLE,
    PASSWORD_TEXT,
    STATES,
    role_word,
    state_words,
)
from core.device.desktop.linux.tree_reader import Program, Reader
from core.device.desktop.linux.visible_children import DRAWN, bits, matches

_NODES = 4_000
_SECONDS = 3.0
_PAGE = "document web"
_MATCHES = 100
# Controls without controls inside that could have the keyboard.
_LEAVES = (
    "label",
    "push button",
    "toggle button",
    "check box",
    "radio button",
    "check menu item",
    "radio menu item",
    "image",
    "separator",
    "icon",
    "text",
    "entry",
    "terminal",
    PASSWORD_TEXT,
)
# Containers are reported as focused together with the control inside that gets the keys.
_CONTAINERS = (
    "filler",
    "panel",
    "scroll pane",
    "viewport",
    "split pane",
    "layered pane",
    "root pane",
    "page tab",
    "page tab list",
    "section",
    "frame",
    "dialog",
    "window",
    "application",
    _PAGE,
)
_MENUS = ("menu bar", "menu", "menu item", "check menu item", "radio menu item", "tearoff menu item")
# Their children are in a window of their own while they are open.
_OPENS_MENU = "menu"
_TOP_LEVEL = ("frame", "dialog", "window", "alert", "file chooser", "color chooser", "font chooser")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A control that is reported as focused. `in_page`: a web page reports it."""

    ref: Ref
    role: str
    states: tuple[str, ...] = ()
    in_page: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether it is a page that tells nothing about what is in it."""
        return self.role == _PAGE and not self.in_page


@dataclass(slots=True)
class Search:
    """The result of a search for the focus. `is_whole`: no control was left out that may have it."""

    candidates: list[Candidate] = field(default_factory=list)
    is_whole: bool = True
    # Whether the program tells of any control that can have the keyboard; some draw everything themselves.
    tells_controls: bool = False
    # GTK 4 reports no focus inside its entries. `may_hide` is set where one is on the screen.
    is_gtk4: bool = False
    may_hide: bool = False
    # Whether what is in a menu is passed over: an office has seven hundred menu items, most of what it tells.
    passes_menus: bool = False


async def find_focus(
    bus: AccessibilityBus, reader: Reader, programs: list[Program], *, is_menu_open: bool
) -> Search:
    """Search the active windows of a process, which may be several programs on the bus.

    `is_menu_open`: the process shows a window of the type of menus. Takes some four seconds at most.
    """
    search = Search()
    until = time.monotonic() + _SECONDS
    searches = (_search_one(bus, reader, one, search, until, is_menu_open) for one in programs)
    await asyncio.gather(*searches)
    return search


async def _search_one(
    bus: AccessibilityBus,
    reader: Reader,
    program: Program,
    search: Search,
    until: float,
    is_menu_open: bool,
) -> None:
    try:
        toolkit = await bus.toolkit(program.ref)
        # GTK 4 does not report whether controls below its windows are showing.
        search.is_gtk4 = toolkit.is_gtk(4)
        # GTK 3 marks the windows of its menus; other toolkits also draw menus inside a window.
        search.passes_menus = toolkit.is_gtk(3) and not is_menu_open
        showing = "visible" if search.is_gtk4 else "showing"
        level = await _active_windows(bus, reader, program)
        seen = set(level)
        while level:
            if len(seen) > _NODES or time.monotonic() > until:
                search.is_whole = False
                break
            looks = (_look(bus, reader, ref, program, search, showing) for ref in level)
            below = await asyncio.gather(*looks, return_exceptions=True)
            level = []
            for found in below:
                if isinstance(found, list):
                    level.extend(found)
                elif not isinstance(found, Gone | NotSupported):
                    raise found
            level = [ref for ref in dict.fromkeys(level) if ref not in seen]
            seen.update(level)
    except (Silent, Gone):
        search.is_whole = False


def has_menu_focus(candidate: Candidate) -> bool:
    """Whether a control is part of a menu."""
    return candidate.role in _MENUS


def chosen(candidates: list[Candidate]) -> Candidate | None:
    """The control that gets the keys; of two that are alike the innermost, which is found last."""
    return max(enumerate(candidates), key=lambda one: (_rank(one[1]), one[0]), default=(0, None))[1]


def _rank(candidate: Candidate) -> int:
    """How likely a control gets the keys, compared with others that are reported as focused, too."""
    if candidate.role in _CONTAINERS and "editable" not in candidate.states:
        return 0
    # A page goes on reporting its own focus while the keyboard is in the address bar.
    if candidate.in_page:
        return 1
    # While a menu is open, it has the keyboard, whatever else is reported.
    if candidate.role in _MENUS:
        return 4 if candidate.role != "menu bar" else 3
    return 2


async def _active_windows(bus: AccessibilityBus, reader: Reader, program: Program) -> list[Ref]:
    """The windows of a program that are active; all where none says so."""
    count = int(await bus.get(program.ref, ACCESSIBLE, "ChildCount"))
    windows = await reader.children(program.ref, count)
    answers = await asyncio.gather(
        *(bus.call(ref, ACCESSIBLE, "GetState") for ref in windows), return_exceptions=True
    )
    active = [
        ref
        for ref, answer in zip(windows, answers, strict=True)
        if isinstance(answer, list) and "active" in state_words(list(answer[0]))
    ]
    return active or windows


async def _look(
    bus: AccessibilityBus, reader: Reader, ref: Ref, program: Program, search: Search, showing: str
) -> list[Ref]:
    """The children of a control that may have the focus; notes the control itself if it has."""
    candidate = await _candidate(bus, ref)
    role, states = candidate.role, candidate.states
    # A web page belongs to another program. Its container has no states, and controls around it may lack the
    # state `showing`.
    is_own = ref.bus == program.ref.bus and bool(states)
    if is_own and showing not in states and role not in _TOP_LEVEL:
        return []
    search.tells_controls = search.tells_controls or ("focusable" in states and role not in _CONTAINERS)
    is_page = role == _PAGE and await _look_through(bus, ref, search)
    is_entry = "editable" in states and "multi line" not in states
    search.may_hide = search.may_hide or (search.is_gtk4 and is_entry)
    if "focused" in states:
        search.candidates.append(replace(candidate, in_page=is_page))
    # In GTK 4 a button holds the popover that it opens.
    is_leaf = role in _LEAVES and not (search.is_gtk4 and role == "push button")
    is_closed = search.passes_menus and role == _OPENS_MENU
    if is_page or is_leaf or is_closed or (DRAWN in states and not role.startswith("document")):
        return []
    count = int(await bus.get(ref, ACCESSIBLE, "ChildCount"))
    children = await reader.children(ref, count)
    search.is_whole = search.is_whole and count <= len(children)
    return children


async def _look_through(bus: AccessibilityBus, page: Ref, search: Search) -> bool:
    """Have a page's program search for the focus in it; False where it does not support that.

    A page may have 100 000 controls.
    """
    try:
        found = await matches(bus, page, bits(STATES.index("focused"), 2), [0], _MATCHES, below=True)
    except NotSupported:
        return False
    inside = await asyncio.gather(*(_candidate(bus, ref) for ref in found))
    search.candidates.extend(replace(candidate, in_page=True) for candidate in inside)
    search.tells_controls = True
    return True


async def _candidate(bus: AccessibilityBus, ref: Ref) -> Candidate:
    (number,), (states,) = await asyncio.gather(
        bus.call(ref, ACCESSIBLE, "GetRole"), bus.call(ref, ACCESSIBLE, "GetState")
    )
    return Candidate(ref, role_word(int(number)), state_words(list(states)))
