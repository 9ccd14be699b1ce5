"""Changing the passphrase of an operator's key: the present one, and the new one twice."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QLineEdit, QWidget

from app.form_dialog import FormDialog
from app.service_client import ConsoleLink
from app.signing.signing_session import SigningSession
from app.widgets.fields import Field, TextField

WORDS = (
    "The key stays the same, and what it has signed stays valid. A copy of its file, as in a backup, still "
    "opens as it did before."
)


def open_passphrase_dialog(
    window: QWidget,
    link: ConsoleLink,
    keys: SigningSession,
    name: str,
    has_passphrase: bool,
    done: Callable[[], object],
) -> None:
    """Ask for the passphrases of a key that lies in this home; `done` follows the change."""
    verb = "Change" if has_passphrase else "Set"
    dialog = FormDialog(window, link, f"{verb} the passphrase of {name}", WORDS)
    old = dialog.add_passphrase(name) if has_passphrase else None
    new, again = TextField("New passphrase", "at least 10 characters"), TextField("New passphrase again")
    again_row = Field("New passphrase again", again)
    for field, row in ((new, Field("New passphrase", new)), (again, again_row)):
        field.setEchoMode(QLineEdit.EchoMode.Password)
        dialog.add(row)

    async def change() -> None:
        await keys.change_passphrase(name, None if old is None else old.text(), new.text())

    what = f"change the passphrase of {name}"
    button = dialog.add_act("change", verb, change, what, done, busy="The key is being written.")

    def check() -> None:
        differ = bool(again.text()) and again.text() != new.text()
        again_row.set_error("The two are not the same." if differ else "")
        typed = bool(new.text()) and new.text() == again.text()
        button.set_off("" if typed else "Type the new passphrase twice.")

    for field in (new, again):
        field.textChanged.connect(check)
        field.returnPressed.connect(button.click)
    check()
    dialog.open(new if old is None else old)
