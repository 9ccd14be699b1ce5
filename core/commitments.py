"""Commitments: placeholders for secrets wherever a call's arguments are shown, signed or recorded.

A stand-in is the object `{"$secret": "<64 hexadecimal digits>"}`. Its digits are HMAC-SHA256 of the value's
canonical bytes (RFC 8785) under a salt that is specific to this value at this place. A salt therefore opens
a single commitment: a device with it can check the value that it received, and learns about no other value.

In place of a text that holds secrets and is none itself stands `{"$secret": [part, …]}`. Its parts are the
readable texts, and a stand-in for each secret between them.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictInt,
    StrictStr,
    model_serializer,
)

from core.canonical_json import canonical_bytes
from core.errors import BadInput
from core.json_walk import values_in
from core.token_formats import MASK, Span

SECRET_MARK = "$secret"
"""The only key of a stand-in. No other object that is sent, shown or signed has a key of this name."""
MOST_SECRETS = 1_000
"""Maximum number of secrets in the arguments of a call."""

Places = Mapping[tuple[str | int, ...], tuple[Span, ...]]
"""Spans of texts in arguments, by path; a path without spans means the whole value."""
NO_PLACES: Places = MappingProxyType({})


def no_places() -> Places:
    """`NO_PLACES`, as the default of a data class."""
    return NO_PLACES


_COMMITMENT = re.compile(r"[0-9a-f]{64}")
_SALT_BYTES = 32

LONGEST_NAME = 10_000
"""Maximum characters of an object key in the path to a secret."""

Step = Annotated[StrictStr, Field(max_length=LONGEST_NAME)] | Annotated[StrictInt, Field(ge=0)]
Offset = Annotated[StrictInt, Field(ge=0)]


class Opening(BaseModel):
    """The path of a secret in the arguments, and the salt (64 hexadecimal digits) of its commitment.

    `span` are the offsets, in characters, of a secret inside a longer text; None if the value is the secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    path: tuple[Step, ...] = Field(min_length=1, max_length=100)
    salt: str = Field(pattern="^[0-9a-f]{64}$")
    span: tuple[Offset, Offset] | None = None

    @model_serializer(mode="wrap")
    def _without_no_span(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Earlier device clients do not know the field, and refuse a proof that has it.
        fields: dict[str, Any] = handler(self)
        if self.span is None:
            del fields["span"]
        return fields


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


def masked_text(text: str, secrets: Sequence[tuple[Span, bytes]]) -> dict[str, Any]:
    """The object that is shown in place of a text with secrets in it; each secret has its span and its salt.

    Raises:
        BadInput: the spans overlap, are empty, or lie outside the text.
    """
    parts: list[Any] = []
    last = 0
    for (start, end), salt in sorted(secrets):
        if not last <= start < end <= len(text):
            raise BadInput("The places of secrets in a text overlap, or lie outside of it.")
        if start > last:
            parts.append(text[last:start])
        parts.append(stand_in(salt, text[start:end]))
        last = end
    if last < len(text):
        parts.append(text[last:])
    return {SECRET_MARK: parts}


def is_stand_in(value: Any) -> bool:
    """Whether a value is a well-formed stand-in: one key, and the commitment or the parts of a text."""
    if not isinstance(value, dict) or value.keys() != {SECRET_MARK}:
        return False
    content = value[SECRET_MARK]
    return _is_commitment(content) or _are_parts(content)


def _is_commitment(content: Any) -> bool:
    return isinstance(content, str) and _COMMITMENT.fullmatch(content) is not None


def _are_parts(content: Any) -> bool:
    """Whether this is the only way to write a text with secrets in it: no empty text, no two in a row."""
    if not isinstance(content, list) or len(content) < 2:
        return False
    texts = [isinstance(part, str) for part in content]
    return (
        not all(texts)
        and not any(before and after for before, after in pairwise(texts))
        and all(
            bool(part)
            if isinstance(part, str)
            else isinstance(part, dict) and part.keys() == {SECRET_MARK} and _is_commitment(part[SECRET_MARK])
            for part in content
        )
    )


def readable(value: Any) -> Any:
    """A shown JSON value for people: a text with secrets in it is a text again, with `•••` for each secret.

    The stand-in of a value that is wholly secret stays.
    """
    if isinstance(value, dict):
        if value.keys() == {SECRET_MARK} and isinstance(parts := value[SECRET_MARK], list):
            return "".join(part if isinstance(part, str) else MASK for part in parts)
        return {name: readable(inner) for name, inner in value.items()}
    return [readable(inner) for inner in value] if isinstance(value, list) else value


def commitments_in(value: Any) -> list[str]:
    """The commitment of each secret in a shown JSON value, in the order in which they stand there."""
    if isinstance(value, dict):
        if value.keys() == {SECRET_MARK} and isinstance(value[SECRET_MARK], str):
            return [value[SECRET_MARK]]
        return [digits for inner in value.values() for digits in commitments_in(inner)]
    return [digits for inner in value for digits in commitments_in(inner)] if isinstance(value, list) else []


def marked_objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a JSON value that has the key `$secret`, well-formed or not."""
    return (part for part in values_in(value) if isinstance(part, dict) and SECRET_MARK in part)


def holds_stand_in(value: Any) -> bool:
    """Whether a value contains a secret's stand-in at any depth."""
    return any(isinstance(part, dict) and part.keys() == {SECRET_MARK} for part in values_in(value))


def as_shown(arguments: dict[str, Any], openings: Sequence[Opening]) -> dict[str, Any]:
    """The arguments as the approver saw them: each value with an opening is replaced by its stand-in.

    Raises:
        BadInput: the arguments contain a stand-in, or the path of an opening does not exist or overlaps the
            path of another opening.
    """
    if next(marked_objects(arguments), None) is not None:
        raise BadInput(f'The arguments hold the key "{SECRET_MARK}", which only stands for secrets.')
    salts: dict[str | int, Any] = {}
    for opening in openings:
        _add(salts, opening)
    shown = _replaced(arguments, salts)
    assert isinstance(shown, dict)
    return shown


def opened(arguments: Any, openings: Iterable[Opening]) -> Iterator[Any]:
    """The secret that each opening is for, from the arguments as they are sent."""
    for opening in openings:
        value = arguments
        for step in opening.path:
            value = value[step]
        yield value if opening.span is None else value[slice(*opening.span)]


def _add(tree: dict[str | int, Any], opening: Opening) -> None:
    """Insert an opening into a tree of paths whose leaves are salts."""
    *way, last = opening.path
    for step in way:
        inner = tree.setdefault(step, {})
        if not isinstance(inner, dict):
            raise BadInput("An opening lies inside of another one.")
        tree = inner
    salt = bytes.fromhex(opening.salt)
    if opening.span is not None and isinstance(spans := tree.setdefault(last, _Spans()), _Spans):
        spans.append((opening.span, salt))
        return
    if last in tree:
        raise BadInput("Two openings are for the same argument, or one lies inside of the other.")
    tree[last] = salt


class _Spans(list[tuple[Span, bytes]]):
    """The openings inside one text."""


def _replaced(value: Any, opened: dict[str | int, Any] | bytes | _Spans) -> Any:
    if isinstance(opened, bytes):
        return stand_in(opened, value)
    if isinstance(opened, _Spans):
        if not isinstance(value, str):
            raise BadInput("An opening is for a part of a text, but the value is not text.")
        return masked_text(value, opened)
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
