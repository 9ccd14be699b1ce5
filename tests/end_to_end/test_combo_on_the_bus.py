"""A form's drop-down as a screen reader finds it: over the accessibility bus of a real session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pytest

from tests.fakes.accessible_session import accessible_session
from tests.fakes.program import ROOT
from tests.fakes.session_attacker import BusAttacker, Control, on_the_bus

ACCESSIBLE = "org.a11y.atspi.Accessible"
COMBO_BOX, LABELLED_BY = 11, 2  # AtspiRole, AtspiRelationType


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with accessible_session("800x600") as environment:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        for key in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
            monkeypatch.delenv(key, raising=False)
        yield environment


async def combo_boxes(bus: BusAttacker) -> list[Control]:
    found = []
    async for control in bus.controls():
        (role,) = await bus.call(control.bus, control.path, ACCESSIBLE, "GetRole")
        if role == COMBO_BOX:
            found.append(control)
    return found


@pytest.mark.slow
async def test_a_drop_down_has_its_label_as_name_and_is_labelled_by_it(session: dict[str, str]) -> None:
    window = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.fakes.window_of_a_form",
        cwd=ROOT,
        env=session,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert window.stdout is not None
        assert await window.stdout.readline() == b"ready\n"
        async with on_the_bus(window.pid) as bus:
            await bus.find("region")
            [combo] = await combo_boxes(bus)
            assert combo.name == "region"
            (relations,) = await bus.call(combo.bus, combo.path, ACCESSIBLE, "GetRelationSet")
            [[label]] = [others for kind, others in relations if kind == LABELLED_BY]
            assert await bus._name(*label) == "region"
            # What is chosen can still be read: it is the selected line of the list.
            [listed] = await bus._children(combo.bus, combo.path)
            chosen = await bus.call(*listed, "org.a11y.atspi.Selection", "GetSelectedChild", "i", [0])
            assert await bus._name(*chosen[0]) == "window"
    finally:
        window.kill()
        await window.wait()
