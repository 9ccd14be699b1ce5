"""Shows journal entries on a terminal, and the proof that the journal has one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from core.audit.checkpoint import load_public_key
from core.audit.entries import Entry
from core.cli.answer import Answer
from core.cli.output import (
    Block,
    Cell,
    error_json,
    facts,
    lines,
    shown_json,
    table,
    time_cell,
    tool_cell,
)
from core.cli.session import Session
from core.cli.terminal import STATE_STYLES
from core.errors import ErrorCode, ErrorInfo
from core.service import exit_codes
from core.service.console import EntryPage, Proof
from core.service.proof_check import VERIFY_ALL, Finding, check_proof, steps_of
from core.text import plural


async def find(session: Session, query: str, limit: int, before: int | None) -> Answer:
    """List the journal entries that match a query, newest first."""
    page = await session.console.journal.entries(query, before, limit)
    return Answer(page, _page_text(page))


def _page_text(page: EntryPage) -> Iterator[Block]:
    some = "" if page.total_exact else "at least "
    if not page.entries:
        yield f"No entry matches, of {some}{page.total:,}."
        return
    rows = [
        (
            one.seq,
            time_cell(one.time),
            one.kind.value,
            one.actor,
            one.device or "",
            tool_cell(one.tool),
            Cell(_how(one), STATE_STYLES.get(one.verdict or "", "")),
        )
        for one in page.entries
    ]
    yield table(("SEQ", "TIME (UTC)", "KIND", "ACTOR", "DEVICE", "TOOL", "OUTCOME"), rows)
    yield f"\n{len(page.entries)} of {some}{plural(page.total, 'entry', 'entries')}."
    if page.more:
        yield f"For older ones: --before {page.entries[-1].seq}"


def _how(entry: Entry) -> str:
    return " ".join(filter(None, (entry.status, entry.verdict)))


async def entry(session: Session, seq: int) -> Answer:
    """Show a journal entry in full, and check the proof that the journal's signed head covers it."""
    found, proof, finding = await proved(session, seq)
    told = found.model_dump(mode="json")
    text = [shown_json(told), "", *_proof_text(proof, finding)]
    value = {**told, "proof": {**proof.model_dump(mode="json"), "holds": finding.ok}}
    if finding.ok:
        return Answer(value, text)
    error = not_held(seq, finding)
    return Answer({**value, "error": error_json(error)}, text, exit_codes.JOURNAL_BAD, error)


async def proved(session: Session, seq: int) -> tuple[Entry, Proof, Finding]:
    """An entry, its proof, and the result of checking it.

    The check uses the key in this home's own folder, not the key that came with the proof.
    """
    found = await session.console.journal.entry(seq)
    proof = await session.console.journal.prove(seq)
    finding = check_proof(found, proof, seq)
    kept = await asyncio.to_thread(_journal_key, session)
    if finding.ok and kept != proof.public_key:
        finding = Finding(False, "The proof is signed with another key than this home's.", VERIFY_ALL)
    return found, proof, finding


def not_held(seq: int, finding: Finding) -> ErrorInfo:
    """The error of a proof that does not hold."""
    message = f"The proof of entry {seq} does not hold: {finding.words}"
    return ErrorInfo(code=ErrorCode.JOURNAL_CORRUPT, message=message, next=finding.what_now)


def _journal_key(session: Session) -> str:
    return load_public_key(session.home.keys / "journal.pub").public_bytes_raw().hex()


def _numbers(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def _proof_text(proof: Proof, finding: Finding) -> list[Block]:
    """The path from the entry's hash to the signed root, and the outcome of the check."""
    head = facts(
        [
            ("Proof", f"{'holds' if finding.ok else 'does not hold'}: {finding.words}"),
            ("Entry's hash", proof.leaf),
            *[(f"{_numbers(one.first, one.last)} {one.side}", one.digest) for one in steps_of(proof)],
            ("Root", proof.root),
            ("Over", plural(proof.size, "entry", "entries")),
        ]
    )
    signed = lines(proof.checkpoint).rstrip()
    return [head, "", "The head, signed by this home's journal:", "", signed]
