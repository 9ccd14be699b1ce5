"""Signing at a terminal: choice and unlocking of an operator's key, and a new home's first operator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from core.approvals.models import Approval, Operator
from core.approvals.operator_keys import (
    LONGEST_PASSPHRASE,
    OperatorKey,
    create_operator_key,
    list_operator_keys,
    load_operator_key,
    login_name,
    statement_for,
)
from core.broken_text import fault_words
from core.changes import Change, Proposal, SignedChange, change_statement, check_proposal
from core.cli.output import lines, note
from core.cli.prompt import ask_line, is_terminal
from core.cli.session import Session
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.home import Home
from core.similar import meant_or_known
from core.text import sentences


@dataclass(frozen=True, slots=True)
class KeySource:
    """The signing operator and the source of the passphrase, which is never the command line itself."""

    operator: str | None = None
    passphrase_file: Path | None = None
    passphrase_fd: int | None = None

    async def passphrase(self, name: str) -> str:
        """Read the passphrase of this operator's key.

        Raises:
            BadInput: it cannot be read, is too long for any key, or there is no terminal to ask on.
        """
        if self.passphrase_file is not None or self.passphrase_fd is not None:
            return checked(self._read())
        if not is_terminal():
            raise BadInput(f"The key of {name} has a passphrase: give --passphrase-file or --passphrase-fd.")
        return checked(await ask_line(f"Passphrase of {name}: ", secret=True))

    def _read(self) -> str:
        try:
            source = self.passphrase_fd if self.passphrase_fd is not None else str(self.passphrase_file)
            with open(source, "rb") as file:
                line = file.read(2 * LONGEST_PASSPHRASE).split(b"\n", 1)[0]
            return line.removesuffix(b"\r").decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(sentences(f"The passphrase cannot be read: {fault_words(error)}")) from error


_OPTIONS = {
    "operator": Annotated[
        str | None, typer.Option("--operator", metavar="OPERATOR", help="Which operator signs.")
    ],
    "passphrase_file": Annotated[
        Path | None,
        typer.Option("--passphrase-file", metavar="FILE", help="A file whose first line unlocks the key."),
    ],
    "passphrase_fd": Annotated[
        int | None,
        typer.Option("--passphrase-fd", metavar="NUMBER", help="An open file descriptor, likewise.", min=0),
    ],
}


def signs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say who signs and with which key; it gets them as `unlocking`."""

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        unlocking = KeySource(**{name: given.pop(name) for name in _OPTIONS})
        command(**given, unlocking=unlocking)

    # Typer reads the options of a command from its signature.
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "unlocking"]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _OPTIONS.items()
    ]
    with_options.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return with_options


def checked(passphrase: str) -> str:
    """Return the passphrase if its length is allowed.

    Raises:
        BadInput: it is too long for any key; truncating it would make another passphrase.
    """
    if len(passphrase.encode()) > LONGEST_PASSPHRASE:
        raise BadInput(f"A passphrase has at most {LONGEST_PASSPHRASE:,} bytes.")
    return passphrase


async def unlock(session: Session, how: KeySource) -> OperatorKey:
    """The unlocked key that signs here; a new home gets its first operator.

    Raises:
        BadInput: no key here, or more than one, belongs to an operator of this home, or the key cannot be
            unlocked.
        Refused: the named operator is not an operator of this home, or is registered with another key.
    """
    registered = (await session.console.service.state()).operators
    if not registered:
        return await _first_operator(session, how)
    return await unlock_one_of(session.home, registered, how)


async def unlock_one_of(home: Home, operators: Sequence[Operator], how: KeySource) -> OperatorKey:
    """The unlocked key of one of these operators of a home.

    Raises:
        BadInput, Refused: as `unlock`.
    """
    registered = {one.name: one for one in operators}
    name = how.operator or _choose(home, set(registered))
    if name not in registered:
        known = meant_or_known(name, registered, "Operators")
        raise Refused(f"{name} is not an operator of this home. {known}.", ErrorCode.APPROVAL_INVALID)
    key = await _load(home, name, how)
    if key.public_key != registered[name].public_key:
        raise Refused(
            f"The key of {name} here is not the one that is registered.", ErrorCode.APPROVAL_INVALID
        )
    return key


