"""A device behind a slow line, seen from the console: busy and not lost, its transfer told, and it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.approvals.operator_keys import create_operator_key
from core.batch.models import Cell
from core.commands.results import Verdict
from core.fleet.models import CheckState
from core.home import Home
from core.models.devices import Health
from core.service.api.events import CellChanged
from tests.fakes.bad_line import bad_line
from tests.fakes.device_process import forked_device
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import expecting, stands

NAME = "d1"
# Long enough that it is still under way whatever the test does meanwhile.
LARGE = "0123456789abcdef" * 200_000
BYTES_PER_S = 100_000


async def test_a_transfer_is_told_the_device_stays_busy_and_a_stop_ends_it(tmp_path: Path):
    home = Home(tmp_path / "home").create()
    key = create_operator_key(home, "anna", None)
    async with (
        expecting(home, key, NAME) as it,
        bad_line(it.port) as line,
        forked_device(f"ws://127.0.0.1:{line.port}/ws", tmp_path, it.token),
    ):
        await stands(it.console, NAME, Health.ONLINE)
        large = tmp_path / "root" / "large"
        large.write_text(LARGE)
        line.to_console.rate = BYTES_PER_S
        events = it.console.events()
        run = await it.console.runs.call(NAME, "read_file", {"file_path": str(large)}, PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            while "kB of the answer received" not in (cell := await _next_cell(events)).progress:
                pass
            assert cell.run == run.summary.id
            assert it.service.fleet.get(NAME).health is Health.BUSY
            reach = next(check for check in await it.console.devices.diagnose(NAME) if check.name == "reach")
            assert reach.state is CheckState.PASSED
            assert "; it sends " in reach.found
            # A small call of the same device does not wait for it.
            small = await it.console.runs.call(NAME, "get_system_info", {"info_type": "os"}, PATIENCE_S)
            [answered] = (await it.console.runs.wait(small.summary.id, PATIENCE_S)).cells
            assert answered.ended_at is not None
            [waiting] = (await it.console.runs.get(run.summary.id)).cells
            assert waiting.ended_at is None
            await it.console.runs.cancel_step(run.summary.id, NAME, cell.step)
            [ended] = (await it.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert ended.result is not None
        assert ended.result.verdict is not Verdict.UNKNOWN
        assert ended.result.result == {
            "not_kept": "it had ended, and was cancelled while its answer was being sent"
        }
        assert line.to_console.passed < len(LARGE) / 2
        line.restore()


async def _next_cell(events: object) -> Cell:
    while True:
        event = await anext(events)  # type: ignore[call-overload]
        if isinstance(event, CellChanged):
            return event.cell
