"""The runs of the list: what the window knows, and older ones read through the door, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from PySide6.QtCore import QObject, Qt

from app.items.keyed_model import KeyedModel
from app.records.run_text import actor_words, cells_words, devices_words, effect_words, run_look
from app.text import clock, one_line
from core.batch.models import RunSummary


class RunsModel(KeyedModel[RunSummary]):
    """Runs that go on, then those that have ended, each newest first."""

    def __init__(self, parent: QObject | None = None) -> None:
        roles = {Qt.ItemDataRole.DisplayRole: run_name, Qt.ItemDataRole.AccessibleTextRole: spoken_run}
        super().__init__(attrgetter("id"), roles, parent)
        self._known: dict[str, RunSummary] = {}
        self._only: frozenset[str] | None = None
        self.set_order(lambda run: (not run.state.ended, run.started_at, run.id), descending=True)

    @property
    def known(self) -> int:
        """How many runs are known, shown or not."""
        return len(self._known)

    @property
    def open(self) -> int:
        """How many of the runs that are shown have not ended."""
        return sum(not run.state.ended for run in self.items)

    def newest(self) -> str:
        """The id of the first run that is shown; empty when there is none."""
        return self.items[0].id if self.items else ""

    def find(self, run: str) -> RunSummary | None:
        """A run by its id, shown or not."""
        return self._known.get(run)

    def take(self, runs: Iterable[RunSummary]) -> bool:
        """Learn of new runs and of changes; whether a run is new or its state is another one."""
        changed = [run for run in runs if (known := self._known.get(run.id)) is not run and known != run]
        other = any(
            (known := self._known.get(run.id)) is None or known.state is not run.state for run in changed
        )
        self._known.update((run.id, run) for run in changed)
        self._show()
        return other

    def show_only(self, runs: Iterable[RunSummary] | None) -> None:
        """Show these runs and no others, or all that are known."""
        self._only = None
        if runs is not None:
            by_id = {run.id: run for run in runs}
            # What the window was told of a run that goes on is newer than an answer that was under way.
            self._known = by_id | self._known
            self._only = frozenset(by_id)
        self._show()

    def _show(self) -> None:
        known = self._known.values()
        self.sync(known if self._only is None else (run for run in known if run.id in self._only))


def run_name(run: RunSummary) -> str:
    """A run's name on one line."""
    return one_line(run.name)


def spoken_run(run: RunSummary) -> str:
    """A run as it is read aloud."""
    words = [run_name(run), run.id, run_look(run.state).word, devices_words(run), effect_words(run)]
    words += [f"from {actor_words(run.actor)}", clock(run.started_at, seconds=False)]
    return ", ".join([*(word for word in words if word), f"{cells_words(run)} done"])
