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
# Half a pair as an escape: 6 bytes, as many as the mark's. D800 to DBFF is a first half.
_HALF_ESCAPE = re.compile(rb"\\u[dD]([89a-fA-F])[0-9a-fA-F]{2}")
_MARK_ESCAPE = rb"\ufffd"
_FIRST_HALF = b"89abAB"
# More halves take longer than 20 ms. JSON with more is left as it is; the parser refuses it if any is broken.
_MOST_HALVES, _MOST_BACKSLASHES = 20_000, 1_000


def mended_json(data: bytes) -> bytes:
    """JSON with U+FFFD in place of halves of surrogate pairs and of bytes that are not UTF-8.

    The same object where nothing is broken. Two names in an object that differ only in what is broken become
    the same name.
    """
    if data.count(rb"\ud") + data.count(rb"\uD") <= _MOST_HALVES and (places := _lone_halves(data)):
        mended = bytearray(data)
        for place in places:
            mended[place : place + len(_MARK_ESCAPE)] = _MARK_ESCAPE
        data = bytes(mended)
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data


def _lone_halves(data: bytes) -> list[int]:
    """The places of escapes that are half a surrogate pair without its other half."""
    places: list[int] = []
    # The end of an escape that is a first half, which the next may complete.
    open_end = -1
    for match in _HALF_ESCAPE.finditer(data):
        place = match.start()
        before = data[max(0, place - _MOST_BACKSLASHES) : place]
        backslashes = len(before) - len(before.rstrip(b"\\"))
        if backslashes == _MOST_BACKSLASHES:
            return []
        if backslashes % 2:
            # The backslash is escaped itself.
            continue
        if match[1] in _FIRST_HALF:
            places.append(place)
            open_end = match.end()
        elif place == open_end:
            places.pop()
            open_end = -1
        else:
            places.append(place)
    return places


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
