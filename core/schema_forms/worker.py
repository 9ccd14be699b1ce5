"""Validation in a process of its own, for a window: `python -m core.schema_forms.worker`.

Python lets one thread at a time run. Beside a thread that reads the worst schema a device may send, a
window's own thread gets its turn every 5 ms, and asks for it a hundred times to build and to paint one form:
what takes 150 ms alone took 350 to 1,200 ms so. Beside a process it takes what it takes.

One JSON object a line, each way, and one question at a time. Asked is `{key, value}`, where `key` names a
schema; where it is not known the answer is `{unknown: true}`, and the question comes again with the schema's
text as `schema`. The answer is `{errors: [[path, message], …]}`. It ends when nobody can ask any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, BinaryIO

from core.schema_forms.validator import TOO_MUCH, FieldError, Validator

MOST_KEPT = 16
"""Schemas that are known at a time; the largest takes some megabytes."""


class Apart:
    """Answers questions, and remembers the latest schemas."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Validator] = OrderedDict()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What is wrong with a value, or that its schema has to be told first."""
        key = asked["key"]
        if "schema" in asked:
            self._known[key] = Validator(json.loads(asked["schema"]))
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        validator = self._known.get(key)
        if validator is None:
            return {"unknown": True}
        self._known.move_to_end(key)
        return _answer(validator.errors(asked["value"]))


def question(key: str, value: Any, schema: str | None = None) -> bytes:
    """What is asked, as a line.

    Raises:
        RecursionError: the value is nested too deeply to be asked about.
    """
    told = {} if schema is None else {"schema": schema}
    return json.dumps({"key": key, "value": value, **told}).encode() + b"\n"


def errors_in(answer: bytes) -> list[FieldError] | None:
    """The errors that an answer names; None where the schema was not known."""
    said = json.loads(answer)
    return None if "unknown" in said else [FieldError(tuple(path), words) for path, words in said["errors"]]


def _answer(found: list[FieldError]) -> dict[str, Any]:
    return {"errors": [[error.path, error.message] for error in found]}


def serve(questions: Iterable[bytes], answers: BinaryIO) -> None:
    """Answer one question after the other."""
    apart = Apart()
    for line in questions:
        try:
            answer = apart.answer(json.loads(line))
        except RecursionError:
            answer = _answer(TOO_MUCH)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def main() -> None:
    """Serve whoever started this process, after everything that somebody sees."""
    # Ctrl-C in a terminal is meant for the window; this ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(5)
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
