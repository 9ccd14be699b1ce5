"""Shows the result of a command: as text for people, and as its envelope for programs."""

from __future__ import annotations

from typing import Any

from core.cli.answer import Answer
from core.cli.output import Block, facts, lines, shown_json, state_cell
from core.commands.results import CommandResult
from core.errors import ErrorInfo
from core.service.envelope import Envelope


def failure(envelope: Envelope, error: ErrorInfo, code: int) -> Answer:
    """Why a call has no result: as its envelope for programs, as the error alone for people."""
    return Answer(envelope_json(envelope), (), code, error)


def envelope_json(envelope: Envelope, files: dict[str, str] | None = None) -> dict[str, Any]:
    """An envelope as `--json` prints it; `files` maps the digest of saved evidence to its file."""
    told = envelope.model_dump(mode="json")
    for evidence in told["evidence"]:
        evidence["file"] = (files or {}).get(evidence["blob"])
    return told


def result_text(result: CommandResult) -> list[Block]:
    """A result for people."""
    head = facts(
        [
            ("Device", result.device),
            ("Tool", result.tool_name),
            ("Status", state_cell(result.verdict, f"{result.status.value} ({result.verdict.value})")),
            ("Took", f"{result.duration_ms:.0f} ms"),
            ("Note", result.note),
            *[("Evidence", f"{one.media_type} {one.size} bytes {one.blob}") for one in result.evidence],
        ]
    )
    if result.result is None:
        return [head]
    body = lines(result.result) if isinstance(result.result, str) else shown_json(result.result)
    return [head, "", body]
