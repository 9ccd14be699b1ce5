"""Findings in an SQL query: statements that change or destroy data, found by their keywords."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from core.models.tools import Risk

# (text, risk, start, end); offsets in characters of the query.
QueryFinding = tuple[str, Risk, int, int]

LONGEST = 100_000
_MOST_VERBS = 50
# Strings, quoted names and comments, in which no keyword counts. Servers differ in the meaning of a backslash
# in a string, so a query is searched under both readings. What only some servers treat as a comment (`#`,
# `--x`, `/*! … */`) is searched too.
_NAMES_AND_COMMENTS = r"\"[^\"]*\"?|`[^`]*`?|--(?=\s)[^\n]*|/\*(?!!).*?(?:\*/|$)"
_NON_CODE = (
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
_STATEMENTS: tuple[tuple[re.Pattern[str], str, Risk], ...] = tuple(
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
    """Whether a text begins like an SQL statement."""
    return bool(_BEGINS.match(text[:200]))


def findings_in_query(text: str) -> Iterator[QueryFinding]:
    """The effects of a query beyond reading."""
    if len(text) > LONGEST:
        yield f"Is too long to be judged ({len(text):,} characters)", Risk.HIGH, 0, len(text)
        return
    findings: dict[QueryFinding, None] = {}
    for non_code in _NON_CODE:
        # Replaced by blanks instead of removed, so that offsets stay valid.
        blanked = non_code.sub(lambda match: " " * len(match.group()), text)
        start = 0
        for statement in blanked.split(";"):
            findings.update(dict.fromkeys(_findings_in_statement(statement, start)))
            start += len(statement) + 1
    yield from findings


def _findings_in_statement(text: str, offset: int) -> Iterator[QueryFinding]:
    for pattern, effect, risk in _STATEMENTS:
        if match := pattern.search(text):
            message = f"Drops a {match.group().split()[1].lower()}" if effect == "Drops" else effect
            yield message, risk, offset + match.start(), offset + match.end()
    verbs = list(_ALL_OR_SOME.finditer(text))[:_MOST_VERBS]
    for verb, after in zip_longest(verbs, verbs[1:]):
        clauses = _outside_brackets(text[verb.end() : after.start() if after else len(text)])
        deletes = verb[1][:1] in "dD"
        if not deletes and not _SET.search(clauses):
            continue
        where = _WHERE.search(clauses)
        start, end = offset + verb.start(), offset + verb.end()
        if (
            where is None
            or _ALWAYS.match(clauses[where.end() :])
            or _OR_ALWAYS.search(clauses[where.end() :])
        ):
            effect = "Deletes every row" if deletes else "Changes every row"
            yield f"{effect}: nothing says which", Risk.CRITICAL, start, end
        elif deletes:
            yield "Deletes rows", Risk.HIGH, start, end
        else:
            yield "Changes rows", Risk.MEDIUM, start, end


def _outside_brackets(text: str) -> str:
    """The text up to its first unmatched closing bracket, without subqueries in brackets."""
    depth, pieces = 0, []
    for piece in re.split(r"([()])", text):
        if piece == "(":
            depth += 1
        elif piece == ")":
            depth -= 1
            if depth < 0:
                break
        elif depth == 0 or not re.match(r"\s*(?:select|with)\b", piece, re.IGNORECASE):
            pieces.append(piece)
        else:
            # Blanks the part of the subquery up to the next bracket.
            pieces.append(" ")
    return "".join(pieces)
