"""The runs of the list: what the window knows, and older ones read through the door, newest first."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.screens.runs.words import actor_words, cells_words, devices_words, one_line, run_look
from app.shell.words import clock
from core.batch.models import RunSummary

Index = QModelIndex | QPersistentModelIndex
RUN_ROLE = int(Qt.ItemDataRole.UserRole) + 1


class RunsModel(QAbstractListModel):
    """Runs that match the filter, by start, newest first; rows stay while they only change."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: dict[str, RunSummary] = {}
        self._shown: list[RunSummary] = []
        self._places: dict[str, int] = {}
        self._wanted = ""

    @property
    def known(self) -> int:
        """How many runs are known, shown or not."""
        return len(self._known)

    def oldest(self) -> str | None:
        """The id of the oldest run that is known."""
        return min(self._known.values(), key=_age).id if self._known else None

    def newest(self) -> str:
        """The id of the first run that is shown; empty when there is none."""
        return self._shown[0].id if self._shown else ""

    def find(self, run: str) -> RunSummary | None:
        """A run by its id, shown or not."""
        return self._known.get(run)

    def take(self, runs: Iterable[RunSummary]) -> None:
        """Learn of new runs and of changes."""
        changed = [run for run in runs if (known := self._known.get(run.id)) is not run and known != run]
        if not changed:
            return
        self._known.update((run.id, run) for run in changed)
        in_place = all(
            run.id in self._places
            and self._matches(run)
            and _age(self._shown[self._places[run.id]]) == _age(run)
            for run in changed
        )
        if not in_place:
            self._arrange()
            return
        for run in changed:
            place = self._places[run.id]
            self._shown[place] = run
            self.dataChanged.emit(self.index(place), self.index(place))

    def filter_by(self, text: str) -> None:
        """Show only runs whose name, id, state, devices, tools or asker hold every word of `text`."""
        if text.casefold().split() != self._wanted.split():
            self._wanted = " ".join(text.casefold().split())
            self._arrange()

    def _matches(self, run: RunSummary) -> bool:
        if not self._wanted:
            return True
        own = (run.name, run.id, run.state.value, run_look(run.state).word, run.actor, actor_words(run.actor))
        text = "\n".join((*own, *run.tools, *run.devices)).casefold()
        return all(word in text for word in self._wanted.split())

    def _arrange(self) -> None:
        shown = sorted((run for run in self._known.values() if self._matches(run)), key=_age, reverse=True)
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
            words.append(f"from {actor_words(run.actor)}")
            return ", ".join([*words, clock(run.started_at, seconds=False), f"{cells_words(run)} done"])
        return None


def _age(run: RunSummary) -> tuple[str, str]:
    return run.started_at, run.id
