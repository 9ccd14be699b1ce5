"""The commands about devices: list, pair, set, revoke, forget, and find out why one cannot be reached."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from core.cli import devices as work
from core.cli import show
from core.cli.base import EVERYWHERE, in_session
from core.cli.deciding_commands import OperatorOption, PassphraseFd, PassphraseFile
from core.cli.signing import Unlocking
from core.cli.terminal import is_terminal
from core.errors import BadInput
from core.fleet.models import DeviceSettings

app = typer.Typer(help="The devices and their health.", invoke_without_command=True)

# More than the longest pairing string; what never ends is not read to its end.
LONGEST_LINE = 1 << 16

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="A tag; give it once for each. An empty one clears them."),
]
ProductionOption = Annotated[
    bool | None, typer.Option("--production/--no-production", help="Mark it as production, or not.")
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent", metavar="NAME", help="Which agent of a stock UFO client to address; else it is found."
    ),
]


@app.callback(epilog=EVERYWHERE)
def devices(context: typer.Context) -> None:
    """List the devices and their health; or see to one of them."""
    if context.invoked_subcommand is None:
        in_session(context, lambda session: show.devices(session, context.obj.json), wait_for_devices=True)


def pair(
    context: typer.Context,
    name: NameArgument,
    tag: TagOption = None,
    production: ProductionOption = None,
    agent: AgentOption = None,
    string: Annotated[
        str | None,
        typer.Option(
            "--string",
            metavar="LINE",
            help="For a device that listens: the line it printed; - reads it from standard input.",
        ),
    ] = None,
    operator: OperatorOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Make a device known: prints the line to paste on it, or takes the line that it printed.

    Pairing a name again makes what its device had before worthless.
    """
    settings = _settings(tag, production, agent)
    line = _pasted() if string == "-" else string
    unlocking = Unlocking(operator, passphrase_file, passphrase_fd)
    in_session(context, lambda session: work.pair(session, name, settings, line, unlocking, context.obj.json))


def _pasted() -> str:
    """The line of a device, from standard input: asked for where somebody sits there."""
    if is_terminal():
        sys.stderr.write("The line that the device printed: ")
        sys.stderr.flush()
    binary = getattr(sys.stdin, "buffer", None)
    line = binary.readline(LONGEST_LINE) if binary else sys.stdin.readline(LONGEST_LINE).encode()
    return bytes(line).decode("utf-8", "replace")


@app.command("show", epilog=EVERYWHERE)
def devices_show(context: typer.Context, name: NameArgument) -> None:
    """Show one device: its health over time, refused attempts."""
    in_session(context, lambda session: work.details(session, name, context.obj.json))


@app.command("set", epilog=EVERYWHERE)
def devices_set(
    context: typer.Context,
    name: NameArgument,
    tag: TagOption = None,
    production: ProductionOption = None,
    agent: AgentOption = None,
    operator: OperatorOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Change a device's tags, production mark or agent."""
    settings = _settings(tag, production, agent)
    if settings == DeviceSettings():
        raise BadInput("Nothing is to be set: give --tag, --production, --no-production or --agent.")
    unlocking = Unlocking(operator, passphrase_file, passphrase_fd)
    in_session(context, lambda session: work.change(session, name, settings, unlocking, context.obj.json))


@app.command("revoke", epilog=EVERYWHERE)
def devices_revoke(context: typer.Context, name: NameArgument) -> None:
    """Make a device's token worthless and end its link. It stays on the list."""
    in_session(context, lambda session: work.revoke(session, name, context.obj.json))


@app.command("forget", epilog=EVERYWHERE)
def devices_forget(context: typer.Context, name: NameArgument) -> None:
    """Revoke a device and take it off the list. What it did stays in the journal."""
    in_session(context, lambda session: work.forget(session, name, context.obj.json))


@app.command("reconnect", epilog=EVERYWHERE)
def devices_reconnect(context: typer.Context, name: NameArgument) -> None:
    """Dial a device now, or list the tools of a connected one again."""
    in_session(context, lambda session: work.reconnect(session, name, context.obj.json))


@app.command("doctor", epilog=EVERYWHERE)
def devices_doctor(context: typer.Context, name: NameArgument) -> None:
    """Look for why a device cannot be reached. Exit code 5 when something is wrong."""
    in_session(context, lambda session: work.doctor(session, name, context.obj.json))


@app.command("refused", epilog=EVERYWHERE)
def devices_refused(context: typer.Context) -> None:
    """List refused attempts to connect, newest first."""
    in_session(context, lambda session: work.refused(session, context.obj.json))


@app.command("listen", epilog=EVERYWHERE)
def devices_listen(
    context: typer.Context,
    address: Annotated[str | None, typer.Argument(metavar="HOST:PORT")] = None,
    operator: OperatorOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Say where devices dial in. With HOST:PORT, listen there from now on."""
    unlocking = Unlocking(operator, passphrase_file, passphrase_fd)
    in_session(context, lambda session: work.listen(session, address, unlocking, context.obj.json))


def _settings(tags: list[str] | None, production: bool | None, agent: str | None) -> DeviceSettings:
    named = [tag for tag in tags if tag] if tags else None
    return DeviceSettings(tags=named, production=production, agent=agent)
