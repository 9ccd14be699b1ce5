"""Trust in tools is written before it counts, and not once for each of a thousand devices."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import core.fleet.pins
from core.errors import BadInput
from core.fleet.pins import Pins


async def test_a_thousand_devices_that_arrive_together_are_a_few_writes(tmp_path, monkeypatch):
    writes: list[Path] = []
    real = core.fleet.pins.write_private

    def counted(path: Path, text: str) -> None:
        writes.append(path)
        real(path, text)

    monkeypatch.setattr(core.fleet.pins, "write_private", counted)
    pins = Pins(tmp_path / "contracts.json").load()
    await asyncio.gather(*(pins.pin(f"sim-{n}", {"action::x": f"{n:064x}"}) for n in range(1000)))
    assert len(writes) <= 3
    again = Pins(tmp_path / "contracts.json").load()
    assert all(again.get(f"sim-{n}", "action::x") == f"{n:064x}" for n in range(1000))


async def test_what_could_not_be_written_is_not_trusted(tmp_path):
    pins = Pins(tmp_path / "contracts.json").load()
    (tmp_path / "contracts.new").mkdir()
    ends = await asyncio.gather(
        *(pins.pin(f"sim-{n}", {"action::x": "00"}) for n in range(5)), return_exceptions=True
    )
    assert all(isinstance(end, BadInput) for end in ends)
    assert pins.get("sim-0", "action::x") is None
    (tmp_path / "contracts.new").rmdir()
    await pins.pin("sim-9", {"action::x": "00"})
    assert pins.get("sim-0", "action::x") is None
    assert Pins(tmp_path / "contracts.json").load().get("sim-9", "action::x") == "00"


async def test_a_forgotten_device_is_a_stranger_again(tmp_path):
    pins = Pins(tmp_path / "contracts.json").load()
    await pins.pin("a", {"action::x": "00"})
    await pins.pin("b", {"action::x": "11"})
    await pins.forget("a")
    for known in (pins, Pins(tmp_path / "contracts.json").load()):
        assert known.get("a", "action::x") is None
        assert known.get("b", "action::x") == "11"


async def test_what_is_pinned_later_is_added_to_what_was(tmp_path):
    pins = Pins(tmp_path / "contracts.json").load()
    await pins.pin("a", {"action::x": "00"})
    await pins.pin("a", {"action::y": "11"})
    assert (pins.get("a", "action::x"), pins.get("a", "action::y")) == ("00", "11")


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_a_damaged_file_is_an_error(tmp_path, text):
    from core.errors import JournalCorrupt

    (tmp_path / "contracts.json").write_text(text)
    with pytest.raises(JournalCorrupt):
        Pins(tmp_path / "contracts.json").load()
