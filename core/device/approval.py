"""The device's check of operators' signed approvals before it runs an action.

The device does not trust the console's description of the command. It rebuilds the request from the command
that arrived and from its own definition of the tool, and compares it with the request that a pinned key has
signed. One approval is good for one run, also after a restart.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from core.aip.extensions import CommandOptions
from core.aip.messages import Command
from core.commitments import as_shown
from core.contract_digest import contract_digest
from core.device.config import DeviceConfig, PinnedOperator
from core.device.tool import NAMESPACE, Tool
from core.errors import BadInput, ErrorCode, Refused
from core.files import sync_folder
from core.statements import (
    MOST_STATEMENT_SECONDS,
    Request,
    SignedLeave,
    SignedStatement,
    check_speaks_of,
    make_request,
    short_code,
    verify_signature,
)

log = structlog.get_logger(__name__)

# A statement's longest validity: setting the clock back by no more than this revives no expired approval.
MOST_BACK = timedelta(seconds=MOST_STATEMENT_SECONDS)
KEPT = 200

Clock = Callable[[], datetime]


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class VerifiedApproval:
    """A checked approval. `until` is when the last of its signatures expires."""

    call_id: str
    code: str
    approvers: tuple[str, ...]
    until: datetime


class UsedApprovals:
    """The record of used approvals: one small file on disk for each, so that no two clients use the same one.

    A clock that is set back does not make a used approval valid again: the newest `KEPT` files stay whatever
    the time is, and older files until their approvals have expired. Nor does it make an approval valid that
    expired unused, as long as the clock is at most `MOST_BACK` behind the last use. A clock that is farther
    behind is assumed to have been wrong before and to be right now: it is believed at once.
    """

    def __init__(self, folder: Path, device: str) -> None:
        self._folder = folder
        self._device = device
        self._uses: list[datetime] | None = None

    def now(self, clock: Clock = _utc) -> datetime:
        """The clock's time, or the last use if that is later by at most `MOST_BACK`.

        Raises:
            Refused: the record of used approvals cannot be read.
        """
        if self._uses is None:
            try:
                self._uses = self._used()
            except OSError as error:
                raise _unkept(error) from error
        now = clock()
        return max([now, *(used for used in self._uses if used - now <= MOST_BACK)])

    def use(self, leave: VerifiedApproval, clock: Clock = _utc) -> None:
        """Record an approval as used; the record is on disk before this returns.

        Raises:
            Refused: the approval was used before, or its use cannot be recorded.
        """
        now = self.now(clock)
        path = self._folder / hashlib.sha256(f"{self._device}\0{leave.call_id}".encode()).hexdigest()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, f"{now.isoformat()} {leave.until.isoformat()}\n".encode())
                os.fsync(handle)
            finally:
                os.close(handle)
            sync_folder(self._folder)
        except FileExistsError:
            raise _refused("This approval was used before; each one is good for one run.") from None
        except OSError as error:
            raise _unkept(error) from error
        self._uses = self._forget(now)

    def _used(self) -> list[datetime]:
        """The times of the recorded uses."""
        try:
            return [_times(path)[0] for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []

    def _forget(self, now: datetime) -> list[datetime]:
        """Remove files that are no longer needed; returns the times of the uses that are left."""
        found = sorted(((*_times(path), path) for path in self._folder.iterdir()), reverse=True)
        needed = []
        for number, (used, until, path) in enumerate(found):
            if number < KEPT or until >= now:
                needed.append(used)
            else:
                path.unlink(missing_ok=True)
        return needed


def _times(path: Path) -> tuple[datetime, datetime]:
    """When an approval was used and when it expires; estimated from the file's age if the file is cut off."""
    try:
        used, until = (datetime.fromisoformat(word) for word in path.read_text("ascii").split())
        # A time that was cut off has no zone, and cannot be compared with a time that has.
        if used.tzinfo is not None and until.tzinfo is not None:
            return used, until
        raise ValueError(path.name)
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            return written, written + timedelta(seconds=MOST_STATEMENT_SECONDS)
        return datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(0, UTC)


