"""`quarterdeck gateway`: serves agents by the Model Context Protocol.

Agent programs start it for each session and wait a few seconds for its tools at most, so that it imports what
answers them first, and the SDK and the console API once they are answered.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from core.cli.base import CommonOptions, command_set, end_on_signals, examples, run_work
from core.cli.output import note
from core.environment import TOKEN_VARIABLE, keep_memory_private
from core.errors import BadInput
from core.gateway.greeting import greet
from core.home import Home
from core.policy.agent_models import name_in
from core.service import exit_codes
from core.text import sentences

_LONGEST_TOKEN = 4_096

commands = command_set()


@commands.command(
    "gateway",
    epilog=examples("gateway --as night-shift", "gateway --http 127.0.0.1:8765"),
    short_help="Serve agents by the Model Context Protocol.",
)
def gateway(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The agent, over standard input and output.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve every agent here, on loopback, instead."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help=f"Else the variable {TOKEN_VARIABLE}.")
    ] = None,
) -> None:
    """Serve agents by the Model Context Protocol, as an agent program starts it.

    With --as it serves one agent on standard input and output; its token is in the environment variable
    QUARTERDECK_TOKEN or in --token-file. With --http every agent shows its own token.
    """
    if (name is None) is (http is None):
        raise BadInput("Give --as NAME for one agent on standard input and output, or --http HOST:PORT.")
    given: CommonOptions = context.obj
    keep_memory_private()

    if http is not None:
        _run_over_http(given.home, http)
    else:
        token = given.token if token_file is None else _token_in(token_file)
        _run_over_stdio(given.home, _checked_token(token, name or ""))
    raise typer.Exit(exit_codes.DONE)


def _run_over_http(home: Home, address: str) -> None:
    async def work() -> None:
        end_on_signals()
        from core.gateway.http import serve_http

        await serve_http(home, address, lambda url: note(f"The gateway is at {url}."))

    run_work(work())


def _run_over_stdio(home: Home, token: str) -> None:
    # Unbuffered, so that nothing is read here that the SDK is to read.
    with open(0, "rb", buffering=0, closefd=False) as reads, open(1, "wb", closefd=False) as writes:
        opening = greet(reads, writes)

    async def work() -> None:
        end_on_signals()
        # Imported when the client has its first answers: the SDK takes longer to import than all before it.
        from core.gateway.stdio import serve_stdio

        await serve_stdio(home, token, opening)

    run_work(work())


def _token_in(file: Path) -> str:
    """The content of a token file.

    Raises:
        BadInput: it cannot be read, or other users can read it too.
    """
    try:
        with file.open("rb") as opened:
            if os.name == "posix" and os.fstat(opened.fileno()).st_mode & 0o077:
                raise BadInput(f"Other users can read {file}: make it private (chmod 600 {file}).")
            return opened.read(_LONGEST_TOKEN).decode("ascii", "replace")
    except OSError as error:
        raise BadInput(sentences(f"The token cannot be read from {file}: {error}")) from error


def _checked_token(given: str, name: str) -> str:
    """The token of an agent, from a file or the environment; never from the command line.

    Raises:
        BadInput: there is none, or it is another agent's.
    """
    token = given.strip()
    if not token:
        raise BadInput(f"There is no token: set {TOKEN_VARIABLE}, or give --token-file FILE.")
    if not token.isascii() or name_in(token) != name:
        raise BadInput(f"This is not a token of the agent {name}.")
    return token
