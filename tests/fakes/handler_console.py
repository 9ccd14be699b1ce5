"""A console whose calls go to its own methods, named `on_` and the method's name on the wire."""

from __future__ import annotations

from typing import Any, Literal

from core.batch.models import Cell, Run, RunSummary
from core.errors import Refused
from core.service.api.methods import ApiMethod
from core.service.console import Console


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
