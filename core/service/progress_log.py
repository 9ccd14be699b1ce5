"""Progress of running commands: shown to clients at once, recorded in the journal at a bounded rate.

A command's output may be long and fast. The journal gets at most one entry a second and two hundred per call;
each entry counts the reports left out. The complete output is in the result, which is always recorded.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from core.aip.extensions import Progress
from core.audit.entries import NewEntry
from core.audit.events import ProgressReported
from core.batch.models import Cell
from core.batch.run_state import ActiveRun
from core.batch.runner import Runner
from core.dispatch.live_secrets import LiveSecrets, Stream
from core.errors import QuarterdeckError

BETWEEN_ENTRIES_S = 1.0
MOST_ENTRIES = 200
TEXT_IN_ENTRY = 2000
TAIL = 4000
CALLS_KEPT = 4096


@dataclass(slots=True)
class _Call:
    """A call that reports progress. `left_out` counts the reports since its last entry."""

    live: ActiveRun
    key: tuple[str, str]
    streams: dict[str, Stream] = field(default_factory=dict)
    entered_at: float = float("-inf")
    entries: int = 0
    left_out: int = 0


class ProgressLog:
    """Handles the progress that devices report about the calls of runs."""

    def __init__(
        self,
        runner: Runner,
        write: Callable[[NewEntry], None],
        tell_cell: Callable[[Cell], None],
        live_secrets: LiveSecrets,
    ) -> None:
        self._runner = runner
        self._live_secrets = live_secrets
        self._write = write
        self._tell_cell = tell_cell
        self._calls: OrderedDict[str, _Call] = OrderedDict()

    def take(self, device: str, progress: Progress) -> Progress:
        """Handle a progress report of a device; returns it with secrets redacted."""
        call = self._calls.get(progress.call_id) or self._find(device, progress.call_id)
        if call is None or call.key[0] != device:
            return self._redacted(device, None, progress)
        progress = self._redacted(device, call, progress)
        cell = call.live.cells[call.key]
        if cell.call_id != progress.call_id or cell.ended_at is not None:
            self._calls.pop(progress.call_id, None)
            return progress
        changes = {"progress": in_words(progress) or cell.progress}
        if progress.stream != "note":
            changes["output_tail"] = (cell.output_tail + progress.text)[-TAIL:]
        cell = cell.model_copy(update=changes)
        call.live.put(cell)
        self._tell_cell(cell)
        self._enter(call, cell, progress)
        return progress

    def _redacted(self, device: str, call: _Call | None, progress: Progress) -> Progress:
        """The report with secrets redacted. Output arrives in parts; text in which a secret may be cut off
        waits for the next part."""
        run = call.live.id if call is not None else None
        redaction = self._live_secrets.redaction(device, run)
        if call is None or progress.stream == "note":
            text = redaction.text(progress.text)
        else:
            stream = call.streams.setdefault(progress.stream, Stream(redaction))
            text = stream.feed(progress.text)
        return progress.model_copy(update={"text": text, "unit": redaction.text(progress.unit)})

    def _find(self, device: str, call_id: str) -> _Call | None:
        for live in self._runner.active:
            for key, cell in live.cells.items():
                if cell.call_id == call_id and key[0] == device:
                    self._calls[call_id] = call = _Call(live, key)
                    if len(self._calls) > CALLS_KEPT:
                        self._calls.popitem(last=False)
                    return call
        return None

    def _enter(self, call: _Call, cell: Cell, progress: Progress) -> None:
        now = time.monotonic()
        if call.entries >= MOST_ENTRIES or now - call.entered_at < BETWEEN_ENTRIES_S:
            call.left_out += 1
            return
        event = ProgressReported(
            seq=progress.seq,
            stream=progress.stream,
            text=progress.text[-TEXT_IN_ENTRY:],
            done=progress.done or None,
            total=progress.total or None,
            unit=progress.unit[:64],
            left_out=call.left_out,
        )
        call.entered_at, call.entries, call.left_out = now, call.entries + 1, 0
        entry = event.entry(
            f"device:{cell.device}",
            run=cell.run,
            step=cell.step,
            device=cell.device,
            call_id=cell.call_id,
            tool=cell.tool,
        )
        try:
            self._write(entry)
        except QuarterdeckError:
            # The journal reports its own failure; the outcome is recorded as soon as it can be written.
            call.left_out += 1


def in_words(progress: Progress) -> str:
    """The progress as text for people; empty if the device reports none."""
    unit = f" {progress.unit}" if progress.unit else ""
    if progress.done is not None and progress.total:
        return f"{progress.done:g} of {progress.total:g}{unit}"
    if progress.done is not None:
        return f"{progress.done:g}{unit}"
    lines = progress.text.strip().splitlines()
    return lines[-1][:200] if lines else ""
