"""The values of results as expressions read them: large texts as texts, and nothing masked in an argument.

A result stores a large text, a picture or a file as a reference to a blob of the journal. Here a reference
to a text becomes a `LargeText`, which is read from the journal where an expression reads it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from core.batch.expression_reads import LARGEST_CONTEXT, TooCostly
from core.commands.results import CommandResult
from core.errors import BadInput, JournalError
from core.json_walk import values_in
from core.token_formats import MASK

TEXT_TYPE = "text/plain"
_TEXT_KEYS = frozenset({"blob", "media_type", "size", "head"})
_BLOB_KEYS = frozenset({"blob", "media_type", "size"})

ReadBlob = Callable[[str], Awaitable[bytes]]


class LargeText:
    """A text that is stored as a blob. `size` is in bytes of UTF-8; `head` is the text's beginning."""

    __slots__ = ("blob", "head", "size")

    def __init__(self, blob: str, size: int, head: str) -> None:
        self.blob = blob
        self.size = size
        self.head = head


def readable_value(result: CommandResult | None) -> Any:
    """The value of a result, with a `LargeText` in place of each reference to a stored text."""
    if result is None or not has_large_texts(result):
        return result.result if result is not None else None
    texts = frozenset(taken.blob for taken in result.evidence if taken.media_type == TEXT_TYPE)
    return _with_large_texts(result.result, texts)


def _with_large_texts(value: Any, texts: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_with_large_texts(element, texts) for element in value]
    if not isinstance(value, dict):
        return value
    # Only what the console itself stored of this result: a device cannot name another blob.
    if value.keys() == _TEXT_KEYS and value["blob"] in texts:
        return LargeText(value["blob"], value["size"], value["head"])
    return {name: _with_large_texts(member, texts) for name, member in value.items()}


def has_large_texts(result: CommandResult | None) -> bool:
    """Whether the value of a result may have a `LargeText` in it."""
    return result is not None and any(taken.media_type == TEXT_TYPE for taken in result.evidence)


def large_texts_in(value: Any) -> Iterator[LargeText]:
    """Every `LargeText` in a value."""
    return (part for part in values_in(value) if isinstance(part, LargeText))


def filled(value: Any, texts: Mapping[str, str]) -> Any:
    """The value with the texts, by blob, in place of each `LargeText`.

    Raises:
        TooCostly: together they are larger than an expression may read.
        ValueError: one is not in `texts`.
    """
    size = sum(text.size for text in large_texts_in(value))
    if size > LARGEST_CONTEXT:
        raise TooCostly(f"it reads {size:,} bytes; allowed are {LARGEST_CONTEXT:,}")
    return _filled(value, texts)


def _filled(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(element, texts) for element in value]
    if isinstance(value, dict):
        return {name: _filled(member, texts) for name, member in value.items()}
    if isinstance(value, LargeText):
        if value.blob not in texts:
            raise ValueError(f"a text of {value.size:,} bytes that it reads cannot be read from the journal")
        return texts[value.blob]
    return value


async def load_texts(data: Any, read: ReadBlob) -> dict[str, str]:
    """The texts, by blob, of every `LargeText` in the data that an expression reads.

    A text that cannot be read, or is larger than an expression may read, is left out.
    """
    texts: dict[str, str] = {}
    for text in large_texts_in(data):
        if text.size <= LARGEST_CONTEXT and text.blob not in texts:
            try:
                texts[text.blob] = (await read(text.blob)).decode("utf-8", "backslashreplace")
            except (BadInput, JournalError):
                continue
    return texts


def unfit_for_arguments(value: Any) -> str:
    """Why a value of a result cannot go into an argument; empty if it can.

    A text in which a secret was masked is not the text that the device has, also where it is only measured.
    """
    if any(isinstance(part, dict) and part.keys() >= _BLOB_KEYS for part in values_in(value)):
        return "holds a picture or a file, which an argument cannot take"
    if holds_mask(value):
        return (
            f"holds a masked secret ({MASK}), which is not what the device has and never becomes an argument"
        )
    return ""


def holds_mask(value: Any) -> bool:
    """Whether a text in a JSON value, or the name of a member, has a masked secret in it."""
    return any(
        MASK in part
        if isinstance(part, str)
        else isinstance(part, dict) and any(MASK in name for name in part)
        for part in values_in(value)
    )
