"""The operator's keys as the window holds them: at most one is unlocked, and it never leaves this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Signal

from core.approvals.models import Approval, Operator
from core.changes import Proposal, SignedChange, SignedIdentity, change_statement
from core.errors import ErrorCode, Refused
from core.home import Home
from core.statements import SignedStatement

if TYPE_CHECKING:
    from core.approvals.operator_keys import KeyFile, OperatorKey
    from core.policy.grants import GrantTerms, SignedGrant


class SigningSession(QObject):
    """Makes, lists, unlocks and locks operator keys of one home, and signs with the unlocked one.

    Signals:
        changed: another key is unlocked, none is, or the list of keys is different.
    """

    changed = Signal()

    def __init__(
        self, home: Home, last_used: str = "", user: str = "", parent: QObject | None = None
    ) -> None:
        """`last_used` is whose key was unlocked last on this computer, `user` is the name of its user."""
        super().__init__(parent)
        self._home = home
        self._key: OperatorKey | None = None
        self._listed: list[KeyFile] = []
        self._is_read = False
        self._last, self._user = last_used, user

    @property
    def home(self) -> Home:
        """The home that the keys belong to."""
        return self._home

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
    def is_read(self) -> bool:
        """Whether the keys that lie in this home are known; false while they are read, or cannot be read."""
        return self._is_read

    @property
    def only_name(self) -> str:
        """The operator's name when there is exactly one key; else empty."""
        return self._listed[0].name if len(self._listed) == 1 else ""

    @property
    def usual_name(self) -> str:
        """Whose key is unlocked most likely: the only one, the one used last on this computer, or its user's.

        Empty where none of these is among several keys.
        """
        here = {file.name for file in self._listed}
        return self.only_name or next((name for name in (self._last, self._user) if name in here), "")

    async def refresh(self) -> None:
        """Read which keys there are; unlock the only one if it has no passphrase."""
        from core.approvals.operator_keys import list_operator_keys

        self._listed = await asyncio.to_thread(list_operator_keys, self._home)
        self._is_read = True
        if self._key is None and len(self._listed) == 1 and not self._listed[0].has_passphrase:
            await self.unlock(self._listed[0].name, None)
        self.changed.emit()

    async def create(self, name: str, passphrase: str | None) -> Operator:
        """Make a key pair for a new operator, and keep it unlocked.

        Raises:
            BadInput: the name is not allowed or taken, or the passphrase is too short.
        """
        from core.approvals.operator_keys import create_operator_key

        key = await asyncio.to_thread(create_operator_key, self._home, name, passphrase)
        self._key, self._last = key, name
        await self.refresh()
        return key.operator

    async def create_other(self, name: str, passphrase: str | None) -> Operator:
        """Make a key pair for another operator; the unlocked key stays as it is.

        Raises:
            BadInput: the name is not allowed or taken, or the passphrase is too short.
        """
        from core.approvals.operator_keys import create_operator_key

        key = await asyncio.to_thread(create_operator_key, self._home, name, passphrase)
        await self.refresh()
        return key.operator

    async def change_passphrase(self, name: str, old: str | None, new: str) -> None:
        """Store a key under another passphrase; `old` is None where it had none. Who is unlocked stays so.

        Raises:
            BadInput: there is no such key, the old passphrase is wrong, or the new one is too short.
        """
        from core.approvals.operator_keys import change_passphrase

        key = await asyncio.to_thread(change_passphrase, self._home, name, old, new)
        if self._key is not None and self._key.name == name and self._key.public_key == key.public_key:
            self._key = key
        await self.refresh()

    async def discard(self, name: str) -> None:
        """Delete a key that was just made and never registered; the unlocked key stays as it is."""
        from core.approvals.operator_keys import delete_operator_key

        await asyncio.to_thread(delete_operator_key, self._home, name)
        await self.refresh()

    async def unlock(self, name: str, passphrase: str | None) -> None:
        """Open a key file.

        Raises:
            BadInput: there is no such key, or the passphrase is wrong.
        """
        from core.approvals.operator_keys import load_operator_key

        self._key = await asyncio.to_thread(load_operator_key, self._home, name, passphrase)
        self._last = name
        self.changed.emit()

    @property
    def has_passphrase(self) -> bool:
        """Whether the unlocked key opens with a passphrase only; False when none is unlocked."""
        return self._key is not None and self._key.has_passphrase

    async def prove(self, passphrase: str) -> None:
        """Check that a passphrase opens the unlocked key, which stays as it is.

        Raises:
            BadInput: the passphrase is wrong, or the key's file is gone.
            Refused: no key is unlocked, or its file holds another one (code `approval_invalid`).
        """
        from core.approvals.operator_keys import load_operator_key

        unlocked = self._key
        if unlocked is None:
            raise Refused("No operator key is unlocked.", ErrorCode.APPROVAL_INVALID)
        key = await asyncio.to_thread(load_operator_key, self._home, unlocked.name, passphrase)
        if key.public_key != unlocked.public_key:
            words = f"The file of {unlocked.name}'s key holds another key than the unlocked one."
            raise Refused(words, ErrorCode.APPROVAL_INVALID)

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
        valid_s: float | None = None,
    ) -> SignedStatement:
        """Sign the answer to one request with the unlocked key; for `console.approvals.decide`.

        Raises:
            Refused: no key is unlocked, or the request's digest is not that of what is shown of it (code
                `approval_invalid`).
        """
        if self._key is None:
            raise Refused("No operator key is unlocked.", ErrorCode.APPROVAL_INVALID)
        from core.approvals.operator_keys import statement_for

        return self._key.sign(statement_for(approval, verdict, self._key.name, reason, valid_s))

    def sign_grant(self, terms: GrantTerms) -> SignedGrant:
        """Sign what like requests may do without asking; for `console.approvals.decide`, with an approval.

        Raises:
            Refused: no key is unlocked (code `approval_invalid`).
            BadInput: the terms name another author.
        """
        if self._key is None:
            raise Refused("No operator key is unlocked.", ErrorCode.APPROVAL_INVALID)
        return self._key.sign_grant(terms)

    def sign_change(self, proposal: Proposal) -> SignedChange:
        """Sign what a proposal would change, with the unlocked key; for the one act that was proposed.

        Raises:
            Refused: no key is unlocked (code `approval_invalid`).
        """
        if self._key is None:
            raise Refused("No operator key is unlocked.", ErrorCode.APPROVAL_INVALID)
        return self._key.sign_change(change_statement(proposal, self._key.name))

    def sign_identity(self, home_key: str, challenge: str) -> SignedIdentity:
        """Prove to a service, on one connection, that the unlocked key's operator is at this window.

        Raises:
            Refused: no key is unlocked (code `approval_invalid`).
        """
        if self._key is None:
            raise Refused("No operator key is unlocked.", ErrorCode.APPROVAL_INVALID)
        return self._key.sign_identity(home_key, challenge)

    async def sign_once(self, name: str, passphrase: str, approvals: list[Approval]) -> list[SignedStatement]:
        """Let another operator approve these requests with their own key, which is forgotten right after.

        The unlocked key stays as it is.

        Raises:
            BadInput: there is no such key, or the passphrase is wrong.
            Refused: the key has no passphrase, so that any person at this window could use it, or a request's
                digest is not that of what is shown of it.
        """
        from core.approvals.operator_keys import load_operator_key, statement_for

        known = next((one for one in self._listed if one.name == name), None)
        if known is not None and not known.has_passphrase:
            raise Refused(
                f"The key of {name} has no passphrase, so it does not show that {name} is here.",
                ErrorCode.APPROVAL_INVALID,
            )
        key = await asyncio.to_thread(load_operator_key, self._home, name, passphrase)
        return [key.sign(statement_for(one, "approve", name)) for one in approvals]
