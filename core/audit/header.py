"""The first bytes of `journal.db`: what makes a file a journal, known before SQLite opens it."""

from __future__ import annotations

from pathlib import Path

from core.errors import JournalCorrupt

APPLICATION_ID = 0x514A4E4C  # "QJNL"
FORMAT = 1
_HEADER_BYTES = 100


def check_header(path: Path) -> None:
    """Refuse a file that cannot be this journal before SQLite sees it.

    Beside an empty or foreign file SQLite would delete the log, or write it into that file; all of a journal
    since its last checkpoint is in there.

    Raises:
        JournalCorrupt: says what is there instead.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return  # whoever opens it says why it cannot be opened
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
        what = "it is empty" if not header else "its first bytes are not those of a database"
        raise JournalCorrupt(
            f"The journal {path} is damaged ({what}). Keep a copy of it; put the last good copy back."
        )
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if application != APPLICATION_ID or version != FORMAT:
        raise JournalCorrupt(not_a_journal(path, application, version))


def not_a_journal(path: Path, application: int, version: int) -> str:
    """The words for a database that is something else, or of another format."""
    return f"{path} is not a Quarterdeck journal of format {FORMAT} (it says {application:#x}, {version})."
