"""A console whose calls go to its own methods, named `on_` and the method's name on the wire."""

from __future__ import annotations

from typing import Any, Literal

from core.batch.expression_trial import AskedExpression, ExpressionTrials
from core.batch.live_output import OutputChunk, OutputPiece, chunk_of
from core.batch.models import Batch, Cell, CellPage, Run, RunSummary
from core.batch.run_compare import RunComparison, compare_runs
from core.batch.undo_plan import UndoPlan, plan_of
from core.errors import BadInput, ErrorCode, Refused
from core.service.api.methods import ApiMethod
from core.service.console import Console
from core.service.envelope import Alternative


class HandlerConsole(Console):
    """`console.runs.start(...)` calls `on_start_run(...)`; fakes of the console build on this."""

    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return await getattr(self, f"on_{method.wire}")(*args, **kwargs)

    # The runs of a fake end at once, unless it says otherwise.
    async def on_cancel_step(self, run: str, device: str, step: str) -> RunSummary:
        raise Refused(f"{run} has ended.")

    async def on_pause_run(self, run: str) -> RunSummary:
        raise Refused(f"{run} has ended.")

    async def on_unpause_run(self, run: str) -> RunSummary:
        raise Refused(f"{run} has ended.")

    async def on_resume_run(self, run: str, secrets: dict[str, Any] | None = None) -> Run:
        raise Refused(f"Nothing of {run} is left to do.")

    async def on_settle_step(
        self, run: str, device: str, step: str, outcome: Literal["done", "not_done"]
    ) -> Cell:
        raise Refused(f"{step} on {device} is done already.")

    async def on_run(self, run: str) -> Run:
        raise BadInput(f"There is no run {run}.", ErrorCode.NOT_FOUND)

    async def on_run_cells(self, run: str, after: int = 0, limit: int = 500) -> CellPage:
        whole = await self.on_run(run)
        return CellPage(run=whole.summary, cells=whole.cells, next=None)

    async def on_alternatives(self, run: str, device: str, step: str) -> list[Alternative]:
        return []

    async def on_run_output(self, run: str, device: str, step: str, after: int = 0) -> OutputChunk:
        for cell in (await self.on_run(run)).cells:
            if (cell.device, cell.step) == (device, step):
                start = cell.output_size - len(cell.output_tail)
                piece = OutputPiece(at=start, stream="stdout", text=cell.output_tail)
                return chunk_of([piece], after, ended=cell.ended_at is not None)
        raise BadInput(f"{run} has no step {step} on {device}.", ErrorCode.NOT_FOUND)

    async def on_compare_runs(self, before: str, after: str) -> RunComparison:
        return compare_runs(await self.on_run(before), await self.on_run(after))

    async def on_try_expressions(
        self, batch: Batch, step: str, asked: list[AskedExpression]
    ) -> ExpressionTrials:
        raise BadInput(f"{batch.name} has no step {step}.", ErrorCode.NOT_FOUND)

    async def on_undo_plan(self, run: str) -> UndoPlan:
        return plan_of((await self.on_run(run)).summary.id, [])

    async def on_undo_run(self, run: str, digest: str = "") -> Run:
        plan = await self.on_undo_plan(run)
        raise BadInput(f"Nothing of {run} can be undone: {plan.summary}.", ErrorCode.NOT_FOUND)
