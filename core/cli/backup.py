"""`quarterdeck backup` and `quarterdeck restore`: a home as one file, and a new home of such a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.approvals.operator_keys import SHORTEST_PASSPHRASE
from core.cli.answer import Answer
from core.cli.base import CommonOptions, command_set, end_on_signals, examples, finish, in_session, run_work
from core.cli.output import Block, Prose, facts, lines, moment, one_line, size_words
from core.cli.progress_line import ProgressLine
from core.cli.prompt import ask_line, is_terminal
from core.cli.session import Session, actor
from core.cli.signing import KeySource, checked
from core.errors import BadInput, QuarterdeckError
from core.home import Home
from core.service.console import BackupKey, BackupMade, Console, WorkProgressed
from core.tasks import TaskGroupOwner
from core.text import plural, sentences

if TYPE_CHECKING:
    from core.service.backup.description import Description
    from core.service.backup.restoring import Restored

commands = command_set()

# What of a backup's description only a program needs that decrypts it.
_NOT_TOLD = {"salt", "kdf", "cipher", "sums"}

PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file", metavar="FILE", help="A file whose first line is the backup's passphrase."
    ),
]


@commands.command(
    "backup",
    epilog=examples(
        "backup /media/usb/desk.tar",
        "backup desk.tar --passphrase-file F --json",
        "backup --check /media/usb/desk.tar",
    ),
)
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    passphrase_file: PassphraseFile = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check that FILE, a backup, can be restored; make none.")
    ] = False,
) -> None:
    """Write everything that this home needs to a new file, also while its service runs.

    With --check the file is an earlier backup: it is checked as restore does it, each file and the journal,
    and no home is made. It needs no service; exit code 8 when the journal in it does not verify.

    Keys, and what this computer's device keeps, are encrypted under a passphrase, without which the file
    cannot be restored. The journal with its pictures, the policy and the batches are not encrypted. A file
    that is there is never overwritten, and an interrupted backup leaves none.
    """
    path = _absolute(file)
    if check:
        description = run_work(_checked(path, passphrase_file))
        told = description.model_dump(mode="json", exclude=_NOT_TOLD)
        finish(
            context,
            Answer({"file": str(path), "ok": True, "backup": told}, _checked_words(path, description)),
        )
    if os.path.lexists(path):
        raise BadInput(f"{path} is there already, and is not overwritten; choose another name.")
    key = run_work(_new_key(passphrase_file))

    async def work(session: Session) -> Answer:
        made = await _made(session.console, path, key)
        return Answer(made, _made_text(made))

    in_session(context, work)


@commands.command(
    "restore",
    epilog=examples(
        "restore /media/usb/desk.tar --home ~/restored", "restore desk.tar --home NEW --passphrase-file F"
    ),
)
def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Make the new home that --home names of a backup.

    The home must not be used yet. Everything is checked first: each file against its digest, and the journal
    as audit verify does it. Then the home is there as a whole; otherwise there is none. Its journal says that
    it was restored.
    """
    given: CommonOptions = context.obj
    restored = run_work(_restored(given.home, _absolute(file), passphrase_file))
    description = restored.description.model_dump(mode="json", exclude=_NOT_TOLD)
    value = {"home": str(given.home.path), "seq": restored.entry, "backup": description}
    finish(context, Answer(value, _restored_words(given.home, restored)))


def _absolute(file: Path) -> Path:
    try:
        # Not resolved: a link at this place is a file that is there.
        return Path(os.path.abspath(file.expanduser()))
    except RuntimeError as error:
        raise BadInput(sentences(f"{file} cannot be found: {error}")) from error


async def _new_key(passphrase_file: Path | None) -> BackupKey:
    """The key of a new backup; on a terminal its passphrase is asked for twice.

    Raises:
        BadInput: the passphrase is too short or too long, the two differ, or there is no terminal.
    """
    passphrase = await _passphrase(passphrase_file, "Passphrase for the backup: ")
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise BadInput(f"A passphrase has at least {SHORTEST_PASSPHRASE} characters.")
    if passphrase_file is None and passphrase != await ask_line("The same once more: ", secret=True):
        raise BadInput("The two passphrases differ; no backup was made.")
    # Imported here: a client starts without the library that encrypts.
    from core.service.backup.sealing import new_key

    return await asyncio.to_thread(new_key, passphrase)


