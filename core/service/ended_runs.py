"""Summaries of ended runs that were read from the journal.

A list of runs shows the summary of each. That of a run with ten thousand cells takes some 20 ms to read, and
a second if the run was settled or has no end in the journal.
"""

from __future__ import annotations

from collections import OrderedDict

from core.batch.models import RunSummary

# Each has the names of the run's devices: some 65 KB for a thousand.
MOST_KEPT = 500


class EndedRuns:
    """The summaries read last, except of runs that have changed since."""

    def __init__(self) -> None:
        self._summaries: OrderedDict[str, RunSummary] = OrderedDict()
        self._changes = 0

    @property
    def changes(self) -> int:
        """The number of changes of ended runs so far. Read it before you read a summary, for `put`."""
        return self._changes

    def get(self, run: str) -> RunSummary | None:
        """The summary of a run, if it is kept."""
        if (summary := self._summaries.get(run)) is not None:
            self._summaries.move_to_end(run)
        return summary

    def put(self, summary: RunSummary, changes: int) -> None:
        """Keep a summary, unless an ended run has changed since `changes` was read."""
        if changes != self._changes:
            return
        self._summaries[summary.id] = summary
        if len(self._summaries) > MOST_KEPT:
            self._summaries.popitem(last=False)

    def changed(self, run: str) -> None:
        """Forget the summary of an ended run that was settled or resumed; the journal has the change."""
        self._changes += 1
        self._summaries.pop(run, None)
