"""The first bytes of `journal.db`: what makes a file a journal, known before SQLite opens it.

Source: SQLite's file format, section 1.3, https://www.sqlite.org/fileformat2.html#the_database_header.
"""

from __future__ import annotations

from pathlib import Path

from core.errors import JournalCorrupt

APPLICATION_ID = 0x514A4E4C  # "QJNL"
# Format 2 has the head file beside it and says in its head which checkpoints are kept; format 1 had neither.
FORMAT, OLD_FORMAT = 2, 1
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
# Offset, and what stands there in a database as journals are: WAL mode, no reserved bytes, SQLite's fixed
# payload fractions, schema format 4, its own page cache, no vacuum, UTF-8, and zeros for later use.
_FIXED: tuple[tuple[int, bytes, str], ...] = (
    (18, b"\2\2\0\x40\x20\x20", "file format"),
    (44, b"\0\0\0\4" + bytes(8), "schema format"),
    (56, b"\0\0\0\1", "text encoding"),
    (64, bytes(4), "vacuum mode"),
    (72, bytes(20), "reserved space"),
)


def check_header(path: Path) -> int:
    """Refuse a file that cannot be this journal before SQLite sees it; gives the size of its pages in bytes.

    Beside an empty or foreign file SQLite would delete the log, or write it into that file; all of a journal
    since its last checkpoint is in there. With another text encoding or journal mode it would read the same
    bytes otherwise.

    Raises:
        JournalCorrupt: says what is there instead.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise _damaged(path, "it is empty" if not header else "its first bytes are not those of a database")
    version, application = (_number(header, at) for at in (60, 68))
    if application != APPLICATION_ID or version not in (FORMAT, OLD_FORMAT):
        raise JournalCorrupt(not_a_journal(path, application, version))
    return _page_size(header, path)


def check_first_page(page: bytes, pages: int, schema_changes: int, path: Path) -> None:
    """Refuse a first page that is not that of a journal of `pages` pages whose tables were made once.

    Raises:
        JournalCorrupt: says what differs.
    """
    _page_size(page, path)
    if _number(page, 28) != pages:
        raise _damaged(path, f"its header says {_number(page, 28):,} pages, and it has {pages:,}")
    if _number(page, 24) != _number(page, 92):
        raise _damaged(path, "the change counter in its header was changed")
    if _number(page, 40) != schema_changes:
        raise _damaged(path, "its header says that its tables were changed")


def not_a_journal(path: Path, application: int, version: int) -> str:
    """The words for a database that is something else, or of another format."""
    return (
        f"{path} is not a Quarterdeck journal of format {OLD_FORMAT} or {FORMAT}"
        f" (it says {application:#x}, {version})."
    )


def _page_size(header: bytes, path: Path) -> int:
    size = int.from_bytes(header[16:18], "big")
    for at, wanted, name in _FIXED:
        if header[at : at + len(wanted)] != wanted:
            raise _damaged(path, f"the {name} in its header is not a journal's")
    if size < 512 or size & (size - 1):
        raise _damaged(path, f"its header says that pages have {size:,} bytes")
    return size


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _damaged(path: Path, what: str) -> JournalCorrupt:
    return JournalCorrupt(
        f"The journal {path} is damaged ({what}). Keep a copy of it; put the last good copy back."
    )
