"""Searches runs by words with SQL over the journal's indexes, newest first.

A run matches by its entries: id, name, actor, devices and tools in `run_started`, the state in
`run_finished`, and the summaries of its commands in `command_decided` and `command_sent`. Words are plain
text: `%`, `*` and quotes have no special meaning.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from core.audit.entries import Kind
from core.audit.query_plan import last_seq
from core.errors import BadInput
from core.text import too_long

MAX_WORDS = 32
MAX_LENGTH = 2000
BUDGET_SECONDS = 1.0
FIELDS = ("id", "name", "device", "tool", "actor", "state", "effect")
_SPAN = 8_192

_ENTRY = "CAST(r.entry AS TEXT)"
# An item of `steps` is a step, or a group of steps that run in parallel.
_TOOLS = (
    "(SELECT group_concat(coalesce(json_extract(s.value, '$.tool'), (SELECT group_concat("
    "json_extract(p.value, '$.tool'), char(10)) FROM json_each(s.value, '$.parallel') p)), char(10))"
    f" FROM json_each({_ENTRY}, '$.body.batch.steps') s)"
)
_DEVICES = f"(SELECT group_concat(d.value, char(10)) FROM json_each({_ENTRY}, '$.body.devices') d)"
# Only entries of the wanted kind are read; the index excludes the others.
_OF_RUN = (
    "EXISTS (SELECT 1 FROM entries c INDEXED BY by_run WHERE c.run = r.run AND c.seq > r.seq AND EXISTS ("
    "SELECT 1 FROM entries k INDEXED BY by_kind WHERE k.kind IN ({kinds}) AND k.seq = c.seq)"
    " AND json_extract(CAST(c.entry AS TEXT), '{path}') LIKE :{word} ESCAPE '\\')"
)
_LIVE = "(SELECT l.value FROM json_each(:live) l WHERE l.key = r.run)"


def _like(text: str) -> Callable[[str], str]:
    return lambda word: f"{text} LIKE :{word} ESCAPE '\\'"


def _state(word: str) -> str:
    ended = _OF_RUN.format(kinds=f"'{Kind.RUN_FINISHED}'", path="$.body.state", word=word)
    return f"CASE WHEN {_LIVE} IS NULL THEN {ended} ELSE {_LIVE} LIKE :{word} ESCAPE '\\' END"


_TESTS: dict[str, Callable[[str], str]] = {
    "id": _like("r.run"),
    "name": _like(f"json_extract({_ENTRY}, '$.body.batch.name')"),
    "device": _like(_DEVICES),
    "tool": _like(_TOOLS),
    "actor": _like("r.actor"),
    "state": _state,
    "effect": lambda word: _OF_RUN.format(
        kinds=f"'{Kind.COMMAND_DECIDED}', '{Kind.COMMAND_SENT}'",
        path="$.body.decision.summary",
        word=word,
    ),
}


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """Ids of runs, newest first; `next_before` is `before` for the next search, None at the end."""

    runs: list[str]
    next_before: int | None


def search_runs(
    connection: sqlite3.Connection,
    words: str,
    live: Mapping[str, str],
    before: int | None = None,
    limit: int = 50,
) -> FoundRuns:
    """The newest runs that match all of these words and began before the entry `before`.

    A word matches in any of `FIELDS`; `device:lab` matches only in the named field. ASCII letters match in
    either case. `live` maps the ids of unfinished runs to their states. After `BUDGET_SECONDS` the search
    ends with the runs found so far.

    Raises:
        BadInput: there are more than `MAX_WORDS` words or `MAX_LENGTH` characters, or an unpaired surrogate.
    """
    deadline = time.monotonic() + BUDGET_SECONDS
    conditions, parameters = _conditions(words)
    parameters["live"] = json.dumps(live)
    parameters["most"] = limit + 1
    where = "".join(f" AND ({condition})" for condition in conditions)
    statement = (
        "SELECT r.seq, r.run FROM entries r INDEXED BY by_kind"
        f" WHERE r.kind = '{Kind.RUN_STARTED}' AND r.seq BETWEEN :low AND :high{where}"
        " ORDER BY r.seq DESC LIMIT :most"
    )
    high = last_seq(connection) if before is None else before - 1
    rows: list[tuple[int, str]] = []
    while high > 0:
        low = max(1, high - _SPAN + 1)
        rows += connection.execute(statement, {**parameters, "low": low, "high": high}).fetchall()
        if len(rows) > limit:
            return FoundRuns([run for _, run in rows[:limit]], rows[limit - 1][0])
        high = low - 1
        if time.monotonic() > deadline and high > 0:
            return FoundRuns([run for _, run in rows], low)
    return FoundRuns([run for _, run in rows], None)


def _conditions(words: str) -> tuple[list[str], dict[str, str | int]]:
    """The SQL condition of each word, and the LIKE patterns as parameters."""
    texts = words.split()
    if len(words) > MAX_LENGTH:
        raise BadInput(too_long("A search for runs", words, MAX_LENGTH))
    if any("\ud800" <= letter <= "\udfff" for letter in words):
        raise BadInput("A search for runs has a character in it that is half of a pair.")
    if len(texts) > MAX_WORDS:
        raise BadInput(f"A search for runs has at most {MAX_WORDS} words; this one has {len(texts)}.")
    conditions: list[str] = []
    parameters: dict[str, str | int] = {}
    for number, text in enumerate(texts):
        field, colon, value = text.partition(":")
        tests = [_TESTS[field.lower()]] if colon and value and field.lower() in _TESTS else _TESTS.values()
        wanted = value if len(tests) == 1 else text
        escaped = wanted.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        parameters[f"word{number}"] = f"%{escaped}%"
        conditions.append(" OR ".join(test(f"word{number}") for test in tests))
    return conditions, parameters
