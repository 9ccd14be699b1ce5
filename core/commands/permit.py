"""Permits: single-use authorisations that a channel demands before it sends a command.

Only a `PermitMint` makes permits, only the dispatcher has the mint, and a channel can only call `redeem`. A
permit is a random word that the mint stores with the digest of the payload and of the request; a forged
`Permit` object is worthless, and each permit allows one sending. The payload digest covers the arguments with
their secrets, whereas the request's digest covers the redacted arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from core.aip.messages import Command
from core.canonical_json import canonical_bytes
from core.commands.arguments import PreparedCall
from core.errors import ErrorCode, Refused
from core.ids import random_word
from core.json_walk import mapped
from core.next_steps import ADVICE
from core.statements import Request, payload_digest


@dataclass(frozen=True, slots=True)
class Permit:
    """The random word of one minted permit."""

    word: str


@dataclass(frozen=True, slots=True)
class PermittedCommand:
    """A command as AIP sends it, with the permit to send it; the permit is never sent.

    `digest` and `approval` are sent to a device that asks for them (`core.aip.extensions.CommandOptions`).
    """

    command: Command
    permit: Permit
    digest: str = ""
    approval: dict[str, Any] | None = None

    @classmethod
    def of(
        cls, request: Request, call: PreparedCall, permit: Permit, approval: dict[str, Any] | None
    ) -> PermittedCommand:
        """Make the command of a request; redeeming the permit checks that the two match."""
        command = Command(
            tool_name=request.tool_name,
            # A copy: tools in this process get this object, and equal calls share their arguments.
            parameters=mapped(call.sent),
            tool_type=request.tool_type,
            call_id=request.call_id,
            quarterdeck=None,
        )
        return cls(command, permit, request.digest, approval)


class Gate(Protocol):
    """The part of the mint that a channel may use."""

    def redeem(self, device: str, permitted: PermittedCommand) -> Command:
        """Use up the permit and return the command that it is for, or raise `Refused`."""
        ...


class _Terms(NamedTuple):
    payload: str
    digest: str
    before_sending: Callable[[], None]


class PermitMint:
    """Mints permits and redeems each once, for exactly the payload that was permitted."""

    def __init__(self) -> None:
        self._live: dict[str, _Terms] = {}
        self._closed = False

    def mint(self, request: Request, call: PreparedCall, before_sending: Callable[[], None]) -> Permit:
        """Mint a permit for exactly this command. `before_sending` runs when a channel redeems it."""
        permit = Permit(random_word(16))
        payload = payload_digest(
            device=request.device,
            tool_name=request.tool_name,
            tool_type=request.tool_type,
            call_id=request.call_id,
            arguments=call.sent_json.data,
        )
        self._live[permit.word] = _Terms(payload, request.digest, before_sending)
        return permit

    def revoke(self, permit: Permit) -> None:
        """Invalidate a permit; no effect if it was used already."""
        self._live.pop(permit.word, None)

    def halt(self, halted: bool) -> None:
        """Halt or resume. Halting invalidates all permits; while halted, none is redeemed."""
        self._closed = halted
        if halted:
            self._live.clear()

    def redeem(self, device: str, permitted: PermittedCommand) -> Command:
        """See `Gate`."""
        permit = getattr(permitted, "permit", None)
        terms = self._live.pop(permit.word, None) if isinstance(permit, Permit) else None
        if self._closed:
            raise Refused("Everything is stopped; nothing leaves.", ErrorCode.STOPPED)
        if terms is None or not isinstance(permitted, PermittedCommand):
            raise Refused(
                "No command leaves without a permit of the dispatcher.",
                next_step=ADVICE[ErrorCode.INTERNAL].person,
            )
        command = permitted.command
        payload = payload_digest(
            device=device,
            tool_name=command.tool_name,
            tool_type=command.tool_type,
            call_id=command.call_id,
            arguments=canonical_bytes(command.parameters or {}),
        )
        if payload != terms.payload or permitted.digest not in {"", terms.digest}:
            raise Refused(
                "The command is not the one that was permitted.",
                next_step=ADVICE[ErrorCode.INTERNAL].person,
            )
        terms.before_sending()
        return command
