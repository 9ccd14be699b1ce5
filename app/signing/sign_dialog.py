"""The sheet in which an operator looks at one change and signs it: what it loosens, its values, who signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QLineEdit, QWidget
from shiboken6 import isValid

from app.input_origin import InputOrigin, Stake
from app.service_client import ConsoleLink
from app.signing.change_text import USED_ONCE, change_facts, change_head, change_title
from app.signing.press_guard import TYPE_IT, PressGuard
from app.signing.signing_session import SigningSession
from app.signing.unlock_section import UnlockSection
from app.state import AppState
from app.theme.tokens import SPACE
from app.widgets.badges import ProductionStrip
from app.widgets.dialog import Dialog
from app.widgets.diff_view import DiffView
from app.widgets.fields import Field, TextField
from app.widgets.labels import Label
from app.widgets.layouts import hbox
from app.widgets.property_list import Property, PropertyList
from app.widgets.sentences import Sentences
from app.widgets.text_diff import FileDiff
from core.changes import Change, ChangeKind, Proposal, SignedChange
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused

if TYPE_CHECKING:
    from core.approvals.operator_keys import KeyFile

SIGNED = "sign"
WIDTH, DIFF_WIDTH = 560, 820
_FACT_LABELS = 112
_ABOUT_DEVICES = (
    ChangeKind.DEVICE_PAIRED,
    ChangeKind.DEVICE_BOUND,
    ChangeKind.DEVICE_SET,
    ChangeKind.CONTRACT,
)


class FirstKeyPart(QWidget):
    """The key of a home's first operator, made here: its name and passphrase."""

    def __init__(self) -> None:
        super().__init__()
        from core.approvals.operator_keys import login_name

        self.name_field = TextField("Your name on approvals")
        self.name_field.setMaxLength(64)
        self.name_field.setText(login_name())
        self.secret = TextField("Passphrase", "at least 10 characters")
        self.secret.setEchoMode(QLineEdit.EchoMode.Password)
        hbox(
            (Field("Your name on approvals", self.name_field), 1),
            (Field("Passphrase", self.secret), 1),
            parent=self,
            spacing=12,
        )

    async def make(self, keys: SigningSession) -> None:
        """Make the key, and keep it unlocked; one that was made already is not made twice.

        Raises:
            BadInput: the name or the passphrase is not usable.
        """
        name = self.name_field.text().strip()
        if keys.unlocked == name:
            return
        if not self.secret.text():
            self.secret.setFocus()
            raise BadInput("Type a passphrase of at least 10 characters for your key.")
        await keys.create(name, self.secret.text())


