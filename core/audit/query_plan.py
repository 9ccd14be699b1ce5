"""Plans a journal query as SQL: the term whose index drives the search, and the tests for each candidate.

The driver is the term whose index has the fewest matches; it is walked in order of `seq` (values are merged).
The other terms are looked up by (value, seq) in their own index, which costs 1 µs and reads no entry. Terms
that no index can answer (free text) are tested last, on the entry itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from json.encoder import encode_basestring

from core.audit.query import DurationTerm, Query, SeqTerm, Term, TextTerm
from core.errors import JournalCorrupt

# Above this number of matches, sorting an index range costs more than walking the entries in order.
_SORTABLE = 20_000
_MAX_VALUES = 200
_MAX_ARMS = 30
_MAX_PROBES = 8
_TIME = "json_extract(CAST(entry AS TEXT), '$.time')"
_SAYING = ("kind", "actor", "run", "step", "device", "call_id", "tool", "status", "verdict", "body")
_SAID = "json_extract(CAST(e.entry AS TEXT), " + ", ".join(f"'$.{name}'" for name in _SAYING) + ")"

Parameter = str | int | float


@dataclass(slots=True)
class _Condition:
    """One term as SQL over `entries e`. `column` and `values` are set if an index can look them up."""

    sql: str
    parameters: list[Parameter]
    column: str | None = None
    values: list[str] | None = None
    ranged: bool = False
    reads_entry: bool = True
    matches: int = 0

    @property
    def may_drive(self) -> bool:
        if self.values is not None:
            return len(self.values) <= _MAX_ARMS or self.matches <= _SORTABLE
        return self.ranged and self.matches <= _SORTABLE


@dataclass(slots=True)
class Plan:
    """A query plan: the conditions, and the span of entries `low` to `high`, both included."""

    low: int
    high: int
    driver: _Condition | None = None
    rest: list[_Condition] = field(default_factory=list)
    nothing: bool = False

    def statement(self, low: int, high: int, newest_first: bool) -> tuple[str, list[Parameter]]:
        """The SQL that selects the matching numbers from `low` to `high` in order, and its parameters."""
        # In a plain AND, SQLite would do the index look-ups last, after reading every entry.
        cheap = " AND ".join(condition.sql for condition in self.rest if not condition.reads_entry)
        dear = " AND ".join(condition.sql for condition in self.rest if condition.reads_entry)
        both = f"CASE WHEN {cheap} THEN {dear} ELSE 0 END" if cheap and dear else cheap or dear
        where = "e.seq BETWEEN ? AND ?" + (f" AND {both}" if both else "")
        tail: list[Parameter] = [low, high]
        tail += [value for condition in self.rest for value in condition.parameters]
        order = f" ORDER BY seq {'DESC' if newest_first else 'ASC'}"
        driver = self.driver
        if driver is None:
            return f"SELECT e.seq FROM entries e NOT INDEXED WHERE {where}{order}", tail
        source = f"SELECT e.seq FROM entries e INDEXED BY by_{driver.column} WHERE"
        if driver.values is None or len(driver.values) > _MAX_ARMS:
            return f"{source} {driver.sql} AND {where}{order}", [*driver.parameters, *tail]
        # SQLite merges sorted UNION arms; with an IN it would sort all matches.
        arms = [f"{source} e.{driver.column} = ? AND {where}" for _ in driver.values]
        return " UNION ALL ".join(arms) + order, [part for value in driver.values for part in (value, *tail)]


def plan_search(connection: sqlite3.Connection, query: Query, low: int, high: int) -> Plan:
    """Narrow the span by time and number, and choose the driver."""
    for term in query.terms:
        if isinstance(term, SeqTerm) and not term.negated:
            low, high = max(low, term.low), min(high, term.high)
    if query.since is not None:
        low = first_since(connection, query.since, low, high)
    if query.until is not None:
        high = first_since(connection, query.until, low, high) - 1
    plan = Plan(low, high)
    for term in query.terms:
        if not (isinstance(term, SeqTerm) and not term.negated):
            plan.rest.append(_condition(connection, term, low, high))
    plan.nothing = low > high or any(condition.values == [] for condition in plan.rest)
    able = [condition for condition in plan.rest if condition.may_drive]
    if able and not plan.nothing:
        plan.driver = min(able, key=lambda condition: condition.matches)
        plan.rest.remove(plan.driver)
    plan.rest.sort(key=lambda condition: condition.reads_entry)
    return plan


def _condition(connection: sqlite3.Connection, term: Term, low: int, high: int) -> _Condition:
    if isinstance(term, TextTerm):
        return _text_condition(connection, term, low, high)
    if isinstance(term, DurationTerm):
        return _duration_condition(connection, term, low, high)
    if isinstance(term, SeqTerm):
        return _Condition("NOT (e.seq BETWEEN ? AND ?)", [term.low, term.high], reads_entry=False)
    needle = encode_basestring(term.text)[1:-1]
    escaped = needle.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    like = f"%{escaped}%"
    if term.negated:
        return _Condition(f"NOT ({_SAID} LIKE ? ESCAPE '\\')", [like])
    # The cheap test comes first: most entries do not contain the text anywhere, not even in member names.
    sql = f"(CAST(e.entry AS TEXT) LIKE ? ESCAPE '\\' AND {_SAID} LIKE ? ESCAPE '\\')"
    return _Condition(sql, [like, like])


def _text_condition(connection: sqlite3.Connection, term: TextTerm, low: int, high: int) -> _Condition:
    """A condition on a field; patterns are expanded to the existing values, up to `_MAX_VALUES`."""
    values: set[str] = set()
    for pattern in term.patterns:
        if (literal := pattern.literal) is not None:
            values.add(literal)
            continue
        for value in values_of(connection, term.column, pattern.prefix):
            if pattern.matches(value):
                values.add(value)
            if len(values) > _MAX_VALUES:
                return _glob_condition(connection, term)
    chosen = sorted(values)
    marks = ", ".join("?" * len(chosen))
    if not chosen:
        return _Condition("1" if term.negated else "0", [], values=None if term.negated else [])
    reads_entry = len(chosen) > _MAX_PROBES
    if not reads_entry:
        sql = (
            f"EXISTS (SELECT 1 FROM entries p INDEXED BY by_{term.column}"
            f" WHERE p.{term.column} IN ({marks}) AND p.seq = e.seq)"
        )
    else:
        sql = f"e.{term.column} IN ({marks})"
    parameters: list[Parameter] = list(chosen)
    if term.negated:
        return _Condition(f"({sql}) IS NOT 1", parameters, reads_entry=reads_entry)
    matches = 0
    for value in chosen:
        matches += count_value(connection, term.column, value, low, high, _SORTABLE + 1)
        if matches > 10 * _SORTABLE:
            break
    return _Condition(sql, parameters, term.column, chosen, reads_entry=reads_entry, matches=matches)


def _glob_condition(connection: sqlite3.Connection, term: TextTerm) -> _Condition:
    """A condition on a field by GLOB, for patterns with very many values; a prefix can use the index."""
    column = f"e.{term.column}"
    sql = f"({' OR '.join(f'{column} GLOB ?' for _ in term.patterns)})"
    parameters: list[Parameter] = [pattern.as_glob() for pattern in term.patterns]
    if term.negated:
        return _Condition(f"{sql} IS NOT 1", parameters)
    prefix = term.patterns[0].prefix
    if len(term.patterns) > 1 or not prefix or ord(prefix[-1]) in {0xD7FF, 0x10FFFF}:
        return _Condition(sql, parameters)
    sql = f"{column} >= ? AND {column} < ? AND {sql}"
    parameters = [prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1), *parameters]
    return _ranged(connection, sql, parameters, term.column)


def _duration_condition(
    connection: sqlite3.Connection, term: DurationTerm, low: int, high: int
) -> _Condition:
    parts = []
    parameters: list[Parameter] = []
    if term.low is not None:
        parts.append(f"e.duration_ms {'>' if term.low_open else '>='} ?")
        parameters.append(term.low)
    if term.high is not None:
        parts.append(f"e.duration_ms {'<' if term.high_open else '<='} ?")
        parameters.append(term.high)
    sql = " AND ".join(parts)
    if term.negated:
        return _Condition(f"({sql}) IS NOT 1", parameters)
    return _ranged(connection, sql, parameters, "duration_ms")


def _ranged(connection: sqlite3.Connection, sql: str, parameters: list[Parameter], column: str) -> _Condition:
    """A condition that an index range can answer, with its number of matches (at most `_SORTABLE` + 1)."""
    count = f"SELECT count(*) FROM (SELECT 1 FROM entries e INDEXED BY by_{column} WHERE {sql} LIMIT ?)"
    matches = connection.execute(count, [*parameters, _SORTABLE + 1]).fetchone()[0]
    return _Condition(sql, parameters, column, ranged=True, matches=matches)


def values_of(connection: sqlite3.Connection, column: str, prefix: str) -> Iterator[str]:
    """The values of an indexed column that begin with `prefix`, in order; one index look-up for each."""
    sql = (
        f"SELECT {column} FROM entries INDEXED BY by_{column} WHERE {column} {{}} ? ORDER BY {column} LIMIT 1"
    )
    row = connection.execute(sql.format(">="), (prefix,)).fetchone()
    while row is not None and isinstance(row[0], str) and row[0].startswith(prefix):
        yield row[0]
        row = connection.execute(sql.format(">"), (row[0],)).fetchone()


def count_value(
    connection: sqlite3.Connection, column: str, value: str, low: int, high: int, bound: int
) -> int:
    """The number of entries from `low` to `high` with a value; counting stops at `bound`."""
    row = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM entries INDEXED BY by_{column}"
        f" WHERE {column} = ? AND seq BETWEEN ? AND ? LIMIT ?)",
        (value, low, high, bound),
    ).fetchone()
    return int(row[0])


def last_seq(connection: sqlite3.Connection) -> int:
    """The number of the newest entry, 0 when there is none."""
    return int(connection.execute("SELECT max(seq) FROM entries").fetchone()[0] or 0)


def first_since(connection: sqlite3.Connection, moment: str, low: int, high: int) -> int:
    """The first number from `low` to `high` whose time is not before `moment`; `high` + 1 if there is none.

    Times never decrease from entry to entry, so a binary search works without an index.
    """
    while low <= high:
        middle = (low + high) // 2
        if time_of(connection, middle) < moment:
            low = middle + 1
        else:
            high = middle - 1
    return low


def time_of(connection: sqlite3.Connection, seq: int) -> str:
    """The time of an entry.

    Raises:
        JournalCorrupt: the entry is missing.
    """
    row = connection.execute(f"SELECT {_TIME} FROM entries WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        raise JournalCorrupt(f"Journal entry {seq} is missing; run `quarterdeck audit verify`.")
    return str(row[0])
