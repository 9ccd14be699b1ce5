"""Which operator's key is used, and its passphrase where it is locked; for every sheet that needs a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from app.signing.signing_session import SigningSession
from app.widgets.fields import DropDown, Field, TypedField
from app.widgets.layouts import hbox
from app.widgets.util import set_visible
from core.errors import BadInput

if TYPE_CHECKING:
    from core.approvals.operator_keys import KeyFile


class UnlockSection(QWidget):
    """A key of several, and a field for its passphrase; neither where there is nothing to choose or type.

    Signals:
        chosen: another key is chosen.
    """

    chosen = Signal()

    def __init__(self, keys: SigningSession, files: list[KeyFile]) -> None:
        """`files` are the keys to choose from, at least one; the unlocked one is chosen at first."""
        super().__init__()
        self._keys = keys
        self._files = {file.name: file for file in files}
        self.who = DropDown("Operator")
        for file in files:
            self.who.addItem(f"{file.name}  …{file.public_key[-4:]}", file.name)
        at = self.who.findData(keys.unlocked or keys.usual_name)
        self.who.setCurrentIndex(max(0, at))
        self.secret = TypedField("Passphrase")
        self.secret.setEchoMode(QLineEdit.EchoMode.Password)
        self._who_row = Field("Operator", self.who)
        set_visible(self._who_row, len(files) > 1)
        self._secret_row = Field("Passphrase", self.secret)
        row = hbox(self._who_row, (self._secret_row, 1), parent=self, spacing=12)
        row.addStretch()
        self.who.currentIndexChanged.connect(lambda _place: self._show_another())
        keys.changed.connect(self._show)
        self._show()

    @property
    def file(self) -> KeyFile:
        """The chosen key."""
        return self._files[str(self.who.currentData())]

    @property
    def is_unlocked(self) -> bool:
        """Whether the chosen key is the unlocked one."""
        return self._keys.unlocked == self.file.name

    @property
    def first(self) -> QWidget | None:
        """What wants the keyboard: the passphrase, where one has to be typed."""
        return self.secret if self.wants_passphrase else None

    @property
    def wants_passphrase(self) -> bool:
        """Whether the chosen key is locked, and its passphrase has to be typed."""
        return self.file.has_passphrase and not self.is_unlocked

    def _show_another(self) -> None:
        self.secret.clear()
        self._show()
        self.chosen.emit()

    def _show(self) -> None:
        self.secret.setAccessibleName(f"Passphrase of {self.file.name}")
        self._secret_row.label.setText(f"Passphrase of {self.file.name}")
        self._secret_row.setVisible(self.wants_passphrase)
        set_visible(self, len(self._files) > 1 or self.wants_passphrase)

    async def unlock(self) -> None:
        """Unlock the chosen key, unless it is.

        Raises:
            BadInput: the passphrase is wrong; it is marked, to be typed over.
        """
        if self.is_unlocked:
            return
        try:
            await self._keys.unlock(self.file.name, self.secret.text() or None)
        except BadInput:
            self.secret.selectAll()
            self.secret.setFocus()
            raise
        self.secret.clear()
