"""The menu of the chosen devices, and what can be copied of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QMenu

from app.items.table_model import cell_text, spoken
from app.screens.fleet.actions import FleetActions
from app.screens.fleet.device_columns import DEVICE_COLUMNS, NAME
from app.screens.fleet.device_dialogs import start_edit
from app.screens.fleet.devices_view import copy_rows
from app.screens.targets import OpenQuery
from app.text import plural
from app.widgets.action import Action
from app.widgets.action_buttons import ActionMenu
from core.models.devices import Device

_KEYS = [column.key for column in DEVICE_COLUMNS]
HEALTH, TAGS = _KEYS.index("health"), _KEYS.index("tags")
LONGEST_WORDS = 40
MOST_TAGS = 4


def open_menu(screen: FleetActions, column: int, point: QPoint) -> QMenu:
    """Open the menu at a point of the screen; `column` is the table's under the pointer, -1 for none."""
    menu = device_menu(screen, column)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.popup(point)
    return menu


def device_menu(screen: FleetActions, column: int = -1) -> QMenu:
    """What can be done with the devices that are chosen, or marked; nothing here sends anything by itself."""
    menu = ActionMenu("What can be done with the chosen devices", screen)
    listing = screen.listing
    current = screen.state.devices.get(listing.current_key())
    if current is None:
        return menu
    name, group = current.name, listing.marked()
    # Of a device beside those that are marked, the menu is about that one alone.
    names = group if name in group else [name]
    several = plural(len(names), "device") if len(names) > 1 else ""
    meant = not group or bool(several)  # the screen's own acts are for the same devices
    _add(menu, f"Page of {name}", "Return", partial(listing.opened.emit, name))
    _offer(menu, screen.call_act, f"Call a tool of {name}…")
    _offer(menu, screen.servers_act, f"MCP servers of {name}")
    if meant:
        _offer(menu, screen.picture_act, f"Take pictures of {several}" if several else "Take picture")
    else:
        _add(menu, "Take picture", "", partial(screen.take_pictures, []))
    if several:
        _offer(menu, screen.run_act, f"Run a batch on {several}…")
    else:
        _add(menu, f"Run a batch on {name}…", "", partial(screen.run_on, names))
    marked = set(listing.view.marked_keys()) <= listing.marks
    _add(menu, "Take the mark away" if marked else "Mark", "Space", partial(listing.toggle_mark, name))
    menu.addSeparator()
    _add(menu, "Copy names" if several else "Copy name", "", partial(_copy, "\n".join(names)))
    devices = [screen.state.devices[one] for one in names if one in screen.state.devices]
    _add(menu, "Copy rows" if several else "Copy row", "", partial(copy_rows, devices))
    if column > NAME and (words := _cell_words(current, column)):
        _add(menu, f"Copy “{_shortened(words)}”", "", partial(_copy, words))
    _add_terms(menu, screen, current, column)
    menu.addSeparator()
    entries = partial(screen.nav.open, "journal", OpenQuery(f"device:{name}"))
    _add(menu, f"Entries of {name}", "", entries)
    if current.direction != "local":
        edit = partial(start_edit, screen.window(), screen.link, current, screen.nav)
        _add(menu, f"Settings of {name}…", "", edit)
    return menu


def _add_terms(menu: QMenu, screen: FleetActions, device: Device, column: int) -> None:
    """Terms for the filter: of the cell under the pointer, or those that say most."""
    tags, health = [f"tag:{tag}" for tag in device.tags[:MOST_TAGS]], [f"health:{device.health.value}"]
    terms = {TAGS: tags, HEALTH: health}.get(column) or [*tags[:1], *health]
    menu.addSeparator()
    for term in terms:
        _add(menu, f"Only {term}", "", partial(_narrow, screen, term))
        _add(menu, f"Without {term}", "", partial(_narrow, screen, f"!{term}"))


def _narrow(screen: FleetActions, term: str) -> None:
    field = screen.filter_field
    if term not in field.text().split():
        field.setText(f"{field.text()} {term}".strip())
    field.apply()


def _cell_words(device: Device, column: int) -> str:
    made = DEVICE_COLUMNS[column]
    return spoken(made.kind, cell_text(made.cell(device) if made.cell is not None else ""))


def _shortened(words: str) -> str:
    return words if len(words) <= LONGEST_WORDS else f"{words[: LONGEST_WORDS - 1]}…"


def _offer(menu: QMenu, action: Action, label: str) -> None:
    """Add an act of the screen under words that name the device."""
    action.set_label(label)
    menu.addAction(action)


def _add(menu: QMenu, words: str, key: str, act: Callable[[], object]) -> None:
    # A single & would mark the letter after it as a key.
    action = QAction(words.replace("&", "&&"), menu)
    action.triggered.connect(lambda *_: act())
    if key:
        # Shown only: the keys themselves are the list's.
        action.setShortcut(QKeySequence(key))
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.setShortcutVisibleInContextMenu(True)
    menu.addAction(action)


def _copy(text: str) -> None:
    QGuiApplication.clipboard().setText(text)
