"""The commands, by the word that calls each: its module, which is imported when its word is given.

A command needs its own module alone. The modules of all commands take four times as long to import, so that
help lists them without importing them.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class Place(NamedTuple):
    """The module of `core.cli` that defines a command, and the command's line in the help of all commands.

    The line is the first sentence of the command's own help, shortened to the terminal's width, or else a
    `short_help`, which is shown in full.
    """

    module: str
    help: str
    short_help: str | None = None


COMMANDS = {
    "gateway": Place("gateway", "", "Serve agents by the Model Context Protocol."),
    "pair": Place("device_commands", "", "Make a device known: one that dials in, or one that listens."),
    "run": Place(
        "runs", "Run a batch, from a file or by the name under which it was saved, and follow it to its end."
    ),
    "resume": Place(
        "runs", "Continue an ended run where it did not succeed, as a new run; what is done is not repeated."
    ),
    "undo": Place(
        "runs",
        "Undo what a run changed, as far as its devices recorded how, in reverse order, as a run of its own.",
    ),
    "search": Place(
        "search",
        "Find tools of all devices by what they are called, do and return, best first, with the reason.",
    ),
    "describe": Place(
        "search",
        "Show one tool in full: contract and scope with the source of each fact, arguments, latest calls.",
    ),
    "do": Place("search", "Propose a batch for an intent, from the search alone."),
    "completion": Place(
        "completion", "Print the script that lets a shell complete commands and what is in the home."
    ),
    "tools": Place("tools", "List the tools of devices, with risk and effect."),
    "call": Place("call", "Call one tool of one device, or of all that match a filter."),
    "version": Place("version", "Say which version this is."),
    "approvals": Place("approvals", "What waits for an operator's answer."),
    "grants": Place("approvals", "Remembered approvals: what runs without asking."),
    "operators": Place("approvals", "Who may approve."),
    "audit": Place("audit", "The journal: find, show, export, prove, verify."),
    "backup": Place(
        "backup", "Write everything that this home needs to a new file, also while its service runs."
    ),
    "restore": Place("backup", "Make the new home that --home names of a backup."),
    "service": Place("service", "The process that owns a home."),
    "runs": Place("runs", "Runs and their results."),
    "batches": Place("batches", "The batches that are saved in this home."),
    "devices": Place("devices", "The devices and their health."),
    "policy": Place("policy", "policy.toml: check it, explain one call, try it on the journal."),
    "agents": Place("agents", "The programs that may ask for commands through the gateway."),
    "contracts": Place(
        "contracts", "Tools that are not what was trusted: list them, see what changed, trust them."
    ),
}


@cache
def command(word: str) -> Any:
    """The command of this word of `COMMANDS`; its module is imported."""
    module = importlib.import_module(f"core.cli.{COMMANDS[word].module}")
    commands: typer.Typer = module.commands
    return get_group(commands).commands[word]


def listed(word: str) -> TyperCommand:
    """A stand-in for the command of this word in help; it does nothing."""
    place = COMMANDS[word]
    return TyperCommand(word, help=place.help, short_help=place.short_help)


class LazyGroup(TyperGroup):
    """The group of all commands, which knows their lines of help and imports the one that is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for word in COMMANDS:
            self.add_command(listed(word))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        word, line, rest = super().resolve_command(ctx, args)
        return word, command(word) if word is not None and line is not None else None, rest
