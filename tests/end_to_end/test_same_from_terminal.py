"""A batch that the terminal runs leaves the same journal entries as one that a client of the API runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.batch.batch_file import read_batch
from core.home import Home
from core.service.console import Console
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run
from tests.fakes.service_process import ServiceProcess, service_process, until_online
from tests.fakes.signing import accepted

pytestmark = pytest.mark.asyncio(loop_scope="module")

BATCH = """
name: Parity
targets: "name:this-computer"
on_failure: continue
inputs: {{text: {{type: string}}}}
steps:
  - {{id: write, tool: write_file, with: {{file_path: "{folder}/a.txt", content: "${{{{ inputs.text }}}}"}}}}
  - {{id: look, tool: read_file, with: {{file_path: "{folder}/a.txt"}}}}
  - {{id: print, tool: read_file, with: {{file_path: "{folder}/none"}}}}
  - {{id: never, tool: read_file, when: "${{{{ false }}}}", with: {{file_path: "{folder}/a.txt"}}}}
"""
# What differs from one run to the next: ids, times, and who asked.
_OWN = frozenset(
    "seq time actor run call_id duration_ms digest undo undo_id operator execution_time modified_at".split()
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[ServiceProcess, Path]]:
    place = tmp_path_factory.mktemp("parity")
    home = Home(place / "home").create()
    (place / "work").mkdir()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    config = f'roots = ["{place}/work"]\ntools_off = ["shell_execute_read"]\n'
    (home.path / "device.toml").write_text(config)
    await accepted(home, 'profile = "trusted"\n')
    (place / "parity.yaml").write_text(BATCH.format(folder=place / "work"))
    async with service_process(home) as service:
        await until_online(await service.console())
        yield service, place


def plain(value: Any) -> Any:
    """A value without what is a run's own."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items() if name not in _OWN}
    return [plain(member) for member in value] if isinstance(value, list) else value


async def entries_of(console: Console, run_id: str) -> list[dict[str, Any]]:
    page = await console.journal.entries(f'run:"{run_id}"', None, 500)
    assert not page.more
    # Entries of different commands may interleave; those of one run of sequential steps do not.
    return [plain(entry.model_dump(mode="json")) for entry in reversed(page.entries)]


async def test_the_terminal_and_the_api_leave_the_same_entries(served):
    service, place = served
    console = await service.console()
    path = place / "parity.yaml"
    batch = read_batch(path.read_text(), str(path))
    by_api = await console.runs.start(batch, inputs={"text": "the same"})
    await console.runs.wait(by_api.summary.id, PATIENCE_S)
    words = ("run", str(path), "--input", "text=the same", "--json")
    done = await asyncio.to_thread(run, service.home, *words)
    assert done.code == 6, done
    first = await entries_of(console, by_api.summary.id)
    second = await entries_of(console, done.json["run"]["id"])
    assert {entry["kind"] for entry in first} > {
        "run_started",
        "intent_recorded",
        "step_skipped",
        "run_finished",
    }
    assert second == first