class SignDialog(Dialog):
    """Shows a proposal whole and signs it. `signed` is the signature once the sheet has finished with SIGNED.

    With a difference of texts, its end has to be on the screen once before anything can be signed.
    """

    def __init__(
        self,
        window: QWidget,
        proposal: Proposal,
        keys: SigningSession,
        state: AppState,
        link: ConsoleLink,
        by_hand: PressGuard,
        words: str = "",
        diff: FileDiff | None = None,
    ) -> None:
        """`words` say what follows from the change; `diff` is between the accepted text and the new one."""
        width = DIFF_WIDTH if diff is not None else WIDTH
        super().__init__(window, change_title(proposal.change), f"{words} {USED_ONCE}".strip(), width)
        self.proposal = proposal
        self.signed: SignedChange | None = None
        self._keys, self._state, self._link, self._by_hand = keys, state, link, by_hand
        if name := _production(proposal.change, state):
            self.add(ProductionStrip(name))
        head = change_head(proposal.change)
        self.sentences = Sentences(head)
        self.sentences.show_sentences(proposal.difference)
        self.setAccessibleDescription(self.sentences.accessibleName())
        self.add(_head(head))
        self.add(self.sentences)
        self.diff = DiffView()
        self._first_read = Label(
            "Scroll to the end of the difference: then it can be signed.", "meta", "text2"
        )
        self._show_diff(diff)
        self.facts = PropertyList(_FACT_LABELS, "What is signed")
        self.add(_head("What is signed"))
        self.add(self.facts)
        self.add_answer("cancel", "Cancel")
        self.sign = self.add_answer(SIGNED, "Sign and apply", "primary", closes=False)
        self.sign.set_words("Sign and apply", icon="key", key="Ctrl+Enter")
        # Every way to sign comes by here, with the hand that it is pressed by.
        self.sign.clicked.connect(lambda *_: self._pressed(self.sign.hand))
        self._none_here = False
        self.unlock: UnlockSection | None = None
        self.first_key: FirstKeyPart | None = None
        keys.changed.connect(self._show_signer)
        state.control_changed.connect(self._show_signer)
        self._show_signer()

    def _show_diff(self, diff: FileDiff | None) -> None:
        if diff is None:
            self.diff.hide()
            self._first_read.hide()
            return
        self.diff.end_seen.connect(self._end_seen)
        self.diff.show_diff(diff)
        self.add(_head(f"From the accepted policy to this one: {diff.words()}"))
        self.add(self.diff)
        self.add(self._first_read)

    # Who signs

    def _add_signer(self) -> None:
        """Ask for the key, as soon as it is known which ones there are."""
        files = self._usable_keys()
        if files:
            self.unlock = UnlockSection(self._keys, files)
            self.unlock.chosen.connect(self._show_signer)
            self.unlock.secret.was_set.connect(lambda: self.say(TYPE_IT))
            self.add(self.unlock)
        elif not self._state.operators:
            self.add(Label("This home has no operator yet: you become its first.", "name"))
            self.first_key = FirstKeyPart()
            self.add(self.first_key)

    def _usable_keys(self) -> list[KeyFile]:
        """The keys of this home's operators that lie here; before there is any operator, every key."""
        registered = {operator.name: operator.public_key for operator in self._state.operators}
        return [
            file
            for file in self._keys.listed
            if not registered or file.public_key == registered.get(file.name)
        ]

    def _show_signer(self) -> None:
        if self.unlock is None and self.first_key is None:
            self._add_signer()
        facts = change_facts(self.proposal.change)
        if self.unlock is not None:
            file = self.unlock.file
            state = "unlocked here" if self.unlock.is_unlocked else "locked"
            facts.append(Property("Signed by", f"{file.name}, key …{file.public_key[-4:]}, {state}"))
        self.facts.show_facts(facts)
        self._show_none_here()
        unread = not self.diff.isHidden() and not self.diff.end_was_seen
        first = "Scroll to the end of the difference first." if unread else ""
        if not self._keys.is_read:
            first = "It is not known yet which operator keys lie here."
        self.sign.set_off("No operator's key lies here." if self._none_here else first)
        self._fit()

    def _show_none_here(self) -> None:
        none_here = self._keys.is_read and self.unlock is None and self.first_key is None
        if none_here != self._none_here:
            self._none_here = none_here
            names = ", ".join(operator.name for operator in self._state.operators)
            why = f"None of this home's operators ({names}) has a key here. Sign where one of them has."
            self.say(why if none_here else "")

    def _end_seen(self) -> None:
        self._first_read.hide()
        self._show_signer()

    # The answer

    def begin(self) -> None:
        """Come up, with the keyboard where something has to be typed or read."""
        first = self.unlock.first if self.unlock is not None else None
        if self.first_key is not None:
            first = self.first_key.secret
        self.open(first or (self.answer("cancel") if self.diff.isHidden() else self.diff))
        self.read_from_the_top()

    def _pressed(self, hand: InputOrigin) -> None:
        if self.sign.isEnabled() and not self.sign.is_working:
            self._by_hand.ask(self, hand, self._stake(), "sign this change", self.say, self._press)

    def _stake(self) -> Stake:
        """A passphrase that is typed right here takes the place of a hand, as in a sheet of its own."""
        typed_here = self.unlock is not None and self.unlock.wants_passphrase
        return Stake.MEDIUM if typed_here or self.first_key is not None else Stake.HIGH

    def _press(self) -> None:
        self.say("")
        self.sign.set_working("It is being signed.")
        self._link.spawn("sign a change", self._sign())

    async def _sign(self) -> None:
        try:
            await self._have_key()
            self.signed = self._keys.sign_change(self.proposal)
        except QuarterdeckError as error:
            # The sheet may have been put away while the key was opened.
            if isValid(self):
                self.sign.set_working("")
                self.say(error.info.sentences)
        else:
            self.finish(SIGNED)

    async def _have_key(self) -> None:
        """Unlock the chosen key; in a home without operators, make it known as the first one's."""
        if self.unlock is not None:
            await self.unlock.unlock()
        elif self.first_key is not None:
            await self.first_key.make(self._keys)
        operator = self._keys.operator
        if operator is None:
            raise Refused("No operator key is unlocked.", ErrorCode.APPROVAL_INVALID)
        if not self._state.operators:
            await self._link.perform(lambda console: console.approvals.register_operator(operator))


def _production(change: Change, state: AppState) -> str:
    """The production device that a change is about; empty where it is about none."""
    name = change.subject.partition("/")[0]
    device = state.devices.get(name) if change.kind in _ABOUT_DEVICES else None
    marked = bool(change.after.get("production")) or (device is not None and device.production)
    return name if marked else ""


def _head(words: str) -> Label:
    """The head of one part, with some room above it."""
    head = Label(words, "label", "text3")
    head.setContentsMargins(0, SPACE.snug, 0, 0)
    return head
