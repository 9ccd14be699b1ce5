"""The device's check of operators' signed approvals before it runs an action.

The device does not trust the console's description of the command. It rebuilds the request from the command
that arrived and from its own definition of the tool, and compares it with the request that a pinned key has
signed. One approval is good for one run, also after a restart.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pydantic import ValidationError

from core.aip.contract_digest import contract_digest
from core.aip.extensions import CommandOptions
from core.aip.messages import Command
from core.commitments import as_shown
from core.device.config import DeviceConfig, PinnedOperator
from core.device.device_store import DeviceStore, doubted_since
from core.device.tool import NAMESPACE, Tool
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.log import Logger
from core.statements import (
    MOST_STATEMENT_SECONDS,
    ApprovalProof,
    Request,
    SignedStatement,
    check_subject,
    check_time,
    make_request,
    short_code,
    verify_signature,
)

# A statement's longest validity: setting the clock back by no more than this revives no expired approval.
MOST_BACK = timedelta(seconds=MOST_STATEMENT_SECONDS)
KEPT = 200
_NEVER = datetime.fromtimestamp(0, UTC)

Clock = Callable[[], datetime]


def utc() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class VerifiedApproval:
    """A checked approval. `until` is when the last of its signatures expires."""

    call_id: str
    code: str
    approvers: tuple[str, ...]
    until: datetime


class UsedApprovals:
    """The used approvals of all devices with one state folder: a row for each, which one client can add once.

    A clock that is set back does not make a used approval valid again: the newest `KEPT` rows stay whatever
    the time is, and older rows until their approvals have expired. Nor does it make an approval valid that
    expired unused, as long as the clock is at most `MOST_BACK` behind the last use. A clock that is farther
    behind is assumed to have been wrong before and to be right now: it is believed at once.
    """

    def __init__(self, store: DeviceStore, device: str) -> None:
        self._store = store
        self._device = device
        self._uses: list[datetime] | None = None
        # Where this fails, no approval counts until it succeeds.
        with contextlib.suppress(Refused):
            self._load()

    def now(self, clock: Clock = utc) -> datetime:
        """The clock's time, or the last use if that is later by at most `MOST_BACK`.

        Raises:
            Refused: the record of used approvals cannot be read.
        """
        uses = self._load() if self._uses is None else self._uses
        now = clock()
        return max([now, *(used for used in uses if used - now <= MOST_BACK)])

    def use(self, verified: VerifiedApproval, clock: Clock = utc) -> None:
        """Record an approval as used; the record is on the disk before this returns.

        Raises:
            Refused: the approval was used before, it may have been used in a record that was damaged since,
                or its use cannot be recorded.
        """
        now = self.now(clock)
        try:
            self._uses = self._store.do(partial(self._use, verified=verified, now=now), durable=True)
        except (BadInput, DeviceError) as error:
            raise _unkept(error) from error

    def _use(
        self, connection: sqlite3.Connection, verified: VerifiedApproval, now: datetime
    ) -> list[datetime]:
        until = datetime.fromtimestamp(doubted_since(connection, "used_approvals"), UTC) + MOST_BACK
        if verified.until <= until:
            raise _use_refused(
                "This device's record of used approvals was damaged, so this approval may have been used. "
                f"Approvals count that expire after {until:%Y-%m-%d %H:%M:%S} UTC."
            )
        approval = hashlib.sha256(f"{self._device}\0{verified.call_id}".encode()).hexdigest()
        try:
            connection.execute(
                "INSERT INTO used_approvals VALUES (?, ?, ?)",
                (approval, now.isoformat(), verified.until.isoformat()),
            )
        except sqlite3.IntegrityError:
            raise _use_refused("This approval was used before; each one is good for one run.") from None
        return _forget(connection, now)

    def _load(self) -> list[datetime]:
        """Read the times of the recorded uses.

        Raises:
            Refused: they cannot be read.
        """
        try:
            self._uses = self._store.do(_uses)
        except (BadInput, DeviceError) as error:
            raise _unkept(error) from error
        return self._uses


def _uses(connection: sqlite3.Connection) -> list[datetime]:
    rows = connection.execute("SELECT used, until FROM used_approvals").fetchall()
    return [_times(row)[0] for row in rows]


def _forget(connection: sqlite3.Connection, now: datetime) -> list[datetime]:
    """Drop rows that are no longer needed; returns the times of the uses that are left."""
    rows = connection.execute("SELECT used, until, approval FROM used_approvals").fetchall()
    needed = []
    for number, (used, until, approval) in enumerate(
        sorted(((*_times((used, until)), approval) for used, until, approval in rows), reverse=True)
    ):
        if number < KEPT or until >= now:
            needed.append(used)
        else:
            connection.execute("DELETE FROM used_approvals WHERE approval = ?", (approval,))
    return needed


def _times(row: tuple[str, str]) -> tuple[datetime, datetime]:
    """When an approval was used and when it expires; of an unreadable row, that it may not expire."""
    try:
        used, until = (datetime.fromisoformat(text) for text in row)
        # A time that was cut off has no zone, and cannot be compared with a time that has.
        if used.tzinfo is not None and until.tzinfo is not None:
            return used, until
    except (ValueError, TypeError):
        pass
    return _NEVER, datetime.max.replace(tzinfo=UTC)


def _unkept(error: BadInput | DeviceError) -> Refused:
    return _use_refused(error.message)


def _use_refused(words: str) -> Refused:
    return Refused(words, ErrorCode.DENIED_BY_DEVICE)


log = Logger(__name__)


class ApprovalCheck:
    """Checks approvals by the device's own means. It never asks a console whether an approval is valid."""

    def __init__(self, config: DeviceConfig, device: str, store: DeviceStore, clock: Clock = utc) -> None:
        self._config = config
        self._device = device
        self._clock = clock
        self._used = UsedApprovals(store, device)

    @property
    def required(self) -> bool:
        """Whether actions need an approval on this device."""
        return self._config.require_signed_approval

    def check(self, tool: Tool, command: Command, terms: CommandOptions | None) -> VerifiedApproval | None:
        """Check that enough pinned operators approved exactly this command; None where none is required.

        The device's own observations need no approval. All tools of hosted servers do, even those that their
        server declares read-only. The approval is not used up yet.

        Raises:
            Refused: it was not approved (code `denied_by_device`), or the tool has changed since
                (`contract_changed`).
        """
        looks_only = tool.tool_type != "action" and tool.namespace == NAMESPACE
        if not self.required or looks_only:
            return None
        try:
            return self._checked(tool, command, terms)
        except Refused as error:
            log.warning("an action was refused", tool=tool.name, call=command.call_id, reason=error.message)
            raise

    def approval_of_look(
        self, tool: Tool, command: Command, terms: CommandOptions | None
    ) -> VerifiedApproval | None:
        """The approval of a call that needs none to run; None where no operator approved exactly this call.

        With pinned operators, only their signatures count. Without, the device believes the console that an
        operator made the statements; they must still be about exactly this command. A call that was approved
        with other arguments, or that runs by a rule or a grant, may not read private places. The approval is
        not used up yet.
        """
        if terms is None or not terms.approval:
            return None
        try:
            if self._config.pinned_operators:
                return self._checked(tool, command, terms)
            return self._believed(tool, command, terms)
        except Refused as error:
            log.warning("an approval does not count", tool=tool.name, call=command.call_id, why=error.message)
            return None

    def use(self, approval: VerifiedApproval) -> None:
        """Record an approval as used, just before its action begins.

        Raises:
            Refused: it was used before, or its use cannot be recorded (code `denied_by_device`).
        """
        self._used.use(approval, self._clock)
        log.info("approved", code=approval.code, call=approval.call_id, by=", ".join(approval.approvers))

    def _believed(self, tool: Tool, command: Command, terms: CommandOptions) -> VerifiedApproval:
        """The approval that a console reports, on a device without pinned operators."""
        proof = _read_proof(terms)
        request = self._request(tool, command, proof)
        names = {
            signed.statement.approver
            for signed in proof.statements
            if signed.statement.verdict == "approve" and signed.statement.request_digest == request.digest
        }
        if not names:
            raise _refused("The approval that came with the command is not about this command.")
        # The console has checked the expiry. The statements carry no signature that this device can verify,
        # and its clock may be wrong.
        until = datetime.now(UTC) + timedelta(seconds=MOST_STATEMENT_SECONDS)
        return VerifiedApproval(request.call_id, short_code(request.digest), tuple(sorted(names)), until)

    def _checked(self, tool: Tool, command: Command, terms: CommandOptions | None) -> VerifiedApproval:
        if terms is None or not terms.approval:
            raise _refused(
                f"{tool.name} came without an operator's signed approval, which this device wants for every "
                "action (require_signed_approval in its device.toml)."
            )
        proof = _read_proof(terms)
        request = self._request(tool, command, proof)
        now = self._used.now(self._clock)
        counted: dict[str, SignedStatement] = {}
        faults: list[Refused] = []
        for signed in proof.statements:
            try:
                operator = self._signer(signed)
                _check_approves(signed, request, now)
                counted[operator.name] = signed
            except Refused as error:
                faults.append(error)
        if len(counted) < self._config.approvers:
            words = _too_few(len(counted), self._config.approvers, [fault.message for fault in faults])
            # The console has checked the time by its own clock.
            by_clock = faults and all(fault.code is ErrorCode.CLOCK_DIFFERS for fault in faults)
            raise Refused(words, ErrorCode.CLOCK_DIFFERS if by_clock else ErrorCode.DENIED_BY_DEVICE)
        _check_is_what_was_approved(tool, proof)
        until = max(datetime.fromisoformat(one.statement.expires) for one in counted.values())
        return VerifiedApproval(request.call_id, short_code(request.digest), tuple(sorted(counted)), until)

    def _request(self, tool: Tool, command: Command, proof: ApprovalProof) -> Request:
        """The request, rebuilt from the command and from this device's own definition of the tool.

        Its approvers saw commitments in place of secrets: these are computed again from the values that
        arrived.
        """
        if not command.call_id:
            raise _refused("The command has no call_id, so no approval can be about it.")
        arguments = command.parameters or {}
        self._check_are_secrets(tool, arguments, proof)
        try:
            return make_request(
                device=self._device,
                contract=proof.contract,
                tool_key=tool.key,
                tool_name=tool.name,
                tool_type=tool.tool_type,
                namespace=tool.namespace,
                parameters=as_shown(arguments, proof.secrets),
                call_id=command.call_id,
            )
        except BadInput as error:
            raise _refused(
                f"What was approved cannot be made again from the command: {error.message}"
            ) from error

    def _check_are_secrets(self, tool: Tool, arguments: dict[str, Any], proof: ApprovalProof) -> None:
        """Check that each value that approvers did not see is a secret by this device's rules as well.

        Otherwise a console could hide any argument from them, such as the command line itself.
        """
        if not proof.secrets:
            return
        # Imported only where a command brings secrets: most devices never need it.
        from core.schema_forms.secrets import secret_paths
        from core.secret_rule import SecretNames

        names = SecretNames(self._config.secret_names)
        secret = set(secret_paths(arguments, [tool.input_schema], names))
        for opening in proof.secrets:
            if opening.path not in secret:
                place = ".".join(map(str, opening.path))[:100]
                raise _refused(
                    f"The approver could not see {place}, but this device does not treat it as a secret of "
                    f"{tool.name} (secret_names in its device.toml adds names)."
                )

    def _signer(self, signed: SignedStatement) -> PinnedOperator:
        name = signed.statement.approver
        named = [one for one in self._config.pinned_operators if one.name == name]
        if not named:
            raise _refused(f"{name[:60]} is not one of this device's pinned operators.")
        for operator in named:
            if verify_signature(signed.statement, signed.signature, operator.public_key):
                return operator
        raise _refused(f"The signature is not one of the key that is pinned for {name}.")


