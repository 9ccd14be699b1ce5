"""A dialog whose answer is carried out before it goes: fields, Cancel, one act, and what went wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from PySide6.QtWidgets import QLineEdit, QWidget

from app.query import Mutation
from app.service_client import ConsoleLink
from app.text import problem_text
from app.widgets.buttons import Button, Kind
from app.widgets.dialog import Dialog
from app.widgets.fields import Field, TextField
from core.errors import QuarterdeckError

Answer = TypeVar("Answer")


class FormDialog(Dialog):
    """Stays until its act has succeeded, with the act's button off meanwhile; a failure is said, once."""

    def __init__(
        self, window: QWidget, link: ConsoleLink, title: str, words: str = "", width: int = 460
    ) -> None:
        super().__init__(window, title, words, width)
        self._link = link
        self._passphrase: TextField | None = None

    def add_passphrase(self, name: str) -> TextField:
        """A field for the passphrase of `name`; a wrong one is typed over."""
        secret = self._passphrase = TextField(f"Passphrase of {name}")
        secret.setEchoMode(QLineEdit.EchoMode.Password)
        self.add(Field("Passphrase", secret))
        return secret

    def add_act(
        self,
        key: str,
        words: str,
        act: Callable[[], Awaitable[Answer]],
        what: str,
        done: Callable[[], object] | None = None,
        kind: Kind = "primary",
        busy: str = "The service is asked.",
        cancel: str = "Cancel",
    ) -> Button:
        """Cancel, and the button of the act, which is the primary answer; `done` follows its success.

        `what` is a verb phrase for "Could not … ".
        """

        def succeeded(_answer: Answer) -> None:
            self.finish(key)
            if done is not None:
                done()

        def press() -> None:
            self.say("")
            acting.carry(act)

        self.add_answer("cancel", cancel)
        button = self.add_answer(key, words, kind, closes=False, primary=True)
        acting = Mutation(self, self._link, succeeded, self.say_error, what, button, busy)
        button.clicked.connect(press)
        return button

    def say_error(self, error: QuarterdeckError) -> None:
        """Say what was refused; the question stays."""
        self.say(problem_text(error))
        if self._passphrase is not None:
            self._passphrase.selectAll()
            self._passphrase.setFocus()
