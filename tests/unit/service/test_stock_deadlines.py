"""Attack: an argument called `timeout` keeps a stock device, which does one thing at a time, for one call."""

from __future__ import annotations

import pytest

import core.dispatch.deadline
from core.commands.results import Verdict
from core.errors import ErrorCode
from core.models.devices import Health
from core.service.console import Console
from core.service.service import Service
from tests.fakes.desk import approve, next_approval
from tests.fakes.lab_device import pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.scripted_device import scripted
from tests.fakes.signing import anna


@pytest.mark.parametrize(
    "words", ["Maximum wait time in milliseconds.", "Seconds to wait.", "How long it may take."]
)
async def test_a_silent_stock_device_is_free_after_the_consoles_own_deadline(
    service: Service, console: Console, monkeypatch: pytest.MonkeyPatch, words: str
):
    # The deadline itself, made short: what the argument asks for is a day.
    monkeypatch.setattr(core.dispatch.deadline, "DEFAULT_TIMEOUT", 0.3)
    key = anna(service.home)
    await console.approvals.register_operator(key.operator)
    url, token = await pair(console)
    async with scripted(url, token, "lab-1") as device:
        device.tools[0]["input_schema"]["properties"] = {"timeout": {"type": "number", "description": words}}
        await stands(console, "lab-1", Health.ONLINE)
        silent = await console.runs.call("lab-1", "poke", {"timeout": 86_400_000})
        await approve(console, await next_approval(console), key)
        await device.command()
        [cell] = (await console.runs.wait(silent.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        assert cell.result.verdict is Verdict.UNKNOWN
        assert cell.result.error is not None
        assert cell.result.error.code is ErrorCode.OUTCOME_UNKNOWN
        # Its queue is free: the next command reaches it, and may take as long as was ordered.
        after = await console.runs.call("lab-1", "poke", {}, timeout=PATIENCE_S)
        await approve(console, await next_approval(console), key)
        await device.answer(await device.command(), "done")
        [cell] = (await console.runs.wait(after.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        assert cell.result.result == "done"
