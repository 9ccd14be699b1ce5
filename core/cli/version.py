"""`quarterdeck version`: which version this is."""

from __future__ import annotations

import typer

from core import __version__
from core.cli.answer import Answer
from core.cli.base import command_set, examples, finish
from core.service.api.version import API_VERSION

commands = command_set()


def versions() -> Answer:
    """The versions of the program and of the console API."""
    return Answer({"version": __version__, "api_version": API_VERSION}, f"quarterdeck {__version__}")


@commands.command(epilog=examples("version", "version --json"))
def version(context: typer.Context) -> None:
    """Say which version this is."""
    finish(context, versions())
