"""`quarterdeck audit`: find, show and verify journal entries, also where the home cannot be opened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.broken_text import fault_words
from core.cli import entries, entry_export, proofs
from core.cli.answer import Answer
from core.cli.base import (
    EVERYWHERE,
    CommonOptions,
    ReplaceOption,
    command_set,
    examples,
    finish,
    in_session,
    run_work,
)
from core.cli.output import Block, Prose, error_json, facts, span
from core.cli.session import actor
from core.cli.signing import KeySource, note_difference, sign_as, signs, unlock_one_of
from core.errors import BadInput, ErrorCode, ErrorInfo, JournalCorrupt, JournalError, ServiceError
from core.home import Home, HomeLock
from core.service import exit_codes
from core.service.journal_export import EntryFormat
from core.service.rpc.client import RemoteConsole

if TYPE_CHECKING:
    from core.audit.spool import SpoolKey

commands = command_set()
app = typer.Typer(
    help="The journal: find, show, export, prove, verify.", epilog=EVERYWHERE, no_args_is_help=True
)
commands.add_typer(app, name="audit")

# The largest number that the journal can store.
LAST = (1 << 63) - 1


async def verify(home: Home, checkpoint: Path | None = None) -> Answer:
    """Recompute the whole journal; the answer has exit code 8 when it does not verify.

    Where a service owns the home, the service does it; else the files are read as they are, unchanged.
    `checkpoint` is a file with a checkpoint that was stored elsewhere, to compare with.

    Raises:
        ServiceError: the home is owned by a process that does not answer.
        BadInput: there is no journal, or no readable checkpoint in the file.
        JournalCorrupt: the checkpoint belongs to another journal, so this journal may have been replaced.
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
            report = (await console.journal.verify(note)).model_dump(mode="json")
        finally:
            await console.close()
    good = bool(report["ok"])
    if good:
        return Answer(report, _words(report, good))
    message = f"The journal does not verify: {report['problem']}"
    report["error"] = error_json(ErrorInfo.of(ErrorCode.JOURNAL_CORRUPT, message))
    return Answer(report, _words(report, good), exit_codes.JOURNAL_BAD)


def _kept_note(home: Home, path: Path) -> str:
    """Read the checkpoint in a file and check it with this home's key.

    Raises:
        BadInput: the file cannot be read, has no checkpoint, or was changed.
        JournalCorrupt: there is no journal, or the checkpoint was signed with another journal's key.
    """
    from core.audit.checkpoint import find_note, load_public_key, names_key, read_checkpoint

    try:
        note = find_note(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as a checkpoint: {fault_words(error)}.") from error
    if note is None:
        raise BadInput(f"There is no checkpoint in {path}; expected what `quarterdeck audit verify` printed.")
    if not _is_there(home):
        raise JournalCorrupt(
            f"There is no journal in {home.path}; the checkpoint in {path} was taken of one."
        )
    key = load_public_key(home.keys / "journal.pub")
    # A journal that was started over has another key, which a checkpoint stored elsewhere reveals.
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
    # Companion files without the journal mean that it was removed: verification reports this as damage.
    companions = ("journal.db", "journal.db-wal", "journal.spool", "journal.head", "blobs")
    return any((home.path / name).exists() for name in companions)


def _verify_files(home: Home, note: str | None) -> dict[str, object]:
    from core.audit.checkpoint import load_public_key, read_checkpoint
    from core.audit.verify import verify_folder

    if not _is_there(home):
        raise BadInput(f"There is no journal in {home.path}.", ErrorCode.NOT_FOUND)
    with contextlib.ExitStack() as stack:
        # A read-only copy cannot be locked, and no process owns it.
        with contextlib.suppress(OSError):
            stack.enter_context(HomeLock(home))
        key = load_public_key(home.keys / "journal.pub")
        against = read_checkpoint(note, key) if note is not None else None
        report = verify_folder(
            home.path, key, against=against, spool_key=_spool_key(home.keys / "journal.key")
        ).model_dump(mode="json")
        # Programs that read this know null here, where a service answers with an empty text.
        return {**report, "problem": report["problem"] or None}


@contextlib.contextmanager
def _owned(home: Home) -> Iterator[None]:
    """Own a home; a lock that cannot be taken because of the file system is an error in words."""
    try:
        lock = HomeLock(home).acquire()
    except OSError as error:
        raise BadInput(f"The home {home.path} cannot be used: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


def _spool_key(path: Path) -> SpoolKey | None:
    """The key of the spool's records; None without the journal's private key, as beside a copy."""
    from core.audit.checkpoint import load_or_create_journal_key
    from core.audit.spool import SpoolKey

    if not path.exists():
        return None
    # A key that cannot be used is named by the start of the service; the entries are verified without it.
    with contextlib.suppress(JournalError):
        return SpoolKey(load_or_create_journal_key(path))
    return None


def _words(report: dict[str, object], good: bool) -> Iterator[Block]:
    entries = f"{report['entries']:,}"
    yield (
        f"The journal verifies: {entries} entries checked."
        if good
        else f"The journal does not verify: {report['problem']}"
    )
    first_bad = report["first_bad"]
    yield facts(
        [
            ("First bad entry", "" if first_bad is None else first_bad),
            ("Entries", "" if good else entries),
            ("Blobs", f"{report['blobs']:,}"),
            ("Checkpoints", f"{report['checkpoints']:,}"),
            ("Root", report["root"]),
            ("Took", span(float(str(report["took_s"])))),
        ]
    )
    if good:
        yield f"\nNewest checkpoint, to be kept elsewhere:\n\n{report['checkpoint']}".rstrip()


async def accept_loss(home: Home, unlocking: KeySource) -> Answer:
    """Sign that entries which a journal lacks are lost for ever, so that it opens again.

    Raises:
        ServiceError: another process owns the home.
        BadInput: nothing is missing.
        JournalError: what is left does not verify or names no operator, or cannot be written.
        Refused: no operator that is left can sign, or it was not signed.
    """
    from core.service import accepted_loss

    with _owned(home):
        wish = await asyncio.to_thread(accepted_loss.propose, home)
        note_difference(wish.proposal)
        key = await unlock_one_of(home, wish.operators.list(), unlocking)
        signed = await sign_as(key, wish.proposal)
        seq = await asyncio.to_thread(accepted_loss.accept, home, wish, signed)
    return Answer(
        {"seq": seq, "lost": [wish.loss.left.size + 1, wish.loss.known.size]},
        Prose(f"{wish.loss.words}. Entry {seq:,} says that {key.name} accepted it; the home opens again."),
    )


@app.command(
    "verify",
    epilog=examples(
        "audit verify",
        "audit verify --checkpoint /media/usb/checkpoint --json",
        "audit verify entry-983.tlog-proof --key journal.pub",
    ),
)
def audit_verify(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Compare with a checkpoint that an earlier verification printed, kept elsewhere since.",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="The public key of the journal that a proof is of (its keys/journal.pub), else this home's.",
        ),
    ] = None,
) -> None:
    """Recompute the whole journal, blobs included, or check the proof in FILE. Exit code 8 when it is wrong.

    FILE is what audit prove wrote. It is checked without a service, and with --key without a home.

    Of a journal, the last lines are the newest checkpoint, a signed note over all entries. Keep them where
    this home's files cannot reach (quarterdeck audit verify > FILE on another disk): with --checkpoint FILE a
    later verification finds a journal that was rolled back, or started over, as a whole.
    """
    home = context.obj.home
    if file is None:
        if key is not None:
            raise BadInput("--key goes with the FILE of a proof; the journal is verified with its own key.")
        finish(context, run_work(verify(home, checkpoint)))
    if checkpoint is not None:
        raise BadInput("--checkpoint is compared with the journal; a proof in FILE has its own.")
    finish(context, proofs.verify(home, file, key))


