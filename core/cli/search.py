"""`quarterdeck search`, `describe`, `do`: find a tool, read all about it, propose a batch for an intent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from core.batch.batch_file import batch_to_yaml
from core.cli.answer import Answer
from core.cli.base import DeviceArgument, ToolArgument, command_set, examples, in_session
from core.cli.command_of_words import WORDS, CommandOfWords
from core.cli.filter_option import FilterOption
from core.cli.output import (
    MOST_REASON,
    SCOPE_NAMES,
    Block,
    Prose,
    Remark,
    claim_cell,
    facts,
    lines,
    one_line,
    shown_json,
    table,
    time_cell,
    tool_cell,
    what_it_does,
)
from core.cli.session import Session
from core.cli.terminal import styled
from core.errors import BadInput
from core.filter_words import as_filter
from core.fleet.models import ToolDescription, ToolHit, ToolScope
from core.models.device_filter import no_match
from core.models.tools import Contract, Fact, Tool
from core.schema_forms.fields import schema_fields
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
        "search run ls -la",
        "search -- run git log --oneline",
    ),
    cls=CommandOfWords,
    context_settings=WORDS,
)
def search(
    context: typer.Context,
    words: WordsArgument,
    device: FilterOption = "",
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="NUMBER", help="How many at most.")] = 20,
) -> None:
    """Find tools of all devices by what they are called, do and return, best first, with the reason.

    Any word finds, also by another word for it; typing errors are forgiven. Devices that offer the same tool
    share a line, unless a word names a device. A word may begin with one dash; two are an option's, except
    after "--".
    """

    async def work(session: Session) -> Answer:
        targets = as_filter(device)
        hits = await session.console.devices.search(" ".join(words), targets, limit)
        if hits:
            found = table(("DEVICE", "TOOL", "RISK", "EFFECT", "WHY", "WHAT IT DOES"), map(_row, hits))
            return Answer({"hits": hits}, [found])
        missed = await _nothing_matches(session, targets)
        remark = one_line(missed.message) if missed else "No tool fits these words."
        return Answer({"hits": hits}, Prose(remark))

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

    async def work(session: Session) -> Answer:
        described = await session.console.devices.describe(device, tool)
        return Answer(described, description_text(described))

    in_session(context, work, wait_for_devices=True, device=device)


@commands.command(
    epilog=examples(
        'do "memory and list the processes"',
        'do "read file /etc/hostname, then screenshot" --device tag:lab',
        'do "disk usage" --save disk-check',
        "do \"save 'hello' to ~/note.txt\"",
        "do -- run git log --oneline",
    ),
    cls=CommandOfWords,
    context_settings=WORDS,
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

    Parts joined by "and", "then" or commas become steps. Arguments are taken from the words: quoted texts,
    paths, keys, numbers, names of programs, values that a tool lists. What is missing is named, and the tool
    that fits second best; where no tool fits, that is said, with the nearest. A question never becomes a step
    that changes anything. A word may begin with one dash; two are an option's, except after "--". Open a
    saved batch in the window's builder, or plan it there.
    """

    async def work(session: Session) -> Answer:
        targets = as_filter(device)
        if missed := await _nothing_matches(session, targets):
            raise missed
        proposal = await propose(session.console, " ".join(words), targets)
        if save is not None:
            await session.console.runs.save_batch(save, proposal.batch)
        text: list[Block] = [batch_to_yaml(proposal.batch).rstrip("\n")]
        text += [Remark(one_line(remark)) for remark in proposal.notes]
        steps = [
            {"id": step.step.id, "lacks": step.lacks, "unused": step.unused, "or": step.alternative}
            for step in proposal.steps
        ]
        if save is not None:
            text.append(Remark(f"Saved as {one_line(save)}. Nothing was sent."))
        value = {"batch": proposal.batch, "steps": steps, "notes": proposal.notes, "saved": save}
        return Answer(value, text)

    in_session(context, work, wait_for_devices=True)


async def _nothing_matches(session: Session, targets: str) -> BadInput | None:
    """The error for a filter that no device matches; None if one does."""
    if not targets or await session.console.devices.match(targets):
        return None
    return no_match(targets, await session.console.devices.match(""))


def _row(hit: ToolHit) -> tuple[object, ...]:
    device = hit.device if hit.devices < 2 else f"{hit.device} +{hit.devices - 1}"
    state = "" if not hit.changed else " (blocked: review it)"
    what = what_it_does(hit.tool, hit.title, hit.description)
    return (
        device,
        tool_cell(hit.tool),
        hit.risk.value,
        hit.effect.value,
        claim_cell("; ".join(hit.reasons), MOST_REASON),
        f"{claim_cell(what, MOST_REASON)}{state}",
    )


def description_text(described: ToolDescription) -> Iterator[Block]:
    """A tool as a person reads it."""
    tool = described.tool
    state = f"blocked: it {tool.change}" if tool.changed else "trusted"
    reason = f": {described.reason}" if described.reason else ""
    head = facts(
        [
            ("Tool", tool.tool_name),
            ("Title", tool.title if tool.title != tool.tool_name else ""),
            ("Device", f"{tool.device} ({described.health.value}{reason})"),
            ("Server", tool.namespace or ""),
            ("State", state),
        ]
    )
    yield head
    if tool.description:
        yield from ("", lines(tool.description))
    yield from ("", styled("Contract", "bold"), _facts_table(tool.contract, _CONTRACT_NAMES))
    yield from ("", f"  Digest  {tool.contract.digest}")
    yield from ("", styled("Scope", "bold"), _facts_table(described.scope, SCOPE_NAMES))
    yield from ("", styled("Undo", "bold"), f"  {one_line(described.undo)}")
    yield from ("", styled("Arguments", "bold"), _schema_text(tool))
    yield from ("", styled("Results", "bold"), _results_text(tool))
    yield from ("", styled("Latest calls", "bold"), _calls_text(described))


def _facts_table(model: Contract | ToolScope, names: dict[str, str]) -> Block:
    rows = []
    for key, name in names.items():
        fact: Fact[Any] = getattr(model, key)
        value = {True: "yes", False: "no"}.get(fact.value, fact.value)
        rows.append((f"  {name}", getattr(value, "value", value), f"[{fact.source.value}]", fact.why))
    return table(("", "", "", ""), rows)


def _schema_text(tool: Tool) -> str:
    return shown_json(tool.input_schema)


def _results_text(tool: Tool) -> Block:
    """The fields of the result, a line each: name as a batch writes it, type, and what it is."""
    fields = schema_fields(tool.output_schema)
    if not fields:
        return "  The device does not say what its result has."
    rows = []
    for field in fields:
        if field.when is None:
            said = field.description
        elif field.path == field.when[0]:
            continue  # the value that the others depend on
        else:
            said = f"{field.description} If {field.when[0]} is {field.when[1]}.".strip()
        rows.append((f"  {field.path}", claim_cell(field.kind_words), claim_cell(said, MOST_REASON)))
    return table(("", "", ""), rows)


def _calls_text(described: ToolDescription) -> Block:
    if not described.calls:
        return "  It has not been called here yet."
    rows = [
        (time_cell(call.at), call.actor, call.status, call.verdict, call.call_id, call.error)
        for call in described.calls
    ]
    return table(("TIME (UTC)", "ACTOR", "STATUS", "VERDICT", "CALL", "ERROR"), rows)
