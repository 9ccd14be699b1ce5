"""The kept home, of the oldest version whose homes open: it opens, verifies and replays."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.batch.models import RunState
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.kept_home import unpack
from tests.fakes.remote_device import make_listening_home
from tests.golden import recordings


@pytest.mark.story
async def test_the_kept_home_opens_verifies_and_replays(tmp_path: Path):
    unpack(recordings.HOME, tmp_path)
    home = make_listening_home(tmp_path / "home")
    service = await Service.open(home)
    try:
        console = LocalConsole(service, "operator:anna")
        report = await console.journal.verify()
        assert report.ok, report
        runs = await console.runs.list()
        assert len(runs) > 20
        assert {run.state for run in runs} >= {RunState.DONE, RunState.FAILED, RunState.REFUSED}
        for summary in runs:
            run = await console.runs.get(summary.id)
            timeline = await console.journal.timeline(summary.id)
            assert {cell.device for cell in run.cells} <= set(timeline.lanes)
            for cell in run.cells:
                if cell.call_id:
                    assert (await console.journal.command(cell.call_id)).call_id == cell.call_id
        assert [device.name for device in (await console.service.state()).devices] == [
            "lab-1",
            "this-computer",
        ]
        assert [grant.over for grant in await console.approvals.grants()] == [True]
        assert [operator.name for operator in (await console.service.state()).operators] == ["anna", "cleo"]
    finally:
        await service.close()
