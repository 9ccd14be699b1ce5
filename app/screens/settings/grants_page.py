"""Settings, Grants: what runs without asking because an operator said so; each can be taken back."""

from __future__ import annotations

from datetime import datetime

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.items.filter_rows import lead_into_table
from app.items.table_model import Cell, Column, Kind, RowStyle, TableModel
from app.items.table_view import TableView
from app.qt_loop import ended
from app.query import Mutation, Query
from app.screens.screen import Navigator
from app.screens.targets import OpenQuery
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import clock, count_words, last_heard, one_line, person_words, plural, short_clock
from app.theme.tokens import SPACE
from app.widgets.banner import Banner
from app.widgets.buttons import Button, Segmented
from app.widgets.dialog import Dialog
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField
from app.widgets.labels import Label, Link, separator, set_surface
from app.widgets.layouts import STRETCH, Gap, hbox, vbox
from app.widgets.master_detail import MasterDetail
from app.widgets.property_list import Property, PropertyList
from app.widgets.section import SectionHead
from app.widgets.util import ScrollArea, clear_layout
from core.errors import QuarterdeckError
from core.policy.grants import Grant, scope_words
from core.text import escape_hidden

REFRESH_PAUSE_MS = 1_000
HOLDS, USED_UP, ENDED, REVOKED = "holds", "used up", "ended", "revoked"


def grant_state(grant: Grant) -> str:
    """Whether it holds, and if not, why."""
    if grant.revoked_at is not None:
        return REVOKED
    if not grant.over:
        return HOLDS
    uses = grant.terms.uses
    return USED_UP if uses is not None and grant.used >= uses else ENDED


def grant_scope(grant: Grant) -> str:
    """Tool and arguments in one line."""
    terms = grant.terms
    tool = terms.tool_key.partition("::")[2] or terms.tool_key
    parts = [
        f"{name} {'may be anything' if isinstance(one, str) else one.words()}"
        for name, one in sorted(terms.arguments.items())
    ]
    return escape_hidden(f"{tool}: {', '.join(parts)}" if parts else f"{tool}, no argument", keep_lines=False)


def uses_left(grant: Grant) -> str:
    """How often it may still be used."""
    uses = grant.terms.uses
    return "any" if uses is None else str(max(0, uses - grant.used))


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def _state(grant: Grant) -> Cell:
    state = grant_state(grant)
    holds = state == HOLDS
    return Cell(state, glyph="check" if holds else "minus", tone="" if holds else "text3")


def _uses_as_number(grant: Grant) -> int:
    left = uses_left(grant)
    return 10**9 if left == "any" else int(left)


COLUMNS: tuple[Column[Grant], ...] = (
    Column("scope", "What may run", Kind.TEXT, 170, stretch=True, tone="text", cell=grant_scope),
    Column("device", "Device", Kind.NAME, 112, cell=lambda grant: _names(grant.terms.devices)),
    Column("author", "Given by", Kind.TEXT, 84, drop=3, cell=lambda grant: grant.terms.author),
    Column(
        "left", "Uses left", Kind.NUMBER, 72, drop=1, sort=_uses_as_number,
        cell=lambda grant: uses_left(grant) if grant_state(grant) == HOLDS else "—",
    ),
    Column(
        "used", "Last use", Kind.TIME, 94, drop=2, sort=lambda grant: grant.last_used_at or "",
        cell=lambda grant: last_heard(grant.last_used_at) if grant.last_used_at else "never",
    ),
    Column(
        "ends", "Ends", Kind.TIME, 92, sort=lambda grant: grant.terms.expires,
        cell=lambda grant: short_clock(grant.terms.expires),
    ),
    Column("state", "State", Kind.TEXT, 90, cell=_state),
)  # fmt: skip


def grant_model() -> TableModel[Grant]:
    """Grants by their ids; what is over is quiet."""
    return TableModel(
        COLUMNS, lambda grant: grant.terms.id, lambda grant: RowStyle(muted=grant_state(grant) != HOLDS)
    )


def scope_shown(grant: Grant) -> list[str]:
    """The whole scope in words, its end by the local clock."""
    until = datetime.fromisoformat(grant.terms.expires).astimezone()
    words = scope_words(grant.terms, f"{until:%Y-%m-%d %H:%M}")
    return [escape_hidden(line, keep_lines=False) for line in words]


def fits_words(grant: Grant, words: str) -> bool:
    """Whether every word occurs somewhere in the scope, its author or its id."""
    everything = " ".join([grant.terms.id, grant.terms.author, grant_state(grant), *grant.words]).casefold()
    return all(word in everything for word in words.casefold().split())


