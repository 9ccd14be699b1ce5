"""Shows the result of a command: as text for people, and as its envelope for programs."""

from __future__ import annotations

from typing import Any

from core.cli.answer import Answer
from core.cli.output import Block, facts, lines, shown_json, size_words, span, state_cell
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


def result_text(result: CommandResult, step: str = "") -> list[Block]:
    """A result for people; `step` where there are several."""
    words = result.verdict.value.replace("_", " ")
    head = facts(
        [
            ("Device", result.device),
            ("Step", step),
            ("Tool", result.tool_name),
            ("Status", state_cell(result.verdict, f"{result.status.value} ({words})")),
            ("Took", span(result.duration_ms / 1000)),
            ("Note", result.note),
            *[
                ("Evidence", f"{one.media_type}, {size_words(one.size)}, {one.blob}")
                for one in result.evidence
            ],
        ]
    )
    if result.result is None:
        return [head]
    body = lines(result.result) if isinstance(result.result, str) else shown_json(result.result)
    return [head, "", body]