def _choose(home: Home, registered: set[str]) -> str:
    here = [file.name for file in list_operator_keys(home) if file.name in registered]
    if not here:
        names = ", ".join(sorted(registered))
        raise BadInput(f"None of this home's operators ({names}) has a key in {home.keys}.")
    if len(here) > 1 and login_name() not in here:
        raise BadInput(f"Several operators could sign here ({', '.join(here)}): name one with --operator.")
    return login_name() if login_name() in here else here[0]


async def _load(home: Home, name: str, how: KeySource) -> OperatorKey:
    locked = {file.name: file.has_passphrase for file in list_operator_keys(home)}
    passphrase = await how.passphrase(name) if locked.get(name) else None
    return load_operator_key(home, name, passphrase)


async def _first_operator(session: Session, how: KeySource) -> OperatorKey:
    """Create this home's first operator, or register the key that already exists here."""
    here = list_operator_keys(session.home)
    name = how.operator or (here[0].name if len(here) == 1 else login_name())
    if name in {file.name for file in here}:
        key = await _load(session.home, name, how)
    else:
        given = how.passphrase_file is not None or how.passphrase_fd is not None
        key = create_operator_key(session.home, name, await how.passphrase(name) if given else None)
        note(
            f"This home had no operator: {name} is now its first, with a new key in {session.home.keys}"
            + (", protected by the passphrase." if given else " that has no passphrase (marked so).")
        )
    await session.console.approvals.register_operator(key.operator)
    return key


async def decide(
    session: Session, key: OperatorKey, approval: Approval, verdict: Literal["approve", "deny"], reason: str
) -> Approval:
    """Sign the answer and send it to the service."""
    return await session.console.approvals.decide(
        key.sign(statement_for(approval, verdict, key.name, reason))
    )


async def sign_change(
    session: Session, how: KeySource, wish: Change, text: str = "", shown: str = ""
) -> SignedChange | None:
    """Sign a change that lets more run or reach farther; None for a change that only tightens.

    The effect of the change is shown first; on a terminal the operator must confirm it. `shown` is what this
    program itself knows of the change, such as the differing lines of a text.

    Raises:
        Refused: the service proposes another change than `wish`, or the operator declined.
        QuarterdeckError: no key here can sign.
    """
    proposal = await session.console.service.propose(wish, text)
    check_proposal(wish, proposal)
    if not proposal.needs_signature:
        return None
    note_difference(proposal)
    if shown:
        note(shown)
    return await sign_as(await unlock(session, how), proposal)


def note_difference(proposal: Proposal) -> None:
    """Show what a proposal changes, before it is signed."""
    note("\n".join(["To be signed:", *(f"  {lines(line)}" for line in proposal.difference)]))


async def sign_as(key: OperatorKey, proposal: Proposal) -> SignedChange:
    """Sign a proposal; on a terminal the operator must confirm it.

    Raises:
        Refused: the operator declined.
    """
    if is_terminal():
        answer = await ask_line(f"Sign this as {key.name}? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            raise Refused("It was not signed; nothing was changed.", ErrorCode.SIGNATURE_REQUIRED)
    return key.sign_change(change_statement(proposal, key.name))


async def identify(session: Session, how: KeySource) -> None:
    """Prove to the service which operator makes the requests of this session.

    Raises:
        QuarterdeckError: no key here can sign.
    """
    key = await unlock(session, how)
    home_key = (await session.console.service.state()).home_key
    await session.console.service.identify(
        key.sign_identity(home_key, await session.console.service.challenge())
    )


async def identify_if_possible(session: Session, how: KeySource) -> None:
    """Prove who asks, where several operators must approve; say what it means if that fails."""
    try:
        await identify(session, how)
    except QuarterdeckError as error:
        note(f"Asked without a proof of who asks, so one operator more must approve: {error.message}")


__all__ = [
    "KeySource",
    "decide",
    "identify",
    "identify_if_possible",
    "sign_as",
    "sign_change",
    "unlock",
    "unlock_one_of",
]
