"""Validation in a process of its own, for the window: `python -m core.schema_forms.worker`.

Python runs one thread at a time. While another thread reads the worst schema that a device may send, the
window's thread runs only every 5 ms, and it needs a hundred such turns to build and paint one form: 150 ms of
work took 350 to 1,200 ms. Beside a process it takes its usual time.

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
        self._validators: OrderedDict[str, Validator] = OrderedDict()

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question: the errors of a value, or that its schema is unknown."""
        key = question["key"]
        if "schema" in question:
            self._validators[key] = Validator(json.loads(question["schema"]))
            while len(self._validators) > MOST_KEPT:
                self._validators.popitem(last=False)
        validator = self._validators.get(key)
        if validator is None:
            return {"unknown": True}
        self._validators.move_to_end(key)
        return _answer(validator.errors(question["value"]))


def question(key: str, value: Any, schema: str | None = None) -> bytes:
    """Encode a question as a line.

    Raises:
        RecursionError: the value is nested too deeply for JSON.
    """
    with_schema = {} if schema is None else {"schema": schema}
    return json.dumps({"key": key, "value": value, **with_schema}).encode() + b"\n"


def errors_in(answer: bytes) -> list[FieldError] | None:
    """The errors in an answer; None where the schema was unknown."""
    read = json.loads(answer)
    if "unknown" in read:
        return None
    return [FieldError(tuple(path), message) for path, message in read["errors"]]


def _answer(errors: list[FieldError]) -> dict[str, Any]:
    return {"errors": [[error.path, error.message] for error in errors]}


def serve(questions: Iterable[bytes], answers: BinaryIO) -> None:
    """Answer the questions in order."""
    worker = ValidationWorker()
    for line in questions:
        try:
            answer = worker.answer(json.loads(line))
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
