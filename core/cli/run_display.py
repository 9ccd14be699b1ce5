"""Shows a run on a terminal while it goes on: its output, and the progress of its devices.

On a terminal that can move its cursor there is a line for each device that matters and a bar for all; else
each step that ends is one line on standard error. What commands print goes to standard output, and with
`--json`, where standard output holds the answer alone, to standard error.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Protocol, TextIO

from core.batch.models import Cell, CellState, Run, RunState
from core.cli.output import leave, lines, note, one_line
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


class Display(Protocol):
    """Shows a run. `show` gets the run's cells by device and step, and the cells that have changed."""

    def show(self, cells: dict[tuple[str, str], Cell], changed: list[Cell]) -> None: ...
    def output(self, cell: Cell, text: str) -> None: ...
    def pause(self) -> None: ...
    def close(self) -> None: ...


def display_for(run: Run, json_wanted: bool) -> Display:
    """The display for a run on this terminal, or where there is none."""
    stream = sys.stderr if json_wanted else sys.stdout
    plain = PlainDisplay(stream, several=len(run.cells) > 1)
    watched = next((one for one in (stream, sys.stderr) if one.isatty()), None)
    if watched is None or len(run.cells) == 1 or not moves_cursor():
        return plain
    return LiveDisplay(plain, watched)


class PlainDisplay:
    """Prints lines. With `several` cells, a line of output begins with its device and step."""

    def __init__(self, stream: TextIO, several: bool) -> None:
        self._stream = stream
        self._several = several
        self._unfinished: dict[tuple[str, str], str] = {}
        self._reported: set[tuple[str, str]] = set()

    def show(self, cells: dict[tuple[str, str], Cell], changed: list[Cell]) -> None:
        """Print a line for each cell that has ended."""
        for cell in changed:
            key = (cell.device, cell.step)
            if self._several and cell.state not in _OPEN and key not in self._reported:
                self._reported.add(key)
                if self.has_rest(cell):
                    self.output(cell, "\n")
                note(cell_line(cell))

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

    def show(self, cells: dict[tuple[str, str], Cell], changed: list[Cell]) -> None:
        """Draw the state of all cells."""
        from rich.text import Text

        for cell in changed:
            if cell.state not in _OPEN and self._plain.has_rest(cell):
                self.output(cell, "\n")
        if not self._begun:
            self._live.start()
            self._begun = True
        text = "\n".join(live_lines(cells))
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


def live_lines(cells: dict[tuple[str, str], Cell]) -> list[str]:
    """A line for each device that matters, and a bar over all cells."""
    mattering: dict[str, Cell] = {}
    for cell in cells.values():
        known = mattering.get(cell.device)
        if cell.state in _MATTER and (known is None or _rank(cell) < _rank(known)):
            mattering[cell.device] = cell
    chosen = sorted(mattering.values(), key=_rank)
    more = len(chosen) - MOST_DEVICES
    told = [cell_line(cell, _WIDTH) for cell in chosen[:MOST_DEVICES]]
    if more > 0:
        told.append(f"and {plural(more, 'device')} more")
    return [*told, bar(cells)]


def bar(cells: dict[tuple[str, str], Cell], width: int = 30) -> str:
    """Such as `[######········] 12 of 40 steps · 10 done · 2 failed`."""
    counts = Counter(cell.state for cell in cells.values())
    ended = sum(count for state, count in counts.items() if state not in _OPEN)
    full = width * ended // max(len(cells), 1)
    states = [f"{counts[state]} {_coloured(state)}" for state in CellState if counts[state]]
    return (
        f"[{'#' * full}{'.' * (width - full)}] {ended} of {plural(len(cells), 'step')}: {', '.join(states)}"
    )


def cell_line(cell: Cell, most: int | None = None) -> str:
    """One cell in one line, of at most `most` letters; its state has its colour."""
    took = ""
    if cell.result is not None and cell.result.call_id:
        took = f" ({cell.result.duration_ms / 1000:.1f} s)"
    said = cell.note or (cell.progress if cell.state in _OPEN else "")
    why = f": {one_line(said)}" if said else ""
    place, said = f"{one_line(cell.device)} {one_line(cell.step)}", f"{took}{why}"
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
