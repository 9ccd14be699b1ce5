"""Decides whether a press counts: what loosens, and approvals from medium risk on, ask for a hand.

A flow guards its last button, and does its act when the press counts:

    self.nav.by_hand.guard(button, Stake.HIGH, "save the policy", self.say, self._save)

or asks with the hand that a chord or a field reported:

    self.nav.by_hand.ask(self, hand, Stake.HIGH, "save the policy", self.say, self._save)

A press without input is refused in words. Synthetic input counts up to medium risk. Above, the operator types
the passphrase of the unlocked key, every time: a desk stays usable over a remote desktop that makes its
input with XTEST.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QLineEdit, QWidget
from shiboken6 import isValid

from app.input_origin import MADE_BY_PROGRAM, InputOrigin, Stake, source_of
from app.service_client import ConsoleLink
from app.signing.signing_session import SigningSession
from app.widgets.buttons import Button
from app.widgets.dialog import Dialog
from app.widgets.fields import Field, TypedField
from core.errors import QuarterdeckError

Say = Callable[[str], None]
Act = Callable[[], None]
PROVED = "proved"
NO_INPUT = f"{MADE_BY_PROGRAM}. Use the pointer or the keyboard."
TYPE_IT = "Text that a program sets does not count: type the passphrase."


class PressGuard(QObject):
    """The guard of one window, with the keys whose passphrase takes the place of a hand."""

    def __init__(self, link: ConsoleLink, keys: SigningSession, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link, self._keys = link, keys
        self._sheet: PassphraseDialog | None = None

    def guard(self, button: Button, stake: Stake, what: str, say: Say, act: Act) -> None:
        """Let a button do `act` on each press that counts; the rest as for `ask`."""
        button.clicked.connect(lambda *_: self.ask(button, button.hand, stake, what, say, act))

    def ask(self, asker: QWidget, hand: InputOrigin, stake: Stake, what: str, say: Say, act: Act) -> None:
        """Do `act` when a press by `hand` counts for `stake`, else say why not or ask for the passphrase.

        When it counts at once, `act` is called before this returns. After a passphrase it is called later: it
        acts on what was on the screen at the press, and checks that this still holds. It is not called when
        `asker`, the part of the window that was pressed, is no longer visible. `what` completes the sentence
        "Type your passphrase to …". `say` gets a sentence for the operator.
        """
        if counts(hand, stake):
            act()
        elif hand is InputOrigin.NONE:
            say(NO_INPUT)
        elif why := self._why_no_passphrase():
            say(f"{source_of(asker).doubt}. {why}")
        else:
            self._ask_passphrase(asker, what, act)

    def _why_no_passphrase(self) -> str:
        """Why no passphrase can take the place of a hand; empty when it can."""
        if not self._keys.unlocked:
            return "Unlock your key, and press again."
        if not self._keys.has_passphrase:
            return (
                f"The key of {self._keys.unlocked} has no passphrase that could take its place. Sign with a "
                "key that has one (Settings, Operators), or where this desk can tell a hand, use it."
            )
        return ""

    def _ask_passphrase(self, asker: QWidget, what: str, act: Act) -> None:
        if self._sheet is not None:
            return
        sheet = self._sheet = PassphraseDialog(
            asker.window(), self._keys.unlocked or "", what, source_of(asker).doubt
        )

        def ended(answer: str) -> None:
            self._sheet = None
            if answer == PROVED and isValid(asker) and asker.isVisible():
                act()

        sheet.finished.connect(ended)
        sheet.typed.connect(lambda text: self._link.spawn("check the passphrase", self._check(sheet, text)))
        sheet.open(sheet.secret)

    async def _check(self, sheet: PassphraseDialog, passphrase: str) -> None:
        try:
            await self._keys.prove(passphrase)
        except QuarterdeckError as error:
            if isValid(sheet):
                sheet.say_wrong(error.message)
        else:
            if isValid(sheet):
                sheet.finish(PROVED)


def counts(hand: InputOrigin, stake: Stake) -> bool:
    match stake:
        case Stake.LOW:
            return True
        case Stake.MEDIUM:
            return hand >= InputOrigin.SYNTHETIC
        case Stake.HIGH:
            return hand >= InputOrigin.UNKNOWN


class PassphraseDialog(Dialog):
    """Asks for the passphrase in place of a hand. Nothing of it is remembered.

    Signals:
        typed(passphrase): the operator has typed it.
    """

    typed = Signal(str)

    def __init__(self, window: QWidget, name: str, what: str, doubt: str) -> None:
        words = f"{doubt}: type your passphrase to go on."
        super().__init__(window, f"Type your passphrase to {what}", words)
        self.secret = TypedField("Passphrase")
        self.secret.setEchoMode(QLineEdit.EchoMode.Password)
        self.add(Field(f"Passphrase of {name}", self.secret))
        self.add_answer("cancel", "Cancel")
        self._go = self.add_answer("go", "Go on", "primary", closes=False)
        self._go.clicked.connect(self._typed)
        self.secret.was_set.connect(lambda: self.say(TYPE_IT))

    def say_wrong(self, problem: str) -> None:
        """The passphrase does not open the key; it can be typed again."""
        self._go.set_working("")
        self.say(problem)
        self.secret.selectAll()
        self.secret.setFocus()

    def _typed(self) -> None:
        if self.secret.text():
            self._go.set_working("The key is being opened.")
            self.typed.emit(self.secret.text())
