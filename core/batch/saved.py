"""The batches saved in a home: one YAML file each, named by `core.batch.file_names`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from core.batch.batch_file import batch_to_yaml, read_batch
from core.batch.file_names import batch_name, file_stem
from core.batch.models import Batch, SavedBatch, flatten
from core.errors import BadInput, ErrorCode

SUFFIX = ".yaml"
# Reading takes 0.4 ms a KiB (measured); steps of larger files are not counted for a list.
COUNTED_BYTES = 32 * 1024
_NAME_LINE = re.compile(r"^name:.*$", re.MULTILINE)


class SavedBatches:
    """A folder of saved batches. Every method reads or writes the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, name: str) -> Path:
        return self._folder / f"{file_stem(name)}{SUFFIX}"

    def names(self) -> list[str]:
        """Names of all saved batches, sorted."""
        names = (batch_name(path.stem) for path in self._folder.glob(f"*{SUFFIX}"))
        return sorted(name for name in names if name is not None)

    def listing(self) -> list[SavedBatch]:
        """All saved batches with time, size and number of steps, sorted by name."""
        batches = (self._about(name) for name in self.names())
        return [batch for batch in batches if batch is not None]

    def _about(self, name: str) -> SavedBatch | None:
        path = self._path(name)
        try:
            stat = path.stat()
        except OSError:
            return None  # deleted since the folder was read
        steps = None
        if stat.st_size <= COUNTED_BYTES:
            try:
                steps = len(flatten(self.load(name).steps))
            except BadInput:
                steps = None
        changed = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat().replace("+00:00", "Z")
        return SavedBatch(name=name, changed_at=changed, size_bytes=stat.st_size, steps=steps)

    def load(self, name: str) -> Batch:
        """A saved batch.

        Raises:
            BadInput: NOT_FOUND, or INVALID_ARGUMENTS with one line for each mistake.
        """
        return read_batch(self._text(name), self._path(name).name)

    def _text(self, name: str) -> str:
        path = self._path(name)
        try:
            return path.read_text("utf-8")
        except FileNotFoundError as error:
            raise _not_saved(name) from error
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} cannot be read: {error}") from error

    def save(self, name: str, batch: Batch) -> None:
        """Write a batch; a batch saved under this name is replaced.

        Raises:
            BadInput: the name is refused, or the file cannot be written.
        """
        self._write(self._path(name), batch_to_yaml(batch))

    @staticmethod
    def _write(path: Path, text: str) -> None:
        temporary = path.with_suffix(".new")
        try:
            temporary.write_text(text, "utf-8")
            temporary.replace(path)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}.") from error

    def rename(self, name: str, to: str) -> None:
        """Give a saved batch another name; a batch saved under that name already is never replaced.

        The name written in the file changes too where it was the old one. Comments stay.

        Raises:
            BadInput: a name is refused or taken, nothing is saved under `name` (NOT_FOUND), or the file
                cannot be written.
        """
        old, new = self._path(name), self._path(to)
        if old == new:
            return
        text = self._text(name)
        # On a file system that ignores case, another spelling of a name is the same file.
        if new.exists() and not new.samefile(old):
            raise BadInput(f"There is a saved batch “{to}” already.")
        renamed = _renamed(text, name, to)
        try:
            old.rename(new)
        except OSError as error:
            raise BadInput(f"{old} cannot be renamed: {error.strerror}.") from error
        if renamed != text:
            self._write(new, renamed)

    def delete(self, name: str) -> None:
        """Delete a saved batch.

        Raises:
            BadInput: nothing is saved under this name (NOT_FOUND), or the file cannot be deleted.
        """
        path = self._path(name)
        try:
            path.unlink()
        except FileNotFoundError as error:
            raise _not_saved(name) from error
        except OSError as error:
            raise BadInput(f"{path} cannot be deleted: {error.strerror}.") from error


def _not_saved(name: str) -> BadInput:
    return BadInput(f"No batch is saved as {name!r}.", ErrorCode.NOT_FOUND)


def _renamed(text: str, name: str, to: str) -> str:
    """The text of a batch's file with another name of the batch, where the name in it was `name`."""
    try:
        batch = read_batch(text, "")
    except BadInput:
        return text  # cannot be read; its file is renamed as it is
    if batch.name != name:
        return text
    wanted = batch.model_copy(update={"name": to})
    line = f"name: {json.dumps(to, ensure_ascii=False)}"
    edited = _NAME_LINE.sub(lambda _match: line, text, count=1)
    try:
        if read_batch(edited, "") == wanted:
            return edited
    except BadInput:
        pass  # the name stands on several lines, or the file is JSON
    return batch_to_yaml(wanted)
