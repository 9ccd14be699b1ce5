"""Output of the command line: device text cannot move the cursor, hide characters or change their order."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from core.commands.results import CommandResult
from core.errors import ErrorInfo
from core.service.envelope import Envelope, envelope_error
from core.text import escape_hidden, escape_right_to_left, sentences, shorten_middle

GAP = "  "
MOST_REASON = 160
"""Characters of a reason in the last column of a table, whose width pads no other column."""
# The fields of `core.fleet.models.ToolScope` as people read them.
SCOPE_NAMES = {
    "authentication": "Sign-in",
    "network": "Network",
    "files": "Files",
    "processes": "Processes",
    "account": "Acts as",
    "served_by": "Served by",
    "repair": "If it fails",
}
# The limit of most language model clients for the name of a tool.
_LONGEST_TOOL = 64
_LONGEST_CLAIM = 40
_SECONDS = len("2026-01-01T00:00:00")


class AnswerLost(Exception):
    """The answer could not be written, for example because the disk is full."""


def say(text: str = "") -> None:
    """Print lines on standard output; after its reader has closed the pipe (`| head`), print nothing.

    Raises:
        AnswerLost: the output cannot be written for another reason.
    """
    print_text(f"{text}\n")


def print_text(text: str) -> None:
    """Print text on standard output as it is, without a line end; see `say`."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        # A closed pipe is not a fault: the exit code still reports the command itself.
        leave(sys.stdout)
    except OSError as error:
        leave(sys.stdout)
        raise AnswerLost(f"The answer could not be written: {error.strerror}.") from error


def note(text: str) -> None:
    """Print a remark on standard error: it is not part of the answer, and a failed write is ignored."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        leave(sys.stderr)


def leave(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, so that the interpreter's last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def one_line(text: object) -> str:
    """Text from outside as one line, with hidden characters and right-to-left letters escaped.

    Terminals reorder a line with right-to-left letters, each in its own way: only codes keep its order.
    """
    return escape_right_to_left(escape_hidden(str(text), keep_lines=False))


def lines(text: str) -> str:
    """Text from outside with its line breaks; otherwise as in `one_line`."""
    return escape_right_to_left(escape_hidden(text.replace("\r\n", "\n")))


def as_json(value: Any) -> str:
    """JSON for programs: ASCII only, so that it is also safe on a terminal."""
    return json.dumps(value, indent=2, ensure_ascii=True)


def shown_json(value: Any) -> str:
    """JSON for people: readable, exact; hidden characters and right-to-left letters are JSON escapes.

    The output is JSON of the same value, so no part of it can be mistaken for something else.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False)
    hidden = {ord(sign) for sign in set(text) if sign != "\n" and one_line(sign) != sign}
    # JSON does not escape DELETE.
    escapes = {code: json.dumps(chr(code))[1:-1] for code in hidden - {0x7F}}
    return text.translate({**escapes, 0x7F: "\\u007f"})


def error_json(error: ErrorInfo) -> dict[str, Any]:
    """An error as `--json` prints it: as in an envelope."""
    return envelope_error(error).model_dump(mode="json")


def print_error(error: ErrorInfo, json_wanted: bool, **more: Any) -> None:
    """Print what happened, then what to do.

    With `--json` it goes to standard output, where a program also reads the answer.
    """
    if json_wanted:
        say(as_json({"error": error_json(error), **more}))
        return
    note(f"{styled('Error', 'red', sys.stderr)}: {lines(sentences(error.message))}")
    if error.next:
        note(lines(error.next))


_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def styled(text: str, style: str, stream: Any = None) -> str:
    """Text in a style where the stream is a terminal, unless NO_COLOR or TERM=dumb asks for plain text."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def width(text: str) -> int:
    """The number of terminal cells of a line."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns; every cell on one line, with hidden characters escaped."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(head, *shown, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [cell + " " * (wide - width(cell)) for cell, wide in zip(cells, widths, strict=True)]
        return GAP.join(padded).rstrip()

    return "\n".join([styled(line(head), "bold"), *map(line, shown)])


def time_cell(stamp: str | None) -> str:
    """A time from the service in UTC, to the second, for a column whose heading names UTC."""
    return (stamp or "")[:_SECONDS].replace("T", " ")


def moment(stamp: str | None) -> str:
    """A time with its time zone, for places without such a heading; empty for none."""
    return f"{time_cell(stamp)} UTC" if stamp else ""


def tool_cell(name: str | None) -> str:
    """A tool's name, shortened so that it does not widen every row; `--json` has the whole name."""
    return shorten_middle(one_line(name or ""), _LONGEST_TOOL)


def claim_cell(said: str, most: int = _LONGEST_CLAIM) -> str:
    """A device's claim about itself, shortened so that it does not widen every row; `--json` has it whole."""
    return shorten_middle(one_line(said), most)


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and values in two columns, without empty values."""
    kept = [(name, one_line(value)) for name, value in pairs if str(value)]
    widest = max((len(name) for name, _ in kept), default=0)
    return "\n".join(f"{styled(name.ljust(widest), 'dim')}{GAP}{value}" for name, value in kept)


def envelope_json(envelope: Envelope, files: dict[str, str] | None = None) -> dict[str, Any]:
    """An envelope as `--json` prints it; `files` maps the digest of saved evidence to its file."""
    told = envelope.model_dump(mode="json")
    for evidence in told["evidence"]:
        evidence["file"] = (files or {}).get(evidence["blob"])
    return told


def print_failure(envelope: Envelope, error: ErrorInfo, json_wanted: bool) -> None:
    """Print why a call has no result: as its envelope, or as the error alone."""
    if json_wanted:
        say(as_json(envelope_json(envelope)))
    else:
        print_error(error, False)


def result_text(result: CommandResult) -> str:
    """A result for people."""
    head = facts(
        [
            ("Device", result.device),
            ("Tool", result.tool_name),
            ("Status", f"{result.status.value} ({result.verdict.value})"),
            ("Took", f"{result.duration_ms:.0f} ms"),
            ("Note", result.note),
            *[("Evidence", f"{one.media_type} {one.size} bytes {one.blob}") for one in result.evidence],
        ]
    )
    if result.result is None:
        return head
    body = lines(result.result) if isinstance(result.result, str) else shown_json(result.result)
    return f"{head}\n\n{body}"