class GrantsPage(QWidget):
    """The table, and the whole scope of the chosen one beside it."""

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Grants")
        self._link, self._nav = link, nav
        self._grants: dict[str, Grant] = {}
        self._wanted = ""
        self._known = False
        self.banner = Banner()
        self.search = SearchField("Find a grant", "find by words of its scope", keys="Ctrl+F")
        self.which = Segmented(
            [(HOLDS, "In force"), ("over", "Over"), ("all", "All")], "Which grants", in_bar=True
        )
        self.table = TableView(grant_model(), "Grants")
        self.details = GrantDetails()
        self._list = Query(self, link, self._show_list, self._failed, "list the grants")
        self._revoking = Mutation(self, link, self._show_revoked, self._failed, "revoke the grant")
        self._build()
        self.search.textChanged.connect(self._show)
        lead_into_table(self.search, self.table)
        self.which.chosen.connect(self._show)
        self.table.current_changed.connect(lambda key: self.details.show_grant(self._grants.get(key)))
        self.details.revoke.clicked.connect(self.revoke)
        self.details.entries.clicked.connect(self._open_entries)
        self.table.opened.connect(lambda _key: self.details.revoke.setFocus(Qt.FocusReason.TabFocusReason))
        state.journal_changed.connect(self._read_soon)
        state.reset.connect(self._read_soon)
        self._show()

    def _build(self) -> None:
        head = QWidget()
        head.setFixedHeight(48)
        row = hbox(parent=head, margins=(SPACE.pane, 0, SPACE.pane, 0), spacing=SPACE.medium)
        self.search.setFixedWidth(300)
        self._count = Label("", "meta", "text3")
        row.addWidget(Label("Grants", "title"))
        row.addWidget(self._count)
        row.addStretch(1)
        row.addWidget(self.which)
        row.addWidget(self.search)
        self.split = MasterDetail(self.table, self.details, (740, 320), self.table)
        column = vbox(head, separator(), self.banner, parent=self)
        self.place = ContentOrEmpty(self.split)
        self.empty = self.place.empty
        self.empty.acted.connect(self._act)
        column.addWidget(self.place, 1)

    # Reading

    def begin(self, grant: str = "") -> None:
        """The section comes to the front; `grant` is the one to show."""
        self._wanted = grant
        if grant:
            self.search.clear()
            self.which.choose("all")
        self.read()

    def read(self) -> None:
        """Ask for the grants."""
        self._list.load(lambda console: console.approvals.grants())

    def _read_soon(self) -> None:
        if self.isVisible():
            self._list.refresh_within(REFRESH_PAUSE_MS)

    def _show_list(self, grants: list[Grant]) -> None:
        self._known = True
        self._grants = {one.terms.id: one for one in grants}
        if self.banner.kind == "fail":
            self.banner.hide()
        self._show()
        if self._wanted and self.table.choose(self._wanted):
            self._wanted = ""

    def _failed(self, error: QuarterdeckError) -> None:
        self.banner.say("fail", error.message, error.info.next)
        self._show()

    def _show(self, *_args: object) -> None:
        which, words = self.which.current(), self.search.text()
        shown = [
            one
            for one in self._grants.values()
            if (which == "all" or (grant_state(one) == HOLDS) is (which == HOLDS)) and fits_words(one, words)
        ]
        self.table.show_rows(shown)
        self.table.fit_widths()
        if not self.table.current_key() and shown:
            self.table.choose(shown[0].terms.id)
        holds = sum(grant_state(one) == HOLDS for one in self._grants.values())
        self._count.setText(
            f"{count_words(holds)} in force, {len(self._grants) - holds} over" if self._known else ""
        )
        if shown:
            self.place.show_content()
        else:
            self._say_nothing(words)
        self.details.show_grant(self._grants.get(self.table.current_key()))

    def _say_nothing(self, words: str) -> None:
        if not self._known and self.banner.kind == "fail":
            line = "The service did not say which there are."
            self.place.say("The grants could not be read.", line, ("again", "Read again", "refresh"))
        elif not self._known:
            self.place.say("Reading the grants…", "They are shown as soon as the service answers.")
        elif not self._grants:
            self.place.say(
                "No grant lets anything run without asking.",
                "A grant is given on an approval's card, with Approve for…, and signed with your key. "
                "It covers exactly what it shows, ends by itself and can be revoked here.",
            )
        elif words.strip():
            line = "Words of a grant's scope, author or number are searched."
            self.place.say("No grant matches this search.", line, ("clear", "Clear the search", "clear"))
        elif self.which.current() == HOLDS:
            line = "Those that are used up, ended or revoked are under Over."
            self.place.say("No grant is in force.", line, ("all", "Show all grants"))
        else:
            line = "All that were given are in force."
            self.place.say("No grant is over.", line, ("all", "Show all grants"))

    def _act(self, key: str) -> None:
        if key == "again":
            self.read()
        elif key == "clear":
            self.search.clear()
        else:
            self.which.choose("all")

    # Wishes

    def revoke(self) -> None:
        """Ask, and take the chosen grant back."""
        if (grant := self._grants.get(self.table.current_key())) is not None:
            self._link.spawn("revoke a grant", self._revoke(grant))

    async def _revoke(self, grant: Grant) -> None:
        sheet = Dialog(
            self.window(),
            "Revoke this grant?",
            "From now on such calls ask again. What ran under it stays in the journal, and a revoked grant "
            "cannot be brought back: a new one is given on a card.",
            width=520,
        )
        sheet.add(_scope_label(grant))
        sheet.add_answer("keep", "Keep it")
        sheet.add_answer("revoke", "Revoke", "danger", primary=True)
        sheet.open()
        if await ended(sheet.finished) != "revoke":
            return
        self._revoking.run(lambda console: console.approvals.revoke_grant(grant.terms.id))

    def _show_revoked(self, grant: Grant) -> None:
        self._grants[grant.terms.id] = grant
        self._show()
        self._nav.toast("The grant is revoked")

    def _open_entries(self) -> None:
        if key := self.table.current_key():
            self._nav.open("journal", OpenQuery(f'kind:grant_given,grant_used,grant_revoked "{key}"'))


