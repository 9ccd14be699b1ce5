"""The file of an export: whole or not there, and in CSV without a text that a spreadsheet would run."""

from __future__ import annotations

import asyncio
import contextlib
import csv
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from core.errors import BadInput
from core.files import writing_atomic

# Spreadsheets read a cell that begins so as a formula, which may call programs.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class Target(Protocol):
    """Where text is written to: a file, or what only looks like one."""

    def write(self, text: str, /) -> object: ...


@contextlib.asynccontextmanager
async def export_file(path: Path, *, replace: bool = True) -> AsyncIterator[TextIO]:
    """A text file that is at `path` once all of it is on the disk; cancelling or an error leaves none.

    The disk is waited for in a thread: the caller's loop may be that of a window.

    Raises:
        BadInput: it cannot be written; or the name is taken, and `replace` is False.
    """
    writing = writing_atomic(path, replace=replace)
    try:
        file = await _opened(writing)
        try:
            yield file
        except BaseException as error:
            writing.__exit__(type(error), error, error.__traceback__)
            raise
        await asyncio.to_thread(writing.__exit__, None, None, None)
    except FileExistsError as error:
        raise BadInput(f"{path} is there already, and nothing was written.") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}.") from error


async def _opened(writing: contextlib.AbstractContextManager[TextIO]) -> TextIO:
    """Begin the file; where the caller is cancelled meanwhile, it is removed again."""
    opening = asyncio.get_running_loop().run_in_executor(None, writing.__enter__)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError as error:
        await asyncio.wait([opening])
        if opening.exception() is None:
            with contextlib.suppress(asyncio.CancelledError):
                writing.__exit__(type(error), error, error.__traceback__)
        raise


class CsvRows:
    """Rows of CSV under one line of column names, in UTF-8 without a byte order mark."""

    def __init__(self, file: Target, columns: Sequence[str]) -> None:
        self._writer = csv.writer(file)
        self._writer.writerow(columns)

    def write(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows; a text that a spreadsheet would run is quoted (`neutral`)."""
        self._writer.writerows(map(neutral, row) for row in rows)


def neutral(value: Any) -> Any:
    """A value for a CSV cell: a text that a spreadsheet would take for a formula gets an apostrophe."""
    if isinstance(value, str) and value.startswith(_FORMULA_SIGNS):
        return f"'{value}"
    return value
