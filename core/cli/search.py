"""`quarterdeck search`, `describe`, `do`: find a tool, read all about it, propose a batch for an intent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from core.batch.batch_file import batch_to_yaml
from core.cli.base import DeviceArgument, FilterOption, ToolArgument, command_set, examples, in_session
from core.cli.output import (
    MOST_REASON,
    SCOPE_NAMES,
    as_json,
    claim_cell,
    facts,
    lines,
    note,
    one_line,
    say,
    shown_json,
    styled,
    table,
    time_cell,
    tool_cell,
)
from core.cli.session import Session
from core.errors import BadInput
from core.fleet.models import ToolDescription, ToolHit, ToolScope
from core.models.device_filter import as_filter, no_match
from core.models.tools import Contract, Fact, Tool
from core.service.batch_proposal import propose

_CONTRACT_NAMES = {
    "effect": "Effect",
    "risk": "Risk",
    "reversible": "Can be undone",
    "idempotent": "Twice is as once",
    "open_world": "Reaches outside",
    "evidence": "Shows it worked",
}
commands = command_set()
WordsArgument = Annotated[list[str], typer.Argument(metavar="WORDS...")]


@commands.command(
    epilog=examples(
        "search how much memory is free",
        "search screnshot",
        "search 'list branches' --device tag:lab --limit 5",
        "search write file --json",
    )
)
def search(
    context: typer.Context,
    words: WordsArgument,
    device: FilterOption = "",
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="NUMBER", help="How many at most.")] = 20,
) -> None:
    """Find tools of all devices by what they are called and what they do, best first, with the reason.

    Typing errors are forgiven. Devices that offer the same tool share a line, unless a word names a device.
    """

    async def work(session: Session) -> None:
        targets = as_filter(device)
        hits = await session.console.devices.search(" ".join(words), targets, limit)
        if context.obj.json:
            say(as_json({"hits": [hit.model_dump(mode="json") for hit in hits]}))
            return
        say(table(("DEVICE", "TOOL", "RISK", "EFFECT", "WHY", "WHAT IT DOES"), map(_row, hits)))
        if not hits:
            missed = await _nothing_matches(session, targets)
            note(one_line(missed.message) if missed else "No tool fits these words.")

    in_session(context, work, wait_for_devices=True)


@commands.command(
    epilog=examples(
        "describe this-computer write_file",
        "describe lab-1 github_list_branches --json",
    )
)
def describe(
    context: typer.Context,
    device: DeviceArgument,
    tool: ToolArgument,
) -> None:
    """Show one tool in full: contract and scope with the source of each fact, arguments, latest calls."""

    async def work(session: Session) -> None:
        described = await session.console.devices.describe(device, tool)
        if context.obj.json:
            say(as_json(described.model_dump(mode="json")))
        else:
            say(description_text(described))

    in_session(context, work, wait_for_devices=True, device=device)


@commands.command(
    epilog=examples(
        'do "memory and list the processes"',
        'do "read file /etc/hostname, then screenshot" --device tag:lab',
        'do "disk usage" --save disk-check',
    )
)
def do(
    context: typer.Context,
    words: WordsArgument,
    device: FilterOption = "",
    save: Annotated[
        str | None, typer.Option("--save", metavar="NAME", help="Save the batch under this name.")
    ] = None,
) -> None:
    """Propose a batch for an intent, from the search alone. Nothing is sent.

    Parts joined by "and", "then" or commas become steps. Arguments are taken from the words where a tool
    lists the values that it takes, or wants a path; what is missing is named. Open a saved batch in the
    window's builder, or plan it there.
    """

    async def work(session: Session) -> None:
        targets = as_filter(device)
        if missed := await _nothing_matches(session, targets):
            raise missed
        proposal = await propose(session.console, " ".join(words), targets)
        text = batch_to_yaml(proposal.batch)
        if save is not None:
            await session.console.runs.save_batch(save, proposal.batch)
        if context.obj.json:
            batch = proposal.batch.model_dump(mode="json", by_alias=True)
            say(as_json({"batch": batch, "notes": proposal.notes, "saved": save}))
            return
        say(text.rstrip("\n"))
        for remark in proposal.notes:
            note(one_line(remark))
        if save is not None:
            note(f"Saved as {one_line(save)}. Nothing was sent.")

    in_session(context, work, wait_for_devices=True)


async def _nothing_matches(session: Session, targets: str) -> BadInput | None:
    """The error for a filter that no device matches; None if one does."""
    if not targets or await session.console.devices.match(targets):
        return None
    return no_match(targets, await session.console.devices.match(""))


def _row(hit: ToolHit) -> tuple[object, ...]:
    device = hit.device if hit.devices < 2 else f"{hit.device} and {hit.devices - 1} more"
    state = "" if not hit.changed else " (blocked: review it)"
    what = hit.title or hit.description.split("\n", 1)[0]
    return (
        device,
        tool_cell(hit.tool),
        hit.risk.value,
        hit.effect.value,
        claim_cell("; ".join(hit.reasons), MOST_REASON),
        f"{claim_cell(what, MOST_REASON)}{state}",
    )


def description_text(described: ToolDescription) -> str:
    """A tool as a person reads it."""
    tool = described.tool
    state = f"blocked: it {tool.change}" if tool.changed else "trusted"
    reason = f": {described.reason}" if described.reason else ""
    head = facts(
        [
            ("Tool", tool.tool_name),
            ("Title", tool.title or ""),
            ("Device", f"{tool.device} ({described.health.value}{reason})"),
            ("Server", tool.namespace or ""),
            ("State", state),
        ]
    )
    parts = [
        head,
        lines(tool.description),
        _facts_text("Contract", tool.contract, _CONTRACT_NAMES),
        f"  Digest  {tool.contract.digest}",
        _facts_text("Scope", described.scope, SCOPE_NAMES),
        f"{styled('Undo', 'bold')}\n  {one_line(described.undo)}",
        f"{styled('Arguments', 'bold')}\n{_schema_text(tool)}",
        f"{styled('Latest calls', 'bold')}\n{_calls_text(described)}",
    ]
    return "\n\n".join(part for part in parts if part)


def _facts_text(title: str, model: Contract | ToolScope, names: dict[str, str]) -> str:
    rows = []
    for key, name in names.items():
        fact: Fact[Any] = getattr(model, key)
        value = {True: "yes", False: "no"}.get(fact.value, fact.value)
        rows.append((f"  {name}", getattr(value, "value", value), f"[{fact.source.value}]", fact.why))
    return f"{styled(title, 'bold')}\n{table(('', '', '', ''), rows).split(chr(10), 1)[1]}"


def _schema_text(tool: Tool) -> str:
    return shown_json(tool.input_schema)


def _calls_text(described: ToolDescription) -> str:
    if not described.calls:
        return "  It has not been called here yet."
    rows = [
        (time_cell(call.at), call.actor, call.status, call.verdict, call.call_id, call.error)
        for call in described.calls
    ]
    return table(("TIME (UTC)", "WHO", "STATUS", "VERDICT", "CALL", "ERROR"), rows)