def _scope_label(grant: Grant) -> Label:
    return Label("\n".join(scope_shown(grant)), "body", "text", wrap=True, selectable=True)


class GrantDetails(ScrollArea):
    """The whole scope of one grant, what became of it, and Revoke."""

    def __init__(self) -> None:
        super().__init__(name="The chosen grant")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._inner = QWidget()
        set_surface(self._inner, "base")
        self.title = Label("", "mono", selectable=True)
        self.scope = QVBoxLayout()
        self.scope.setSpacing(SPACE.tight)
        self.facts = PropertyList(104, "What became of the grant")
        self.revoke = Button("Revoke…", "danger")
        self.entries = Link("Its entries in the journal")
        vbox(
            self.title,
            SectionHead("The whole scope"),
            self.scope,
            SectionHead("What became of it"),
            self.facts,
            (self.entries, 0, Qt.AlignmentFlag.AlignLeft),
            Gap(SPACE.small),
            (self.revoke, 0, Qt.AlignmentFlag.AlignLeft),
            STRETCH,
            parent=self._inner,
            margins=(SPACE.side_panel, 14, SPACE.side_panel, 14),
            spacing=SPACE.small,
        )
        self.setWidget(self._inner)
        self.show_grant(None)

    def show_grant(self, grant: Grant | None) -> None:
        """Show one grant, or nothing."""
        self._inner.setVisible(grant is not None)
        if grant is None:
            return
        state, terms = grant_state(grant), grant.terms
        self.title.setText(terms.id)
        self._show_scope(grant)
        facts = [
            Property("State", state, tone="text" if state == HOLDS else "text2"),
            Property("Given", f"{clock(grant.given_at)} by {terms.author}"),
            Property("From request", "…" + terms.approval[-10:], mono=True, full=terms.approval),
            Property("Used", plural(grant.used, "time")),
            Property("Last use", clock(grant.last_used_at) if grant.last_used_at else "never"),
            Property("Ends", clock(terms.expires)),
            Property("Tool's contract", terms.contract[:12] + "…", mono=True, full=terms.contract),
        ]
        if grant.revoked_at is not None:
            by = one_line(person_words(grant.revoked_by))
            facts.append(Property("Revoked", f"{clock(grant.revoked_at)} by {by}"))
        self.facts.show_facts(facts)
        self.revoke.set_off("" if state == HOLDS else f"It is {state} already.")

    def scope_words(self) -> list[str]:
        """The lines of the scope, as they are shown."""
        items = (self.scope.itemAt(place) for place in range(self.scope.count()))
        labels = [item.widget() for item in items if item is not None]
        return [one.text() for one in labels if isinstance(one, Label)]

    def _show_scope(self, grant: Grant) -> None:
        lines = scope_shown(grant)
        if lines == self.scope_words():
            return
        clear_layout(self.scope)
        for line in lines:
            self.scope.addWidget(Label(line, wrap=True, selectable=True))