class ApprovalCheck:
    """Checks approvals by the device's own means. It never asks a console whether an approval is valid."""

    def __init__(self, config: DeviceConfig, device: str, folder: Path, clock: Clock = _utc) -> None:
        """`folder` holds the record of used approvals."""
        self._config = config
        self._device = device
        self._clock = clock
        self._used = UsedApprovals(folder, device)

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

    def leave_to_look(
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

    def use(self, leave: VerifiedApproval) -> None:
        """Record an approval as used, just before its action begins.

        Raises:
            Refused: it was used before, or its use cannot be recorded (code `denied_by_device`).
        """
        self._used.use(leave, self._clock)
        log.info("approved", code=leave.code, call=leave.call_id, by=", ".join(leave.approvers))

    def _believed(self, tool: Tool, command: Command, terms: CommandOptions) -> VerifiedApproval:
        """The approval that a console reports, on a device without pinned operators."""
        leave = _read_leave(terms)
        request = self._request(tool, command, leave)
        names = {
            signed.statement.approver
            for signed in leave.statements
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
        leave = _read_leave(terms)
        request = self._request(tool, command, leave)
        now = self._used.now(self._clock)
        counted: dict[str, SignedStatement] = {}
        faults: list[str] = []
        for signed in leave.statements:
            try:
                operator = self._signer(signed)
                _check_approves(signed, request, now)
                counted[operator.name] = signed
            except Refused as error:
                faults.append(error.message)
        if len(counted) < self._config.approvers:
            raise _refused(_too_few(len(counted), self._config.approvers, faults))
        _check_is_what_was_approved(tool, leave)
        until = max(datetime.fromisoformat(one.statement.expires) for one in counted.values())
        return VerifiedApproval(request.call_id, short_code(request.digest), tuple(sorted(counted)), until)

    def _request(self, tool: Tool, command: Command, leave: SignedLeave) -> Request:
        """The request, rebuilt from the command and from this device's own definition of the tool.

        Its approvers saw commitments in place of secrets: these are computed again from the values that
        arrived.
        """
        if not command.call_id:
            raise _refused("The command has no call_id, so no approval can be about it.")
        arguments = command.parameters or {}
        self._check_are_secrets(tool, arguments, leave)
        try:
            return make_request(
                device=self._device,
                contract=leave.contract,
                tool_key=tool.key,
                tool_name=tool.name,
                tool_type=tool.tool_type,
                namespace=tool.namespace,
                parameters=as_shown(arguments, leave.secrets),
                call_id=command.call_id,
            )
        except BadInput as error:
            raise _refused(
                f"What was approved cannot be made again from the command: {error.message}"
            ) from error

    def _check_are_secrets(self, tool: Tool, arguments: dict[str, Any], leave: SignedLeave) -> None:
        """Check that each value that approvers did not see is a secret by this device's rules as well.

        Otherwise a console could hide any argument from them, such as the command line itself.
        """
        if not leave.secrets:
            return
        # Imported only where a command brings secrets: most devices never need it.
        from core.schema_forms.secrets import secret_paths
        from core.secret_rule import SecretNames

        names = SecretNames(self._config.secret_names)
        secret = set(secret_paths(arguments, [tool.input_schema], names))
        for opening in leave.secrets:
            if opening.path not in secret:
                place = ".".join(map(str, opening.path))[:100]
                raise _refused(
                    f"{place} was hidden from who approved it, and is no secret of {tool.name} on this "
                    "device (secret_names in its device.toml adds names)."
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


def _read_leave(terms: CommandOptions) -> SignedLeave:
    try:
        return SignedLeave.model_validate(terms.approval)
    except ValidationError as error:
        raise _refused("The approval that came with the command cannot be read.") from error


def _check_is_what_was_approved(tool: Tool, leave: SignedLeave) -> None:
    """Check that the signed contract matches the tool's present definition on this device.

    Raises:
        Refused: it matches another definition (code `contract_changed`).
    """
    try:
        own = contract_digest(tool.info(), leave.facts)
    except BadInput as error:
        raise _refused(f"The contract that was approved has no canonical form: {error.message}") from error
    if own != leave.contract:
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
        check_speaks_of(statement, request, now)
    except Refused as error:
        raise _refused(f"{error.message} (It is {now:%Y-%m-%d %H:%M:%S} UTC on this device.)") from error


def _too_few(counted: int, wanted: int, faults: list[str]) -> str:
    why = " ".join(dict.fromkeys(faults))
    if wanted == 1:
        return why or "No operator's signature came with the approval."
    return f"This device wants {wanted} operators' approvals; {counted} came that count. {why}".rstrip()


def _unkept(error: OSError) -> Refused:
    return _refused(f"This device cannot keep which approvals were used: {error.strerror}.")


def _refused(words: str) -> Refused:
    return Refused(words, ErrorCode.DENIED_BY_DEVICE)
