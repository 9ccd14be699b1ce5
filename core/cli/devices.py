"""The devices and their health; the commands about one of them are in `core.cli.device_commands`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from core.cli.base import command_set, examples, in_session
from core.cli.device_list import list_devices
from core.filter_words import is_filter
from core.similar import most_like


class DeviceCommands(TyperGroup):
    """The group `devices`, which imports its commands when one is called, or they are listed.

    To list the devices takes a third of their modules. Words that are no command are a filter for the list.
    """

    default_command = "list"

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """The commands by name."""
        from core.cli.device_commands import app as about_one_device

        commands: MutableMapping[str, Any] = get_group(about_one_device).commands
        return commands

    @commands.setter
    def commands(self, given: MutableMapping[str, Any]) -> None:
        """Take the commands that were declared for this group, of which there are none."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is named, or the list with the words as its filter."""
        word = args[0]
        if word in self.commands or (not is_filter(word) and most_like(word, self.commands)):
            # One that is like a command is a typing error: a device of such a name is written name:WORD.
            return super().resolve_command(ctx, args)
        return self.default_command, self.commands[self.default_command], args


commands = command_set()
app = typer.Typer(cls=DeviceCommands, help="The devices and their health.", invoke_without_command=True)
commands.add_typer(app, name="devices")


@app.callback(epilog=examples("devices", "devices --json", "devices tag:lab os:linux", "devices 'lab-*'"))
def devices(context: typer.Context) -> None:
    """List the devices and their health, all or those that match a filter; or see to one of them."""
    if context.invoked_subcommand is None:
        in_session(context, list_devices, wait_for_devices=True)
