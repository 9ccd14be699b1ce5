"""Identifiers and moments as text."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

import pytest

from core import ids
from core.ids import new_id, new_uuid, now_stamp, now_utc, random_word


def test_identifiers_sort_by_the_moment_they_were_made_and_none_is_given_twice() -> None:
    made = [new_id() for _ in range(2_000)]
    assert len(set(made)) == len(made)
    assert [one[:10] for one in made] == sorted(one[:10] for one in made)
    assert all(re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", one) for one in made)


def test_an_identifier_carries_its_milliseconds() -> None:
    before = datetime.now(UTC)
    number = 0
    for digit in new_id()[:10]:
        number = number * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(digit)
    assert abs(datetime.fromtimestamp(number / 1000, UTC) - before) < timedelta(seconds=5)


def test_uuids_are_random_ones_as_others_read_them() -> None:
    for _ in range(200):
        text = new_uuid()
        assert str(UUID(text)) == text
        assert UUID(text).version == 4
        assert UUID(text).variant == RFC_4122
    assert len({random_word(16) for _ in range(2_000)}) == 2_000


@pytest.mark.parametrize(
    "moment", [0, 1, 999_999_999, 1_000_000_000, 1_735_689_599_999_999_999, 1_735_689_600_000_000_000]
)
def test_moments_are_written_as_datetime_writes_them(moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids.time, "time_ns", lambda: moment)
    seconds, rest = divmod(moment, 1_000_000_000)
    plain = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000, tzinfo=None)
    assert now_utc() == plain.isoformat(timespec="microseconds") + "Z"
    assert now_stamp() == plain.isoformat(timespec="microseconds") + "+00:00"


def test_a_new_second_is_never_written_with_the_old_ones_start(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(1_735_689_598_000_000_000, 1_735_689_603_000_000_000, 999_983))
    monkeypatch.setattr(ids.time, "time_ns", lambda: next(moments))
    written = [now_utc() for _ in range(5_000)]
    assert written == sorted(set(written))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_repeat_its_parents_random_bytes() -> None:
    random_word(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, random_word(16).encode())
        os._exit(0)
    os.close(writing)
    of_child = os.read(reading, 100).decode()
    os.close(reading)
    os.waitpid(child, 0)
    assert len(of_child) == 32
    assert random_word(16) != of_child
