"""Bash's own ways: how it splits a line that is being typed, and which part of a word it replaces.

Readline breaks words at each sign of COMP_WORDBREAKS that is neither quoted nor escaped, such as `=` and `:`,
and replaces the part behind the last one only. Behind a quote that is still open it replaces what follows the
quote, and closes it itself. The matches must be quoted by the program that offers them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.completion.words import Offer

# Every other ASCII sign is escaped: it may part words, expand, or begin a comment.
_SPECIAL = re.compile(r"[^\w./:=@%+,-]")
_BLANKS = " \t\n"
# Bash's `rl_special_prefixes`: a word that such a sign begins is replaced together with it.
_REPLACED_TOO = "$@"
_ESCAPED_IN_DOUBLE = '"$`\\'


@dataclass(frozen=True, slots=True)
class BashLine:
    """A line up to the cursor: its words without quotes, the last of which is being typed.

    `quote` is the quote that is open at the cursor, empty if there is none. `kept` is the number of
    characters of the last word that stand before what readline replaces.
    """

    words: tuple[str, ...]
    quote: str
    kept: int


def read_line(line: str, breaks: str) -> BashLine:
    """Split a line as bash does; `breaks` is COMP_WORDBREAKS."""
    words: list[str] = []
    word, is_begun, quote, kept = "", False, "", 0
    signs: Iterator[str] = iter(line)
    for sign in signs:
        if quote:
            if sign == quote:
                quote = ""
            elif quote == '"' and sign == "\\":
                escaped = next(signs, "")
                word += escaped if escaped in _ESCAPED_IN_DOUBLE else sign + escaped
            else:
                word += sign
        elif sign in _BLANKS:
            if is_begun:
                words.append(word)
            word, is_begun, kept = "", False, 0
            continue
        elif sign in "\"'":
            quote = sign
            before_quote = len(word)
        elif sign == "\\":
            word += next(signs, "")
        else:
            word += sign
            if sign in breaks:
                kept = len(word) - (sign in _REPLACED_TOO)
        is_begun = True
    return BashLine((*words, word), quote, before_quote if quote else kept)


def reply(line: BashLine, offers: Sequence[Offer]) -> list[str]:
    """The lines for COMPREPLY, behind a first line that says whether a blank follows a single word."""
    words = [(offer, _quoted(offer, line)) for offer in offers]
    found = [(offer, text) for offer, text in words if text is not None]
    is_open = len(found) == 1 and found[0][0].is_open
    return ["nospace" if is_open else "space", *(text for _, text in found)]


def _quoted(offer: Offer, line: BashLine) -> str | None:
    """What readline inserts for a word; None if it cannot be written within the quote that is open."""
    rest = offer.text[line.kept :]
    if line.quote == "'":
        return rest.replace("'", r"'\''")
    if line.quote == '"':
        # No quoting within double quotes keeps a `!` from the history.
        return None if "!" in rest else re.sub(r'(["$`\\])', r"\\\1", rest)
    home = "~" if offer.is_path and line.kept == 0 and rest.startswith("~") else ""
    return home + _SPECIAL.sub(
        lambda sign: f"\\{sign[0]}" if sign[0].isascii() else sign[0], rest[len(home) :]
    )
