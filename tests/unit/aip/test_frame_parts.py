"""How much a frame may hold before it is read: what takes long is refused, what is only long is not."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.aip import frame_limits, messages
from core.aip.frame_limits import MOST_PARTS, check_frame_parts
from core.aip.messages import read_client_frame, read_server_frame
from core.aip.pending_requests import MOST_BYTES, weight
from core.errors import DeviceError, ErrorCode
from tests.fakes.long_frames import WORST, frame, names
from tests.fakes.run_size import examples

MEBIBYTE = 1024 * 1024
# More than may stand outside of texts; in a full run about the longest frame that a link takes.
LONG = examples(27, quick=13) * MEBIBYTE
LINE = json.dumps({"time": "2026-01-02T03:04:05Z", "level": "info", "said": "started, again", "at": [1, 2]})


def filled(part: bytes, size: int = LONG) -> bytes:
    return b"[" + b",".join([part] * (size // (len(part) + 1))) + b"]"


@pytest.fixture
def never_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing parses the frame: a test that gets as far ends with a `TypeError`."""
    monkeypatch.setattr(messages, "_validated", None)


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
def test_a_frame_of_endless_parts_is_refused_before_it_is_read(part: bytes, never_parsed: None) -> None:
    with pytest.raises(DeviceError, match="it holds more than") as caught:
        read_client_frame(frame(filled(part)))
    assert caught.value.code is ErrorCode.PROTOCOL_ERROR


def test_a_frame_of_endless_names_is_refused_before_it_is_read(never_parsed: None) -> None:
    with pytest.raises(DeviceError, match="it holds more than"):
        read_client_frame(frame(names(2_000_000)))


def test_numbers_of_endless_digits_are_refused_before_they_are_read(never_parsed: None) -> None:
    with pytest.raises(DeviceError, match="outside of its texts"):
        read_client_frame(frame(filled(b"9" * 4000)))


@pytest.mark.parametrize("kind", WORST)
def test_the_worst_frames_that_are_read_are_at_the_limit(kind: str) -> None:
    """How long they hold the loop is measured by `make bench`."""
    at_most, more = WORST[kind]
    assert read_client_frame(frame(at_most())).action_results
    with pytest.raises(DeviceError, match="it holds more than"):
        read_client_frame(frame(more()))


def ui_tree(nodes: int) -> bytes:
    node = {"role": "button", "name": "Press me, please", "bounds": {"x": 1, "y": 2, "width": 3, "height": 4}}
    return orjson.dumps([{**node, "states": ["enabled", "visible"], "children": []}] * nodes)


ONLY_LONG: dict[str, Callable[[], bytes]] = {
    "picture": lambda: b'"' + b"QUJDREVG" * (25 * MEBIBYTE // 8) + b'"',
    "table as text": lambda: b'"' + b"12,ab,c d,3.5\\n" * (25 * MEBIBYTE // 15) + b'"',
    "log as text": lambda: json.dumps((LINE + "\n") * (25 * MEBIBYTE // len(LINE) * 4 // 5)).encode(),
    "escapes": lambda: json.dumps("a\\,[{:" * (3 * MEBIBYTE)).encode(),
    "picture and tree": lambda: b'["' + b"QUJDREVG" * (10 * MEBIBYTE // 8) + b'",' + ui_tree(20_000) + b"]",
    "tree": lambda: ui_tree(40_000),
    "rows": lambda: orjson.dumps([{"name": "x", "size": 1, "tags": []}] * 100_000),
    "table": lambda: orjson.dumps([["2026-01-02", "Rome, Italy", 1.5, 2, None]] * 120_000),
}


@pytest.mark.parametrize("kind", ONLY_LONG)
def test_what_is_only_long_is_read(kind: str) -> None:
    [read] = read_client_frame(frame(ONLY_LONG[kind]())).action_results or []
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
