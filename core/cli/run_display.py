"""Shows a run on a terminal while it goes on: its output, its waves, and the progress of its devices.

On a terminal that can move its cursor there is a line for each device that matters and a bar for all; else
each wave that begins, each attempt that is repeated, each step that ends or is recovered is one line on
standard error. What commands print goes to standard output, and with `--json`, where standard output holds
the answer alone, to standard error.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol, TextIO

from core.batch.models import Cell, CellState, Run, RunState
from core.cli.output import leave, lines, note, one_line
from core.cli.run_course import Course, attempts_of
from core.cli.terminal import STATE_STYLES, moves_cursor, styled, terminal_of
from core.text import plural, shorten_middle

# Lines of the live display for single devices.
MOST_DEVICES = 8
_WIDTH = 100
# The order in which devices matter; states that are not listed only count in the bar.
_MATTER = (
    CellState.WAITING,
    CellState.CANCEL_ASKED,
    CellState.UNKNOWN,
    CellState.FAILED,
    CellState.NO_SUCH_TOOL,
    CellState.REFUSED,
    CellState.RETRYING,
    CellState.RUNNING,
)
_OPEN = frozenset(
    {
        CellState.QUEUED,
        CellState.RUNNING,
        CellState.RETRYING,
        CellState.WAITING,
        CellState.CANCEL_ASKED,
    }
)


CellKey = tuple[str, str]


class Display(Protocol):
    """Shows a run. `show` gets the run's cells by device and step, and the cells that have changed."""

    def show(self, cells: dict[CellKey, Cell], changed: list[Cell]) -> None: ...
    def output(self, cell: Cell, text: str) -> None: ...
    def pause(self) -> None: ...
    def close(self) -> None: ...


def display_for(run: Run, json_wanted: bool) -> Display:
    """The display for a run on this terminal, or where there is none."""
    stream = sys.stderr if json_wanted else sys.stdout
    plain = PlainDisplay(stream, len(run.cells) > 1, Course.of(run))
    watched = next((one for one in (stream, sys.stderr) if one.isatty()), None)
    if watched is None or len(run.cells) == 1 or not moves_cursor():
        return plain
    return LiveDisplay(plain, watched)


