"""Validation in a process of its own, for the window: `python -m core.schema_forms.worker`.

Python runs one thread at a time. Beside a thread that reads the worst schema a device may send, the window's
thread gets its turn every 5 ms, and it needs a hundred turns to build and paint one form: work of 150 ms
took 350 to 1,200 ms. Beside a process it takes its usual time.

The protocol is one JSON object per line in each direction, one question at a time. A question is
`{key, value}`, where `key` names a schema. For an unknown key the answer is `{unknown: true}`, and the window
repeats the question with the schema's text as `schema`. Otherwise the answer is
`{errors: [[path, message], …]}`. The process ends when its input ends.
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
"""Schemas remembered at a time; the largest takes some megabytes."""


class ValidationWorker:
    """Answers questions and remembers the latest schemas."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Validator] = OrderedDict()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question: the errors of a value, or that its schema is unknown."""
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
    """Encode a question as a line.

    Raises:
        RecursionError: the value is nested too deeply for JSON.
    """
    told = {} if schema is None else {"schema": schema}
    return json.dumps({"key": key, "value": value, **told}).encode() + b"\n"


def errors_in(answer: bytes) -> list[FieldError] | None:
    """The errors in an answer; None where the schema was unknown."""
    said = json.loads(answer)
    return None if "unknown" in said else [FieldError(tuple(path), words) for path, words in said["errors"]]


def _answer(found: list[FieldError]) -> dict[str, Any]:
    return {"errors": [[error.path, error.message] for error in found]}


def serve(questions: Iterable[bytes], answers: BinaryIO) -> None:
    """Answer the questions in order."""
    apart = ValidationWorker()
    for line in questions:
        try:
            answer = apart.answer(json.loads(line))
        except RecursionError:
            answer = _answer(TOO_MUCH)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def main() -> None:
    """Serve the process that started this one, at a lower priority than everything visible."""
    # Ctrl-C in a terminal is meant for the window; this process ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(5)
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
