"""The example batches, each run by the service on a real device process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.approvals.models import Approval
from core.batch.batch_file import read_batch
from core.batch.models import Batch, Cell, CellState, Run, RunState
from core.home import Home
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import approve, next_approval, open_service
from tests.fakes.signing import accepted, anna

EXAMPLES = Path(__file__).parents[2] / "resources" / "batches"
PATIENCE = 120.0


@pytest.fixture
async def service(home: Home, tmp_path: Path) -> AsyncIterator[Service]:
    work = tmp_path / "work"
    work.mkdir()
    (home.create().path / "device.toml").write_text(f'roots = ["{work}"]\n')
    await accepted(home, 'profile = "trusted"\n')
    async with open_service(home) as service:
        yield service


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


def example(name: str) -> Batch:
    batch = read_batch((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"), name)
    return batch.model_copy(update={"targets": "name:this-computer"})


async def played(desk: Service, batch: Batch | str, approvals: int = 0, **inputs: Any) -> Run:
    """Run a batch to its end; its first `approvals` requests are approved."""
    console = LocalConsole(desk, "operator:anna")
    chosen = example(batch) if isinstance(batch, str) else batch
    run = await console.runs.start(chosen, inputs=inputs)
    for _ in range(approvals):
        await approve(console, await next_approval(console), anna(desk.home))
    return await console.runs.wait(run.summary.id, PATIENCE)


def cells(run: Run) -> dict[str, Cell]:
    return {cell.step: cell for cell in run.cells}


def states(run: Run) -> dict[str, str]:
    return {cell.step: cell.state.value for cell in run.cells}


async def test_one_command_is_run(service: Service, work: Path) -> None:
    (work / "a.txt").write_text("a")
    run = await played(service, "one-command", folder=str(work))
    result = cells(run)["list"].result
    assert result is not None
    assert [entry["name"] for entry in result.result["entries"]] == ["a.txt"]


async def test_a_later_step_uses_an_earlier_result(service: Service, work: Path) -> None:
    for name, size in (("small.txt", 3), ("large.txt", 300), ("middle.txt", 30)):
        (work / name).write_text(name[0] * size)
    run = await played(service, "look-at-the-largest-file", folder=str(work))
    result = cells(run)["look"].result
    assert result is not None
    assert result.result["content"] == "l" * 300


async def test_what_is_observed_at_once_ends_whether_or_not_there_is_a_screen(service: Service) -> None:
    run = await played(service, "observe-at-once")
    assert cells(run)["memory"].state is CellState.DONE
    assert set(states(run)) == {"picture", "controls", "memory"}
    assert run.summary.state.ended


@pytest.mark.parametrize(("threshold", "state"), [(101, "skipped"), (-1, "done")])
async def test_a_condition_decides_by_the_earlier_result(
    service: Service, work: Path, threshold: int, state: str
) -> None:
    batch = example("clean-when-full")
    disk, clean = batch.steps
    # The line of the example would empty this user's cache.
    harmless = clean.model_copy(update={"parameters": {"command": f"touch {work}/cleaned"}})
    chosen = batch.model_copy(update={"steps": [disk, harmless]})
    run = await played(service, chosen, 1 if state == "done" else 0, threshold=threshold)
    assert states(run) == {"disk": "done", "clean": state}
    assert (work / "cleaned").exists() is (state == "done")


async def test_a_step_is_tried_again_with_growing_waits(service: Service, work: Path) -> None:
    batch = example("retry-until-it-is-there")
    (step,) = batch.steps
    retry = step.retry.model_copy(update={"backoff": 0.01})  # type: ignore[union-attr]
    quick = batch.model_copy(update={"steps": [step.model_copy(update={"retry": retry})]})
    run = await played(service, quick, file=str(work / "none.txt"))
    assert (cells(run)["read"].state, cells(run)["read"].attempts) == (CellState.FAILED, 5)
    (work / "there.txt").write_text("here")
    run = await played(service, quick, file=str(work / "there.txt"))
    assert (cells(run)["read"].state, cells(run)["read"].attempts) == (CellState.DONE, 1)


async def test_nothing_follows_the_first_failure_where_the_batch_stops(service: Service, work: Path) -> None:
    run = await played(service, "stop-at-the-first-failure", file=str(work / "none.txt"))
    assert states(run) == {"read": "failed", "memory": "not_started"}
    assert run.summary.state is RunState.FAILED


async def test_all_follows_a_failure_where_the_batch_goes_on(service: Service, work: Path) -> None:
    (work / "first.txt").write_text("here")
    run = await played(service, "go-on-after-failures", folder=str(work))
    assert states(run) == {"first": "done", "second": "failed", "memory": "done"}
    (work / "second.txt").write_text("here")
    run = await played(service, "go-on-after-failures", folder=str(work))
    assert states(run) == {"first": "done", "second": "done", "memory": "skipped"}


async def test_the_other_way_recovers_a_step_that_failed(service: Service, work: Path) -> None:
    run = await played(
        service,
        "restart-or-the-other-way",
        2,
        service="no-such-service-of-this-test",
        log=str(work / "none.log"),
        other=f"touch {work}/restarted",
    )
    restart = cells(run)["restart"]
    assert restart.recovered_by == ["look", "other_way"]
    assert cells(run)["other_way"].state is CellState.DONE
    assert (work / "restarted").exists()
    # The log is not there, which the batch does not mind.
    look = cells(run)["look"].result
    assert look is not None
    assert look.error is not None
    assert run.summary.state is RunState.DONE


async def test_each_wave_asks_before_it_changes_something(service: Service, work: Path) -> None:
    console = LocalConsole(service, "operator:anna")
    file = work / "note.txt"
    run = await console.runs.start(example("canary-then-waves"), inputs={"file": str(file)})
    approval: Approval = await next_approval(console)
    assert approval.request.parameters["question"].startswith("The devices of this wave answer.")
    assert not file.exists()
    await approve(console, approval, anna(service.home))
    ended = await console.runs.wait(run.summary.id, PATIENCE)
    assert states(ended) == {"memory": "done", "go_on": "done", "write": "done"}
    assert file.read_text() == "Written by a batch, in waves."


def test_each_example_has_a_test_or_is_one_of_the_first() -> None:
    first = {"first-steps", "health-of-the-lab", "look-at-this-computer", "write-and-read-back"}
    source = Path(__file__).read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.yaml"):
        assert path.stem in first or f'"{path.stem}"' in source
