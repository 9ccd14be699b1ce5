"""`quarterdeck audit verify`: also where a home does not open otherwise."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from core.cli.output import as_json, error_json, facts, say
from core.cli.session import actor
from core.errors import BadInput, ErrorCode, ErrorInfo, JournalCorrupt, ServiceError
from core.home import Home, HomeLock
from core.service import exit_codes
from core.service.rpc.client import RemoteConsole


async def verify(home: Home, json_wanted: bool, checkpoint: Path | None = None) -> int:
    """Recompute the whole journal and say what was found; 8 when it does not verify.

    The service does it where one owns the home; else the files are read as they lie there, unchanged.
    `checkpoint` is a file with a checkpoint that was kept elsewhere, to compare with.

    Raises:
        ServiceError: the home is owned by a process that does not answer.
        BadInput: there is no journal, or no readable checkpoint in the file.
        JournalCorrupt: the checkpoint is another journal's, so this is not the journal that it was taken of.
    """
    note = await asyncio.to_thread(_kept_note, home, checkpoint) if checkpoint is not None else None
    try:
        console = await RemoteConsole.connect(home, "cli", actor())
    except ServiceError as error:
        if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
            raise
        report = await asyncio.to_thread(_verify_files, home, note)
    else:
        try:
            report = (await console.verify(note)).model_dump(mode="json")
        finally:
            await console.close()
    good = bool(report["ok"])
    if json_wanted:
        if not good:
            message = f"The journal does not verify: {report['problem']}"
            report["error"] = error_json(ErrorInfo.of(ErrorCode.JOURNAL_CORRUPT, message))
        say(as_json(report))
    else:
        say(_words(report, good))
    return exit_codes.DONE if good else exit_codes.JOURNAL_BAD


def _kept_note(home: Home, path: Path) -> str:
    """The checkpoint in a file, checked with this home's key."""
    from core.audit.checkpoint import find_note, load_public_key, names_key, read_checkpoint

    try:
        note = find_note(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as a checkpoint: {error}.") from error
    if note is None:
        raise BadInput(f"There is no checkpoint in {path}; expected what `quarterdeck audit verify` printed.")
    if not _is_there(home):
        raise JournalCorrupt(
            f"There is no journal in {home.path}; the checkpoint in {path} was taken of one."
        )
    key = load_public_key(home.keys / "journal.pub")
    # A journal that was begun anew has another key: that is what a checkpoint kept elsewhere is to find.
    if not names_key(note, key):
        raise JournalCorrupt(
            f"The checkpoint in {path} was signed with another key than that of the journal in {home.path}:"
            " it is of another journal, or this one was put in the place of the one it was taken of."
        )
    try:
        read_checkpoint(note, key)
    except JournalCorrupt as error:
        raise BadInput(f"{path} was changed: {error.message}") from error
    return note


def _is_there(home: Home) -> bool:
    # Where only its companions are, the journal was taken away: that is damage, and verification says so.
    companions = ("journal.db", "journal.db-wal", "journal.spool", "journal.head", "blobs")
    return any((home.path / name).exists() for name in companions)


def _verify_files(home: Home, note: str | None) -> dict[str, object]:
    from core.audit.checkpoint import load_public_key, read_checkpoint
    from core.audit.verify import verify_folder

    if not _is_there(home):
        raise BadInput(f"There is no journal in {home.path}.", ErrorCode.NOT_FOUND)
    with contextlib.ExitStack() as stack:
        # A copy that cannot be written has no owner to keep out.
        with contextlib.suppress(OSError):
            stack.enter_context(HomeLock(home))
        key = load_public_key(home.keys / "journal.pub")
        against = read_checkpoint(note, key) if note is not None else None
        return verify_folder(home.path, key, against=against).model_dump(mode="json")


def _words(report: dict[str, object], good: bool) -> str:
    entries = f"{report['entries']:,}"
    head = (
        f"The journal verifies: {entries} entries checked."
        if good
        else f"The journal does not verify: {report['problem']}"
    )
    first_bad = report["first_bad"]
    return (
        head
        + "\n"
        + facts(
            [
                ("First bad entry", "" if first_bad is None else first_bad),
                ("Entries", entries),
                ("Blobs", f"{report['blobs']:,}"),
                ("Checkpoints", f"{report['checkpoints']:,}"),
                ("Root", report["root"]),
                ("Took", f"{report['took_s']} s"),
            ]
        )
        + (f"\n\nNewest checkpoint, to be kept elsewhere:\n\n{report['checkpoint']}".rstrip() if good else "")
    )
