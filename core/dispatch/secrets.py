"""What must never reach the disk or a screen: secrets in arguments, replaced by a salted commitment.

A commitment (HMAC-SHA256 under a key of the home) lets somebody who has the secret show that it was the one
that was sent, and tells nobody else anything.
"""

from __future__ import annotations

import hmac
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from core.canonical import canonical_bytes
from core.errors import BadInput
from core.policy.grants import SECRET_MARK, holds_secret
from core.schema_forms.validate import FieldError
from core.schema_forms.words import SECRET_IF

SECRET_NAMES = re.compile(
    r"(^|[_\-.])(pass(word|phrase|wd)?|secret|(api|access|private)[_-]?key|token|credential|authorization)s?$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Schemas come from devices: one that refers to itself, or multiplies, ends here.
_MOST_BRANCHES = 100


class Masker:
    """Replaces secret values; holds the home's salt."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    @classmethod
    def of(cls, path: Path) -> Masker:
        """Read the salt, or make it at first use.

        Raises:
            BadInput: it can be neither read nor made.
        """
        try:
            if not path.exists():
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(os.urandom(32))
            return cls(path.read_bytes())
        except OSError as error:
            raise BadInput(f"{path} cannot be read or made: {error.strerror}.") from error

    def mask(self, parameters: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        """A copy of the arguments in which each secret is `{"$secret": commitment}`."""
        masked = self._walk(parameters, [schema], schema, secret=False)
        assert isinstance(masked, dict)
        return masked

    def _walk(self, value: Any, schemas: list[Any], root: Any, *, secret: bool) -> Any:
        if isinstance(value, dict) and value.keys() == {SECRET_MARK}:
            return value
        branches = _branches(schemas, root)
        if secret or any(map(_is_secret, branches)):
            return {SECRET_MARK: self.commitment(value)}
        if isinstance(value, dict):
            return {
                key: self._walk(
                    one,
                    inner := _of_member(branches, key),
                    root,
                    secret=is_secret_name(key) or any(_is_secret_by(each, value) for each in inner),
                )
                for key, one in value.items()
            }
        if isinstance(value, list):
            items = _of_elements(branches)
            return [self._walk(one, items, root, secret=False) for one in value]
        return value

    def commitment(self, value: Any) -> str:
        """HMAC-SHA256 of the value's canonical bytes, hexadecimal."""
        return hmac.new(self._salt, canonical_bytes(value), sha256).hexdigest()


def is_secret_name(name: str) -> bool:
    """Whether an argument of this name is secret whatever its schema says: `db_password`, `accessToken`."""
    return bool(SECRET_NAMES.search(name) or SECRET_NAMES.search(_CAMEL.sub("_", name)))


def _branches(schemas: list[Any], root: Any) -> list[dict[str, Any]]:
    """These schemas and all that a value under them may have to fit, alternatives and references too."""
    found: list[dict[str, Any]] = []
    waiting = list(schemas)
    while waiting and len(found) < _MOST_BRANCHES:
        one = waiting.pop()
        if not isinstance(one, dict) or any(one is known for known in found):
            continue
        found.append(one)
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(inner := one.get(word), list):
                waiting.extend(inner)
        waiting.extend(one[word] for word in ("then", "else") if word in one)
        if "$ref" in one:
            waiting.append(_referred(one["$ref"], root))
    return found


def _referred(target: Any, root: Any) -> Any:
    """What a reference inside the schema means; None where it leads nowhere, or elsewhere."""
    if not isinstance(target, str) or not target.startswith("#"):
        return None
    here = root
    for part in target[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        here = here.get(name) if isinstance(here, dict) else None
    return here


def _of_member(branches: list[dict[str, Any]], key: str) -> list[Any]:
    """What the schemas say of one member of an object; of members without a name of their own too."""
    found: list[Any] = []
    for one in branches:
        named, rest = one.get("properties"), one.get("patternProperties")
        if isinstance(named, dict) and key in named:
            found.append(named[key])
        elif "additionalProperties" in one:
            found.append(one["additionalProperties"])
        if isinstance(rest, dict):
            found.extend(rest.values())
    return found


def _of_elements(branches: list[dict[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for one in branches:
        for word in ("items", "prefixItems", "additionalItems"):
            inner = one.get(word)
            found.extend(inner if isinstance(inner, list) else [inner])
    return found


def _is_secret(schema: Any) -> bool:
    return isinstance(schema, dict) and (
        schema.get("writeOnly") is True or schema.get("format") == "password"
    )


def _is_secret_by(schema: Any, neighbours: dict[str, Any]) -> bool:
    """Whether a neighbour says that this property is secret; anything but a plain no counts as yes."""
    told = schema.get(SECRET_IF) if isinstance(schema, dict) else None
    return isinstance(told, str) and neighbours.get(told) not in (None, False)


def fault_words(error: FieldError, masked: dict[str, Any]) -> str:
    """What is wrong with an argument, without repeating a value that is secret: `masked` says which are."""
    here: Any = masked
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
