"""The start of a run as the journal has it, for runs that were never carried out."""

from __future__ import annotations

from core.audit.entries import NewEntry
from core.audit.events import RunStarted
from core.batch.models import Batch


def run_start(run: str, batch: Batch, devices: list[str]) -> NewEntry:
    """The entry with which the run `run` of a batch begins."""
    started = RunStarted(
        batch=batch.model_dump(mode="json", by_alias=True),
        kind_="batch",
        devices=devices,
        devices_hash="",
        said="",
    )
    return started.entry("operator:anna", run=run)
