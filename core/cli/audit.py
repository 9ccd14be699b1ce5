"""`quarterdeck audit verify`: also where a home does not open otherwise."""

from __future__ import annotations

import asyncio
import contextlib

from core.cli.output import as_json, facts, say
from core.cli.session import actor
from core.errors import BadInput, ErrorCode, ErrorInfo, ServiceError
from core.home import Home, HomeLock
from core.service import exit_codes
from core.service.remote import RemoteConsole


async def verify(home: Home, json_wanted: bool) -> int:
    """Recompute the whole journal and say what was found; 8 when it does not verify.

    The service does it where one owns the home; else the files are read as they lie there, unchanged.

    Raises:
        ServiceError: the home is owned by somebody who does not answer.
        BadInput: there is no journal.
    """
    try:
        console = await RemoteConsole.connect(home, "cli", actor())
    except ServiceError as error:
        if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
            raise
        report = await asyncio.to_thread(_verify_files, home)
    else:
        try:
            report = (await console.verify()).model_dump(mode="json")
        finally:
            await console.close()
    good = bool(report["ok"])
    if json_wanted:
        if not good:
            message = f"The journal does not verify: {report['problem']}"
            report["error"] = ErrorInfo.of(ErrorCode.JOURNAL_CORRUPT, message).model_dump(mode="json")
        say(as_json(report))
    else:
        say(_words(report, good))
    return exit_codes.DONE if good else exit_codes.JOURNAL_BAD


def _verify_files(home: Home) -> dict[str, object]:
    from core.audit.checkpoint import load_public_key
    from core.audit.verify import verify_folder

    # Where only its companions are, the journal was taken away: that is damage, and verification says so.
    companions = ("journal.db", "journal.db-wal", "journal.spool", "blobs")
    if not any((home.path / name).exists() for name in companions):
        raise BadInput(f"There is no journal in {home.path}.", ErrorCode.NOT_FOUND)
    with contextlib.ExitStack() as stack:
        # A copy that cannot be written has no owner to keep out.
        with contextlib.suppress(OSError):
            stack.enter_context(HomeLock(home))
        key = load_public_key(home.keys / "journal.pub")
        return verify_folder(home.path, key).model_dump(mode="json")


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
    )
