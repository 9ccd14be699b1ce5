"""Replaces secrets in arguments by commitments before anything is signed, written or shown.

`core.schema_forms.secrets` finds the secret arguments; `core.commitments` makes the commitments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.approvals.grants import holds_secret
from core.commitments import LONGEST_NAME, MOST_SECRETS, SECRET_MARK, Opening, commitment, salt_of, stand_in
from core.dispatch.arguments import Arguments, seal
from core.dispatch.command_request import NO_SECRETS, Secrets
from core.errors import BadInput, ErrorCode
from core.files import write_atomic
from core.json_walk import mapped, steps_to, walk
from core.schema_forms import secrets
from core.schema_forms.validator import FieldError
from core.secret_rule import KNOWN_NAMES, SecretNames


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
        parameters: dict[str, Any],
        schemas: Sequence[Any],
        known: Secrets = NO_SECRETS,
    ) -> Arguments:
        """Copy arguments twice: unchanged, and with each secret replaced by its commitment.

        A value is secret if any of the schemas marks it, if a name on its path is a secret name, or if the
        caller knows it to be one.

        Raises:
            BadInput: a secret has no canonical form, or there are too many of them.
        """
        paths = secrets.secret_paths(parameters, schemas, self._names)
        if any(known):
            paths = _outermost([*paths, *_known_paths(parameters, known)])
        if len(paths) > MOST_SECRETS:
            raise BadInput(f"The arguments hold more than {MOST_SECRETS:,} secrets.", ErrorCode.TOO_LARGE)
        if any(isinstance(step, str) and len(step) > LONGEST_NAME for path in paths for step in path):
            raise BadInput("The name of a secret argument is too long.", ErrorCode.TOO_LARGE)
        # Copies, because the caller may still change the original objects and lists.
        sent = mapped(parameters)
        shown = mapped(parameters) if paths else sent
        openings = []
        for path in paths:
            holder: Any = shown
            for step in path[:-1]:
                holder = holder[step]
            salt = salt_of(self._salt, tool_name, path, holder[path[-1]])
            holder[path[-1]] = stand_in(salt, holder[path[-1]])
            openings.append(Opening(path=path, salt=salt.hex()))
        return seal(Arguments, sent=sent, shown=shown, openings=tuple(openings))

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
        if holds_secret(here)
        else error.message
    )


def _known_paths(parameters: dict[str, Any], known: Secrets) -> Iterator[secrets.Path]:
    """The paths that the caller knows, of texts with a known secret in them, and of numbers that are one."""
    wanted = [value for value in known.values if value]
    for value, place, _ in walk(parameters):
        path = tuple(steps_to(place))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if (
            path in known.paths
            or (isinstance(value, str) and any(secret in value for secret in wanted))
            or (is_number and str(value) in wanted)
        ):
            yield path


def _outermost(paths: list[secrets.Path]) -> list[secrets.Path]:
    """These paths, without those that are there twice or lead inside the value of another."""
    outermost: list[secrets.Path] = []
    for path in sorted(paths, key=len):
        if not any(path[: len(outer)] == outer for outer in outermost):
            outermost.append(path)
    return outermost
