from __future__ import annotations

import asyncio
import itertools
import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.audit import query_plan, search
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.journal import Journal
from core.audit.query import (
    DurationTerm,
    FreeTerm,
    Pattern,
    Query,
    SeqTerm,
    Term,
    TextTerm,
    parse_query,
    quoted,
)
from core.audit.search import facets_of, histogram_of
from core.audit.store import connect
from core.errors import BadInput
from tests.fakes.run_size import examples

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
KINDS = (Kind.COMMAND_SENT, Kind.COMMAND_DECIDED, Kind.RESULT_RECORDED, Kind.PROGRESS_REPORTED)


def made(number: int) -> NewEntry:
    """Entries whose fields have different periods, so that each combination has its own count."""
    return NewEntry(
        kind=KINDS[number % 4],
        actor=("operator:eve", "agent:clerk", "service")[number % 3],
        run=f"r-{number // 10:04d}" if number % 5 else None,
        device=(None, "lab-1", "lab-2", "db-1", "lab[x]*")[number % 5],
        call_id=f"c-{number}",
        tool=("type_text", "click", None)[number % 3],
        status="failure" if number % 7 == 0 else "success",
        verdict=("confirmed", "unknown")[number % 2],
        duration_ms=float(number) if number % 2 else None,
        body={
            "text": ('said "hello"', "100%", "under_score", "back\\slash", "Line\nbreak", "plain")[number % 6]
        },
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A closed journal of 300 entries."""
    home = tmp_path_factory.mktemp("queries")

    async def write() -> None:
        journal = await Journal.open(home, KEY, "desk")
        for start in range(0, 300, 50):
            await journal.append_many([made(number) for number in range(start, start + 50)])
        await journal.close()

    asyncio.run(write())
    return home


@pytest.fixture(scope="module")
def connection(folder):
    opened = connect(folder / "journal.db", "ro", immutable=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def entries(connection) -> list[Entry]:
    rows = connection.execute("SELECT entry FROM entries ORDER BY seq")
    return [Entry.model_validate_json(row[0]) for row in rows]


def holds(term: Term, entry: Entry) -> bool:
    """What a term means, said in Python."""
    if isinstance(term, TextTerm):
        value = getattr(entry, term.column)
        found = value is not None and any(pattern.matches(value) for pattern in term.patterns)
    elif isinstance(term, DurationTerm):
        value = entry.duration_ms
        found = value is not None
        if found and term.low is not None:
            found = value > term.low if term.low_open else value >= term.low
        if found and term.high is not None:
            found = value < term.high if term.high_open else value <= term.high
    elif isinstance(term, SeqTerm):
        found = term.low <= entry.seq <= term.high
    else:
        said = [entry.kind, entry.actor, entry.run, entry.device, entry.call_id, entry.tool, entry.status]
        said += [entry.verdict, *entry.body.values(), *entry.body]
        found = any(value is not None and term.text.lower() in value.lower() for value in said)
    return found != term.negated


def ask(connection, text: str, before=None, after=None, limit=5000) -> search.Page:
    return search.search(connection, parse_query(text), before, after, limit)


def numbers(page: search.Page) -> list[int]:
    return [entry.seq for entry in page.entries]


VALUES = {
    "kind": ["command_sent", "command_*", "*_recorded", "progress_reported"],
    "actor": ["operator:eve", "agent:*", "nobody"],
    "run": ["r-0001", "r-00*", "r-*2", "*"],
    "device": ["lab-1", "lab-*", '"lab[x]*"', "lab[x]*", "?ab-1", "db-1,lab-2", "nowhere"],
    "call": ["c-17", "c-1*", "*7"],
    "tool": ["type_text", "click,type_text", "t*"],
    "status": ["failure", "success", "f*"],
    "verdict": ["unknown", "confirmed,unknown"],
    "dur": [">100ms", "<=0.2s", "0.05s..0.15s", "..20ms", ">1m"],
    "seq": ["100..200", "17", "250..", "..30", "400..500"],
}
FREE = [
    "hello",
    '"said \\"hello\\""',
    '"100%"',
    "under_score",
    "underXscore",
    "LAB-1",
    '"back\\\\slash"',
    "plain",
    "zzz",
]
terms = st.builds(
    lambda bang, text: bang + text,
    st.sampled_from(["", "", "!"]),
    st.sampled_from([f"{name}:{value}" for name, values in VALUES.items() for value in values] + FREE),
)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.lists(terms, max_size=4), small=st.booleans())
def test_sql_finds_exactly_what_the_terms_mean(connection, entries, query, small):
    text = " ".join(query)
    parsed = parse_query(text)
    wanted = [entry.seq for entry in reversed(entries) if all(holds(term, entry) for term in parsed.terms)]
    with pytest.MonkeyPatch.context() as patch:
        # Here is asked what is found, however slow the machine; that a search ends in time is asked below.
        patch.setattr(search, "COUNT_SECONDS", 60.0)
        patch.setattr(search, "BUDGET_SECONDS", 60.0)
        if small:  # what happens in large journals: little may be sorted, listed or searched at once
            patch.setattr(query_plan, "_SORTABLE", 20)
            patch.setattr(query_plan, "_MAX_VALUES", 3)
            patch.setattr(query_plan, "_MAX_ARMS", 2)
            patch.setattr(query_plan, "_MAX_PROBES", 1)
            patch.setattr(search, "_FIRST_SPAN", 7)
        page = ask(connection, text)
        assert numbers(page) == wanted, text
        assert (page.count, page.count_exact, page.complete) == (len(wanted), True, True)
        assert numbers(ask(connection, text, after=0)) == wanted[::-1]
        buckets = histogram_of(connection, parsed, 7)
        assert sum(bucket.count for bucket in buckets) == len(wanted)
        found = [entry for entry in entries if entry.seq in wanted]
        assert sum(bucket.failed for bucket in buckets) == sum(one.status == "failure" for one in found)
        assert sum(bucket.unknown for bucket in buckets) == sum(one.verdict == "unknown" for one in found)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=terms, limit=st.integers(1, 40), newest_first=st.booleans())
def test_pages_follow_each_other_without_gap_or_overlap(connection, text, limit, newest_first):
    whole = numbers(ask(connection, text, after=None if newest_first else 0))
    found: list[int] = []
    before, after = None, None if newest_first else 0
    while True:
        page = ask(connection, text, before, after, limit)
        found += numbers(page)
        assert page.count == len(whole)
        before, after = page.next_before, page.next_after
        if before is None and after is None:
            break
        assert len(page.entries) == limit
    assert found == whole


@given(st.text(max_size=40) | st.text('abc:,*!" \\.<>=0159smh', max_size=30))
def test_any_text_is_either_a_query_or_bad_input_that_says_where(text):
    try:
        parse_query(text)
    except BadInput as error:
        told = re.fullmatch(r"Column (\d+): .+ Allowed: .+", error.message, re.DOTALL)
    else:
        return
    assert told is not None
    assert 1 <= int(told[1]) <= len(text) + 1


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.lists(words, min_size=1, max_size=4), st.booleans())
def test_quoted_values_mean_themselves(values, negated):
    bang = "!" if negated else ""
    query = parse_query(f"{bang}device:{','.join(map(quoted, values))} {bang}{quoted(values[0])}")
    patterns = tuple(Pattern((value,)) for value in values)
    assert query.terms == (TextTerm("device", patterns, negated), FreeTerm(values[0], negated))


@given(words, st.lists(words, min_size=1, max_size=3))
def test_patterns_match_like_sqlite_does(text, pieces):
    pattern = Pattern(tuple(pieces))
    db = sqlite3.connect(":memory:")
    by_sqlite = db.execute("SELECT ? GLOB ?", (text, pattern.as_glob())).fetchone()[0]
    db.close()
    if "\0" not in text + pattern.as_glob():  # SQLite's GLOB ends at a NUL
        assert bool(by_sqlite) == pattern.matches(text)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        ("dur:>2s", Query((DurationTerm(2000.0, None, low_open=True),))),
        ("!dur:1.5s..2m", Query((DurationTerm(1500.0, 120_000.0, negated=True),))),
        ("seq:100..200", Query((SeqTerm(100, 200),))),
        ("since:1h", Query(since="2026-11-01T11:00:00.000000Z")),
        ("until:2026-11-01", Query(until="2026-11-01T00:00:00.000000Z")),
        ("since:2026-11-01T02:00+02:00 since:2026-10-01", Query(since="2026-11-01T00:00:00.000000Z")),
        ("actor:agent:clerk", Query((TextTerm("actor", (Pattern(("agent:clerk",)),)),))),
        ("call:c-*", Query((TextTerm("call_id", (Pattern(("c-", "")),)),))),
        ('"two words" a*b,c', Query((FreeTerm("two words"), FreeTerm("a*b,c")))),
    ],
)
def test_the_language_means_what_it_says(text, query):
    assert parse_query(text, NOW) == query


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("tol:click", 1, "did you mean tool"),
        ("a http://x", 3, "double quotes"),
        ("kind:comand_sent", 6, "command_sent"),
        ("kind:command_sent,nonsense", 6, "nonsense"),
        ("status:", 8, "value"),
        ("status: failure", 8, "value"),
        ("!", 2, "value"),
        ("device:a,,b", 8, "comma"),
        ("dur:2s", 5, "dur:>2s"),
        ("dur:>fast", 5, "units"),
        ("dur:..", 5, "units"),
        ("seq:x", 5, "seq:100..200"),
        ("ok since:yesterday", 10, "since:1h"),
        ("until:2026-13-01", 7, "ISO 8601"),
        ("!since:1h", 1, "until"),
        ('device:"lab', 8, '"'),
        (" ".join("a" * 40), 65, "fewer terms"),
    ],
)
def test_a_query_that_is_wrong_says_at_which_column_and_what_is_allowed(text, column, hint):
    with pytest.raises(BadInput) as caught:
        parse_query(text, NOW)
    assert caught.value.message.startswith(f"Column {column}: ")
    assert hint in caught.value.message


def test_a_query_that_is_too_long_is_refused():
    with pytest.raises(BadInput, match="2,000"):
        parse_query("a" * 2001)


def test_a_search_without_time_left_says_how_far_it_came_and_goes_on_from_there(
    connection, entries, monkeypatch
):
    monkeypatch.setattr(search, "BUDGET_SECONDS", -1.0)
    monkeypatch.setattr(search, "COUNT_SECONDS", -1.0)
    monkeypatch.setattr(search, "_FIRST_SPAN", 40)
    wanted = [entry.seq for entry in reversed(entries) if entry.status == "failure"]
    first = ask(connection, "status:failure")
    assert (first.complete, first.count_exact, first.next_before) == (False, False, 261)
    found, before = numbers(first), first.next_before
    while before is not None:
        page = ask(connection, "status:failure", before)
        found += numbers(page)
        before = page.next_before
    assert found == wanted


def test_since_and_until_cut_at_their_moment(connection, entries):
    middle = entries[120].time
    since = search.search(connection, Query(since=middle), None, None, 5000)
    until = search.search(connection, Query(until=middle), None, None, 5000)
    assert numbers(since) == [entry.seq for entry in reversed(entries) if entry.time >= middle]
    assert numbers(until) == [entry.seq for entry in reversed(entries) if entry.time < middle]
    assert numbers(search.search(connection, Query(since="9999"), None, None, 10)) == []


def test_facets_are_the_values_that_begin_so_with_their_counts(connection):
    found = facets_of(connection, "device", "lab", 10)
    assert [(facet.value, facet.count) for facet in found] == [("lab-1", 60), ("lab-2", 60), ("lab[x]*", 60)]
    assert [facet.value for facet in facets_of(connection, "call", "c-29", 3)] == ["c-29", "c-290", "c-291"]
    assert facets_of(connection, "tool", "zzz", 3) == []
    with pytest.raises(BadInput, match="device"):
        facets_of(connection, "dur", "", 3)


def test_a_histogram_covers_the_whole_time_in_order(connection, entries):
    buckets = histogram_of(connection, Query(), 10)
    assert len(buckets) == 10
    assert buckets[0].start == entries[0].time
    assert all(left.end == right.start for left, right in itertools.pairwise(buckets))
    assert buckets[-1].end >= entries[-1].time
    assert sum(bucket.count for bucket in buckets) == 300
    for bucket in buckets:
        last = bucket is buckets[-1]
        inside = [one for one in entries if bucket.start <= one.time and (last or one.time < bucket.end)]
        assert bucket.failed == sum(one.status == "failure" for one in inside)
        assert bucket.unknown == sum(one.verdict == "unknown" for one in inside)
    with pytest.raises(BadInput, match="buckets"):
        histogram_of(connection, Query(), 0)


async def test_the_journal_answers_for_empty_logs_runs_and_bad_limits(memory_path):
    journal = await Journal.open(memory_path, KEY, "desk")
    page = await journal.query("tool:click since:1h")
    assert (page.entries, page.count, page.count_exact, page.next_before) == ([], 0, True, None)
    assert await journal.histogram("") == []
    assert await journal.facets("tool") == []
    await journal.append_many([made(number) for number in range(30)])
    assert [entry.call_id for entry in await journal.entries_of_run("r-0001")] == [
        f"c-{number}" for number in range(11, 20) if number % 5
    ]
    assert (await journal.query(Query((SeqTerm(3, 5),)))).count == 3
    for limit in (0, 5001):
        with pytest.raises(BadInput, match="A page has"):
            await journal.query("", limit=limit)
    await journal.close()
