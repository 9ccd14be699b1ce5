"""A spreadsheet on the accessibility bus, as LibreOffice has it: 2^30 cells, of which a few are showing."""

from __future__ import annotations

from typing import Any

from dbus_fast import Message

from tests.fakes.accessible_program import CELL, MANAGES_DESCENDANTS, SHOWING, STATES, TABLE, Program, Thing

ROWS, COLUMNS = 1 << 20, 1 << 10
WIDTH, HEIGHT = 80, 20
_PREFIX = "/cell/"


class Spreadsheet(dict[str, Thing]):
    """The objects of a program with a sheet at `/sheet`; `top` is the first row that is on the screen.

    The sheet has no headers. Its window is 1024 pixels wide and 768 high, and begins at the screen's corner.
    """

    def __init__(self, things: dict[str, Thing]) -> None:
        super().__init__(things)
        self.top = 0
        self.texts: dict[tuple[int, int], str] = {}
        self["/sheet"] = Thing(
            "Sheet 1",
            TABLE,
            interfaces=("Accessible", "Component", "Table", "Collection"),
            states=STATES | MANAGES_DESCENDANTS,
            extents=(0, 100, 400, 100),
        )

    def get(self, path: Any, otherwise: Any = None) -> Any:
        """An object; cells are made when they are asked for."""
        if isinstance(path, str) and path.startswith(_PREFIX):
            row, column = self.place(path)
            is_shown = self.top <= row < self.top + 5 and column < 5
            return Thing(
                f"{chr(ord('A') + column)}{row + 1}" if column < 26 else "",
                CELL,
                interfaces=("Accessible", "Component", "Text"),
                text=self.texts.get((row, column), ""),
                states=STATES if is_shown else STATES & ~SHOWING,
                extents=(column * WIDTH, 100 + (row - self.top) * HEIGHT, WIDTH, HEIGHT),
            )
        return super().get(path, otherwise)

    @staticmethod
    def path(row: int, column: int) -> str:
        """The path of a cell."""
        return f"{_PREFIX}{row}_{column}"

    @staticmethod
    def place(path: str) -> tuple[int, int]:
        """The row and the column of a cell's path."""
        row, column = path.removeprefix(_PREFIX).split("_")
        return int(row), int(column)


class SpreadsheetProgram(Program):
    """Answers for a spreadsheet."""

    def _answer(self, message: Message, thing: Thing, member: str) -> tuple[str, list[Any]]:
        sheet, path = self._things, str(message.path)
        assert isinstance(sheet, Spreadsheet)
        if path.startswith(_PREFIX):
            row, column = sheet.place(path)
            if member == "Parent":
                return "(so)", [self._ref("/sheet")]
            if member == "GetIndexInParent":
                return "i", [row * COLUMNS + column]
        if path == "/sheet":
            assert member not in ("GetMatches", "GetChildren"), "2^30 cells would hang the program"
            if member == "ChildCount":
                return "i", [ROWS * COLUMNS]
            if member in ("NRows", "NColumns"):
                return "i", [ROWS if member == "NRows" else COLUMNS]
            if member in ("GetRowAtIndex", "GetColumnAtIndex"):
                return "i", [divmod(message.body[0], COLUMNS)[member == "GetColumnAtIndex"]]
            if member == "GetAccessibleAt":
                return "(so)", [self._ref(sheet.path(*message.body))]
            if member == "GetAccessibleAtPoint":
                x, y, _ = message.body
                return "(so)", [self._ref(sheet.path(sheet.top + (y - 100) // HEIGHT, x // WIDTH))]
        return super()._answer(message, thing, member)
