"""Words of SQL that change or destroy, found in an argument that looks like a query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from core.fleet.models import Risk

Marked = tuple[str, Risk, int, int]

LONGEST = 100_000
_MOST_VERBS = 50
# Texts, names in quotes and comments; what is in them is no word of the language. Servers differ in what a
# backslash in a text means, so both readings are judged; and what only some of them hold to be a comment
# (`#`, `--x`, `/*! … */`) is none here.
_NAMES_AND_COMMENTS = r"\"[^\"]*\"?|`[^`]*`?|--(?=\s)[^\n]*|/\*(?!!).*?(?:\*/|$)"
_READINGS = (
    re.compile(rf"'(?:[^'\\]|\\.|'')*'?|{_NAMES_AND_COMMENTS}", re.DOTALL),
    re.compile(rf"'(?:[^']|'')*'?|{_NAMES_AND_COMMENTS}", re.DOTALL),
)
_BEGINS = re.compile(
    r"^\s*(?:select|insert|update|delete|drop|truncate|alter|create|grant|revoke|merge|replace|with|exec|call|"
    r"copy|attach|pragma)\b\s+\S",
    re.IGNORECASE,
)
_RIGHTS = r"\b(?:grant|revoke)\b|\bcreate\s+(?:user|role|login|function|procedure|trigger)\b"
_PROGRAMS = r"\bxp_\w+|\bsp_oa\w+|\bcopy\b[^;]{0,200}?\bprogram\b|\bload_extension\b"
_WORDS: tuple[tuple[re.Pattern[str], str, Risk], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), text, risk)
    for pattern, text, risk in (
        (r"\bdrop\s+\w+", "Drops", Risk.CRITICAL),
        (r"\btruncate\b", "Empties a whole table", Risk.CRITICAL),
        (r"\b(?:alter|rename)\s+\w+", "Changes how data is kept", Risk.HIGH),
        (_RIGHTS, "Changes who may do what", Risk.HIGH),
        (r"\binto\s+(?:out|dump)file\b|\bload_file\s*\(", "Reaches files of the server", Risk.CRITICAL),
        (_PROGRAMS, "Runs programs on the server", Risk.CRITICAL),
        (r"\battach\s+database\b", "Opens another database", Risk.HIGH),
        (r"\b(?:insert|replace|merge)\s+into\b", "Adds or replaces rows", Risk.MEDIUM),
    )
)
_ALL_OR_SOME = re.compile(r"\b(delete\s+from|update)\b", re.IGNORECASE)
_SET = re.compile(r"\bset\b", re.IGNORECASE)
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
_TRUE = r"\(?\s*(?:1\s*=\s*1|true|not\s+false|(\w+)\s*=\s*\1)\s*\)?"
_ALWAYS = re.compile(rf"^\s*(?:{_TRUE}|1)\s*(?:$|;|\bor\b|\breturning\b)", re.IGNORECASE)
_OR_ALWAYS = re.compile(rf"\bor\s+{_TRUE}", re.IGNORECASE)


def looks_like_query(text: str) -> bool:
    """Whether a text begins as a statement of SQL does."""
    return bool(_BEGINS.match(text[:200]))


def judge_query(text: str) -> Iterator[Marked]:
    """What a query would do beyond reading: (words, risk, start, end), offsets in characters of `text`."""
    if len(text) > LONGEST:
        yield f"Is too long to be judged ({len(text):,} characters)", Risk.HIGH, 0, len(text)
        return
    found: dict[Marked, None] = {}
    for aside in _READINGS:
        # Blanked out rather than cut, so that offsets stay.
        bare = aside.sub(lambda match: " " * len(match.group()), text)
        start = 0
        for statement in bare.split(";"):
            found.update(dict.fromkeys(_statement(statement, start)))
            start += len(statement) + 1
    yield from found


def _statement(text: str, at: int) -> Iterator[Marked]:
    for pattern, said, risk in _WORDS:
        if found := pattern.search(text):
            words = f"Drops a {found.group().split()[1].lower()}" if said == "Drops" else said
            yield words, risk, at + found.start(), at + found.end()
    verbs = list(_ALL_OR_SOME.finditer(text))[:_MOST_VERBS]
    for verb, after in zip_longest(verbs, verbs[1:]):
        rest = _outside_brackets(text[verb.end() : after.start() if after else len(text)])
        deletes = verb[1][:1] in "dD"
        if not deletes and not _SET.search(rest):
            continue
        where = _WHERE.search(rest)
        start, end = at + verb.start(), at + verb.end()
        if where is None or _ALWAYS.match(rest[where.end() :]) or _OR_ALWAYS.search(rest[where.end() :]):
            said = "Deletes every row" if deletes else "Changes every row"
            yield f"{said}: nothing says which", Risk.CRITICAL, start, end
        elif deletes:
            yield "Deletes rows", Risk.HIGH, start, end
        else:
            yield "Changes rows", Risk.MEDIUM, start, end


def _outside_brackets(text: str) -> str:
    """The text up to the bracket that ends what it stands in, without whole queries in brackets."""
    depth, kept = 0, []
    for piece in re.split(r"([()])", text):
        if piece == "(":
            depth += 1
        elif piece == ")":
            depth -= 1
            if depth < 0:
                break
        elif depth == 0 or not re.match(r"\s*(?:select|with)\b", piece, re.IGNORECASE):
            kept.append(piece)
        else:
            # What follows inside the same brackets belongs to that query.
            kept.append(" ")
    return "".join(kept)
