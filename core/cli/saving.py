"""Saving of pictures and large outputs as new files, and the question before a file is written over."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from core.canonical_json import sha256_hex
from core.cli.output import note, one_line
from core.cli.prompt import ask_line, is_terminal
from core.cli.session import Session
from core.commands.results import CommandResult
from core.errors import BadInput, JournalCorrupt, QuarterdeckError
from core.files import create_new
from core.service import exit_codes

# A device's media type can only choose among these endings.
_ENDINGS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "application/json": ".json",
    "text/plain": ".txt",
}
_LONGEST_PART = 40
_DIGEST_SHOWN = 16
_MOST_OF_A_NAME = 1_000


@dataclass(slots=True)
class Saving:
    """Saves the blobs of results into one folder; `files` maps a blob's digest to the path of its file."""

    folder: Path
    files: dict[str, str] = field(default_factory=dict)
    failed: bool = False

    @classmethod
    def into(cls, folder: Path | None) -> Saving | None:
        """Prepare saving into a folder, created if missing for its owner alone; None without a folder.

        Raises:
            BadInput: it is not a folder and cannot be created, or is not writable.
        """
        if folder is None:
            return None
        try:
            folder = folder.expanduser()
            folder.mkdir(mode=0o700, exist_ok=True)
        except (OSError, RuntimeError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise BadInput(f"--save: {folder} cannot be used as a folder: {why}.") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise BadInput(f"--save: nothing can be written in {folder}.")
        return cls(folder)

    async def save(self, session: Session, results: list[CommandResult]) -> None:
        """Save each picture and output of these results; a failure is reported and the rest is saved."""
        for result in results:
            for evidence in result.evidence:
                if evidence.blob in self.files:
                    continue
                try:
                    data = await session.console.journal.blob(evidence.blob)
                    if sha256_hex(data) != evidence.blob:
                        raise JournalCorrupt(f"The bytes of {evidence.blob} are not what they were.")
                    name = file_name(result, evidence.blob, evidence.media_type)
                    path = await asyncio.to_thread(_write_new, self.folder, *name, data)
                except QuarterdeckError as error:
                    self.failed = True
                    note(f"Not saved: {one_line(error.message)}")
                else:
                    self.files[evidence.blob] = str(path)
                    note(f"Saved: {one_line(path)}")

    def code(self, code: int) -> int:
        """The exit code of a command that ended with `code`, changed to a fault where saving failed."""
        return exit_codes.FAULT if self.failed and code == exit_codes.DONE else code


async def check_not_there(path: Path) -> bool:
    """Check that there is no such file, or ask whether it is to be written over; returns whether it is.

    Raises:
        BadInput: there is one, and the answer is no, or there is no terminal to ask on.
    """
    if not await asyncio.to_thread(os.path.lexists, path):
        return False
    if not is_terminal():
        raise BadInput(f"{path} is there already, and nothing was written: add --replace to write over it.")
    answer = await ask_line(f"{one_line(path)} is there already. Write over it? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise BadInput(f"{path} is there already, and nothing was written.")
    return True


def file_name(result: CommandResult, digest: str, media_type: str) -> tuple[str, str]:
    """A file's name and ending; of a name that a device chooses, only plain letters and digits remain."""
    parts = [_plain(result.device), _plain(result.tool_name), digest[:_DIGEST_SHOWN]]
    return "-".join(filter(None, parts)), _ENDINGS.get(media_type, ".bin")


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text)[:_LONGEST_PART].strip("-")


def _write_new(folder: Path, name: str, ending: str, data: bytes) -> Path:
    """Write a new file that only its owner can read.

    Raises:
        BadInput: it cannot be written; a partial file is removed.
    """
    for number in range(1, _MOST_OF_A_NAME):
        path = folder / (f"{name}-{number}{ending}" if number > 1 else f"{name}{ending}")
        try:
            # Not through a temporary file and a link: the folder may be on a disk without links.
            create_new(path, data)
        except FileExistsError:
            continue
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
        return path
    raise BadInput(f"There are {_MOST_OF_A_NAME - 1} files {name}{ending} in {folder} already.")
