"""Settings: sections at the left, one column at the right."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from app.components.label import rule, surface
from app.components.section import ScreenHead
from app.components.tables import Column, DataTable, Kind, Row
from app.link import ConsoleLink
from app.screens.base import Navigator, OpenSection, Screen, Shortcut, Target
from app.screens.settings.sections import About, Appearance, Operators, Policy, ThisComputer
from app.state import AppState

SECTIONS = (
    ("appearance", "Appearance"),
    ("operators", "Operators"),
    ("this-computer", "This computer"),
    ("policy", "Policy"),
    ("about", "About"),
)


class SettingsScreen(Screen):
    """The list of sections and the chosen one."""

    name = "settings"
    title = "Settings"
    icon = "settings"

    def __init__(self) -> None:
        super().__init__()
        surface(self, "base")
        self.list = DataTable(
            (Column("section", "Section", Kind.TEXT, 200, stretch=True, tone="text"),), "Sections"
        )
        self.list.horizontalHeader().hide()
        self.list.setFixedWidth(200)
        self.list.show_rows([Row(key, (title,)) for key, title in SECTIONS])
        self.list.rows_model.sort(-1)
        self.pages = QStackedWidget()
        self.list.current_changed.connect(self._show)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Build what needs the door."""
        self.appearance = Appearance(nav)
        self.operators = Operators(state, link, nav)
        self.this_computer = ThisComputer(state, nav)
        self.policy = Policy(state)
        self.about = About(state)
        for section in (self.appearance, self.operators, self.this_computer, self.policy, self.about):
            self.pages.addWidget(_scrolled(section))
        body = QHBoxLayout()
        body.setSpacing(0)
        body.addWidget(self.list)
        body.addWidget(rule(Qt.Orientation.Vertical))
        body.addWidget(self.pages, 1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(ScreenHead("Settings"))
        whole.addWidget(rule())
        whole.addLayout(body, 1)
        super().bind(state, link, nav)
        self.appearance.changed.connect(nav.apply_density)
        self.policy.profile_chosen.connect(nav.choose_profile)
        self.list.choose(str(self.remembered("section", "appearance")))

    def enter(self, target: Target | None) -> None:
        """Show one section."""
        if isinstance(target, OpenSection):
            self.list.choose(target.section)
        self.list.setFocus()

    def shortcuts(self) -> list[Shortcut]:
        """Arrows only."""
        return [Shortcut("Up", "Previous section"), Shortcut("Down", "Next section")]

    def panes(self) -> list[QWidget]:
        """The list and the form."""
        return [self.list, self.pages]

    def _show(self, key: str) -> None:
        places = [name for name, _ in SECTIONS]
        if key in places:
            self.pages.setCurrentIndex(places.index(key))
            self.keep("section", key)


def _scrolled(section: QWidget) -> QScrollArea:
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    holder = QWidget()
    holder.setProperty("clear", "true")
    column = QVBoxLayout(holder)
    column.setContentsMargins(24, 20, 24, 24)
    row = QHBoxLayout()
    row.addWidget(section, 1000)
    row.addStretch(1)
    column.addLayout(row)
    column.addStretch(1)
    area.setWidget(holder)
    return area
