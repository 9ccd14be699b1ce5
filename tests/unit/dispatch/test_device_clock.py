"""What the card says of a device whose clock would make it refuse the signature."""

from __future__ import annotations

import pytest

from core.commands.request import CommandRequest
from core.dispatch.approval_stage import adjusted
from core.models.devices import Device, Health
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision


def decided(answer: Answer, offset_s: float | None, *, signs: bool = True) -> list[str]:
    """The reasons of a decision about a call on a device with this clock."""
    device = Device(
        name="lab-1",
        health=Health.ONLINE,
        since="2026-11-01T00:00:00Z",
        clock_offset_ms=None if offset_s is None else offset_s * 1000,
        requires_approval=signs,
    )
    decision = Decision(
        answer=answer, risk=Risk.HIGH, effect=Effect.CHANGE, profile="guarded", summary="", reasons=[]
    )
    said = adjusted(decision, CommandRequest("lab-1", "work", {}, "operator:root"), device).reasons
    return [f"{reason.text} [{reason.origin}]" for reason in said]


@pytest.mark.parametrize(("offset_s", "way"), [(7200.0, "ahead of"), (-480.0, "behind")])
def test_a_clock_by_which_the_device_refuses_stands_on_the_card(offset_s: float, way: str):
    [said] = decided(Answer.ASK, offset_s)
    assert said.startswith(f"Its clock is {abs(offset_s):.0f} s {way} this computer's")
    assert said.endswith("[the device's clock]")


def test_a_clock_that_changes_nothing_is_not_named():
    assert decided(Answer.ASK, 5.0) == []
    assert decided(Answer.ASK, None) == []
    assert decided(Answer.ASK, 7200.0, signs=False) == []
    assert decided(Answer.ALLOW, 7200.0) == []
