"""`quarterdeck contracts`: review of tools that are blocked because they differ from the trusted contract."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer

from core.cli.answer import Answer
from core.cli.base import EVERYWHERE, command_set, examples, in_session
from core.cli.output import facts, lines, note, one_line, shown_json, table, tool_cell
from core.cli.session import Session, tool_of
from core.cli.signing import KeySource, sign_change, signs
from core.cli.terminal import styled
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.models.tools import Tool, changed_facts
from core.service.console import ContractChange
from core.service.wishes import contract_change

commands = command_set()
app = typer.Typer(
    help="Tools that are not what was trusted: list them, see what changed, trust them.",
    epilog=EVERYWHERE,
    no_args_is_help=True,
)
commands.add_typer(app, name="contracts")
NOT_KEPT = "The trusted definition was not kept, only its digest. This is the definition now:"
AROUND = 2

DeviceArgument = Annotated[str, typer.Argument(metavar="DEVICE")]
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL")]


@app.command("list", epilog=examples("contracts list", "contracts list --json"))
def list_blocked(context: typer.Context) -> None:
    """List the tools that are blocked until an operator has reviewed them, and what changed of each."""
    in_session(context, list_changed, wait_for_devices=True)


@app.command("show", epilog=examples("contracts show lab-1 create_branch"))
def show(context: typer.Context, device: DeviceArgument, tool: ToolArgument) -> None:
    """Show what changed of one tool, as a difference. Nothing is trusted."""

    async def work(session: Session) -> Answer:
        found = await tool_of(session, device, tool)
        change = await session.console.devices.tool_change(device, found.tool_key)
        text = change_text(found, change) if found.changed else _as_trusted(found)
        return Answer(_as_json(found, change), text)

    in_session(context, work, wait_for_devices=True, device=device)


@app.command(
    "review",
    epilog=examples(
        "contracts review lab-1 create_branch",
        "contracts review lab-1 create_branch --digest SHA256 --passphrase-file FILE",
    ),
)
@signs
def review(
    context: typer.Context,
    device: DeviceArgument,
    tool: ToolArgument,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="SHA256",
            help="Sign only if this is the contract's digest, as `contracts show` has it.",
        ),
    ] = None,
    *,
    unlocking: KeySource,
) -> None:
    """Show what changed of one tool and trust it as it is now. An operator signs this."""
    in_session(
        context,
        lambda session: _review(session, device, tool, digest, unlocking),
        wait_for_devices=True,
        device=device,
    )


async def list_changed(session: Session) -> Answer:
    """List the tools that are not what was trusted."""
    found: list[tuple[Tool, ContractChange]] = []
    for device in (await session.console.service.state()).devices:
        if not device.changed_tools:
            continue
        try:
            blocked = [tool for tool in await session.console.devices.tools(device.name) if tool.changed]
            found += [
                (tool, await session.console.devices.tool_change(device.name, tool.tool_key))
                for tool in blocked
            ]
        except (BadInput, DeviceError) as error:
            # The device was lost, or no longer lists the tool; the other devices are still worth showing.
            note(f"{one_line(device.name)}: {one_line(error.message)}")
    rows = [
        (tool.device, tool_cell(tool.tool_name), ", ".join(change.changed) or "not known", tool.change)
        for tool, change in found
    ]
    head = ("DEVICE", "TOOL", "CHANGED", "WHY IT IS BLOCKED")
    return Answer(
        {"contracts": [_as_json(tool, change) for tool, change in found]},
        [table(head, rows)] if found else "No tool is blocked.",
    )


async def _review(
    session: Session,
    device: str,
    wanted: str,
    digest: str | None,
    unlocking: KeySource,
) -> Answer:
    tool = await tool_of(session, device, wanted)
    if digest is not None and digest != tool.contract.digest:
        raise Refused(
            f"The digest of this contract is {tool.contract.digest} now; nothing is signed.",
            ErrorCode.CONTRACT_CHANGED,
        )
    if not tool.changed:
        told = {"device": device, "tool_key": tool.tool_key, "trusted": True, "changed": []}
        return Answer(told, _as_trusted(tool))
    change = await session.console.devices.tool_change(device, tool.tool_key)
    wish = contract_change(tool)
    signed = await sign_change(session, unlocking, wish, shown=change_text(tool, change))
    trusted = await session.console.devices.review_tool(device, tool.tool_key, tool.contract.digest, signed)
    return Answer(
        {**_as_json(tool, change), "trusted": not trusted.changed},
        f"{one_line(tool.tool_name)} on {device} is trusted as it is now.",
    )


def _as_trusted(tool: Tool) -> str:
    return f"{one_line(tool.tool_name)} on {tool.device} is as it was trusted."


def _as_json(tool: Tool, change: ContractChange) -> dict[str, Any]:
    """A tool as JSON for programs: `changed` names the changed parts, `difference` has their lines."""
    return {
        "device": tool.device,
        "tool_key": tool.tool_key,
        "tool_name": tool.tool_name,
        "trusted": not tool.changed,
        "why": tool.change,
        "changed": change.changed if tool.changed else [],
        "difference": difference(change) if tool.changed else [],
        "facts": _facts(tool, change),
        "digest": tool.contract.digest,
    }


def _facts(tool: Tool, change: ContractChange) -> dict[str, list[Any]]:
    """The facts of the contract whose value has changed, each with both values."""
    before = change.before_contract
    return {} if before is None or not tool.changed else changed_facts(before, tool.contract)


def change_text(tool: Tool, change: ContractChange) -> str:
    """A changed tool for people: the differences line by line, and its present risk and effect."""
    turned = _facts(tool, change)
    head = facts(
        [
            ("Device", tool.device),
            ("Tool", tool.tool_key),
            ("Changed", ", ".join(change.changed)),
            *[(f"Its {name}", f"{was} -> {now}") for name, (was, now) in turned.items()],
            ("Risk", tool.contract.risk.value.value),
            ("Effect", tool.contract.effect.value.value),
            ("Digest", tool.contract.digest),
        ]
    )
    return "\n".join([str(head), *map(_coloured, difference(change))])


def difference(change: ContractChange) -> list[str]:
    """The changed parts, each with its lines before (`-`) and after (`+`); hidden characters escaped."""
    if change.before is None:
        return [NOT_KEPT, *shown_json(change.after).splitlines()]
    told: list[str] = []
    for part in change.changed:
        before, after = _lines(change.before.get(part)), _lines(change.after.get(part))
        # The first two lines would name two files, which do not exist here.
        differ = list(difflib.unified_diff(before, after, lineterm="", n=AROUND))[2:]
        if not differ:
            # Both read the same on a terminal, for example with other line ends; their JSON differs.
            differ = [f"-{shown_json(change.before.get(part))}", f"+{shown_json(change.after.get(part))}"]
        told += [f"{part}:", *differ]
    return told


def _lines(value: Any) -> list[str]:
    """A part of a definition as lines: text as written, everything else as JSON."""
    if value is None:
        return []
    return (lines(value) if isinstance(value, str) else shown_json(value)).split("\n")


def _coloured(line: str) -> str:
    style = {"+": "green", "-": "red"}.get(line[:1])
    return styled(line, style) if style else line
