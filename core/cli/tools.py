"""`quarterdeck tools`: the tools of one device, or of several, with risk and effect."""

from __future__ import annotations

import typer

from core.cli.answer import Answer
from core.cli.base import command_set, examples, in_session
from core.cli.filter_option import TargetsArgument
from core.cli.output import Cell, Table, claim_cell, note, one_line, table, tool_cell, what_it_does
from core.cli.session import Session, must_be_here
from core.errors import DeviceError
from core.filter_words import as_filter, is_filter
from core.models.device_filter import no_match
from core.models.tools import Tool
from core.text import some_names

commands = command_set()
# Devices that a row names.
_MOST_NAMED = 5


async def tools(session: Session, device: str | None) -> Answer:
    """List the tools of a device, or of all devices."""
    names = [device] if device else [one.name for one in (await session.console.service.state()).devices]
    found: list[Tool] = []
    for name in names:
        found += (here := await _tools_of(session, name, strict=bool(device)))
        if device and not here:
            await must_be_here(session, name)
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


async def tools_of_several(session: Session, targets: str) -> Answer:
    """List the tools of the devices that match a filter, and which of them have each.

    Raises:
        BadInput: no device matches.
    """
    names = [device.name for device in await session.console.devices.match(targets)]
    if not names:
        raise no_match(targets, await session.console.devices.match(""))
    found = [tool for name in names for tool in await _tools_of(session, name, strict=False)]
    offered: dict[tuple[str, ...], list[Tool]] = {}
    for tool in found:
        risk, effect = tool.contract.risk.value, tool.contract.effect.value
        offered.setdefault((tool.namespace or "", tool.tool_name, risk, effect), []).append(tool)
    groups = [offered[key] for key in sorted(offered)]
    value = {
        "devices": names,
        "tools": found,
        "offered": [
            {
                "tool_name": group[0].tool_name,
                "namespace": group[0].namespace,
                "devices": [tool.device for tool in group],
                "by_all": len(group) == len(names),
            }
            for group in groups
        ],
    }
    return Answer(value, [_offered_table(groups, len(names))])


def _offered_table(groups: list[list[Tool]], devices: int) -> Table:
    rows = [
        (
            tool_cell(group[0].tool_name),
            claim_cell(group[0].namespace or ""),
            group[0].contract.risk.value,
            group[0].contract.effect.value,
            _by(group, devices),
            "review" if any(tool.changed for tool in group) else "",
            what_it_does(group[0].tool_name, group[0].title, group[0].description),
        )
        for group in groups
    ]
    return table(("TOOL", "SERVER", "RISK", "EFFECT", "DEVICES", "STATE", "WHAT IT DOES"), rows)


def _by(group: list[Tool], devices: int) -> str:
    """Which of the devices have a tool: all, or so many and their names."""
    if len(group) == devices:
        return f"all {devices}" if devices > 1 else one_line(group[0].device)
    names = some_names([one_line(tool.device) for tool in group], _MOST_NAMED)
    return f"{len(group)} of {devices}: {names}"


async def _tools_of(session: Session, name: str, *, strict: bool) -> list[Tool]:
    """The tools of a device; not `strict`, a device that is away is told and has none."""
    try:
        return await session.console.devices.tools(name)
    except DeviceError as error:
        if strict:
            raise
        note(f"{one_line(name)}: {one_line(error.message)}")
        return []


@commands.command("tools", epilog=examples("tools", "tools lab-1 --json", "tools tag:lab os:linux"))
def tools_command(context: typer.Context, devices: TargetsArgument = None) -> None:
    """List the tools of devices, with risk and effect.

    Of a filter or a pattern, each tool is a line that says which of the devices have it.
    """
    words = " ".join(devices or [])
    if words and is_filter(words):
        in_session(
            context, lambda session: tools_of_several(session, as_filter(words)), wait_for_devices=True
        )
    else:
        one = words or None
        in_session(context, lambda session: tools(session, one), wait_for_devices=True, device=one)
