"""What is trusted of tools is kept as the journal has it, and copied; not once for each of a thousand."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import core.fleet.tool_pins
from core.errors import BadInput
from core.fleet.tool_pins import FORMAT, Claims, Pin, Pins, Rows, pin_of, read_rows
from core.models.tools import Risk
from tests.fakes.full_disk import full_disk_for

D0, D1 = "0" * 64, "1" * 64


def a_pin(digest: str, risk: Risk | None = Risk.HIGH, ours: bool = False) -> Pin:
    return Pin(digest, Claims(risk, ours))


def copied(tmp_path: Path) -> Rows:
    return read_rows((tmp_path / "contracts.json").read_text())


async def test_a_thousand_devices_that_arrive_together_are_a_few_writes(tmp_path, monkeypatch):
    writes: list[Path] = []
    real = core.fleet.tool_pins.write_atomic

    def counted(path: Path, text: str) -> None:
        writes.append(path)
        real(path, text)

    monkeypatch.setattr(core.fleet.tool_pins, "write_atomic", counted)
    pins = Pins(tmp_path / "contracts.json")
    await asyncio.gather(*(pins.pin(f"sim-{n}", {"x": a_pin(f"{n:064x}")}) for n in range(1000)))
    assert len(writes) <= 3
    rows = copied(tmp_path)
    assert all(pin_of(rows[f"sim-{n}"]["x"]) == a_pin(f"{n:064x}") for n in range(1000))
    assert all(pins.get(f"sim-{n}", "x") == a_pin(f"{n:064x}") for n in range(1000))


async def test_the_copy_has_the_last_word_of_many_that_wait_for_each_other(tmp_path):
    pins = Pins(tmp_path / "contracts.json")
    await asyncio.gather(*(pins.pin("a", {"x": a_pin(f"{n:064x}")}) for n in range(50)))
    await asyncio.gather(pins.pin("b", {"x": a_pin(D1)}), pins.forget("a"))
    assert copied(tmp_path) == {"b": {"x": a_pin(D1).row}}


async def test_a_copy_that_cannot_be_written_takes_nothing_away(tmp_path):
    pins = Pins(tmp_path / "contracts.json")
    with full_disk_for(tmp_path / "contracts.json"):
        await asyncio.gather(*(pins.pin(f"sim-{n}", {"x": a_pin(D0)}) for n in range(5)))
    assert pins.get("sim-0", "x") == a_pin(D0)
    await pins.pin("sim-9", {"x": a_pin(D0)})
    assert set(copied(tmp_path)) == {*(f"sim-{n}" for n in range(5)), "sim-9"}


async def test_a_forgotten_device_is_a_stranger_again(tmp_path):
    pins = Pins(tmp_path / "contracts.json")
    await pins.pin("a", {"x": a_pin(D0)})
    await pins.pin("b", {"x": a_pin(D1)})
    await pins.forget("a")
    assert (pins.get("a", "x"), pins.get("b", "x")) == (None, a_pin(D1))
    assert copied(tmp_path) == {"b": {"x": a_pin(D1).row}}


async def test_what_is_pinned_later_is_added_to_what_was(tmp_path):
    pins = Pins(tmp_path / "contracts.json")
    await pins.pin("a", {"x": a_pin(D0)})
    await pins.pin("a", {"y": a_pin(D1)})
    assert (pins.get("a", "x"), pins.get("a", "y")) == (a_pin(D0), a_pin(D1))
    assert pins.names("a") == {"x", "y"}


@pytest.mark.parametrize("claims", [Claims(risk, ours) for risk in (None, *Risk) for ours in (True, False)])
async def test_a_pin_is_read_back_as_it_is_written(tmp_path, claims):
    pin = Pin(D1, claims)
    assert pin_of(pin.row) == pin
    pins = Pins(tmp_path / "contracts.json")
    await pins.pin('a "device"', {"a\u202e name": pin})
    again = Pins(tmp_path / "contracts.json")
    assert again.restore(copied(tmp_path)) == []
    assert again.get('a "device"', "a\u202e name") == pin


NO_PINS = f'{{"format": "{FORMAT}", "devices": '


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        '{"a": 1}',
        f'{{"format": "{FORMAT}"}}',
        f'{NO_PINS}{{"a": {{"x": "00"}}}}}}',
        f'{NO_PINS}{{"a": {{"x": "{D0} high"}}}}}}',
        f'{NO_PINS}{{"a": {{"x": "{D0} none ours"}}}}}}',
        f'{NO_PINS}{{"a": {{"x": "{D0[1:]}G high ours"}}}}}}',
        f'{NO_PINS}{{"a": {{"x": 1}}}}}}',
        f'{NO_PINS}{{"a": "{D0} high ours"}}}}',
        f'{NO_PINS}["a"]}}',
        "[" * 100_000,
    ],
)
def test_a_copy_that_is_none_is_said_written_anew_and_counts_for_nothing(tmp_path, text):
    (tmp_path / "contracts.json").write_text(text)
    (tmp_path / "contracts.json").chmod(0o600)
    with pytest.raises(BadInput, match=r"contracts\.json was not as it was written"):
        read_rows(text)
    pins = Pins(tmp_path / "contracts.json")
    [note] = pins.restore({"a": {"x": a_pin(D1).row}})
    assert "the journal" in note
    assert len(note) < 400
    assert note.isprintable()
    assert pins.get("a", "x") == a_pin(D1)
    assert copied(tmp_path) == {"a": {"x": a_pin(D1).row}}


@pytest.mark.parametrize(
    "found",
    [
        {"a": {"x": a_pin(D0).row}},
        {"a": {"x": a_pin(D1).row, "planted": a_pin(D0).row}},
        {"planted": {"x": a_pin(D0).row}},
        {"planted\ud800\n\u202e": {"x": a_pin(D0).row}},
    ],
)
def test_a_copy_that_says_something_else_is_said_and_written_anew(tmp_path, found):
    (tmp_path / "contracts.json").write_text(json.dumps({"devices": found}))
    (tmp_path / "contracts.json").chmod(0o600)
    pins = Pins(tmp_path / "contracts.json")
    [note] = pins.restore({"a": {"x": a_pin(D1).row}})
    assert ("planted" if "a" not in found else "of a ") in note
    assert note.isprintable()
    assert pins.get("a", "planted") is None
    assert copied(tmp_path) == {"a": {"x": a_pin(D1).row}}


@pytest.mark.parametrize("found", [{}, {"a": {}}, {"a": {"y": a_pin(D0).row}}])
def test_a_copy_that_is_behind_is_written_anew_without_a_word(tmp_path, found):
    (tmp_path / "contracts.json").write_text(json.dumps({"devices": found}))
    (tmp_path / "contracts.json").chmod(0o600)
    rows = {"a": {"x": a_pin(D1).row, "y": a_pin(D0).row}}
    assert Pins(tmp_path / "contracts.json").restore(rows) == []
    assert copied(tmp_path) == rows


def test_where_nothing_is_pinned_no_copy_is_made(tmp_path):
    assert Pins(tmp_path / "contracts.json").restore({}) == []
    assert list(tmp_path.iterdir()) == []


def test_of_a_file_that_is_far_longer_than_the_copy_no_more_than_its_size_is_read(tmp_path, monkeypatch):
    asked: list[int] = []
    real = core.fleet.tool_pins.read_own_text

    def counted(path: Path, most_bytes: int) -> str | None:
        asked.append(most_bytes)
        return real(path, most_bytes)

    monkeypatch.setattr(core.fleet.tool_pins, "read_own_text", counted)
    with (tmp_path / "contracts.json").open("w") as file:
        file.truncate(1 << 40)
    [note] = Pins(tmp_path / "contracts.json").restore({"a": {"x": a_pin(D1).row}})
    assert "larger than" in note
    assert max(asked) < 2 << 20
    assert copied(tmp_path) == {"a": {"x": a_pin(D1).row}}
