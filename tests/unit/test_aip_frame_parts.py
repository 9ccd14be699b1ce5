"""How much a frame may hold before it is read: what takes long is refused, what is only long is not."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.aip import frame_limits
from core.aip.frame_limits import MOST_OUTSIDE, MOST_PARTS, check_frame_parts
from core.aip.messages import read_client_frame, read_server_frame
from core.aip.pending_requests import MOST_BYTES, weight
from core.errors import DeviceError, ErrorCode
from tests.fakes.pace import within

MEBIBYTE = 1024 * 1024
LINE = json.dumps({"time": "2026-01-02T03:04:05Z", "level": "info", "said": "started, again", "at": [1, 2]})


def frame(result: bytes) -> bytes:
    head = (
        b'{"type":"command_results","status":"completed","action_results":[{"status":"success","call_id":"c",'
    )
    return head + b'"result":' + result + b"}]}"


def filled(part: bytes, size: int = 27 * MEBIBYTE) -> bytes:
    return b"[" + b",".join([part] * (size // (len(part) + 1))) + b"]"


def names(count: int) -> bytes:
    return b"{" + b",".join(b'"%x":1' % number for number in range(count)) + b"}"


@pytest.mark.parametrize(
    "part",
    [
        b"1",
        b"0.5",
        b"null",
        b'""',
        b'"\\n"',
        b'"\\""',
        b'"\\\\"',
        b'",[{:"',
        b'"text"',
        b"[]",
        b"[1]",
        b'{"a":1}',
    ],
)
def test_a_frame_of_endless_parts_is_refused_before_it_is_read(part: bytes) -> None:
    long = frame(filled(part))
    for one in within(0.15, clock=time.thread_time):
        with one, pytest.raises(DeviceError, match="it holds more than") as caught:
            read_client_frame(long)
        assert caught.value.code is ErrorCode.PROTOCOL_ERROR


def test_a_frame_of_endless_names_is_refused_before_it_is_read() -> None:
    long = frame(names(2_000_000))
    for one in within(0.15, clock=time.thread_time):
        with one, pytest.raises(DeviceError, match="it holds more than"):
            read_client_frame(long)


def test_numbers_of_endless_digits_are_refused_before_they_are_read() -> None:
    long = frame(filled(b"9" * 4000))
    for one in within(0.1, clock=time.thread_time):
        with one, pytest.raises(DeviceError, match="outside of its texts"):
            read_client_frame(long)


@pytest.mark.parametrize(
    ("result", "limit_s"),
    [
        (b"[" + b",".join([b"1.5"] * 890_000) + b"]", 0.1),
        (b"[" + b",".join([b"[]"] * 445_000) + b"]", 0.1),
        (b"[" + b",".join([b'{"a":1}'] * 296_000) + b"]", 0.1),
        (b"[" + b",".join(b'"%x"' % number for number in range(890_000)) + b"]", 0.15),
        (b"[" + b",".join([b"9" * 4000] * (MOST_OUTSIDE // 4001 - 1)) + b"]", 0.1),
        (names(450_000), 0.2),
    ],
    ids=["numbers", "lists", "objects", "texts", "digits", "names"],
)
def test_the_worst_frames_that_are_read_hold_the_loop_for_a_moment_only(
    result: bytes, limit_s: float
) -> None:
    whole = frame(result)
    for one in within(limit_s, clock=time.thread_time):
        with one:
            assert read_client_frame(whole).action_results


def ui_tree(nodes: int) -> bytes:
    node = {"role": "button", "name": "Press me, please", "bounds": {"x": 1, "y": 2, "width": 3, "height": 4}}
    return orjson.dumps([{**node, "states": ["enabled", "visible"], "children": []}] * nodes)


@pytest.mark.parametrize(
    "result",
    [
        b'"' + b"QUJDREVG" * (25 * MEBIBYTE // 8) + b'"',
        b'"' + b"12,ab,c d,3.5\\n" * (25 * MEBIBYTE // 15) + b'"',
        json.dumps((LINE + "\n") * (25 * MEBIBYTE // len(LINE) * 4 // 5)).encode(),
        json.dumps("a\\,[{:" * (3 * MEBIBYTE)).encode(),
        b'["' + b"QUJDREVG" * (10 * MEBIBYTE // 8) + b'",' + ui_tree(20_000) + b"]",
        ui_tree(40_000),
        orjson.dumps([{"name": "x", "size": 1, "tags": []}] * 100_000),
        orjson.dumps([["2026-01-02", "Rome, Italy", 1.5, 2, None]] * 120_000),
    ],
    ids=["picture", "table as text", "log as text", "escapes", "picture and tree", "tree", "rows", "table"],
)
def test_what_is_only_long_is_read(result: bytes) -> None:
    [read] = read_client_frame(frame(result)).action_results or []
    assert read.result is not None


def test_a_console_s_frame_is_bounded_the_same_way_as_text_too() -> None:
    command = '{"type":"command","status":"continue","result":%s}'
    assert read_server_frame(command % ('"' + "é,[" * 900_000 + '"')).result
    with pytest.raises(DeviceError, match="it holds more than"):
        read_server_frame(command % filled(b"1", 4 * MEBIBYTE).decode())


@pytest.mark.parametrize("on", [True, False])
def test_reading_leaves_the_collector_as_it_was(on: bool) -> None:
    before = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        read_client_frame(frame(filled(b"1", MEBIBYTE)))
        with pytest.raises(DeviceError):
            read_client_frame(b"[" * MEBIBYTE)
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()


def parts_of(value: Any) -> Iterator[int]:
    """One for each comma, colon and opening bracket outside of texts."""
    if isinstance(value, dict | list):
        yield 1 + max(0, len(value) - 1)
        inner = value.values() if isinstance(value, dict) else value
        yield len(value) if isinstance(value, dict) else 0
        for one in inner:
            yield from parts_of(one)


_TEXTS = st.text(st.sampled_from('\\",[{:n u\x00é'), max_size=8)


@example({'"': "\\", "\\": ['\\"', ',"'], ":": {"": "[\\\\"}})
@given(
    st.recursive(
        st.none() | st.integers() | _TEXTS,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXTS, inner, max_size=5),
        max_leaves=30,
    )
)
def test_what_stands_inside_of_texts_is_never_counted(value: Any) -> None:
    wire, parts = json.dumps(value).encode(), sum(parts_of(value))
    with pytest.MonkeyPatch.context() as patched:
        for outside in (len(wire), len(wire) - 1):
            patched.setattr(frame_limits, "MOST_OUTSIDE", outside)
            patched.setattr(frame_limits, "MOST_PARTS", parts)
            if outside == len(wire) or b'"' in wire:
                check_frame_parts(wire)
            if parts:
                patched.setattr(frame_limits, "MOST_PARTS", parts - 1)
                with pytest.raises(DeviceError):
                    check_frame_parts(wire)


def test_the_bound_lets_as_many_numbers_through_as_could_be_kept() -> None:
    assert weight([1] * 1000) >= 8 * 1000
    assert MOST_BYTES // 8 <= MOST_PARTS
