"""Settings: sections at the left, the chosen one at the right; a column, or the whole width."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.items.table_view import Column, Kind, Row, TableView
from app.screens.screen import Navigator, Screen, Shortcut
from app.screens.settings.certificate_page import CertificatePage
from app.screens.settings.devices_page import DevicesPage
from app.screens.settings.general_pages import About, Appearance, ThisComputer
from app.screens.settings.grants_page import GrantsPage
from app.screens.settings.operators_page import OperatorsPage
from app.screens.settings.policy_page import PolicyActions, PolicyPage
from app.screens.settings.section_names import SECTIONS
from app.screens.targets import OpenSection, Target
from app.service_client import ConsoleLink
from app.state import AppState
from app.widgets.action import Action
from app.widgets.labels import separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.section import ScreenHead
from app.widgets.util import ScrollArea

LIST, NARROW_LIST = 200, 150
_KEYS = [key for key, _title in SECTIONS]
Section = TypeVar("Section", bound=QWidget)


class SettingsScreen(Screen):
    """The list of sections and the chosen one."""

    name = "settings"
    title = "Settings"
    icon = "settings"

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self._key = ""
        self._entering = False
        self._wanted: OpenSection | None = None
        self.list = TableView(
            (Column("section", "Section", Kind.TEXT, 100, stretch=True, tone="text"),), "Sections"
        )
        self.list.horizontalHeader().hide()
        self.list.setFixedWidth(LIST)
        self.list.show_rows([Row(key, (title,)) for key, title in SECTIONS])
        self.list.rows_model.sort(-1)
        self.pages = QStackedWidget()
        self._empty = {key: QWidget() for key in _KEYS}
        for page in self._empty.values():
            self.pages.addWidget(page)
        self._narrow = False
        self.policy_acts = PolicyActions(
            save=Action("Policy: save", "save", self._save, "Ctrl+S", label="Save", off=self._why_not_saved),
            check=Action(
                "Policy: check now", "check", self._check, "F5", label="Check now", off=self._why_no_policy
            ),
            insert=Action(
                "Policy: insert a rule…", "add", self._insert, "F7", label="Insert a rule…",
                off=self._why_no_policy,
            ),
            run=Action(
                "Policy: run over the journal", "run", self._run, "F8", label="Run over the journal",
                off=self._why_not_run,
            ),
        )  # fmt: skip
        self.list.current_changed.connect(self._show)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Build the frame, and of the sections the one that was in front last."""
        body = hbox(self.list, separator(Qt.Orientation.Vertical), (self.pages, 1))
        vbox(ScreenHead("Settings"), separator(), (body, 1), parent=self)
        super().bind(state, link, nav)
        state.reset.connect(self._begin_late)
        self.list.choose(str(self.remembered("section", "appearance")))

    # The sections: each is made when it is first shown or asked for, most windows show one or two of them

    @cached_property
    def appearance(self) -> Appearance:
        """How the window looks."""
        section = Appearance(self.nav)
        section.changed.connect(self.nav.apply_density)
        return self._place("appearance", section, _scrolled(section))

    @cached_property
    def policy(self) -> PolicyPage:
        """The policy's text, and what is known of it."""
        page = PolicyPage(self.state, self.link, self.nav, self.policy_acts)
        page.profile_chosen.connect(self.nav.choose_profile)
        page.grant_wanted.connect(self._show_grant)
        page.show_tab(str(self.remembered("policy-tab", "check")))
        page.tabs.chosen.connect(lambda key: self.keep("policy-tab", key))
        page.set_narrow(self._narrow)
        return self._place("policy", page, page)

    @cached_property
    def grants(self) -> GrantsPage:
        """What runs without being asked about."""
        section = GrantsPage(self.state, self.link, self.nav)
        self.remember("grants-split", section.split)
        return self._place("grants", section, section)

    @cached_property
    def operators(self) -> OperatorsPage:
        """Whose signatures count, and the keys of this home."""
        section = OperatorsPage(self.state, self.link, self.nav)
        return self._place("operators", section, _scrolled(section))

    @cached_property
    def devices(self) -> DevicesPage:
        """Where the console listens."""
        section = DevicesPage(self.state, self.link, self.nav)
        return self._place("devices", section, _scrolled(section))

    @cached_property
    def certificate(self) -> CertificatePage:
        """By what devices know the console."""
        section = CertificatePage(self.state, self.link, self.nav)
        return self._place("certificate", section, _scrolled(section))

    @cached_property
    def this_computer(self) -> ThisComputer:
        """How the console reaches this computer."""
        section = ThisComputer(self.state, self.nav)
        return self._place("this-computer", section, _scrolled(section))

    @cached_property
    def about(self) -> About:
        """Version, service, home."""
        section = About(self.state, self.link)
        return self._place("about", section, _scrolled(section))

    def _place(self, key: str, section: Section, page: QWidget) -> Section:
        """Put the page of a section that was just made in its place."""
        empty = self._empty.pop(key)
        self.pages.insertWidget(_KEYS.index(key), page)
        if self.pages.currentWidget() is empty:
            self.pages.setCurrentWidget(page)
        self.pages.removeWidget(empty)
        empty.deleteLater()
        return section

    def _make(self, key: str) -> None:
        getattr(self, key.replace("-", "_"))

    def _is_made(self, key: str) -> bool:
        return key.replace("-", "_") in vars(self)

    def enter(self, target: Target | None) -> None:
        """Show one section, and in it what was asked for."""
        wanted = target if isinstance(target, OpenSection) else OpenSection(self._key)
        self._entering = True
        if not self.list.choose(wanted.section):
            self.list.choose("appearance")
        self._entering = False
        self._begin(wanted)
        if wanted.back or self._is_made("operators"):
            self.operators.begin(wanted.back)
        if not wanted.line and not wanted.back:
            self.list.setFocus()

    def leave(self) -> None:
        """Keep what was typed."""
        self._leave_policy()

    def _leave_policy(self) -> None:
        if self._is_made("policy"):
            self.policy.leave()

    def save_layout(self) -> None:
        """Keep sizes, and the unsaved policy."""
        super().save_layout()
        self._leave_policy()

    def set_compact(self, narrow: bool, low: bool) -> None:
        """A narrower list, and the policy's tabs under its editor."""
        super().set_compact(narrow, low)
        self._narrow = narrow
        self.list.setFixedWidth(NARROW_LIST if narrow else LIST)
        if self._is_made("policy"):
            self.policy.set_narrow(narrow)

    def shortcuts(self) -> list[Shortcut | Action]:
        """Keys of the policy editor do nothing in other sections."""
        return [
            Shortcut("Up", "Previous section"),
            Shortcut("Down", "Next section"),
            *self.policy_acts,
        ]

    def primary_filter(self) -> QWidget | None:
        """What finds something in the section in front."""
        if self._key == "policy":
            return self.policy.search
        return self.grants.search if self._key == "grants" else None

    def panes(self) -> list[QWidget]:
        """The list, then what the section has side by side."""
        if self._key == "policy":
            return [self.list, self.policy.editor, self.policy.stack]
        if self._key == "grants":
            return [self.list, self.grants.table, self.grants.details]
        return [self.list, self.pages]

    def _show(self, key: str) -> None:
        if key not in _KEYS:
            return
        if self._key == "policy":
            self.policy.leave()
        self._key = key
        self._make(key)
        self.pages.setCurrentIndex(_KEYS.index(key))
        for action in self.policy_acts:
            action.refresh()
        self.keep("section", key)
        if self.isVisible() and not self._entering:
            self._begin(OpenSection(key))

    def _begin(self, wanted: OpenSection) -> None:
        """Read what the section in front shows; when the window has just opened, once the service answers."""
        if not self.state.loaded:
            self._wanted = wanted
            return
        match self._key:
            case "devices":
                self.devices.read()
            case "certificate":
                self.certificate.read()
            case "policy":
                self.policy.begin(wanted.line, wanted.tab)
            case "grants":
                self.grants.begin(wanted.grant)

    def _begin_late(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is not None and self.isVisible():
            self._begin(wanted)

    def _show_grant(self, grant: str) -> None:
        self.nav.open("settings", OpenSection("grants", grant=grant))

    def _why_no_policy(self) -> str:
        in_front = self._key == "policy" and self._is_made("policy")
        return "" if in_front else "The section Policy is not in front."

    def _why_not_saved(self) -> str:
        return self._why_no_policy() or self.policy.why_not_saved

    def _why_not_run(self) -> str:
        if why := self._why_no_policy():
            return why
        return "It is being run." if self.policy.time_machine.running else ""

    def _save(self) -> None:
        self.policy.work.save()

    def _check(self) -> None:
        self.policy.check_now()

    def _insert(self) -> None:
        self.policy.insert_rule()

    def _run(self) -> None:
        self.policy.show_tab("time")
        self.policy.time_machine.start()


def _scrolled(section: QWidget) -> ScrollArea:
    area = ScrollArea()
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    holder = QWidget()
    holder.setProperty("clear", "true")
    column = QVBoxLayout(holder)
    column.setContentsMargins(24, 20, 24, 24)
    row = hbox((section, 1000), STRETCH, spacing=None)
    column.addLayout(row)
    column.addStretch(1)
    area.setWidget(holder)
    return area
