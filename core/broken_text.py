"""Text from outside that is not valid Unicode: U+FFFD takes the place of what is broken, the rest arrives.

Programs that cut a text within an emoji write half a surrogate pair into JSON (`"\\ud83d"`), which RFC 8259
allows and strict parsers refuse together with everything around it. Others write bytes that are not UTF-8.
"""

from __future__ import annotations

import re
from typing import Any

from core.json_walk import MOST_DIGITS, mapped, values_in

NOT_UNICODE = "a text in it is not valid Unicode: it has half a character, or a byte that is not UTF-8"
MARK = "\N{REPLACEMENT CHARACTER}"
# Of Python's own message.
_TOO_MANY_DIGITS = "for integer string conversion"
_HALF = re.compile("[\ud800-\udfff]")
# A pair, half a pair, and any other escape: a backslash that is escaped itself begins none.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
_MAY_BE_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def mended_json(data: bytes) -> bytes:
    """JSON with U+FFFD in place of halves of surrogate pairs and of bytes that are not UTF-8.

    The same object where nothing is broken. Two names in an object that differ only in what is broken become
    the same name.
    """
    if _MAY_BE_HALF.search(data):
        mended = _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)
        data = data if mended == data else mended
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data


def valid_text(text: str) -> str:
    """A text with U+FFFD in place of lone surrogates."""
    return (
        text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


def with_valid_text(value: Any) -> Any:
    """A copy of JSON data with U+FFFD in place of lone surrogates in its texts and names."""
    return mapped(value, lambda part: valid_text(part) if isinstance(part, str) else part, valid_text)


def fault_words(error: Exception) -> str:
    """Why a value or a file could not be read or written: broken text and long numbers in plain words."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not text in UTF-8: byte {error.start + 1:,} is {error.object[error.start]:#04x}"
    if "surrogates not allowed" in str(error):
        return NOT_UNICODE
    if _TOO_MANY_DIGITS in str(error):
        return f"a number in it has more than {MOST_DIGITS:,} digits"
    return str(error)


def holds_half_a_character(value: Any) -> bool:
    """Whether any text or name in JSON data has a lone surrogate, so that it cannot be sent."""
    return any(
        type(part) is str and not part.isascii() and _HALF.search(part) is not None
        for part in values_in(value, names=True)
    )
