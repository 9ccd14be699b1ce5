"""Trust in tools is written before it counts, and not once for each of a thousand devices."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import core.fleet.pins
from core.errors import BadInput, JournalCorrupt
from core.fleet.models import Risk
from core.fleet.pins import FORMAT, Claims, Pin, Pins
from core.home import write_private


def a_pin(digest: str, risk: Risk | None = Risk.HIGH, ours: bool = False) -> Pin:
    return Pin(digest, Claims(risk, ours))


async def test_a_thousand_devices_that_arrive_together_are_a_few_writes(tmp_path, monkeypatch):
    writes: list[Path] = []
    real = core.fleet.pins.write_private

    def counted(path: Path, text: str) -> None:
        writes.append(path)
        real(path, text)

    monkeypatch.setattr(core.fleet.pins, "write_private", counted)
    pins = Pins(tmp_path / "contracts.json").load()
    await asyncio.gather(*(pins.pin(f"sim-{n}", {"x": a_pin(f"{n:064x}")}) for n in range(1000)))
    assert len(writes) <= 3
    again = Pins(tmp_path / "contracts.json").load()
    assert all(again.get(f"sim-{n}", "x") == a_pin(f"{n:064x}") for n in range(1000))


async def test_what_could_not_be_written_is_not_trusted(tmp_path):
    pins = Pins(tmp_path / "contracts.json").load()
    (tmp_path / "contracts.new").mkdir()
    ends = await asyncio.gather(
        *(pins.pin(f"sim-{n}", {"x": a_pin("00")}) for n in range(5)), return_exceptions=True
    )
    assert all(isinstance(end, BadInput) for end in ends)
    assert pins.get("sim-0", "x") is None
    (tmp_path / "contracts.new").rmdir()
    await pins.pin("sim-9", {"x": a_pin("00")})
    assert pins.get("sim-0", "x") is None
    assert Pins(tmp_path / "contracts.json").load().get("sim-9", "x") == a_pin("00")


async def test_a_forgotten_device_is_a_stranger_again(tmp_path):
    pins = Pins(tmp_path / "contracts.json").load()
    await pins.pin("a", {"x": a_pin("00")})
    await pins.pin("b", {"x": a_pin("11")})
    await pins.forget("a")
    for known in (pins, Pins(tmp_path / "contracts.json").load()):
        assert known.get("a", "x") is None
        assert known.get("b", "x") == a_pin("11")


async def test_what_is_pinned_later_is_added_to_what_was(tmp_path):
    pins = Pins(tmp_path / "contracts.json").load()
    await pins.pin("a", {"x": a_pin("00")})
    await pins.pin("a", {"y": a_pin("11")})
    assert (pins.get("a", "x"), pins.get("a", "y")) == (a_pin("00"), a_pin("11"))


async def test_what_was_claimed_is_read_back_as_it_was_pinned(tmp_path):
    pins = {
        f"action::{risk}-{ours}": a_pin("00", risk, ours) for risk in (None, *Risk) for ours in (True, False)
    }
    await Pins(tmp_path / "contracts.json").load().pin('a "device"', pins)
    again = Pins(tmp_path / "contracts.json").load()
    assert {name: again.get('a "device"', name) for name in pins} == pins


async def test_what_an_earlier_version_pinned_holds_until_the_tool_is_pinned_anew(tmp_path):
    path = tmp_path / "contracts.json"
    write_private(
        path, '{"a": {"action::x": "00", "action::y": "11", "odd": "22"}, "b": {"action::x": "33"}}'
    )
    pins = Pins(path).load()
    await pins.pin("a", {"x": a_pin("44")})
    for known in (pins, Pins(path).load()):
        assert known.get("a", "x") == a_pin("44")
        assert known.earlier("a", "x", "action::x") is None
        assert known.earlier("a", "y", "data_collection::y") == "11"
        assert known.earlier("a", "of another name", "odd") == "22"
        assert known.earlier("a", "z", "action::z") is None
        assert known.earlier("b", "x", "action::x") == "33"
    await pins.forget("b")
    assert Pins(path).load().earlier("b", "x", "action::x") is None


NO_PINS = f'{{"format": "{FORMAT}", "earlier": {{}}, "devices": '


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"a": 1}',
        f'{{"format": "{FORMAT}"}}',
        NO_PINS + '{"a": {"x": "00"}}}',
        NO_PINS + '{"a": {"x": "00 high"}}}',
        NO_PINS + '{"a": {"x": "00 none ours"}}}',
        NO_PINS + '{"a": {"x": 1}}}',
        NO_PINS + '{"a": "00 high ours"}}',
    ],
)
def test_a_damaged_file_is_an_error(tmp_path, text):
    (tmp_path / "contracts.json").write_text(text)
    with pytest.raises(JournalCorrupt):
        Pins(tmp_path / "contracts.json").load()