async def _passphrase(passphrase_file: Path | None, question: str) -> str:
    if passphrase_file is not None:
        return await KeySource(passphrase_file=passphrase_file).passphrase("the backup")
    if not is_terminal():
        raise BadInput("A backup has a passphrase, which cannot be asked here: give --passphrase-file.")
    return checked(await ask_line(question, secret=True))


async def _made(console: Console, path: Path, key: BackupKey) -> BackupMade:
    line = ProgressLine("Backup")
    events = console.events()

    async def follow() -> None:
        try:
            async for event in events:
                if isinstance(event, WorkProgressed) and event.what == "backup":
                    line.show_bytes(event.done, event.total)
        except QuarterdeckError:
            # The service is lost, which the caller finds out as well.
            return

    following = TaskGroupOwner("terminal")
    following.spawn("show progress", follow())
    try:
        return await console.service.backup(str(path), key)
    finally:
        await following.close()
        line.close()


def _made_text(made: BackupMade) -> list[Block]:
    told = facts(
        [
            ("Backup", made.path),
            ("Files", f"{made.files:,}"),
            ("Size", size_words(made.size)),
            ("Journal", plural(made.entries, "entry", "entries")),
            ("Left out", ", ".join(made.left_out)),
        ]
    )
    return [
        told,
        Prose(
            "\nThe keys in it are encrypted: without the passphrase it cannot be restored. The journal"
            " and its pictures are not: keep the file as you keep the home.\nTo try it:"
            " quarterdeck --home NEW restore FILE."
        ),
    ]


async def _checked(path: Path, passphrase_file: Path | None) -> Description:
    end_on_signals()
    # Imported here: a client starts without the core.
    from core.service.backup.checking import check
    from core.service.backup.progress import in_stoppable_thread
    from core.service.backup.reading import BackupFile
    from core.service.backup.sealing import key_of

    line = ProgressLine("Check")
    with BackupFile(path) as backup:
        passphrase = await _passphrase(passphrase_file, "Passphrase of the backup: ")
        try:
            key = await asyncio.to_thread(key_of, passphrase, backup.description.salt)
            return await in_stoppable_thread(lambda stop: check(backup, key, line.show_bytes, stop))
        finally:
            line.close()


def _checked_words(path: Path, backup: Description) -> list[Block]:
    when = backup.made_at[:19].replace("T", " ")
    words = f"{one_line(path)} can be restored: each file is as it was backed up, and the journal verifies."
    told = [
        ("Made", f"{when} UTC, by version {backup.program}"),
        ("Home", f"the one with the journal's key {backup.home_key[:16]}…"),
        ("Files", f"{backup.files:,}"),
        ("Journal", f"{backup.entries:,} entries"),
    ]
    return [words, facts(told)]


async def _restored(home: Home, path: Path, passphrase_file: Path | None) -> Restored:
    end_on_signals()
    # Imported here: a client starts without the core.
    from core.service.backup import restoring
    from core.service.backup.progress import in_stoppable_thread
    from core.service.backup.reading import BackupFile
    from core.service.backup.sealing import key_of

    restoring.check_unused(home)
    line = ProgressLine("Restore")
    with BackupFile(path) as backup:
        passphrase = await _passphrase(passphrase_file, "Passphrase of the backup: ")
        try:
            key = await asyncio.to_thread(key_of, passphrase, backup.description.salt)
            return await in_stoppable_thread(
                lambda stop: restoring.restore(home, backup, key, actor(), line.show_bytes, stop)
            )
        finally:
            line.close()


def _restored_words(home: Home, restored: Restored) -> Prose:
    backup = restored.description
    words = (
        f"{home.path} is restored from the backup of {moment(backup.made_at)}, up to entry"
        f" {backup.entries:,} of its journal, which verifies. Entry {restored.entry:,} says so.\n\n"
        "Never start the home again that the backup was taken of: both have the same keys, so that devices"
        " and agents cannot tell them apart, and their journals would differ after entry"
        f" {backup.entries:,}. Where it still runs, stop it (quarterdeck --home OLD service stop) before this"
        " one is started.\n"
        "What was approved, revoked, paused or stopped after that entry is not known here: look at operators,"
        " grants, agents and devices before work goes on."
    )
    return Prose(lines(words))
