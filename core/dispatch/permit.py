"""Permits: what a channel demands before it lets a command out.

Only a `PermitMint` makes them, only the dispatcher holds one, and a channel is given nothing but `redeem`.
A permit is a random word that the mint remembers together with device, contract and digest; an object that
merely looks like a permit is worth nothing, and each one is worth one sending. It covers the payload, secrets
and all: the bytes under a request's digest are what was shown, and differ where a secret is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from core.aip.messages import Command
from core.canonical_json import canonical_bytes
from core.dispatch.arguments import CheckedArguments
from core.errors import ErrorCode, Refused
from core.ids import random_word
from core.quick import made
from core.statements import Request, payload_digest


@dataclass(frozen=True, slots=True)
class Permit:
    """The word that stands for one minted permission."""

    word: str


class PermittedCommand(Command):
    """A command together with the permit to send it; the permit never goes on the wire.

    `digest` and `approval` go with it to a device that asks for them (`core.aip.extensions.CommandOptions`).
    """

    permit: Permit
    digest: str = ""
    approval: dict[str, Any] | None = None

    @classmethod
    def of(
        cls, request: Request, arguments: CheckedArguments, permit: Permit, approval: dict[str, Any] | None
    ) -> PermittedCommand:
        """The command that a request asks for; that it is this one is checked when the permit is redeemed."""
        fields = {
            "tool_name": request.tool_name,
            # A copy: tools in this process get the object itself, and equal calls share their arguments.
            "parameters": dict(arguments.sent),
            "tool_type": request.tool_type,
            "call_id": request.call_id,
            "quarterdeck": None,
            "permit": permit,
            "digest": request.digest,
            "approval": approval,
        }
        return made(cls, fields)

    def bare(self) -> Command:
        """The command as AIP sends it."""
        fields = {
            "tool_name": self.tool_name,
            "parameters": self.parameters,
            "tool_type": self.tool_type,
            "call_id": self.call_id,
            "quarterdeck": None,
        }
        return made(Command, fields)


class Gate(Protocol):
    """The half of the mint that a channel may see."""

    def redeem(self, device: str, command: Command) -> Command:
        """Use up the command's permit and give back the bare command, or raise `Refused`."""
        ...


class _Terms(NamedTuple):
    payload: str
    digest: str
    on_leave: Callable[[], None]


class PermitMint:
    """Mints permits and redeems each once, against the very bytes that were permitted."""

    def __init__(self) -> None:
        self._live: dict[str, _Terms] = {}
        self._closed = False

    def mint(self, request: Request, arguments: CheckedArguments, on_leave: Callable[[], None]) -> Permit:
        """A permit for exactly this command. `on_leave` runs when a channel redeems it."""
        permit = Permit(random_word(16))
        payload = payload_digest(
            device=request.device,
            tool_name=request.tool_name,
            tool_type=request.tool_type,
            call_id=request.call_id,
            arguments=arguments.canonical,
        )
        self._live[permit.word] = _Terms(payload, request.digest, on_leave)
        return permit

    def revoke(self, permit: Permit) -> None:
        """Make a permit worthless; nothing happens when it was used already."""
        self._live.pop(permit.word, None)

    def halt(self, halted: bool) -> None:
        """While halted nothing is redeemed, whatever was minted before."""
        self._closed = halted
        if halted:
            self._live.clear()

    def redeem(self, device: str, command: Command) -> Command:
        """See `Gate`."""
        permit = getattr(command, "permit", None)
        terms = self._live.pop(permit.word, None) if isinstance(permit, Permit) else None
        if self._closed:
            raise Refused("Everything is stopped; nothing leaves.", ErrorCode.STOPPED)
        if terms is None or not isinstance(command, PermittedCommand):
            raise Refused("No command leaves without a permit of the dispatcher.")
        payload = payload_digest(
            device=device,
            tool_name=command.tool_name,
            tool_type=command.tool_type,
            call_id=command.call_id,
            arguments=canonical_bytes(command.parameters or {}),
        )
        if payload != terms.payload or command.digest not in {"", terms.digest}:
            raise Refused("The command is not the one that was permitted.")
        terms.on_leave()
        return command.bare()
