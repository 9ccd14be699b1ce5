"""What the fake console answers about runs and batches: planned by the real planner, run by `FakeRuns`."""

from __future__ import annotations

from typing import Any

from core.batch.expression_trial import try_expressions
from core.batch.file_names import file_stem
from core.batch.live_output import chunk_of
from core.batch.models import (
    AskedExpression,
    Batch,
    Cell,
    CellPage,
    ExpressionTrials,
    OutputChunk,
    OutputPiece,
    Plan,
    Run,
    RunComparison,
    RunSummary,
    SavedBatch,
    UndoPlan,
    flatten,
)
from core.batch.run_compare import compare_runs
from core.batch.undo_plan import plan_of
from core.batch.waves import planned_waves
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.service.console import ResultPage, RunPage
from core.service.envelope import Alternative, cell_envelope
from tests.fakes.console.devices import DeviceAnswers
from tests.fakes.plans import FakeOffers

SAVED_AT = "2026-03-04T05:06:07Z"


class RunAnswers(DeviceAnswers):
    """`console.runs`. A run goes on at once as far as the profile lets it."""

    def on_plan(self, batch: Batch, inputs: dict[str, Any] | None) -> Plan:
        return FakeOffers(self).plan(batch, inputs or {})

    def on_try_expressions(self, batch: Batch, step: str, asked: list[AskedExpression]) -> ExpressionTrials:
        runs = [self.work.find(run.id) for run in self.work.summaries()]
        return try_expressions(batch, step, asked, FakeOffers(self).known(batch, runs))

    def on_start_run(self, batch: Batch, expected_devices: list[str] | None) -> Run:
        names = sorted(device.name for device in self.matched(batch.targets))
        if expected_devices is not None and sorted(expected_devices) != names:
            raise Refused("The targets are other devices by now.", ErrorCode.INVALID_ARGUMENTS)
        if not names:
            raise BadInput(f"No device matches {batch.targets!r}.", ErrorCode.UNKNOWN_DEVICE)
        return self.work.start(batch, planned_waves(batch.rollout, self.matched(batch.targets)), "batch")

    def on_call(
        self, device: str, tool: str, parameters: dict[str, Any], timeout: float | None, said: str
    ) -> Run:
        self.device(device)
        batch = Batch.model_validate(
            {
                "name": tool,
                "targets": f"name:{device}",
                "steps": [{"id": "call", "tool": tool, "with": parameters, "timeout": timeout}],
            }
        )
        return self.work.start(batch, ((device,),), "call", said=said)

    async def on_wait_run(self, run: str, timeout: float) -> Run:
        return await self.work.wait(run, timeout)

    # What is known of a run

    def on_run(self, run: str) -> Run:
        return self.work.find(run)

    def on_run_cells(self, run: str) -> CellPage:
        whole = self.work.find(run)
        return CellPage(run=whole.summary, cells=whole.cells, next=None)

    def on_run_output(self, run: str, device: str, step: str, after: int) -> OutputChunk:
        for cell in self.work.find(run).cells:
            if (cell.device, cell.step) == (device, step):
                start = cell.output_size - len(cell.output_tail)
                piece = OutputPiece(at=start, stream="stdout", text=cell.output_tail)
                return chunk_of([piece], after, ended=cell.ended_at is not None)
        raise BadInput(f"{run} has no step {step} on {device}.", ErrorCode.NOT_FOUND)

    async def on_run_blob(self, sha256: str) -> bytes:
        data: bytes = await self.answer_to("blob", sha256=sha256)
        return data

    def on_run_results(self, run: str) -> ResultPage:
        return ResultPage(results=[cell_envelope(cell) for cell in self.work.find(run).cells])

    def on_alternatives(self, run: str) -> list[Alternative]:
        self.work.find(run)
        return []

    def on_compare_runs(self, before: str, after: str) -> RunComparison:
        return compare_runs(self.work.find(before), self.work.find(after))

    def on_runs(self, before: str | None, limit: int, active: bool) -> list[RunSummary]:
        known = self.work.summaries()
        if active:
            return [one for one in known if not one.state.ended]
        return [one for one in known if before is None or one.id < before][:limit]

    def on_find_runs(self, words: str, before: int | None, limit: int) -> RunPage:
        places = {run.id: place for place, run in enumerate(reversed(self.work.summaries()), 1)}
        found = [
            run
            for run in self.work.summaries()
            if (before is None or places[run.id] < before) and _says(run, words.casefold().split())
        ]
        more = places[found[limit - 1].id] if len(found) > limit else None
        return RunPage(runs=found[:limit], next_before=more)

    # Acts on a run

    def on_cancel_run(self, run: str) -> RunSummary:
        return self.work.cancel(run)

    def on_pause_run(self, run: str) -> RunSummary:
        return self.work.pause(run, paused=True)

    def on_unpause_run(self, run: str) -> RunSummary:
        return self.work.pause(run, paused=False)

    def on_cancel_step(self, run: str) -> RunSummary:
        raise Refused(f"{self.work.find(run).summary.id} has ended.", ErrorCode.WRONG_STATE)

    def on_resume_run(self, run: str) -> Run:
        raise Refused(f"Nothing of {self.work.find(run).summary.id} is left to do.", ErrorCode.WRONG_STATE)

    def on_settle_step(self, run: str, device: str, step: str) -> Cell:
        words = f"{step} on {device} is done already in {self.work.find(run).summary.id}."
        raise Refused(words, ErrorCode.WRONG_STATE)

    def on_undo_plan(self, run: str) -> UndoPlan:
        return plan_of(self.work.find(run).summary.id, [])

    def on_undo_run(self, run: str) -> Run:
        raise BadInput(
            f"Nothing of {run} can be undone: {self.on_undo_plan(run).summary}.", ErrorCode.NOT_FOUND
        )

    # Saved batches

    def on_batches(self) -> list[str]:
        return sorted(self.saved)

    def on_saved_batches(self) -> list[SavedBatch]:
        return [
            SavedBatch(name=name, changed_at=SAVED_AT, size_bytes=512, steps=len(flatten(batch.steps)))
            for name, batch in sorted(self.saved.items())
        ]

    def on_load_batch(self, name: str) -> Batch:
        if name not in self.saved:
            raise QuarterdeckError(f"There is no batch {name!r}.", ErrorCode.NOT_FOUND)
        return self.saved[name]

    def on_save_batch(self, name: str, batch: Batch) -> None:
        self.saved[name] = batch

    def on_rename_batch(self, name: str, to: str) -> None:
        file_stem(to)
        if to in self.saved:
            raise BadInput(f"There is a saved batch “{to}” already.")
        self.saved[to] = self.on_load_batch(name).model_copy(update={"name": to})
        del self.saved[name]

    def on_delete_batch(self, name: str) -> None:
        self.on_load_batch(name)
        del self.saved[name]


def _says(run: RunSummary, words: list[str]) -> bool:
    """Whether each word is in a run, by the rules of the journal's own search, fields left out."""
    texts = [run.id, run.name, run.actor, run.state.value, run.effect, *run.devices, *run.tools]
    return all(any(word in text.casefold() for text in texts) for word in words)
