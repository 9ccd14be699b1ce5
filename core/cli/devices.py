"""The devices and their health; the commands about one of them are in `core.cli.device_commands`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from core.cli.answer import Answer
from core.cli.base import command_set, examples, in_session
from core.cli.output import MOST_REASON, claim_cell, state_cell, table
from core.cli.session import Session


async def list_devices(session: Session) -> Answer:
    """List every device with its health."""
    # Not of the whole state: it is the one answer whose models are those of the whole API.
    found = await session.console.devices.match("")
    rows = [
        (
            one.name,
            state_cell(one.health),
            one.tool_count,
            claim_cell(one.system or one.platform),
            " ".join(one.tags),
            claim_cell(one.reason, MOST_REASON),
        )
        for one in found
    ]
    return Answer({"devices": found}, [table(("NAME", "HEALTH", "TOOLS", "SYSTEM", "TAGS", "WHY"), rows)])


class DeviceCommands(TyperGroup):
    """The group `devices`, which imports its commands when one is called, or they are listed.

    To list the devices takes a third of their modules.
    """

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """The commands by name."""
        from core.cli.device_commands import app as about_one_device

        commands: MutableMapping[str, Any] = get_group(about_one_device).commands
        return commands

    @commands.setter
    def commands(self, given: MutableMapping[str, Any]) -> None:
        """Take the commands that were declared for this group, of which there are none."""


commands = command_set()
app = typer.Typer(cls=DeviceCommands, help="The devices and their health.", invoke_without_command=True)
commands.add_typer(app, name="devices")


@app.callback(epilog=examples("devices", "devices --json"))
def devices(context: typer.Context) -> None:
    """List the devices and their health; or see to one of them."""
    if context.invoked_subcommand is None:
        in_session(context, list_devices, wait_for_devices=True)
