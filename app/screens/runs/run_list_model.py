"""The runs of the list: what the window knows, and older ones read through the door, newest first."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.records.run_text import actor_words, cells_words, devices_words, effect_words, run_look
from app.text import clock, one_line
from core.batch.models import RunSummary

Index = QModelIndex | QPersistentModelIndex
RUN_ROLE = int(Qt.ItemDataRole.UserRole) + 1


class RunsModel(QAbstractListModel):
    """Runs that go on, then those that have ended, newest first; rows stay while they only change."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: dict[str, RunSummary] = {}
        self._only: frozenset[str] | None = None
        self._shown: list[RunSummary] = []
        self._places: dict[str, int] = {}

    @property
    def known(self) -> int:
        """How many runs are known, shown or not."""
        return len(self._known)

    @property
    def open(self) -> int:
        """How many of the runs that are shown have not ended; they stand first."""
        return next((place for place, run in enumerate(self._shown) if run.state.ended), len(self._shown))

    def newest(self) -> str:
        """The id of the first run that is shown; empty when there is none."""
        return self._shown[0].id if self._shown else ""

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
        shown = [run for run in changed if self._only is None or run.id in self._only]
        in_place = all(
            run.id in self._places and _order(self._shown[self._places[run.id]]) == _order(run)
            for run in shown
        )
        if not in_place:
            self._arrange()
            return other
        for run in shown:
            place = self._places[run.id]
            self._shown[place] = run
            self.dataChanged.emit(self.index(place), self.index(place))
        return other

    def show_only(self, runs: Iterable[RunSummary] | None) -> None:
        """Show these runs and no others, or all that are known."""
        only = None
        if runs is not None:
            by_id = {run.id: run for run in runs}
            # What the window was told of a run that goes on is newer than an answer that was under way.
            self._known.update((run.id, run) for run in by_id.values() if run.id not in self._known)
            only = frozenset(by_id)
        if only != self._only:
            self._only = only
            self._arrange()

    def _arrange(self) -> None:
        known = self._known.values()
        shown = [run for run in known if self._only is None or run.id in self._only]
        shown.sort(key=_order, reverse=True)
        self.beginResetModel()
        self._shown = shown
        self._places = {run.id: place for place, run in enumerate(shown)}
        self.endResetModel()

    def place_of(self, run: str) -> int:
        """The row of a run; -1 when it is not shown."""
        return self._places.get(run, -1)

    def run_at(self, row: int) -> RunSummary | None:
        """The run in a row."""
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        """How many runs are shown."""
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The run, and its words for assistive technology."""
        run = self.run_at(index.row())
        if run is None:
            return None
        if role == RUN_ROLE:
            return run
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(run.name)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            words = [one_line(run.name), run.id, run_look(run.state).word, devices_words(run)]
            words += [text for text in (effect_words(run),) if text]
            words.append(f"from {actor_words(run.actor)}")
            return ", ".join([*words, clock(run.started_at, seconds=False), f"{cells_words(run)} done"])
        return None


def _age(run: RunSummary) -> tuple[str, str]:
    return run.started_at, run.id


def _order(run: RunSummary) -> tuple[bool, str, str]:
    """Sorted downwards: what goes on or waits stands above what has ended, each newest first."""
    return (not run.state.ended, *_age(run))
