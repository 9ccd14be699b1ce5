"""What the command line prints: nothing that a device says can move the cursor or hide itself."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from core.aip.messages import ResultStatus
from core.dispatch.models import Basis, CommandResult, CommandStage, Verdict
from core.errors import ErrorInfo
from core.fleet.models import Effect
from core.text import escape_hidden, sentences, shorten_middle

GAP = "  "
# As long as what most clients of language models take for a tool's name.
_LONGEST_TOOL = 64
_LONGEST_CLAIM = 40
_SECONDS = len("2026-01-01T00:00:00")


class AnswerLost(Exception):
    """The answer could not be written where it was wanted: on a full disk, say."""


def say(text: str = "") -> None:
    """One or more lines on standard output; once its reader has had enough (`| head`), for nobody.

    Raises:
        AnswerLost: it cannot be written.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # No fault of anybody: the exit code goes on telling how the command itself went.
        leave(sys.stdout)
    except OSError as error:
        leave(sys.stdout)
        raise AnswerLost(f"The answer could not be written: {error.strerror}.") from error


def note(text: str) -> None:
    """A remark on standard error: not part of the answer, and nothing fails because nobody reads it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        leave(sys.stderr)


def leave(stream: TextIO) -> None:
    """Let a stream that cannot be written end nowhere; the interpreter's last flush must not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def one_line(text: object) -> str:
    """Text from elsewhere as one line in which everything is seen."""
    return escape_hidden(str(text), keep_lines=False)


def lines(text: str) -> str:
    """Text from elsewhere with its lines, and everything else that is hidden written out."""
    return escape_hidden(text.replace("\r\n", "\n"))


def as_json(value: Any) -> str:
    """JSON for programs: ASCII only, so that it is also safe on a terminal."""
    return json.dumps(value, indent=2, ensure_ascii=True)


def shown_json(value: Any) -> str:
    """JSON for people: readable, exact, and with every hidden character as its JSON escape.

    What is shown is JSON of the same value, so nothing in it can be mistaken for something else.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False)
    hidden = {ord(sign) for sign in set(text) if sign != "\n" and escape_hidden(sign, False) != sign}
    # JSON itself leaves DELETE as it is.
    escapes = {code: json.dumps(chr(code))[1:-1] for code in hidden - {0x7F}}
    return text.translate({**escapes, 0x7F: "\\u007f"})


# With these a command did not begin, so that the same one again is the first one.
_NOT_BEGUN = frozenset({Basis.NOTHING_SENT, Basis.DEVICE_REFUSED})


def error_json(error: ErrorInfo, may_repeat: bool = True) -> dict[str, Any]:
    """An error as `--json` prints it: with whether the very same request may succeed later.

    Without `may_repeat` it is not retryable whatever its code says.
    """
    return {**error.model_dump(mode="json"), "retryable": may_repeat and error.retryable}


def _may_repeat(result: CommandResult) -> bool:
    """Whether the same command again changes nothing twice: it did not begin, or it only reads."""
    reads = result.decision is not None and result.decision.effect is Effect.OBSERVE
    return reads or result.basis in _NOT_BEGUN


def print_error(error: ErrorInfo, json_wanted: bool, **more: Any) -> None:
    """Say what happened, then what to do.

    With `--json` it goes to standard output, where a program reads the answer too.
    """
    if json_wanted:
        say(as_json({"error": error_json(error), **more}))
        return
    note(f"{styled('Error', 'red', sys.stderr)}: {lines(sentences(error.message))}")
    if error.next:
        note(lines(error.next))


_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def styled(text: str, style: str, stream: Any = None) -> str:
    """Text in a style, where the stream is a terminal and nobody has asked for plain text (NO_COLOR)."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def width(text: str) -> int:
    """How many terminal cells a line takes."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns; every cell on one line, with hidden characters written out."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(head, *shown, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [cell + " " * (wide - width(cell)) for cell, wide in zip(cells, widths, strict=True)]
        return GAP.join(padded).rstrip()

    return "\n".join([styled(line(head), "bold"), *map(line, shown)])


def time_cell(stamp: str | None) -> str:
    """A time from the service, in UTC to the second, for a column that says so."""
    return (stamp or "")[:_SECONDS].replace("T", " ")


def moment(stamp: str | None) -> str:
    """The same where nothing else says that it is UTC; empty for none."""
    return f"{time_cell(stamp)} UTC" if stamp else ""


def tool_cell(name: str | None) -> str:
    """A tool's name for a table, where an endless one would pad every other row; `--json` has it whole."""
    return shorten_middle(one_line(name or ""), _LONGEST_TOOL)


def claim_cell(said: str, most: int = _LONGEST_CLAIM) -> str:
    """What a device says of itself, for a table: no claim makes every row as wide; `--json` has it whole."""
    return shorten_middle(one_line(said), most)


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and values in two columns; empty values are left out."""
    kept = [(name, one_line(value)) for name, value in pairs if str(value)]
    widest = max((len(name) for name, _ in kept), default=0)
    return "\n".join(f"{styled(name.ljust(widest), 'dim')}{GAP}{value}" for name, value in kept)


def result_json(result: CommandResult, files: dict[str, str] | None = None) -> dict[str, Any]:
    """A result as `--json` prints it: these fields and no others. What was not begun has no call id.

    `files` says where its evidence was saved, by digest; what was not saved has null as its `file`.
    """
    return {
        "call_id": result.call_id or None,
        "device": result.device,
        "tool_name": result.tool_name,
        "status": result.status.value,
        "verdict": result.verdict.value,
        "basis": result.basis.value,
        "stage": result.stage.value if result.stage else None,
        "error": error_json(result.error, _may_repeat(result)) if result.error else None,
        "result": result.result,
        "namespace": result.namespace,
        "duration_ms": result.duration_ms,
        "note": result.note,
        "evidence": [
            one.model_dump(mode="json") | ({} if files is None else {"file": files.get(one.blob)})
            for one in result.evidence
        ],
    }


def refused_json(
    device: str, tool: str, error: ErrorInfo, stage: CommandStage | None = None
) -> dict[str, Any]:
    """What could not even become a command, in the shape of a result."""
    return {
        "call_id": None,
        "device": device,
        "tool_name": tool,
        "status": ResultStatus.FAILURE.value,
        "verdict": Verdict.REFUSED.value,
        "basis": Basis.NOTHING_SENT.value,
        "stage": stage.value if stage else None,
        "error": error_json(error),
        "result": None,
        "namespace": None,
        "duration_ms": 0.0,
        "note": "",
        "evidence": [],
    }


def result_text(result: CommandResult) -> str:
    """A result for a person."""
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
