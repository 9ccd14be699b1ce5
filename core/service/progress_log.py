"""Progress of running commands: shown to clients at once, recorded in the journal at a bounded rate.

A command's output may be long and fast. The journal gets an entry for a call at most once a second, and once
in a hundredth of the time that the call has run, so that a call of a day has some 800 entries. An entry has
all output since the last one (`core.batch.live_output` bounds the whole), and counts the other reports that
were left out. The complete output is in the result; of a call without one, it is what the entries have.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.aip.extensions import Progress
from core.audit.entries import NewEntry
from core.audit.events import ProgressReported
from core.batch.live_output import KEPT_WHOLE, MOST_UNWRITTEN, LiveOutput, joined, without_gaps
from core.batch.live_run import LiveCell, LiveRun
from core.batch.models import OutputChunk
from core.batch.runs import Runs
from core.commands.live_secrets import LiveSecrets, Stream
from core.errors import QuarterdeckError
from core.ids import now_utc

BETWEEN_ENTRIES_S = 1.0
_PART_OF_ITS_TIME = 0.01
NOTE_IN_ENTRY = 2000
TAIL = 4000
CALLS_KEPT = 4096


@dataclass(slots=True)
class _Call:
    """A call that reports progress. `left_out` counts the reports since its last entry that have no text."""

    call_id: str
    live: LiveRun
    key: tuple[str, str]
    began_at: float
    streams: dict[str, Stream] = field(default_factory=dict)
    output: LiveOutput = field(default_factory=LiveOutput)
    last: Progress | None = None
    entered_at: float = float("-inf")
    left_out: int = 0

    def may_enter(self, now: float) -> bool:
        """Whether it is time for an entry."""
        pause = max(BETWEEN_ENTRIES_S, (now - self.began_at) * _PART_OF_ITS_TIME)
        return now - self.entered_at >= pause


class ProgressLog:
    """Handles the progress that devices report about the calls of runs."""

    def __init__(
        self,
        runs: Runs,
        write: Callable[[NewEntry], None],
        tell_cell: Callable[[LiveCell], None],
        live_secrets: LiveSecrets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs = runs
        self._live_secrets = live_secrets
        self._write = write
        self._tell_cell = tell_cell
        self._clock = clock
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
        changes: dict[str, object] = {"progress": in_words(progress) or cell.progress}
        if progress.stream != "note":
            call.output.add(progress.stream, progress.text, now_utc())
            changes["output_tail"] = (cell.output_tail + progress.text)[-TAIL:]
            changes["output_size"] = call.output.size
        call.live.change(cell, changes)
        self._tell_cell(cell)
        self._report(call, cell, progress)
        return progress

    def ended(self, cell: LiveCell) -> None:
        """Record the output of an ended cell that is not in the journal yet."""
        if call := self._calls.pop(cell.call_id or "", None):
            self._flush(call)

    def output(self, call_id: str, after: int) -> OutputChunk | None:
        """The output of a running call since `after`; None if the journal must be read for it."""
        call = self._calls.get(call_id)
        return None if call is None else call.output.chunk(after)

    def _flush(self, call: _Call) -> None:
        if call.last is not None and call.output.unwritten_size:
            self._enter(call, call.live.cells[call.key], call.last)

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
        for live in self._runs.active:
            for key, cell in live.cells.items():
                if cell.call_id == call_id and key[0] == device:
                    if len(self._calls) >= CALLS_KEPT:
                        self._flush(self._calls.popitem(last=False)[1])
                    self._calls[call_id] = call = _Call(call_id, live, key, self._clock())
                    return call
        return None

    def _report(self, call: _Call, cell: LiveCell, progress: Progress) -> None:
        """Record a report if it is time; otherwise its output waits for the next entry."""
        call.last = progress
        if call.may_enter(self._clock()):
            self._enter(call, cell, progress)
            return
        if progress.stream == "note":
            call.left_out += 1
        if call.output.unwritten_size >= MOST_UNWRITTEN:
            if call.output.size < KEPT_WHOLE:
                self._enter(call, cell, progress)
            else:
                call.output.drop_unwritten()

    def _enter(self, call: _Call, cell: LiveCell, progress: Progress) -> None:
        """Record the output that is not recorded yet, and the numbers of this report."""
        texts: list[dict[str, Any]] = [
            {"stream": part[0].stream, "at": part[0].at, **joined(part)}
            for part in without_gaps(call.output.take_unwritten())
        ]
        if progress.stream == "note" or not texts:
            note = progress.text if progress.stream == "note" else ""
            texts.append({"stream": progress.stream, "text": note[-NOTE_IN_ENTRY:]})
        for fields in texts:
            event = ProgressReported(
                seq=progress.seq,
                done=progress.done or None,
                total=progress.total or None,
                unit=progress.unit[:64],
                left_out=call.left_out,
                **fields,
            )
            self._write_entry(call, cell, event)
        call.entered_at = self._clock()

    def _write_entry(self, call: _Call, cell: LiveCell, event: ProgressReported) -> None:
        entry = event.entry(
            f"device:{cell.device}",
            run=cell.run,
            step=cell.step,
            device=cell.device,
            call_id=call.call_id,
            tool=cell.tool,
        )
        try:
            self._write(entry)
        except QuarterdeckError:
            # The journal reports its own failure; the outcome is recorded as soon as it can be written.
            call.left_out += 1
        else:
            call.left_out = 0


def in_words(progress: Progress) -> str:
    """The progress as text for people; empty if the device reports none."""
    unit = f" {progress.unit}" if progress.unit else ""
    if progress.done is not None and progress.total:
        return f"{progress.done:g} of {progress.total:g}{unit}"
    if progress.done is not None:
        return f"{progress.done:g}{unit}"
    lines = progress.text.strip().splitlines()
    return lines[-1][:200] if lines else ""
