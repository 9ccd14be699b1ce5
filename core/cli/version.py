"""`quarterdeck version`: which version this is."""

from __future__ import annotations

import typer

from core import __version__
from core.cli.base import command_set, examples
from core.cli.output import as_json, say
from core.service.console import API_VERSION

commands = command_set()


def say_version(json: bool) -> None:
    """Print the versions of the program and of the console API."""
    if json:
        say(as_json({"version": __version__, "api_version": API_VERSION}))
    else:
        say(f"quarterdeck {__version__}")


@commands.command(epilog=examples("version", "version --json"))
def version(context: typer.Context) -> None:
    """Say which version this is."""
    say_version(context.obj.json)
