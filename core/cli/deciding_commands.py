"""The commands of deciding: `approvals`, `grants` and `operators`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.cli import deciding as work
from core.cli import show
from core.cli.base import EVERYWHERE, examples, in_session
from core.cli.session import Session
from core.cli.signing import Unlocking, checked
from core.cli.terminal import ask_line, is_terminal
from core.errors import BadInput

approvals_app = typer.Typer(
    help="What waits for an operator's answer.", epilog=EVERYWHERE, no_args_is_help=True
)
grants_app = typer.Typer(
    help="Remembered approvals: what runs without asking.", epilog=EVERYWHERE, no_args_is_help=True
)
operators_app = typer.Typer(help="Who may approve.", epilog=EVERYWHERE, no_args_is_help=True)

OperatorOption = Annotated[
    str | None, typer.Option("--operator", metavar="NAME", help="Which operator signs.")
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option("--passphrase-file", metavar="FILE", help="A file whose first line unlocks the key."),
]
PassphraseFd = Annotated[
    int | None,
    typer.Option("--passphrase-fd", metavar="NUMBER", help="An open file descriptor, likewise.", min=0),
]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the journal and the asker.")]
DigestOption = Annotated[
    str | None,
    typer.Option("--digest", metavar="SHA256", help="Sign only if this is the request's digest."),
]
RequestArgument = Annotated[str, typer.Argument(metavar="ID")]


@approvals_app.command("list", epilog=EVERYWHERE)
def approvals_list(context: typer.Context) -> None:
    """List what waits: highest risk first, then oldest."""
    in_session(context, lambda session: show.approvals(session, context.obj.json))


@approvals_app.command("show", epilog=EVERYWHERE)
def approvals_show(context: typer.Context, approval: RequestArgument) -> None:
    """Show one request with everything that would be sent."""
    in_session(context, lambda session: work.show(session, approval, context.obj.json))


@approvals_app.command(
    "approve",
    epilog=examples(
        "approvals approve ID",
        "approvals approve ID --for-run --reason 'as agreed'",
        "approvals approve ID --grant uses=5 --grant until=8h",
    ),
)
def approvals_approve(
    context: typer.Context,
    approval: RequestArgument,
    reason: ReasonOption = "",
    digest: DigestOption = None,
    for_run: Annotated[
        bool, typer.Option("--for-run", help="And whatever is exactly like it in this run.")
    ] = False,
    grant: Annotated[
        list[str] | None,
        typer.Option(
            "--grant",
            metavar="uses=N|until=8h",
            help="And whatever is exactly like it, so often, so long.",
        ),
    ] = None,
    operator: OperatorOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Approve one request with an operator's signature. Once, unless more is granted.

    A request with a secret argument can only be approved once: a grant holds no secret.
    """
    unlocking = Unlocking(operator, passphrase_file, passphrase_fd)
    in_session(
        context,
        lambda session: work.answer(
            session,
            approval,
            "approve",
            reason,
            unlocking,
            context.obj.json,
            digest=digest,
            grant=grant or None,
            for_run=for_run,
        ),
    )


@approvals_app.command("deny", epilog=EVERYWHERE)
def approvals_deny(
    context: typer.Context,
    approval: RequestArgument,
    reason: ReasonOption = "",
    digest: DigestOption = None,
    operator: OperatorOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Deny one request with an operator's signature. The asker receives the reason."""
    unlocking = Unlocking(operator, passphrase_file, passphrase_fd)
    in_session(
        context,
        lambda session: work.answer(
            session, approval, "deny", reason, unlocking, context.obj.json, digest=digest
        ),
    )


@grants_app.command("list", epilog=EVERYWHERE)
def grants_list(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Those that are over too.")] = False,
) -> None:
    """List grants: their scope, how often and when used."""
    in_session(context, lambda session: work.grants(session, everything, context.obj.json))


@grants_app.command("revoke", epilog=EVERYWHERE)
def grants_revoke(context: typer.Context, grant: Annotated[str, typer.Argument(metavar="GRANT")]) -> None:
    """Take a grant back: from now on the same asks again."""
    in_session(context, lambda session: work.revoke(session, grant, context.obj.json))


@operators_app.command("list", epilog=EVERYWHERE)
def operators_list(context: typer.Context) -> None:
    """List the operators of this home."""
    in_session(context, lambda session: work.operators(session, context.obj.json))


@operators_app.command("add", epilog=EVERYWHERE)
def operators_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    new_passphrase_file: Annotated[
        Path | None,
        typer.Option(
            "--new-passphrase-file", metavar="FILE", help="The new key's passphrase: its first line."
        ),
    ] = None,
    no_passphrase: Annotated[
        bool, typer.Option("--no-passphrase", help="A key that anybody with this file can use; marked so.")
    ] = False,
    operator: OperatorOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Make a key for another operator. --operator, who is one already, signs for them."""
    unlocking = Unlocking(operator, passphrase_file, passphrase_fd)

    async def add(session: Session) -> None:
        chosen = None if no_passphrase else await _new_passphrase(name, new_passphrase_file)
        await work.add_operator(session, name, chosen, unlocking, context.obj.json)

    in_session(context, add)


@operators_app.command("remove", epilog=EVERYWHERE)
def operators_remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    operator: OperatorOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Let an operator decide nothing any more; their grants end. An operator signs this."""
    unlocking = Unlocking(operator, passphrase_file, passphrase_fd)
    in_session(context, lambda session: work.remove_operator(session, name, unlocking, context.obj.json))


async def _new_passphrase(name: str, file: Path | None) -> str:
    if file is not None:
        return await Unlocking(passphrase_file=file).passphrase(name)
    if not is_terminal():
        raise BadInput(f"Give --new-passphrase-file for the key of {name}, or --no-passphrase.")
    chosen = await ask_line(f"New passphrase of {name}: ", secret=True)
    if chosen != await ask_line("Once more: ", secret=True):
        raise BadInput("The two are not the same.")
    return checked(chosen)
