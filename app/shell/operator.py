"""The operator's keys as the window holds them: at most one is unlocked, and it never leaves this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Signal

from core.errors import ErrorCode, Refused
from core.home import Home
from core.policy.models import Approval, Operator, SignedStatement

if TYPE_CHECKING:
    from core.policy.operator_keys import KeyFile, OperatorKey

STATEMENT_VALID_S = 60.0


class OperatorKeys(QObject):
    """Makes, lists, unlocks and locks operator keys of one home, and signs with the unlocked one.

    Signals:
        changed: another key is unlocked, none is, or the list of keys is different.
    """

    changed = Signal()

    def __init__(self, home: Home, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._home = home
        self._key: OperatorKey | None = None
        self._listed: list[KeyFile] = []

    @property
    def unlocked(self) -> str | None:
        """The name of the operator whose key is unlocked."""
        return self._key.name if self._key else None

    @property
    def operator(self) -> Operator | None:
        """The public half of the unlocked key, as the service is told of it."""
        return self._key.operator if self._key else None

    @property
    def fingerprint(self) -> str:
        """The last four digits of the unlocked key; empty when none is."""
        return self._key.operator.fingerprint if self._key else ""

    @property
    def listed(self) -> list[KeyFile]:
        """The keys that lie in this home, as `refresh` found them."""
        return list(self._listed)

    @property
    def only_name(self) -> str:
        """The operator's name when there is exactly one key; else empty."""
        return self._listed[0].name if len(self._listed) == 1 else ""

    async def refresh(self) -> None:
        """Read which keys there are; unlock the only one if it has no passphrase."""
        from core.policy.operator_keys import list_operator_keys

        self._listed = await asyncio.to_thread(list_operator_keys, self._home)
        if self._key is None and len(self._listed) == 1 and not self._listed[0].has_passphrase:
            await self.unlock(self._listed[0].name, None)
        self.changed.emit()

    async def create(self, name: str, passphrase: str | None) -> Operator:
        """Make a key pair for a new operator, and keep it unlocked.

        Raises:
            BadInput: the name is not allowed or taken, or the passphrase is too short.
        """
        from core.policy.operator_keys import create_operator_key

        key = await asyncio.to_thread(create_operator_key, self._home, name, passphrase)
        self._key = key
        await self.refresh()
        return key.operator

    async def unlock(self, name: str, passphrase: str | None) -> None:
        """Open a key file.

        Raises:
            BadInput: there is no such key, or the passphrase is wrong.
        """
        from core.policy.operator_keys import load_operator_key

        self._key = await asyncio.to_thread(load_operator_key, self._home, name, passphrase)
        self.changed.emit()

    def lock(self) -> None:
        """Forget the unlocked key."""
        if self._key is not None:
            self._key = None
            self.changed.emit()

    def sign(
        self,
        approval: Approval,
        verdict: Literal["approve", "deny"],
        reason: str = "",
        valid_s: float = STATEMENT_VALID_S,
    ) -> SignedStatement:
        """Sign the answer to one request with the unlocked key; hand the result to `Console.decide`.

        Raises:
            Refused: no key is unlocked (code `approval_invalid`).
        """
        if self._key is None:
            raise Refused("No operator key is unlocked.", ErrorCode.APPROVAL_INVALID)
        from core.policy.operator_keys import statement_for

        return self._key.sign(statement_for(approval, verdict, self._key.name, reason, valid_s))
