"""Commands that only read: devices, tools, approvals, runs, journal entries."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from core.aip.messages import ResultStatus
from core.audit.checkpoint import load_public_key
from core.audit.entries import Entry, Kind
from core.audit.events import LateAnswerReceived
from core.batch.run_state import result_of
from core.cli.output import (
    as_json,
    claim_cell,
    envelope_json,
    error_json,
    facts,
    lines,
    note,
    one_line,
    print_error,
    print_text,
    result_text,
    say,
    shown_json,
    table,
    time_cell,
    tool_cell,
)
from core.cli.run_text import cells_text, summary_text
from core.cli.saving import Saving
from core.cli.session import Session, must_be_here
from core.commands.results import Verdict
from core.errors import DeviceError, ErrorCode, ErrorInfo
from core.models.tools import Tool
from core.replay.titles import KNOWS_NOTHING, NEVER_SEEN
from core.service import exit_codes
from core.service.console import Proof
from core.service.pages import every_result, whole_run
from core.service.proof_check import VERIFY_ALL, Finding, check_proof, steps_of

LATE_SHOWN = 200
# For the last column of a table, whose width pads no other column.
MOST_REASON = 160


def _plain(models: list[Any]) -> list[dict[str, Any]]:
    return [model.model_dump(mode="json", by_alias=True) for model in models]


async def devices(session: Session, json_wanted: bool) -> None:
    """List every device with its health."""
    found = (await session.console.service.state()).devices
    if json_wanted:
        say(as_json({"devices": _plain(found)}))
        return
    rows = [
        (
            one.name,
            one.health.value,
            one.tool_count,
            claim_cell(one.system or one.platform),
            " ".join(one.tags),
            claim_cell(one.reason, MOST_REASON),
        )
        for one in found
    ]
    say(table(("NAME", "HEALTH", "TOOLS", "SYSTEM", "TAGS", "WHY"), rows))


async def tools(session: Session, device: str | None, json_wanted: bool) -> None:
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
    if json_wanted:
        say(as_json({"tools": _plain(found)}))
        return
    rows = [
        (
            one.device,
            claim_cell(one.namespace or ""),
            tool_cell(one.tool_name),
            one.contract.risk.value,
            one.contract.effect.value,
            "review" if one.changed else "",
            one.title or one.description.split("\n", 1)[0],
        )
        for one in sorted(found, key=lambda one: (one.device, one.namespace or "", one.tool_name))
    ]
    say(table(("DEVICE", "SERVER", "TOOL", "RISK", "EFFECT", "STATE", "WHAT IT DOES"), rows))


async def approvals(session: Session, json_wanted: bool) -> None:
    """List the requests that wait for an operator."""
    found = await session.console.approvals.list()
    if json_wanted:
        say(as_json({"approvals": _plain(found)}))
        return
    if not found:
        say("Nothing waits for approval.")
        return
    rows = [
        (
            one.id,
            one.decision.risk.value,
            one.request.device,
            tool_cell(one.request.tool_name),
            one.actor,
            f"{one.remaining_s:.0f} s",
            one.decision.summary,
        )
        for one in found
    ]
    say(table(("ID", "RISK", "DEVICE", "TOOL", "ASKED BY", "LEFT", "EFFECT"), rows))


def _dump(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


async def runs(session: Session, limit: int, json_wanted: bool) -> None:
    """List the latest runs."""
    found = await session.console.runs.list(limit=limit)
    if json_wanted:
        say(as_json({"runs": _plain(found)}))
        return
    rows = [
        (one.id, one.state.value, one.name, len(one.devices), one.actor, time_cell(one.started_at), one.note)
        for one in found
    ]
    say(table(("RUN", "STATE", "NAME", "DEVICES", "ACTOR", "STARTED (UTC)", "NOTE"), rows))


async def run(session: Session, wanted: str, json_wanted: bool, saving: Saving | None = None) -> int:
    """Show a run with the result of each step on each device; with `saving`, save pictures and outputs."""
    found = await whole_run(session.console.runs, await session.console.runs.get(wanted))
    results = [result for cell in found.cells if (result := result_of(cell)) is not None]
    quoted = wanted.replace('"', "")
    page = await session.console.journal.entries(
        f'run:"{quoted}" kind:{Kind.LATE_ANSWER_RECEIVED}', None, LATE_SHOWN
    )
    if saving is not None:
        await saving.save(session, results)
    code = saving.code(exit_codes.DONE) if saving is not None else exit_codes.DONE
    if json_wanted:
        files = saving.files if saving is not None else None
        envelopes = await every_result(session.console.runs, wanted)
        told = [envelope_json(one, files) for one in envelopes if one.verdict is not None]
        late = [_dump(one) for one in page.entries]
        say(as_json({"run": _dump(found.summary), "results": told, "late_answers": late}))
        return code
    say(f"{summary_text(found)}\n\n{cells_text(found)}")
    for result in results:
        # The table above already says why a step was skipped.
        if result.status is not ResultStatus.SKIPPED:
            say(f"\n{result_text(result)}")
    if page.entries:
        say("\nAnswers that came late (`find seq:NUMBER` shows one):")
        rows = [
            (
                one.seq,
                time_cell(one.time),
                one.device or "",
                one.step or "",
                tool_cell(one.tool),
                late_answer_text(one),
            )
            for one in page.entries
        ]
        say(table(("SEQ", "TIME (UTC)", "DEVICE", "STEP", "TOOL", "SAYS"), rows))
    return code


async def output(session: Session, run: str, device: str, step: str, json_wanted: bool) -> None:
    """Print what the command of a cell has printed so far."""
    after, pieces = 0, []
    while True:
        chunk = await session.console.runs.output(run, device, step, after)
        after = chunk.next
        if json_wanted:
            pieces += _plain(chunk.pieces)
        elif chunk.pieces:
            print_text(lines(chunk.text))
        if not chunk.more:
            break
    if json_wanted:
        say(as_json({"run": run, "device": device, "step": step, "ended": chunk.ended, "output": pieces}))


async def find(session: Session, query: str, limit: int, before: int | None, json_wanted: bool) -> None:
    """List the journal entries that match a query, newest first."""
    page = await session.console.journal.entries(query, before, limit)
    if json_wanted:
        say(as_json(_dump(page)))
        return
    rows = [
        (
            one.seq,
            time_cell(one.time),
            one.kind.value,
            one.actor,
            one.device or "",
            tool_cell(one.tool),
            _how(one),
        )
        for one in page.entries
    ]
    say(table(("SEQ", "TIME (UTC)", "WHAT", "WHO", "DEVICE", "TOOL", "HOW"), rows))
    some = "" if page.total_exact else "at least "
    say(f"\n{len(page.entries)} of {some}{page.total} entries.")
    if page.more:
        say(f"For older ones: --before {page.entries[-1].seq}")


def late_answer_text(entry: Entry) -> str:
    """What a late answer says, and what it changed."""
    event = LateAnswerReceived.read(entry.body)
    said = entry.status or "nothing readable"
    if event.never_seen:
        said = KNOWS_NOTHING if entry.verdict == Verdict.UNKNOWN.value else NEVER_SEEN
    asked = " when asked" if event.recalled else ""
    if event.outcome is None:
        return f"{said}{asked}; it counts for nothing"
    return f"{said}{asked}; now {entry.verdict}"


def _how(entry: Entry) -> str:
    return " ".join(filter(None, (entry.status, entry.verdict)))


async def entry(session: Session, seq: int, json_wanted: bool) -> int:
    """Show a journal entry in full, and check the proof that the journal's signed head covers it.

    The check uses the key in this home's own folder, not the key that came with the proof.
    """
    found = await session.console.journal.entry(seq)
    proof = await session.console.journal.prove(seq)
    finding = check_proof(found, proof, seq)
    kept = await asyncio.to_thread(_journal_key, session)
    if finding.ok and kept != proof.public_key:
        finding = Finding(False, "The proof is signed with another key than this home's.", VERIFY_ALL)
    code = exit_codes.DONE if finding.ok else exit_codes.JOURNAL_BAD
    error = ErrorInfo(
        code=ErrorCode.JOURNAL_CORRUPT,
        message=f"The proof of entry {seq} does not hold: {finding.words}",
        next=finding.what_now,
    )
    if json_wanted:
        told = {**_dump(found), "proof": {**_dump(proof), "holds": finding.ok}}
        say(as_json(told if finding.ok else {**told, "error": error_json(error)}))
        return code
    say(shown_json(_dump(found)))
    say(f"\n{_proof_text(proof, finding)}")
    if not finding.ok:
        print_error(error, False)
    return code


def _journal_key(session: Session) -> str:
    return load_public_key(session.home.keys / "journal.pub").public_bytes_raw().hex()


def _proof_text(proof: Proof, finding: Finding) -> str:
    """The path from the entry's hash to the signed root, and the outcome of the check."""
    head = facts(
        [
            ("Proof", f"{'holds' if finding.ok else 'does not hold'}: {finding.words}"),
            ("Entry's hash", proof.leaf),
            *[(f"with {one.first} to {one.last}", f"{one.digest} ({one.side})") for one in steps_of(proof)],
            ("Root", f"{proof.root} over {proof.size:,} entries"),
        ]
    )
    return f"{head}\n\nThe head, signed by this home's journal:\n\n{lines(proof.checkpoint).rstrip()}"
