"""A device's frames that take longest to read: the last that are, and the first that are refused."""

from __future__ import annotations

from collections.abc import Callable

from core.aip.frame_limits import MOST_OUTSIDE


def frame(result: bytes) -> bytes:
    """A device's answer with this result, as it stands on the wire."""
    head = (
        b'{"type":"command_results","status":"completed","action_results":[{"status":"success","call_id":"c",'
    )
    return head + b'"result":' + result + b"}]}"


def names(count: int) -> bytes:
    """An object of so many members, each with a name of its own."""
    return b"{" + b",".join(b'"%x":1' % number for number in range(count)) + b"}"


def _list(part: bytes, count: int) -> bytes:
    return b"[" + b",".join([part] * count) + b"]"


def _texts(count: int) -> bytes:
    return b"[" + b",".join(b'"%x"' % number for number in range(count)) + b"]"


_DIGITS = b"9" * 4000
_MOST_NUMBERS = MOST_OUTSIDE // (len(_DIGITS) + 1)

WORST: dict[str, tuple[Callable[[], bytes], Callable[[], bytes]]] = {
    "numbers": (lambda: _list(b"1.5", 890_000), lambda: _list(b"1.5", 930_000)),
    "lists": (lambda: _list(b"[]", 445_000), lambda: _list(b"[]", 465_000)),
    "objects": (lambda: _list(b'{"a":1}', 296_000), lambda: _list(b'{"a":1}', 310_000)),
    "texts": (lambda: _texts(890_000), lambda: _texts(930_000)),
    "digits": (lambda: _list(_DIGITS, _MOST_NUMBERS - 1), lambda: _list(_DIGITS, _MOST_NUMBERS + 1)),
    "names": (lambda: names(450_000), lambda: names(465_000)),
}
"""For each kind the results of a frame just below and just above what is read."""
