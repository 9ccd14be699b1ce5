"""How the lines of a change are laid out before they are painted: nothing invisible, wraps, pairs."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QTextLayout, QTextOption

from app.theme.legible import is_drawn
from app.theme.theme import Theme
from app.widgets.text_diff import FileDiff, Kind, Line
from app.widgets.visible_text import Mark, visible_text

LINE = 21


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line's text as it is drawn: hidden characters by name, ranges in UTF-16 units."""

    text: str
    marks: tuple[Mark, ...]
    changed: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Row:
    """What stands side by side: one line, or an old and a new one. `top` is in lines from the first."""

    left: Line | None
    right: Line | None
    top: int = 0
    lines: int = 1


def shown_line(line: Line, font: QFont) -> ShownLine:
    """What is drawn for a line in this font; nothing in it is invisible."""
    shown = visible_text(line.text.encode("utf-8", "surrogatepass"), lambda sign: is_drawn(sign, font))

    def place(at: int) -> int:
        return shown.place_of(len(line.text[:at].encode("utf-8", "surrogatepass")))

    changed = tuple((place(start), place(end)) for start, end in line.changed)
    text = shown.text.replace("\t", "    ") if not shown.marks and not changed else shown.text
    return ShownLine(text, shown.marks, changed)


def wrapped(text: str, room: float, theme: Theme) -> QTextLayout:
    """Lay a line out in as many lines as it needs in `room` px."""
    layout = QTextLayout(text, theme.font("mono"))
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAnywhere)
    option.setTextDirection(Qt.LayoutDirection.LeftToRight)
    layout.setTextOption(option)
    layout.beginLayout()
    while (line := layout.createLine()).isValid():
        line.setLineWidth(room)
        line.setPosition(QPointF())
    layout.endLayout()
    return layout


def spots(layout: QTextLayout, start: int, end: int, left: float, top: float) -> list[tuple[QRectF, str]]:
    """Where a range of a wrapped line lies: one place in each of its lines, with the words there."""
    found = []
    units = layout.text().encode("utf-16-le", "surrogatepass")
    for number in range(layout.lineCount()):
        line = layout.lineAt(number)
        first = max(start, line.textStart())
        last = min(end, line.textStart() + line.textLength())
        if first >= last:
            continue
        x, until = _x(line.cursorToX(first)), _x(line.cursorToX(last))
        words = units[2 * first : 2 * last].decode("utf-16-le", "replace")
        found.append((QRectF(left + x, top + number * LINE, until - x, LINE), words))
    return found


def _x(at: object) -> float:
    # The binding gives the place and the cursor, whatever its stubs say.
    return float(at[0]) if isinstance(at, tuple) else float(at)  # type: ignore[arg-type]


def pairs(lines: tuple[Line, ...]) -> list[Row]:
    """Removed lines beside the added ones that follow them."""
    rows: list[Row] = []
    gone: list[Line] = []
    come: list[Line] = []

    def put() -> None:
        for at in range(max(len(gone), len(come))):
            rows.append(Row(gone[at] if at < len(gone) else None, come[at] if at < len(come) else None))
        gone.clear()
        come.clear()

    for line in lines:
        if line.kind is Kind.REMOVED:
            gone.append(line)
        elif line.kind is Kind.ADDED:
            come.append(line)
        else:
            put()
            rows.append(Row(line, None if line.kind is Kind.FOLD else line))
    put()
    return rows


def spoken(diff: FileDiff, font: QFont) -> str:
    """The first changes as text, for assistive technology."""
    changed = [line for line in diff.lines if line.kind in (Kind.ADDED, Kind.REMOVED)]
    return "\n".join(f"{line.kind.value}: {shown_line(line, font).text}" for line in changed[:60])
