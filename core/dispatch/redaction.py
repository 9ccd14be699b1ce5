"""Replaces secrets in arguments by commitments before anything is signed, written or shown.

`core.schema_forms.secrets` finds the secret arguments; `core.commitments` makes the commitments.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from core.canonical_json import encoded
from core.commands.arguments import Arguments, WalkedArguments, seal, walked
from core.commitments import (
    LONGEST_NAME,
    MOST_SECRETS,
    NO_PLACES,
    SECRET_MARK,
    Opening,
    Places,
    commitment,
    holds_stand_in,
    masked_text,
    salt_of,
    stand_in,
)
from core.errors import BadInput, ErrorCode
from core.files import write_atomic
from core.json_walk import mapped
from core.schema_forms import secrets
from core.schema_forms.validator import FieldError
from core.secret_rule import KNOWN_NAMES, SecretNames
from core.token_formats import Span


class Redactor:
    """Redacts arguments, with the salt of this home and the argument names that are secret here."""

    def __init__(self, salt: bytes, names: SecretNames = KNOWN_NAMES) -> None:
        self._salt = salt
        self._names = names

    @classmethod
    def of(cls, path: Path, names: SecretNames = KNOWN_NAMES) -> Redactor:
        """Read the salt, or create it at first use.

        Raises:
            BadInput: the salt can be neither read nor created.
        """
        try:
            if not path.exists():
                write_atomic(path, os.urandom(32))
            return cls(path.read_bytes(), names)
        except OSError as error:
            raise BadInput(f"{path} cannot be read or made: {error.strerror}.") from error

    def digest(self, value: Any) -> str:
        """A keyed digest of a JSON value that may hold secrets: equal values of this home have equal digests.

        Raises:
            BadInput: the value has no canonical form.
        """
        return commitment(salt_of(self._salt, "", [], value), value)

    def redact(
        self,
        tool_name: str,
        given: dict[str, Any] | WalkedArguments,
        schemas: Sequence[Any],
        declared: Places = NO_PLACES,
        unquoted: Places = NO_PLACES,
    ) -> Arguments:
        """Arguments as they are sent, and as they are shown: with each secret replaced by its commitment.

        A value is secret if any of the schemas marks it, or if a name on its path is a secret name. What a
        caller declares secret is replaced where it stands: the text around it stays readable.

        Raises:
            BadInput: the arguments are too large or have no canonical form, they hold too many secrets, or a
                declared place is not in them.
        """
        arguments = given if isinstance(given, WalkedArguments) else walked(given)
        paths = secrets.secret_paths(arguments.sent, schemas, self._names)
        spans: dict[secrets.Path, list[Span]] = {}
        if declared:
            wholly, spans = _declared(arguments.sent, declared)
            paths = _outermost([*paths, *wholly])
            spans = {path: ranges for path, ranges in spans.items() if not _is_inside(path, paths)}
        if len(paths) + sum(map(len, spans.values())) > MOST_SECRETS:
            raise BadInput(f"The arguments hold more than {MOST_SECRETS:,} secrets.", ErrorCode.TOO_LARGE)
        if any(
            isinstance(step, str) and len(step) > LONGEST_NAME for path in [*paths, *spans] for step in path
        ):
            raise BadInput("The name of a secret argument is too long.", ErrorCode.TOO_LARGE)
        shown = mapped(arguments.sent) if paths or spans else arguments.sent
        openings = []
        for path in paths:
            holder = _holder(shown, path)
            salt = salt_of(self._salt, tool_name, path, holder[path[-1]])
            holder[path[-1]] = stand_in(salt, holder[path[-1]])
            openings.append(Opening(path=path, salt=salt.hex()))
        for path, ranges in spans.items():
            holder = _holder(shown, path)
            text = holder[path[-1]]
            salts = [salt_of(self._salt, tool_name, path, text[start:end]) for start, end in ranges]
            holder[path[-1]] = masked_text(text, list(zip(ranges, salts, strict=True)))
            openings += [
                Opening(path=path, salt=salt.hex(), span=span)
                for span, salt in zip(ranges, salts, strict=True)
            ]
        marks = tuple((path, span) for path, ranges in unquoted.items() for span in ranges)
        return seal(
            Arguments,
            arguments,
            shown=shown,
            shown_json=encoded(shown) if openings else arguments.sent_json,
            openings=tuple(openings),
            unquoted=marks,
        )

    def redact_named(self, values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """A copy of named values, with those of these names replaced by commitments."""
        shown = mapped(values)
        for name in names:
            if name in shown:
                shown[name] = stand_in(salt_of(self._salt, "", (name,), shown[name]), shown[name])
        return dict(shown)


def fault_words(error: FieldError, redacted: dict[str, Any]) -> str:
    """Describe a validation error without quoting a secret; `redacted` are the redacted arguments."""
    here: Any = redacted
    for part in error.path:
        if isinstance(here, dict) and here.keys() == {SECRET_MARK}:
            break
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            return error.message
    return (
        f"{error.where or 'The arguments'} is not as the tool wants it."
        if holds_stand_in(here)
        else error.message
    )


def _declared(
    parameters: dict[str, Any], declared: Places
) -> tuple[list[secrets.Path], dict[secrets.Path, list[Span]]]:
    """The declared places: the paths of values that are wholly secret, and the spans inside longer texts.

    Raises:
        BadInput: there is no such place in the arguments.
    """
    wholly: list[secrets.Path] = []
    inside: dict[secrets.Path, list[Span]] = {}
    for path, spans in declared.items():
        try:
            value = _holder(parameters, path)[path[-1]]
        except (KeyError, IndexError, TypeError) as error:
            raise BadInput("The place of a secret is not in the arguments.") from error
        ranges = _merged(spans)
        if not isinstance(value, str) or not ranges or ranges == [(0, len(value))]:
            wholly.append(path)
        elif ranges[0][0] < 0 or ranges[-1][1] > len(value):
            raise BadInput("The place of a secret is not in the arguments.")
        else:
            inside[path] = ranges
    return wholly, inside


def _holder(value: Any, path: secrets.Path) -> Any:
    for step in path[:-1]:
        value = value[step]
    return value


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, without empty ones; those that overlap or touch are one."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _outermost(paths: list[secrets.Path]) -> list[secrets.Path]:
    """These paths, without those that are there twice or lead inside the value of another."""
    outermost: list[secrets.Path] = []
    for path in sorted(paths, key=len):
        if not _is_inside(path, outermost):
            outermost.append(path)
    return outermost


def _is_inside(path: secrets.Path, others: Iterable[secrets.Path]) -> bool:
    """Whether a path is one of these, or leads inside of one."""
    return any(path[: len(outer)] == outer for outer in others)
