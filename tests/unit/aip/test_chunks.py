"""Frames in parts come together whole in any mixture, and whatever does not fit is an error in words."""

from __future__ import annotations

import random

import pytest

from core.aip.chunks import (
    LEAST_PART,
    MOST_STREAMS,
    FrameAssembler,
    pack_abandoned,
    pack_chunk,
)
from core.errors import DeviceError, ErrorCode

BODY = bytes(range(256)) * 40


def parts_of(stream: int, body: bytes, size: int = 2048, subject: str = "") -> list[bytes]:
    return [
        pack_chunk(stream, len(body), at, body[at : at + size], subject) for at in range(0, len(body), size)
    ]


def assembler(most_frame: int = 100_000, most_held: int = 200_000) -> FrameAssembler:
    return FrameAssembler(most_frame, most_held)


def test_a_frame_comes_together_and_knows_what_it_belongs_to():
    parts = assembler()
    *first, last = parts_of(1, BODY, subject="response-1")
    for part in first:
        frame = parts.take(part, 0.0)
        assert frame is not None
        assert (frame.subject, frame.total, frame.is_whole) == ("response-1", len(BODY), False)
    frame = parts.take(last, 0.0)
    assert frame is not None
    assert (frame.is_whole, bytes(frame.data)) == (True, BODY)
    assert (parts.open, parts.bytes_held) == ({}, 0)


def test_the_parts_of_many_frames_may_be_mixed_in_any_way_and_are_never_mixed_up():
    parts, order = assembler(), random.Random(1)
    bodies = {stream: bytes([stream]) * (5_000 + stream) for stream in range(1, MOST_STREAMS + 1)}
    left = {stream: parts_of(stream, body) for stream, body in bodies.items()}
    # Streams begin in order; then their parts come as they like.
    whole = {}
    for stream in bodies:
        parts.take(left[stream].pop(0), 0.0)
    while left:
        stream = order.choice(list(left))
        frame = parts.take(left[stream].pop(0), 0.0)
        assert frame is not None
        if not left[stream]:
            del left[stream]
            whole[stream] = bytes(frame.data)
    assert whole == bodies


@pytest.mark.parametrize(
    ("taken", "foreign", "words"),
    [
        (1, parts_of(1, BODY)[2], "byte 4096 of 10240 came where 2048 of 10240 was next"),
        (2, parts_of(1, BODY)[1], "byte 2048 of 10240 came where 4096 of 10240 was next"),
        (1, parts_of(1, BODY + b"!" * 9)[1], "byte 2048 of 10249 came where 2048 of 10240 was next"),
        (1, parts_of(2, BODY)[1], "stream 2 is not under way"),
        (5, parts_of(1, BODY)[0], "stream 1 begins a second time"),
        (1, pack_chunk(1, len(BODY), 2048, BODY), "it has 10240 bytes at 2048 of 10240"),
        (1, pack_chunk(1, len(BODY), 2048, b""), "it has 0 bytes at 2048 of 10240"),
        (1, pack_chunk(1, len(BODY), 2048, b"tiny"), "it has 4 bytes, and is not the last"),
        (0, b"\x01\x00", "its head is too short"),
        (0, b"\x01\x06" + bytes(20), "its flags 6 are not known"),
        (0, pack_chunk(0, 10, 0, b"0123456789"), "stream 0 begins a second time"),
    ],
)
def test_a_part_that_does_not_fit_is_an_error_that_says_why(taken: int, foreign: bytes, words: str):
    parts = assembler()
    for part in parts_of(1, BODY)[:taken]:
        parts.take(part, 0.0)
    with pytest.raises(DeviceError) as caught:
        parts.take(foreign, 0.0)
    assert caught.value.message == f"A part of a frame does not fit: {words}."
    assert caught.value.code is ErrorCode.PROTOCOL_ERROR


def test_a_frame_is_bounded_by_what_it_says_and_not_by_what_has_come():
    with pytest.raises(DeviceError) as caught:
        assembler(most_frame=9_000).take(parts_of(1, BODY)[0], 0.0)
    assert caught.value.code is ErrorCode.TOO_LARGE
    assert "at most 9000 bytes, not 10240" in caught.value.message


def test_frames_without_an_end_are_bounded_in_number_and_in_bytes():
    parts = assembler()
    for stream in range(1, MOST_STREAMS + 1):
        parts.take(pack_chunk(stream, 50_000, 0, bytes(LEAST_PART)), 0.0)
    with pytest.raises(DeviceError, match="incomplete already"):
        parts.take(pack_chunk(MOST_STREAMS + 1, 50_000, 0, bytes(LEAST_PART)), 0.0)
    parts = assembler(most_frame=50_000, most_held=120_000)
    for stream in (1, 2):
        parts.take(pack_chunk(stream, 50_000, 0, bytes(49_000)), 0.0)
    with pytest.raises(DeviceError, match="Too many bytes of incomplete frames"):
        parts.take(pack_chunk(3, 50_000, 0, bytes(49_000)), 0.0)
    assert parts.bytes_held <= 120_000


def test_an_abandoned_frame_is_dropped_and_its_stream_cannot_go_on():
    parts = assembler()
    first, second, *_ = parts_of(1, BODY)
    parts.take(first, 0.0)
    assert parts.take(pack_abandoned(1, len(BODY), 2048), 0.0) is None
    assert (parts.open, parts.bytes_held) == ({}, 0)
    # One whose last part came first is whole already.
    assert parts.take(pack_abandoned(1, len(BODY), 2048), 0.0) is None
    with pytest.raises(DeviceError, match="not under way"):
        parts.take(second, 0.0)


def test_random_bytes_are_refused_or_taken_and_never_anything_else():
    chance = random.Random(7)
    for _ in range(3_000):
        parts = assembler()
        for _ in range(4):
            noise = chance.randbytes(chance.randrange(40))
            known = pack_chunk(chance.randrange(4), chance.randrange(9), chance.randrange(9), noise)
            try:
                parts.take(chance.choice((b"\x01" + noise, known)), 0.0)
            except DeviceError:
                break