@app.command("accept-loss", epilog=examples("audit accept-loss", "audit accept-loss --operator anna"))
@signs
def audit_accept_loss(context: typer.Context, *, unlocking: KeySource) -> None:
    """Sign that the entries which the journal lacks are lost, so that the home opens again.

    For a home whose journal is older than its last known head, such as a copy that was taken while the
    service ran, and of which there is no better copy. The journal's next entry names what is lost, for ever.
    Everything that is left must verify.
    """
    finish(context, run_work(accept_loss(context.obj.home, unlocking)))


@app.command(
    "find",
    epilog=examples(
        "audit find tool:type_text status:failure since:1h",
        "audit find 'device:lab-* dur:>2s'",
        "audit find --limit 200 --before 983 some text",
    ),
)
def audit_find(
    context: typer.Context,
    query: Annotated[list[str] | None, typer.Argument(metavar="QUERY...")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="NUMBER", help="How many entries at most.")
    ] = 50,
    before: Annotated[
        int | None,
        typer.Option(min=0, max=LAST, metavar="NUMBER", help="Only entries with a smaller number."),
    ] = None,
) -> None:
    """Find entries, newest first, by what they hold; without a query, all."""
    words = " ".join(query or [])
    in_session(context, lambda session: entries.find(session, words, limit, before))


@app.command(
    "export",
    epilog=examples(
        "audit export --output journal.jsonl",
        "audit export 'device:lab-* since:7d' --format csv --output lab.csv",
        "audit export tool:shell_execute --output - | wc -l",
    ),
)
def audit_export(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="The file to write; - is standard output.")
    ],
    query: Annotated[list[str] | None, typer.Argument(metavar="QUERY...")] = None,
    wanted: Annotated[EntryFormat, typer.Option("--format", help="jsonl or csv.")] = EntryFormat.JSONL,
    replace: ReplaceOption = False,
) -> None:
    """Write the entries that match a query, oldest first, to a file; without a query, all.

    jsonl has an entry a line, exactly as it is hashed: SHA-256 over a zero byte and the line is the entry's
    leaf in the journal's Merkle tree (RFC 6962). In csv, a text that a spreadsheet would run as a formula is
    quoted. Pictures and large outputs are left out; secrets are masked, as in the journal.
    """
    given: CommonOptions = context.obj
    entry_export.check_target(output, given.json)
    words = " ".join(query or [])
    in_session(context, lambda session: entry_export.export(session, words, wanted, output, replace))


@app.command(
    "prove", epilog=examples("audit prove 983 --output entry-983.tlog-proof", "audit prove 983 | less")
)
def audit_prove(
    context: typer.Context,
    seq: Annotated[int, typer.Argument(metavar="NUMBER", min=0, max=LAST)],
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="The file to write; else it is printed.")
    ] = None,
    replace: ReplaceOption = False,
) -> None:
    """Prove to others that the journal has one entry, in a file of its own (C2SP tlog-proof).

    It has the entry, the path from its hash to the root, and the signed head. audit verify FILE checks it
    anywhere, with the journal's public key (keys/journal.pub) alone. Exit code 8 when it does not hold.
    """
    in_session(context, lambda session: proofs.prove(session, seq, output, replace))


@app.command("show", epilog=examples("audit show 983", "audit show 983 --json"))
def audit_show(
    context: typer.Context, seq: Annotated[int, typer.Argument(metavar="NUMBER", min=0, max=LAST)]
) -> None:
    """Show one entry in full, and check the proof that the journal's signed head covers it.

    The proof (RFC 6962) leads from the entry's hash to the root that this home's key has signed. Exit code 8
    when it does not hold.
    """
    in_session(context, lambda session: entries.entry(session, seq))
