"""Translation of ECMA-262's regular expressions into Python's."""

from __future__ import annotations

import re

# `\p{Lu}` becomes a private-use character, which the matcher reads as "any character of that category".
CATEGORY_BASE = 0xF0000
CATEGORIES = re.findall(
    r"\w+",
    "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cs Co Cn",
)
_LONG_NAMES = {"Letter": "L", "Mark": "M", "Number": "N", "Punctuation": "P", "Symbol": "S", "Separator": "Z"}


class PatternUnsupported(ValueError):
    """The pattern is not a regular expression, or cannot be matched in bounded time."""


MOST_QUICK = 400
"""Characters of patterns (about 30 µs each) that may be compiled at once."""
_SLOW = re.compile(r"\{|\\[uUpP]")


def is_quick(source: str) -> bool:
    """Whether a pattern compiles in a few milliseconds: it is short and has no counted repetition.

    Several patterns do together where they have at most `MOST_QUICK` characters.
    """
    # A few nested `{9}` reach the largest allowed program. Classes beyond Latin-1 are slow to compile, also
    # where their ends are written as escapes.
    return len(source) <= 100 and source.isascii() and _SLOW.search(source) is None


def translate(source: str) -> tuple[str, bool]:
    """Rewrite ECMA-262 syntax as Python's; the flag says whether Unicode categories occur."""
    out: list[str] = []
    position, in_class, has_category = 0, False, False
    while position < len(source):
        char = source[position]
        if char == "\\":
            piece, position, category = _translate_escape(source, position)
            has_category = has_category or category
            out.append(piece)
            continue
        if in_class:
            in_class = char != "]"
            out.append("\\[" if char == "[" else char)
        elif source.startswith("[^]", position):
            out.append("[\\s\\S]")
            position += 2
        elif source.startswith("[]", position):
            out.append("(?!)")
            position += 1
        elif char == "[":
            in_class = True
            out.append(char)
            if source.startswith("^", position + 1):
                out.append("^")
                position += 1
        elif char == "$":
            out.append("\\Z")
        elif source.startswith("(?<", position) and source[position + 3 : position + 4] not in ("=", "!", ""):
            out.append("(?P<")
            position += 2
        else:
            out.append(char)
        position += 1
    return "".join(out), has_category


def _translate_escape(source: str, position: int) -> tuple[str, int, bool]:
    after = source[position + 1 : position + 2]
    if after in ("p", "P") and (
        found := re.compile(r"\{(?:gc=|General_Category=)?(\w+)\}").match(source, position + 2)
    ):
        name = _LONG_NAMES.get(found[1], found[1])
        if after == "P" or name not in CATEGORIES:
            raise PatternUnsupported(f"\\{after}{{{found[1]}}} is not supported")
        return chr(CATEGORY_BASE + CATEGORIES.index(name)), found.end(), True
    if after == "u" and (found := re.compile(r"\{([0-9A-Fa-f]{1,6})\}").match(source, position + 2)):
        return re.escape(chr(int(found[1], 16))), found.end(), False
    if after == "/" or after == "-":
        return ("/" if after == "/" else "\\-"), position + 2, False
    return source[position : position + 2], position + 2, False
