"""`quarterdeck tools`: the tools of one device, or of all, with risk and effect."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.answer import Answer
from core.cli.base import command_set, examples, in_session
from core.cli.output import Cell, claim_cell, note, one_line, table, tool_cell, what_it_does
from core.cli.session import Session, must_be_here
from core.errors import DeviceError
from core.models.tools import Tool

commands = command_set()


async def tools(session: Session, device: str | None) -> Answer:
    """List the tools of a device, or of all devices."""
    names = [device] if device else [one.name for one in (await session.console.service.state()).devices]
    found: list[Tool] = []
    for name in names:
        try:
            found += (here := await session.console.devices.tools(name))
            if device and not here:
                await must_be_here(session, name)
        except DeviceError as error:
            # For a named device this is an error; in a list of all, the others are still worth showing.
            if device:
                raise
            note(f"{one_line(name)}: {one_line(error.message)}")
    rows = [
        (
            one.device,
            claim_cell(one.namespace or ""),
            tool_cell(one.tool_name),
            one.contract.risk.value,
            one.contract.effect.value,
            Cell("review", "yellow") if one.changed else "",
            what_it_does(one.tool_name, one.title, one.description),
        )
        for one in sorted(found, key=lambda one: (one.device, one.namespace or "", one.tool_name))
    ]
    head = ("DEVICE", "SERVER", "TOOL", "RISK", "EFFECT", "STATE", "WHAT IT DOES")
    return Answer({"tools": found}, [table(head, rows)])


@commands.command("tools", epilog=examples("tools", "tools lab-1 --json"))
def tools_command(
    context: typer.Context, device: Annotated[str | None, typer.Argument(metavar="DEVICE")] = None
) -> None:
    """List the tools of one device, or of all, with risk and effect."""
    in_session(
        context,
        lambda session: tools(session, device),
        wait_for_devices=True,
        device=device,
    )
