"""Exports journal entries to a file, or to standard output, with progress on a terminal."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

from core.cli.answer import Answer
from core.cli.output import AnswerLost, Block, Remark, facts, leave, lines, one_line
from core.cli.progress_line import ProgressLine
from core.cli.saving import check_not_there
from core.cli.session import Session
from core.cli.terminal import terminal_of
from core.errors import BadInput
from core.service.export_file import Target, export_file
from core.service.journal_export import EntryFormat, Exported, export_entries
from core.text import sentences

STANDARD_OUTPUT = Path("-")


def check_target(output: Path, json_wanted: bool) -> None:
    """Check that the answer does not go where the entries go.

    Raises:
        BadInput: both would be on standard output.
    """
    if output == STANDARD_OUTPUT and json_wanted:
        raise BadInput("--json and --output - would both be on standard output; name a file for one of them.")


async def export(session: Session, query: str, wanted: EntryFormat, output: Path, replace: bool) -> Answer:
    """Write the entries that match a query.

    Raises:
        BadInput: the query is invalid, the file cannot be written, or is there and is not to be replaced.
        AnswerLost: standard output cannot be written.
    """
    if output == STANDARD_OUTPUT:
        done = await _to_standard_output(session, query, wanted)
        return Answer(None, [Remark(_remark(done))])
    path = _expanded(output)
    replace = replace or await check_not_there(path)
    line = ProgressLine("Export")
    try:
        async with export_file(path, replace=replace) as file:
            done = await export_entries(
                session.console.journal, query, wanted, file, lambda so_far: line.show(_how_far(so_far))
            )
    finally:
        line.close()
    value = {"file": str(path), "format": wanted.value, **dataclasses.asdict(done)}
    return Answer(value, _text(done, path))


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise BadInput(sentences(f"{path} cannot be found: {error}")) from error


async def _to_standard_output(session: Session, query: str, wanted: EntryFormat) -> Exported:
    target: Target = _Shown() if sys.stdout.isatty() else _Exact()
    done = Exported()

    def keep(so_far: Exported) -> None:
        nonlocal done
        done = so_far

    try:
        await export_entries(session.console.journal, query, wanted, target, keep)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Its reader has seen enough, which is not a fault.
        leave(sys.stdout)
    except OSError as error:
        leave(sys.stdout)
        raise AnswerLost(f"The entries could not be written: {error.strerror}.") from error
    return done


class _Exact:
    """Standard output, in UTF-8 whatever its encoding is: the hash of a line is that of its entry."""

    def write(self, text: str, /) -> object:
        return sys.stdout.buffer.write(text.encode())


class _Shown:
    """A terminal, whose cursor no text of an entry moves."""

    def write(self, text: str, /) -> object:
        return sys.stdout.buffer.write(terminal_of(sys.stdout).shown(lines(text)).encode())


def _how_far(done: Exported) -> str:
    return f"{done.entries:,} entries written, up to entry {done.searched:,} of {done.through:,}"


def _text(done: Exported, path: Path) -> Iterator[Block]:
    yield facts(
        [
            ("File", one_line(path)),
            ("Entries", f"{done.entries:,}"),
            ("Journal", f"up to entry {done.through:,}"),
            ("Left out", _left_out(done)),
        ]
    )


def _left_out(done: Exported) -> str:
    if not done.blobs:
        return "nothing"
    what = "1 picture or large output" if done.blobs == 1 else f"{done.blobs:,} pictures and large outputs"
    return f"{what}, which the entries name by SHA-256 (quarterdeck runs show RUN --save DIR writes them)"


def _remark(done: Exported) -> str:
    return (
        f"{done.entries:,} entries, up to entry {done.through:,} of the journal; left out: {_left_out(done)}."
    )
