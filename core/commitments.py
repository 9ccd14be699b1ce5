"""Commitments: placeholders for secrets wherever a call's arguments are shown, signed or recorded.

A stand-in is the object `{"$secret": "<64 hexadecimal digits>"}`. Its digits are HMAC-SHA256 of the value's
canonical bytes (RFC 8785) under a salt that is specific to this value at this place. A salt therefore opens
a single commitment: a device with it can check the value that it received, and learns about no other value.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from core.canonical_json import canonical_bytes
from core.errors import BadInput
from core.json_walk import values_in

SECRET_MARK = "$secret"
"""The only key of a stand-in. No other object that is sent, shown or signed has a key of this name."""
MOST_SECRETS = 1_000
"""Maximum number of secrets in the arguments of a call."""

_COMMITMENT = re.compile(r"[0-9a-f]{64}")
_SALT_BYTES = 32

LONGEST_NAME = 10_000
"""Maximum characters of an object key in the path to a secret."""

Step = Annotated[StrictStr, Field(max_length=LONGEST_NAME)] | Annotated[StrictInt, Field(ge=0)]


class Opening(BaseModel):
    """The path of a secret in the arguments, and the salt (64 hexadecimal digits) of its commitment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: tuple[Step, ...] = Field(min_length=1, max_length=100)
    salt: str = Field(pattern="^[0-9a-f]{64}$")


def salt_of(home_salt: bytes, tool_name: str, path: Sequence[str | int], value: Any) -> bytes:
    """The salt of a value at a place in the arguments of a tool: 32 bytes that only this home can derive.

    The salt is derived from the value too, so that the salt of one password does not help to guess another
    password at the same place.

    Raises:
        BadInput: the value has no canonical form.
    """
    derived = canonical_bytes(["quarterdeck.secret/1", tool_name, list(path), value])
    return hmac.new(home_salt, derived, sha256).digest()


def commitment(salt: bytes, value: Any) -> str:
    """HMAC-SHA256 of the value's canonical bytes under a salt of 32 bytes, hexadecimal.

    Raises:
        BadInput: the value has no canonical form, or the salt is of another length.
    """
    if len(salt) != _SALT_BYTES:
        # HMAC pads short keys with zeros: salts that differ only in trailing zeros would be equal.
        raise BadInput(f"A commitment's salt has {_SALT_BYTES} bytes.")
    return hmac.new(salt, canonical_bytes(value), sha256).hexdigest()


def stand_in(salt: bytes, value: Any) -> dict[str, str]:
    """The object that is shown in place of a secret value."""
    return {SECRET_MARK: commitment(salt, value)}


def is_stand_in(value: Any) -> bool:
    """Whether a value is a well-formed stand-in: one key, 64 lower-case hexadecimal digits."""
    if not isinstance(value, dict) or value.keys() != {SECRET_MARK}:
        return False
    digits = value[SECRET_MARK]
    return isinstance(digits, str) and _COMMITMENT.fullmatch(digits) is not None


def marked_objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a JSON value that has the key `$secret`, well-formed or not."""
    return (part for part in values_in(value) if isinstance(part, dict) and SECRET_MARK in part)


def as_shown(arguments: dict[str, Any], openings: Sequence[Opening]) -> dict[str, Any]:
    """The arguments as the approver saw them: each value with an opening is replaced by its stand-in.

    Raises:
        BadInput: the arguments contain a stand-in, or the path of an opening does not exist or overlaps the
            path of another opening.
    """
    if next(marked_objects(arguments), None) is not None:
        raise BadInput(f'The arguments hold the key "{SECRET_MARK}", which only stands for secrets.')
    opened: dict[str | int, Any] = {}
    for opening in openings:
        _add(opened, opening)
    shown = _replaced(arguments, opened)
    assert isinstance(shown, dict)
    return shown


def _add(tree: dict[str | int, Any], opening: Opening) -> None:
    """Insert an opening into a tree of paths whose leaves are salts."""
    *way, last = opening.path
    for step in way:
        inner = tree.setdefault(step, {})
        if not isinstance(inner, dict):
            raise BadInput("An opening lies inside of another one.")
        tree = inner
    if last in tree:
        raise BadInput("Two openings are for the same argument, or one lies inside of the other.")
    tree[last] = bytes.fromhex(opening.salt)


def _replaced(value: Any, opened: dict[str | int, Any] | bytes) -> Any:
    if isinstance(opened, bytes):
        return stand_in(opened, value)
    if isinstance(value, dict):
        _check_there(opened, value.keys(), str)
        return {
            name: _replaced(item, opened[name]) if name in opened else item for name, item in value.items()
        }
    if isinstance(value, list):
        _check_there(opened, range(len(value)), int)
        return [_replaced(item, opened[at]) if at in opened else item for at, item in enumerate(value)]
    raise BadInput("An opening is for an argument that did not come.")


def _check_there(opened: dict[str | int, Any], there: Any, kind: type) -> None:
    if not all(type(step) is kind and step in there for step in opened):
        raise BadInput("An opening is for an argument that did not come.")
