"""Settings, Operators: who may approve, which keys lie here, which one is unlocked; one more, one less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from app.form_dialog import FormDialog
from app.input_origin import InputOrigin, Stake, source_of
from app.items.table_model import Cell, Column, Kind, TableModel
from app.items.table_view import TableView
from app.query import Buttons, Mutation
from app.screens.screen import Navigator
from app.screens.settings.passphrase_dialog import open_passphrase_dialog
from app.screens.settings.section import SettingsSection
from app.screens.targets import OpenQuery
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import clock, plural
from app.widgets.banner import Notice
from app.widgets.buttons import Button
from app.widgets.empty_state import IN_COLUMN, ContentOrEmpty
from app.widgets.fields import Field, TextField
from app.widgets.labels import Label, Link
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.primary_key import PrimaryKey
from app.widgets.property_list import Property, PropertyList, short_digest
from app.widgets.section import SectionHead
from core.approvals.models import Operator
from core.errors import QuarterdeckError
from core.service.wishes import operator_added, operator_removed

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class OperatorState:
    """One operator: as the service knows them, as their key lies here, or both."""

    name: str
    public_key: str
    has_passphrase: bool
    registered_at: str = ""
    registered: bool = False
    here: bool = False
    unlocked: bool = False
    other_key: bool = False


def known_operators(state: AppState, nav: Navigator) -> list[OperatorState]:
    """Registered operators in their order, then keys of this home that are not registered."""
    keys = {file.name: file for file in nav.keys.listed}
    found = []
    for one in state.operators:
        file = keys.pop(one.name, None)
        other = file is not None and file.public_key not in ("", one.public_key)
        here = file is not None and not other
        # Of a key that lies here, the file says it: a passphrase may be set after the registration.
        locked = file.has_passphrase if file is not None and here else one.has_passphrase
        unlocked = here and nav.keys.unlocked == one.name
        found.append(
            OperatorState(one.name, one.public_key, locked, one.registered_at, True, here, unlocked, other)
        )
    for file in keys.values():
        unlocked = nav.keys.unlocked == file.name
        found.append(
            OperatorState(file.name, file.public_key, file.has_passphrase, here=True, unlocked=unlocked)
        )
    return found


def _here(one: OperatorState) -> str | Cell:
    if one.unlocked:
        return Cell("unlocked", icon="key", tone="text")
    if one.other_key:
        return Cell("another key", glyph="help_rhombus", tone="warn")
    return "locked" if one.here else "elsewhere"


def _registered(one: OperatorState) -> str | Cell:
    if not one.registered:
        return Cell("not yet", tone="warn")
    return clock(one.registered_at, seconds=False) if one.registered_at else "yes"


COLUMNS: tuple[Column[OperatorState], ...] = (
    Column("name", "Operator", Kind.NAME, 120, cell=lambda one: one.name),
    Column(
        "key", "Key", Kind.MONO, 168,
        cell=lambda one: short_digest(one.public_key, "ed25519") if one.public_key else "not readable",
    ),
    Column(
        "passphrase", "Passphrase", Kind.TEXT, 92,
        cell=lambda one: "yes" if one.has_passphrase else Cell("none", tone="warn"),
    ),
    Column("registered", "Registered", Kind.TIME, 130, drop=1, cell=_registered),
    Column("here", "In this home", Kind.TEXT, 110, stretch=True, cell=_here),
)  # fmt: skip


class OperatorsPage(SettingsSection):
    """The list, the chosen one, and making a key."""

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__(
            "Operators",
            "An approval is a signature by an operator's key. Keys lie in this home; the unlocked one is "
            "held in this window only, and the service never sees it.",
        )
        self._state, self._link, self._nav = state, link, nav
        self._known: dict[str, OperatorState] = {}
        self._back = ""
        self.table = TableView(TableModel(COLUMNS, attrgetter("name")), "Operators", sortable=False)
        self.place = ContentOrEmpty(self.table)
        self.place.empty.acted.connect(lambda _key: self.name_field.setFocus(Qt.FocusReason.OtherFocusReason))
        self.column.addWidget(self.place)
        self.facts = PropertyList(104, "The chosen operator")
        self.column.addWidget(self.facts)
        self.unlock = Button("Unlock…", icon="key")
        self.unlock.clicked.connect(self._unlock_or_lock)
        self.passphrase = Button("Change passphrase…")
        self.passphrase.clicked.connect(self._change_passphrase)
        self.register = Button("Register…")
        self.register.clicked.connect(lambda: self._by_hand(self.register.hand, self._register_chosen))
        self.remove = Button("Remove…", "danger")
        self.remove.clicked.connect(self._remove_chosen)
        self.entries = Link("What they decided")
        self.entries.clicked.connect(self._open_entries)
        line = hbox(
            self.unlock, self.passphrase, self.register, self.remove, self.entries, STRETCH, spacing=12
        )
        self.column.addLayout(line)
        self.head = SectionHead("Make a key")
        self.column.addWidget(self.head)
        self.endorsed = Label("", tone="text2", wrap=True)
        self.column.addWidget(self.endorsed)
        self._build_form()
        self.problem = Notice("fail", "")
        self.problem.hide()
        self.column.addWidget(self.problem)
        self.column.addWidget(SectionHead("Whose hand this desk can tell"))
        self.hands = Label("", tone="text2", wrap=True)
        self.column.addWidget(self.hands)
        self.table.current_changed.connect(lambda _key: self._show_chosen())
        self.table.opened.connect(lambda _key: self.unlock.click())
        state.control_changed.connect(self.show_state)
        nav.keys.changed.connect(self.show_state)
        self.show_state()

    def _build_form(self) -> None:
        self.name_field = TextField("Name", "letters and digits")
        self.name_field.setMaxLength(64)
        self.secret_field = TextField("Passphrase", "at least 10 characters")
        self.again_field = TextField("Passphrase again", "the same once more")
        for one in (self.secret_field, self.again_field):
            one.setEchoMode(QLineEdit.EchoMode.Password)
            one.textChanged.connect(self._check_form)
        self.name_field.textChanged.connect(self._check_form)
        self.make = Button("Create key")
        self.make.clicked.connect(lambda: self._by_hand(self.make.hand, lambda: self._create(True)))
        self.name_row = Field("Name on approvals", self.name_field)
        self.secret_row = Field("Passphrase", self.secret_field)
        self.again_row = Field("Passphrase again", self.again_field)
        row = QHBoxLayout()
        row.setSpacing(12)
        for field in (self.name_row, self.secret_row, self.again_row):
            row.addWidget(field, 1, Qt.AlignmentFlag.AlignTop)
        self.without = Link("Without a passphrase")
        self.without.clicked.connect(lambda: self._by_hand(self.without.hand, lambda: self._create(False)))
        buttons = hbox(self.make, self.without, STRETCH, spacing=16)
        form = QWidget()
        vbox(row, buttons, parent=form, spacing=self.column.spacing())
        self.column.addWidget(form)
        PrimaryKey(form, lambda: self.make, self._say)

    # Showing

    def begin(self, back: str) -> None:
        """Come to the front; where a screen waits for the first key, it opens again once that is made."""
        self._back = back if not self._state.operators else ""
        self.show_state()
        if self._back:
            self.name_field.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_state(self) -> None:
        """Show who is known, and what is unlocked."""
        known = known_operators(self._state, self._nav)
        self._known = {one.name: one for one in known}
        self.table.show_rows(known)
        if known:
            self.place.show_content()
            self.place.setFixedHeight(self.table.row_height() * (min(len(known), 8) + 1) + 6)
        else:
            line = "The first key that is made is registered."
            self.place.say("There is no operator yet.", line, ("make", "Make a key", "key"))
            self.place.setFixedHeight(IN_COLUMN)
        if not self.table.current_key() and known:
            self.table.choose(next((one.name for one in known if one.unlocked), known[0].name))
        others = bool(self._state.operators)
        self.head.set_title("Add another operator" if others else "Make a key")
        if not others:
            words = "The first operator of a home needs no signature."
            if self._back:
                words += f" Once the key is made, {self._back.capitalize()} opens again."
        else:
            words = (
                "The new operator types a passphrase here; an operator of this home then signs for the key."
            )
        self.endorsed.setText(words)
        self.hands.setText(source_of(self).about)
        self._show_chosen()
        self._check_form()

    def _why_no_signature(self) -> str:
        """Why no operator can sign at this window; empty where one can, or none has to."""
        if not self._state.operators:
            return ""
        can = any(one.registered and one.here and not one.other_key for one in self._known.values())
        return "" if can else "No registered operator's key lies in this home; do it where one does."

    def chosen(self) -> OperatorState | None:
        """The operator under the cursor."""
        return self._known.get(self.table.current_key())

    def _show_chosen(self) -> None:
        one = self.chosen()
        for widget in (self.facts, self.unlock, self.passphrase, self.entries):
            widget.setVisible(one is not None)
        self.register.setVisible(one is not None and not one.registered)
        self.remove.setVisible(one is not None and one.registered)
        if one is None:
            return
        where = "unlocked in this window" if one.unlocked else "in this home, locked"
        if one.other_key:
            where = "another key of that name lies here: it cannot sign for them"
        elif not one.here:
            where = "not in this home"
        registered = clock(one.registered_at) if one.registered_at else "registered"
        self.facts.show_facts(
            [
                Property("Name", one.name),
                Property("Public key", one.public_key or "not readable", mono=True),
                Property("Their key is", where),
                Property("Registered", registered if one.registered else "not with this service"),
                Property(
                    "Passphrase",
                    "yes" if one.has_passphrase else "none: any person at this computer can sign",
                ),
            ]
        )
        usable = one.here and not one.other_key
        self.unlock.set_words(
            "Lock" if one.unlocked else f"Unlock {one.name}…" if one.has_passphrase else "Unlock"
        )
        self.passphrase.set_words("Change passphrase…" if one.has_passphrase else "Set a passphrase…")
        for button in (self.unlock, self.passphrase):
            button.set_off("" if usable else "Their key does not lie in this home.")
        unsigned = self._why_no_signature()
        self.register.set_off(unsigned if one.public_key else "The key's public half cannot be read.")
        last = len(self._state.operators) == 1
        only = "The only operator stays: nothing could be approved any more." if last else ""
        self.remove.set_off(only or unsigned)

    # Unlocking

    def _unlock_or_lock(self) -> None:
        one = self.chosen()
        if one is None:
            return
        if one.unlocked:
            self._nav.keys.lock()
        else:
            self._unlock(one)

    def _unlock(self, one: OperatorState) -> None:
        what = f"unlock the key of {one.name}"
        if not one.has_passphrase:
            unlocking = Mutation[None](self, self._link, None, self._say_error, what)
            unlocking.carry(lambda: self._nav.keys.unlock(one.name, None))
            return
        sheet = FormDialog(
            self.window(),
            self._link,
            f"Unlock the key of {one.name}",
            "It is held in this window until it is locked.",
        )
        secret = sheet.add_passphrase(one.name)

        async def unlock() -> None:
            await self._nav.keys.unlock(one.name, secret.text())

        sheet.add_act("unlock", "Unlock", unlock, what, busy="The key is being opened.")
        sheet.open(secret)

    def _change_passphrase(self) -> None:
        one = self.chosen()
        if one is None:
            return
        words = f"The key of {one.name} has {'another' if one.has_passphrase else 'a'} passphrase now"
        open_passphrase_dialog(
            self.window(),
            self._link,
            self._nav.keys,
            one.name,
            one.has_passphrase,
            lambda: self._nav.toast(words),
        )

    # Making and registering

    def _check_form(self) -> None:
        name, secret, again = (
            self.name_field.text().strip(),
            self.secret_field.text(),
            self.again_field.text(),
        )
        # While a key is made, it is this name's own.
        taken = name in self._known and not self.make.is_working
        self.name_row.set_error("There is an operator of that name already." if taken else "")
        differ = bool(again) and again != secret
        self.again_row.set_error("The two are not the same." if differ else "")
        reason = self._why_no_signature() or ("The name is taken." if taken else "")
        reason = reason or ("" if name else "Type a name first.")
        typed = "" if secret and secret == again else "Type the passphrase twice."
        self.make.set_off(reason or typed)
        self.without.set_off(reason or ("A key is being made." if self.make.is_working else ""))

    def _by_hand(self, hand: InputOrigin, act: Callable[[], None]) -> None:
        """Do `act` where the press counts. The first operator is not signed for, so a hand is asked for here;
        for every other one the sheet that signs asks.
        """
        if self._state.operators:
            act()
        else:
            # No passphrase can take the place of a hand yet, so input that a program made counts, too.
            self._nav.by_hand.ask(self, hand, Stake.MEDIUM, "make the first operator", self._say, act)

    def _create(self, with_passphrase: bool) -> None:
        name, secret = self.name_field.text().strip(), self.secret_field.text()
        passphrase = secret if with_passphrase else None
        making = self._mutation(self._made, "make an operator key", "The key is being made.")
        making.carry(lambda: self._make(name, passphrase))
        self._check_form()

    async def _make(self, name: str, passphrase: str | None) -> Operator:
        """Make a key and have it registered; the first one without a signature."""
        keys = self._nav.keys
        if not self._state.operators:
            first = await keys.create(name, passphrase)
            return await self._link.perform(lambda console: console.approvals.register_operator(first))
        made = await keys.create_other(name, passphrase)
        try:
            signed = await self._nav.signing.sign_change(operator_added(made))
        except QuarterdeckError:
            # No operator signed for it: left behind, it would be in the way of the next try.
            await keys.discard(name)
            raise
        return await self._link.perform(lambda console: console.approvals.register_operator(made, signed))

    def _mutation(
        self, done: Callable[[Answer], None], what: str, busy: str = "The service is asked."
    ) -> Mutation[Answer]:
        """One key at a time: it is made, registered or removed, and all three buttons are off meanwhile.

        What was typed is still there where it was not signed.
        """
        self._say("")
        buttons = Buttons(self.make, self.register, self.remove)
        return Mutation(self, self._link, done, self._failed, what, buttons, busy, declined=self._show_all)

    def _show_all(self) -> None:
        self._check_form()
        self.show_state()

    def _made(self, operator: Operator) -> None:
        self._check_form()
        for field in (self.name_field, self.secret_field, self.again_field):
            field.clear()
        self._nav.toast(f"{operator.name} can approve now")
        back, self._back = self._back, ""
        if back and self.isVisible():
            self._nav.open(back)

    def _register_chosen(self) -> None:
        one = self.chosen()
        if one is None or one.registered:
            return
        operator = Operator(name=one.name, public_key=one.public_key, has_passphrase=one.has_passphrase)
        self._mutation(self._made, "register an operator").carry(
            lambda: self._nav.signing.carry_out(
                operator_added(operator),
                lambda console, signed: console.approvals.register_operator(operator, signed),
            )
        )
        self._check_form()

    def _remove_chosen(self) -> None:
        one = self.chosen()
        if one is None or not one.registered:
            return
        operator = Operator(name=one.name, public_key=one.public_key, has_passphrase=one.has_passphrase)
        self._mutation(self._removed, "remove an operator").carry(lambda: self._remove(operator))
        self._check_form()

    async def _remove(self, operator: Operator) -> str:
        given = await self._link.perform(lambda console: console.approvals.grants())
        theirs = sum(1 for grant in given if grant.terms.author == operator.name and not grant.over)
        ends = f"{plural(theirs, 'grant')} of theirs {'ends' if theirs == 1 else 'end'}."
        words = (
            f"{ends if theirs else 'No grant of theirs is in use.'} Approvals they gave to requests that "
            "still wait do not count any more."
        )
        signed = await self._nav.signing.sign_change(operator_removed(operator), words=words)
        await self._link.perform(lambda console: console.approvals.remove_operator(operator.name, signed))
        return operator.name

    def _removed(self, name: str) -> None:
        self._check_form()
        self._nav.toast(f"{name} decides nothing any more")

    def _failed(self, error: QuarterdeckError) -> None:
        self._show_all()
        self._say_error(error)

    def _say_error(self, error: QuarterdeckError) -> None:
        self._say(error.message, error.info.next)

    def _say(self, problem: str, next_step: str = "") -> None:
        if problem:
            self.problem.say("fail", problem, next_step)
        self.problem.setVisible(bool(problem))

    def _open_entries(self) -> None:
        if (one := self.chosen()) is not None:
            query = f'kind:approval_given,approval_denied,grant_given actor:"operator:{one.name}"'
            self._nav.open("journal", OpenQuery(query))
