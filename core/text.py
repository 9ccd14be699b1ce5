"""Text helpers: invisible, look-alike and reordering characters in texts that operators read; shortening."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from core.confusables import foreign_letters

_HIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_PLACE = re.compile(r"(?:Line \d+, c|C)olumn (\d+): ")
# A sentence may end inside quotation marks or brackets.
_ENDED = re.compile(r"[.!?…:;][\"'”’)\]]*\Z")
_CONTROL_NAMES = {
    0x00: "NULL",
    0x07: "BELL",
    0x08: "BACKSPACE",
    0x09: "TAB",
    0x0A: "LINE FEED",
    0x0D: "CARRIAGE RETURN",
    0x1B: "ESCAPE",
    0x7F: "DELETE",
}
# Printable by Unicode but drawn as nothing: fillers, variation selectors, the blank Braille cell.
_DRAWN_EMPTY = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | {
    chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}

# Letters and digits that the Unicode Bidirectional Algorithm (UAX #9) draws in another order than they have.
_REORDERING = frozenset({"R", "AL", "AN"})
LEFT_TO_RIGHT_OVERRIDE = "\N{LEFT-TO-RIGHT OVERRIDE}"
_END_OF_OVERRIDE = "\N{POP DIRECTIONAL FORMATTING}"


def hidden_characters(text: str) -> list[tuple[int, str]]:
    """The characters that are invisible or look like others: (offset, name), in order.

    These are control characters (except tab and line ends), direction marks, zero-width and other
    non-printing characters, spaces other than U+0020, and letters of another script inside a Latin word. A
    name has the form `U+202E RIGHT-TO-LEFT OVERRIDE`. The time is proportional to the text's length.
    """
    found = [(match.start(), name_of(text[match.start()])) for match in _HIDDEN.finditer(_folded(text))]
    foreign = foreign_letters(text)
    if foreign:
        found.extend((offset, f"{name_of(text[offset])} (in a Latin word)") for offset in foreign)
        found.sort()
    return found


def escape_hidden(text: str, keep_lines: bool = True) -> str:
    """The text with every invisible character written in the form `[U+200B]`.

    Without `keep_lines`, tabs and line ends are written in this form too, so that the result is one line.
    Letters of another script are visible and stay unchanged; `hidden_characters` names them.
    """
    shown = _HIDDEN.sub(lambda match: f"[{code_of(text[match.start()])}]", _folded(text))
    if keep_lines:
        return shown
    return re.sub(r"[\t\r\n]", lambda match: f"[{code_of(match.group())}]", shown)


def right_to_left_letters(text: str) -> list[int]:
    """The offsets of letters and digits that are drawn from right to left, and reorder what is near them."""
    reordering = _reordering(text)
    return [offset for offset, sign in enumerate(text) if sign in reordering] if reordering else []


def left_to_right(text: str) -> str:
    """The text with each line that has right-to-left letters held in the order in which it is stored.

    Such a line stands between U+202D and U+202C (UAX #9, 3.3.2): the letters of any script then run from left
    to right, and neither words nor punctuation change places. For Qt; `escape_right_to_left` for terminals,
    which reorder lines in ways of their own.
    """
    reordering = _reordering(text)
    if not reordering:
        return text
    return "\n".join(
        line if reordering.isdisjoint(line) else f"{LEFT_TO_RIGHT_OVERRIDE}{line}{_END_OF_OVERRIDE}"
        for line in text.split("\n")
    )


def without_override(text: str) -> str:
    """The text that `left_to_right` was given."""
    return text.replace(LEFT_TO_RIGHT_OVERRIDE, "").replace(_END_OF_OVERRIDE, "")


def escape_right_to_left(text: str) -> str:
    """The text with each right-to-left letter written in the form `[U+05D0]`."""
    reordering = _reordering(text)
    if not reordering:
        return text
    return text.translate({ord(sign): f"[{code_of(sign)}]" for sign in reordering})


def _reordering(text: str) -> set[str]:
    if text.isascii():
        return set()
    # What is not printable, U+061C among it, counts as hidden instead.
    return {
        sign for sign in set(text) if unicodedata.bidirectional(sign) in _REORDERING and sign.isprintable()
    }


def code_of(character: str) -> str:
    """A character's code point in the usual notation: `U+200B`."""
    return f"U+{ord(character):04X}"


def name_of(character: str) -> str:
    """A character's code point and name: `U+200B ZERO WIDTH SPACE`."""
    code = ord(character)
    name = unicodedata.name(character, "") or _CONTROL_NAMES.get(code, "")
    if not name:
        category = unicodedata.category(character)
        name = {"Cc": "CONTROL CHARACTER", "Cs": "LONE SURROGATE", "Co": "PRIVATE USE"}.get(
            category, "UNASSIGNED"
        )
    return f"{code_of(character)} {name}"


def shorten_middle(text: str, limit: int) -> str:
    """The text in at most `limit` characters; … replaces the part left out of its middle."""
    if len(text) <= limit:
        return text
    head = limit // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def plural(number: int, one: str, many: str = "") -> str:
    """`1 device`, `24 devices`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short_line(text: str) -> str:
    """The text for the middle of a sentence: at most 60 characters of it, on one line, nothing hidden."""
    return escape_hidden(shorten_middle(text, 60), keep_lines=False)


def some_names(names: Iterable[str], most: int = 12) -> str:
    """The first `most` names in sorted order, for a sentence, and the number of the others."""
    known = sorted(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return (", ".join(known[:most]) or "none") + more


def sentences(*texts: str) -> str:
    """Join texts by spaces; a text without closing punctuation gets a full stop.

    Empty texts are left out. White space at the ends of a text is removed.
    """
    kept = [text.strip() for text in texts]
    return " ".join(text if _ENDED.search(text) else f"{text}." for text in kept if text)


def at_place(what: str, column: int, line: int = 0) -> str:
    """What is wrong at a place in a text that a person writes; both numbers count from 1.

    `line` is left out where a text has one line.
    """
    place = f"Line {line}, column {column}" if line else f"Column {column}"
    return f"{place}: {what}"


def column_of(message: str) -> int | None:
    """The column that `at_place` has put before a message; None without one."""
    match = _PLACE.match(message)
    return int(match[1]) if match else None


def too_long(what: str, text: str, most: int) -> str:
    """The error of a text that is too long; `what` it is, with its article."""
    return f"{what} has at most {most:,} characters; this one has {len(text):,}."


def clause(text: str) -> str:
    """The text without its full stop, for the middle of a sentence."""
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text


def _folded(text: str) -> str:
    """The text with each invisible non-ASCII character replaced by a NUL; offsets stay the same.

    Not a single pattern: a regular expression tests a large character class member by member.
    """
    if text.isascii():
        return text
    # Even a long text has few distinct characters, so that each is tested once.
    odd = {
        ord(sign): "\0"
        for sign in set(text)
        if sign > "\x7f" and (not sign.isprintable() or sign in _DRAWN_EMPTY)
    }
    return text.translate(odd) if odd else text
