from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.audit.encode import MAX_ENTRY_BYTES, decode, encode_parts
from core.audit.entries import Entry, Kind, NewEntry
from core.canonical_json import MAX_DEPTH, canonical_bytes, encoded
from core.errors import BadInput, ErrorCode, JournalCorrupt
from tests.fakes.run_size import examples

TIME = "2026-11-01T10:20:30.000001Z"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = (
    st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [0.0, -0.0, 1.0, 1e21, 1e-7, 1e16, 9007199254740993.0, 5e-324, 1.5e300, 123456789012345680.0]
    )
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
entries = st.builds(
    NewEntry,
    kind=st.sampled_from(Kind),
    actor=texts,
    run=st.none() | texts,
    step=st.none() | texts,
    device=st.none() | texts,
    call_id=st.none() | texts,
    tool=st.none() | texts,
    status=st.none() | texts,
    verdict=st.none() | texts,
    duration_ms=st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 10**9),
    body=st.dictionaries(texts, values, max_size=5),
    blobs=st.lists(st.sampled_from(["ab" * 32, "0f" * 32]), max_size=3),
)


def test_an_entry_has_the_fields_of_a_new_one_its_number_and_its_time():
    assert list(Entry.model_fields) == [*NewEntry.__slots__, "seq", "time"]


def new(**fields) -> NewEntry:
    return NewEntry(**{"kind": Kind.SERVICE_STARTED, "actor": "service", **fields})


@settings(max_examples=examples(400))
@given(entries, st.integers(1, 2**53 - 1))
def test_the_fast_encoder_gives_the_bytes_of_rfc_8785(entry, seq):
    whole = Entry(**entry.values(), seq=seq, time=TIME)
    assert encode_parts(entry, TIME).with_seq(seq) == canonical_bytes(whole.model_dump(mode="json"))


@pytest.mark.parametrize("sign", [',"seq":0,"status":', '","seq":0,"status":"', '\\","seq":0,"status":null'])
def test_nothing_in_an_entry_is_taken_for_the_place_of_its_number(sign):
    body = {"seq": 0, "status": sign, "a": [{"run": None, "seq": 0, "status": None}], sign: sign}
    entry = new(actor=sign, run=sign, step=sign, tool=sign, status=sign, verdict=sign, device=sign, body=body)
    expected = canonical_bytes({**entry.values(), "seq": 7, "time": TIME})
    assert encode_parts(entry, TIME).with_seq(7) == expected


@given(entries, st.dictionaries(texts, st.none() | texts | st.integers(-(10**40), 10**40), max_size=5))
def test_an_entry_is_read_back_as_it_was_written(entry, body):
    # Floats of more than 2^53 come back as integers: canonical JSON has but one way to write a number.
    entry = replace(entry, body=body)
    read = decode(encode_parts(entry, TIME).with_seq(7))
    assert read == Entry(**entry.values(), seq=7, time=TIME)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "body", [{"colour": Colour.RED}, {"pair": (1, 2)}, {"a": {"\ue000": 1, "\U00010000": 2}}]
)
def test_a_body_of_unusual_python_values_is_canonical_too(body):
    whole = Entry(**new(body=body).values(), seq=1, time=TIME)
    assert encode_parts(new(body=body), TIME).with_seq(1) == canonical_bytes(whole.model_dump(mode="json"))


@pytest.mark.parametrize(
    "body",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": 10**4300},
        {"x": "\ud800"},
        {"\ud800": 1},
        {"x": object()},
    ],
)
def test_a_body_without_canonical_form_is_refused(body):
    with pytest.raises(BadInput):
        encode_parts(new(body=body), TIME)


def test_text_that_is_no_unicode_is_refused_outside_the_body_too():
    with pytest.raises(BadInput, match="Unicode"):
        encode_parts(new(actor="\udfff"), TIME)


def nested(levels: int, empty: object) -> object:
    value: object = empty
    for _ in range(levels):
        value = [value] if isinstance(empty, list) else {"x": value}
    return value


@pytest.mark.parametrize("empty", [[], {}])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900])
def test_nesting_that_sqlite_could_not_read_is_refused_before_it_is_written(levels, empty):
    with pytest.raises(BadInput, match="nested"):
        encode_parts(new(body={"x": nested(levels, empty)}), TIME)


def test_an_entry_that_is_too_large_is_refused():
    with pytest.raises(BadInput) as caught:
        encode_parts(new(body={"x": "y" * MAX_ENTRY_BYTES}), TIME)
    assert caught.value.code is ErrorCode.TOO_LARGE


def test_a_blob_name_that_is_none_is_refused():
    with pytest.raises(BadInput, match="blob"):
        encode_parts(new(blobs=["../../etc/passwd"]), TIME)


def test_stored_bytes_that_are_no_entry_are_said_to_be_corrupt():
    with pytest.raises(JournalCorrupt, match="audit verify"):
        decode(b'{"seq":1}')


@settings(max_examples=examples(200))
@given(entries, values, values)
def test_a_part_that_is_encoded_already_stands_for_its_value(entry, part, other):
    bare = replace(entry, body={"part": part, "in": [{"it": part}], "other": other})
    body = {"part": encoded(part), "in": [{"it": encoded(part)}], "other": other}
    entry = replace(entry, body=body)
    assert encode_parts(entry, TIME) == encode_parts(bare, TIME)


def test_a_part_without_canonical_form_is_refused_when_it_is_encoded():
    for part in ({"x": float("nan")}, ["\ud800"], nested(MAX_DEPTH + 1, [])):
        with pytest.raises(BadInput):
            encoded(part)
