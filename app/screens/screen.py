"""The base of every screen: its life cycle, its keys, and what it may ask of the window.

A screen lives in `app/screens/<name>/screen.py` as `class <Name>Screen(Screen)` and is listed in
`app/shell/screen_registry.py`. The window makes it when it is first opened (no arguments), calls `bind` once,
and `enter` each time it comes to the front. A screen

- reads `self.state` (plain data) and connects to its signals; it never changes it;
- reads with a `Query` and acts with a `Mutation` (`app/query.py`), and shows errors where they were started;
- opens other screens with `self.nav.open("runs", OpenRun("r-0001"))`, never by calling them;
- signs with `self.nav.keys` (the operator's unlocked key), says "done" with `self.nav.toast("Copied")`;
- has what loosens signed first: `mutation.carry(lambda: self.nav.signing.carry_out(...))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from PySide6.QtCore import QByteArray, QSettings, Qt
from PySide6.QtWidgets import QHeaderView, QSplitter, QWidget

from app.input_origin import InputOrigin
from app.screens.targets import Target
from app.service_client import ConsoleLink
from app.state import AppState
from app.widgets.action import Action
from app.widgets.input_origin import InputOriginShortcut
from core.policy.models import Profile

if TYPE_CHECKING:
    from app.signing.change_signing import ChangeSigning
    from app.signing.press_guard import PressGuard
    from app.signing.signing_session import SigningSession


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A key of a screen that is no `Action`, as F1 lists it: a list view's own arrows, for example.

    `keys` in Qt's portable form ("Ctrl+Return", "Alt+Up"). `act_by` is for an act that depends on by whom the
    key is pressed; without it the key is only listed.
    """

    keys: str
    words: str
    act_by: Callable[[InputOrigin], None] | None = None


class Navigator(Protocol):
    """What a screen may ask of the window."""

    @property
    def keys(self) -> SigningSession:
        """The operator's keys; the unlocked one signs."""

    @property
    def signing(self) -> ChangeSigning:
        """Has what loosens signed by an operator before it is asked for."""

    @property
    def by_hand(self) -> PressGuard:
        """Whether a press counts; every act that loosens, and each approval, asks it."""

    @property
    def layout_store(self) -> QSettings:
        """`window.ini` of this home; screens use `remember` and `remembered` instead."""

    def open(self, screen: str, target: Target | None = None) -> None:
        """Bring a screen to the front and let it show `target`."""

    def toast(self, text: str) -> None:
        """Say for four seconds that something is done and nothing is to be decided."""

    def fail(self, what: str, detail: str) -> None:
        """Show the window's fail banner: for what has no place of its own on a screen."""

    def choose_profile(self, profile: Profile) -> None:
        """Set the profile; one under which more would run is signed first."""

    def accept_changes(self) -> None:
        """Look at what another program changed in this home's files, and accept it signed."""

    def apply_density(self) -> None:
        """Take over the density that `layout_store` has now."""

    def start_unlock(self) -> None:
        """Ask the operator to unlock a key (or to make one); `keys.changed` tells when it happened."""


class Screen(QWidget):
    """Base of all screens."""

    name: ClassVar[str]
    title: ClassVar[str]
    icon: ClassVar[str]
    undoes_in_fields: ClassVar[bool] = False
    """Undo in a field is the screen's, where every change of the field is."""

    state: AppState
    link: ConsoleLink
    nav: Navigator

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setObjectName("screen")
        self.setAccessibleName(self.title)
        self._remembered: dict[str, QSplitter | QHeaderView] = {}
        self.listed_keys: list[Shortcut | Action] = []

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Connect to the window; called once, before the first `enter`. Build on this with super().bind()."""
        self.state, self.link, self.nav = state, link, nav
        self.listed_keys = self.shortcuts()
        for one in self.listed_keys:
            if isinstance(one, Action):
                self.offer(one)
            elif one.act_by is not None:
                InputOriginShortcut(one.keys, self).pressed_by.connect(one.act_by)

    def offer(self, *actions: Action) -> None:
        """Take over actions: the palette has them, and their keys work, while the screen is in front.

        Single letters belong to where one types (`app/shell/typing_filter.py`), so they are safe.
        """
        for action in actions:
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            action.setParent(self)
            self.addAction(action)

    def enter(self, target: Target | None) -> None:
        """The screen comes to the front (again); `target` is what to show, None to leave it as it was."""

    def leave(self) -> None:
        """Another screen comes to the front: stop timers and live pictures."""

    def shortcuts(self) -> list[Shortcut | Action]:
        """The keys of this screen, in the order in which F1 shows them; asked for once, by `bind`."""
        return []

    def primary_filter(self) -> QWidget | None:
        """The field that Ctrl+F focuses."""
        return None

    def panes(self) -> list[QWidget]:
        """The widgets that F6 steps through, left to right."""
        return []

    def home_of_keyboard(self) -> QWidget | None:
        """What gets the keyboard when nothing of the screen has it; None for the first of `panes`.

        The screen itself where what it shows is still being read: its keys work there.
        """
        return None

    def escape(self) -> bool:
        """Close the innermost open thing (a completer, a drawer, a panel); False when there is none."""
        return False

    def set_compact(self, narrow: bool, low: bool) -> None:
        """The window is below 1360 wide, or below 800 high; called before the first `enter` and on change.

        Row heights follow by themselves: the theme's density is compact while the window is low.
        """

    def remember(self, key: str, widget: QSplitter | QHeaderView) -> None:
        """Restore this splitter's or header's sizes now and keep them when the window saves; after `bind`."""
        self._remembered[key] = widget
        kept = self.remembered(key)
        if isinstance(kept, QByteArray):
            widget.restoreState(kept)

    def remembered(self, key: str, default: object = None) -> Any:
        """A value that `keep` stored for this screen; ini files give text back for numbers and flags."""
        return self.nav.layout_store.value(f"{self.name}/{key}", default)

    def keep(self, key: str, value: object) -> None:
        """Store a value of this screen's layout (a tab, a zoom)."""
        self.nav.layout_store.setValue(f"{self.name}/{key}", value)

    def save_layout(self) -> None:
        """Store what `remember` was told of; the window calls this before it closes and on `leave`."""
        for key, widget in self._remembered.items():
            self.keep(key, widget.saveState())