def _read_proof(terms: CommandOptions) -> ApprovalProof:
    try:
        return ApprovalProof.model_validate(terms.approval)
    except ValidationError as error:
        raise _refused("The approval that came with the command cannot be read.") from error


def _check_is_what_was_approved(tool: Tool, proof: ApprovalProof) -> None:
    """Check that the signed contract matches the tool's present definition on this device.

    Raises:
        Refused: it matches another definition (code `contract_changed`).
    """
    try:
        own = contract_digest(tool.info(), proof.facts)
    except BadInput as error:
        raise _refused(f"The contract that was approved has no canonical form: {error.message}") from error
    if own != proof.contract:
        raise Refused(
            f"{tool.name} is not defined on this device as it was when it was approved; nothing was done.",
            ErrorCode.CONTRACT_CHANGED,
        )


def _check_approves(signed: SignedStatement, request: Request, now: datetime) -> None:
    statement = signed.statement
    if statement.verdict != "approve":
        raise _refused(f"{statement.approver} denied it.")
    if statement.request_digest != request.digest:
        raise _refused(f"What {statement.approver} approved is not this command, byte for byte.")
    try:
        check_subject(statement, request)
    except Refused as error:
        raise _refused(error.message) from error
    try:
        check_time(statement.expires, now=now)
    except Refused as error:
        words = f"{error.message} (It is {now:%Y-%m-%d %H:%M:%S} UTC on this device.)"
        raise Refused(words, ErrorCode.CLOCK_DIFFERS) from error


def _too_few(counted: int, wanted: int, faults: list[str]) -> str:
    why = " ".join(dict.fromkeys(faults))
    if wanted == 1:
        return why or "No operator's signature came with the approval."
    return f"This device wants {wanted} operators' approvals; {counted} came that count. {why}".rstrip()


def _refused(words: str) -> Refused:
    return Refused(words, ErrorCode.DENIED_BY_DEVICE)