class PlainDisplay:
    """Prints lines. With `several` cells, a line of output begins with its device and step."""

    def __init__(self, stream: TextIO, several: bool, course: Course) -> None:
        self.course = course
        self._stream = stream
        self._several = several
        self._unfinished: dict[CellKey, str] = {}
        # By cell: the state that was told last, the last attempt that was, and why the one before it failed.
        self._told: dict[CellKey, CellState] = {}
        self._told_attempts: dict[CellKey, int] = {}
        self._failures: dict[CellKey, str] = {}
        self._waves = 0

    def show(self, cells: dict[CellKey, Cell], changed: list[Cell]) -> None:
        """Print a line for each wave that began, each attempt that is repeated, and each cell that ended."""
        for words in self.begun_waves(changed):
            note(f"{words[:1].upper()}{words[1:]}")
        for cell in changed:
            if words := self.failed_attempt(cell):
                self.end_line(cell)
                note(words)
            if self._several and self.has_news(cell):
                self.end_line(cell)
                note(cell_line(cell, self.course))

    def begun_waves(self, changed: list[Cell]) -> Iterator[str]:
        """The words of each wave that has begun since the last time; none where there is one wave."""
        if len(self.course.waves) < 2:
            return
        begun = (self.course.wave_of(cell.device) for cell in changed if cell.started_at is not None)
        for number in range(self._waves + 1, max(begun, default=0) + 1):
            self._waves = number
            yield one_line(self.course.wave_words(number))

    def failed_attempt(self, cell: Cell) -> str:
        """The line about an attempt that failed and is repeated; empty if that is no news."""
        key, number = (cell.device, cell.step), attempts_of(cell)
        if cell.state is CellState.RETRYING:
            self._failures[key] = cell.note
            told, number = cell_line(cell, self.course), number + 1
        elif cell.state in _OPEN:
            # The moment between two attempts was too short to be seen.
            told = cell_line(cell, self.course)
        else:
            return ""
        if number < 2 or number <= self._told_attempts.get(key, 1):
            return ""
        self._told_attempts[key] = number
        return told

    def last_failure(self, cell: Cell) -> str:
        """Why the attempt before the present one failed, as far as that was seen."""
        return self._failures.get((cell.device, cell.step), "")

    def has_news(self, cell: Cell) -> bool:
        """Whether a cell has ended, or has ended in another way since: it was recovered."""
        key = (cell.device, cell.step)
        if cell.state in _OPEN:
            # It may fail again, in its next attempt.
            self._told.pop(key, None)
            return False
        if self._told.get(key) is cell.state:
            return False
        self._told[key] = cell.state
        return True

    def end_line(self, cell: Cell) -> None:
        """End the line of output that a cell has begun, before something else is said of it."""
        if self.has_rest(cell):
            self.output(cell, "\n")

    def output(self, cell: Cell, text: str) -> None:
        """Print output: of one cell as it comes, of several cells line by line."""
        if not self._several:
            self.write(lines(text))
            self._unfinished[cell.device, cell.step] = "" if text.endswith("\n") else "\n"
            return
        for line in self.whole_lines(cell, text):
            self.write(f"{line}\n")

    def whole_lines(self, cell: Cell, text: str) -> Iterator[str]:
        """The lines that are complete now, with their device and step."""
        key = (cell.device, cell.step)
        *complete, rest = (self._unfinished.get(key, "") + text).split("\n")
        self._unfinished[key] = rest
        for line in complete:
            yield f"{one_line(cell.device)} {one_line(cell.step)} | {one_line(line.removesuffix(chr(13)))}"

    def has_rest(self, cell: Cell) -> bool:
        """Whether the cell's output so far does not end with a line end."""
        return bool(self._unfinished.get((cell.device, cell.step)))

    def write(self, text: str) -> None:
        """Print text as it is. A closed pipe ends the output, not the run."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            leave(self._stream)

    def pause(self) -> None:
        """End the line that is being printed, before something else is."""
        if not self._several and any(self._unfinished.values()):
            self.write("\n")
            self._unfinished.clear()

    def close(self) -> None:
        """End the display."""
        self.pause()


class LiveDisplay:
    """Keeps some lines at the bottom of the terminal, with output above them."""

    def __init__(self, plain: PlainDisplay, stream: TextIO) -> None:
        # Imported here: it takes longer than a command without this display.
        from rich.console import Console as Terminal
        from rich.live import Live

        self._plain = plain
        self._stream = stream
        self._terminal = Terminal(file=stream, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._terminal, auto_refresh=False, transient=True)
        self._begun = False
        self._wave = ""

    def show(self, cells: dict[CellKey, Cell], changed: list[Cell]) -> None:
        """Draw the state of all cells."""
        from rich.text import Text

        for words in self._plain.begun_waves(changed):
            self._wave = words
        for cell in changed:
            # Keeps why it failed.
            self._plain.failed_attempt(cell)
            if cell.state not in _OPEN:
                self._plain.end_line(cell)
            if self._plain.has_news(cell) and cell.recovered_by:
                # The display forgets what is done; that it had failed is worth a line that stays.
                line = terminal_of(self._stream).shown(cell_line(cell, self._plain.course))
                self._terminal.print(Text.from_ansi(line), soft_wrap=True)
        if not self._begun:
            self._live.start()
            self._begun = True
        shown = live_lines(cells, self._plain.course, self._plain.last_failure)
        text = "\n".join([*shown[:-1], *filter(None, [self._wave]), shown[-1]])
        self._live.update(Text.from_ansi(terminal_of(self._stream).shown(text)), refresh=True)

    def output(self, cell: Cell, text: str) -> None:
        """Print the complete lines of output above the display."""
        for line in self._plain.whole_lines(cell, text):
            # Through the display, which moves down.
            self._terminal.print(line, soft_wrap=True)

    def pause(self) -> None:
        """Take the display away; the next `show` draws it again."""
        if self._begun:
            self._live.stop()
            self._begun = False

    def close(self) -> None:
        """Take the display away."""
        self.pause()


def live_lines(
    cells: dict[CellKey, Cell], course: Course, last_failure: Callable[[Cell], str] = lambda cell: ""
) -> list[str]:
    """A line for each device that matters, and a bar over all cells.

    `last_failure` says why the attempt before a cell's present one failed.
    """
    mattering: dict[str, Cell] = {}
    for cell in cells.values():
        known = mattering.get(cell.device)
        if cell.state in _MATTER and (known is None or _rank(cell) < _rank(known)):
            mattering[cell.device] = cell
    chosen = sorted(mattering.values(), key=_rank)
    more = len(chosen) - MOST_DEVICES
    told = [cell_line(cell, course, last_failure(cell), _WIDTH) for cell in chosen[:MOST_DEVICES]]
    if more > 0:
        told.append(f"and {plural(more, 'device')} more")
    return [*told, bar(cells)]


def bar(cells: dict[CellKey, Cell], width: int = 30) -> str:
    """Such as `[######........] 12 of 40 steps: 28 running, 10 done (1 recovered), 2 failed`."""
    counts = Counter(cell.state for cell in cells.values())
    ended = sum(count for state, count in counts.items() if state not in _OPEN)
    full = width * ended // max(len(cells), 1)
    recovered = sum(1 for cell in cells.values() if cell.recovered_by)
    states = [
        f"{counts[state]} {_coloured(state)}"
        + (f" ({recovered} recovered)" if recovered and state is CellState.DONE else "")
        for state in CellState
        if counts[state]
    ]
    return (
        f"[{'#' * full}{'.' * (width - full)}] {ended} of {plural(len(cells), 'step')}: {', '.join(states)}"
    )


def cell_line(cell: Cell, course: Course, last_failure: str = "", most: int | None = None) -> str:
    """One cell in one line, of at most `most` letters; its state has its colour.

    `last_failure` says why the attempt before the present one failed.
    """
    facts = [course.attempt_words(cell)]
    if cell.result is not None and cell.result.call_id and cell.state is not CellState.RETRYING:
        facts.insert(0, f"{cell.result.duration_ms / 1000:.1f} s")
    shown = ", ".join(filter(None, facts))
    told = f" ({shown})" if shown else ""
    open_words = cell.progress or (f"the last failed: {last_failure}" if last_failure else "")
    said = cell.note or (open_words if cell.state in _OPEN else "")
    why = f": {one_line(said)}" if said else ""
    place, said = f"{one_line(cell.device)} {one_line(cell.step)}", f"{told}{why}"
    if most is not None:
        place = shorten_middle(place, most // 2)
        said = shorten_middle(said, most - len(place) - len(words_of(cell.state)) - 1)
    return f"{place} {_coloured(cell.state)}{said}"


def _coloured(state: CellState) -> str:
    return styled(words_of(state), STATE_STYLES.get(state.value, ""))


def words_of(state: CellState | RunState) -> str:
    """A state in words."""
    return state.value.replace("_", " ")


def _rank(cell: Cell) -> int:
    return _MATTER.index(cell.state)
