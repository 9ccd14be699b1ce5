"""Replaces secrets in arguments by commitments before anything is signed, written or shown.

`core.schema_forms.secrets` finds the secret arguments; `core.commitments` makes the commitments.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.approvals.grants import holds_secret
from core.commitments import LONGEST_NAME, MOST_SECRETS, SECRET_MARK, Opening, commitment, salt_of, stand_in
from core.dispatch.arguments import Arguments, seal
from core.errors import BadInput, ErrorCode
from core.files import write_atomic
from core.json_walk import mapped
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

    def redact(self, tool_name: str, parameters: dict[str, Any], schemas: Sequence[Any]) -> Arguments:
        """Copy arguments twice: unchanged, and with each secret replaced by its commitment.

        A value is secret if any of the schemas marks it, or if a name on its path is a secret name.

        Raises:
            BadInput: a secret has no canonical form, or there are too many of them.
        """
        paths = secrets.secret_paths(parameters, schemas, self._names)
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
