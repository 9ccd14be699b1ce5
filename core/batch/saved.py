"""Stores saved batches in a home folder: one YAML file per batch, named by `core.batch.file_names`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from core.batch.batch_file import batch_to_yaml, read_batch
from core.batch.file_names import batch_name, file_stem
from core.batch.models import Batch, SavedBatch, flatten
from core.broken_text import fault_words
from core.errors import BadInput, ErrorCode, QuarterdeckError
from core.files import sync_folder, write_atomic
from core.similar import meant_or_known
from core.text import sentences

SUFFIX = ".yaml"
# Reading takes 0.4 ms per KiB (measured), so `listing` does not count the steps of larger files.
COUNTED_BYTES = 32 * 1024
_NAME_LINE = re.compile(r"^name:.*$", re.MULTILINE)


class SavedBatches:
    """A folder of saved batches. Every method blocks on the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, name: str) -> Path:
        return self._folder / f"{file_stem(name)}{SUFFIX}"

    def names(self) -> list[str]:
        """The names of all saved batches, sorted."""
        names = (batch_name(path.stem) for path in self._folder.glob(f"*{SUFFIX}"))
        return sorted(name for name in names if name is not None)

    def listing(self) -> list[SavedBatch]:
        """All saved batches with time of change, size and number of steps, sorted by name."""
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
            except QuarterdeckError:
                steps = None
        changed = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat().replace("+00:00", "Z")
        return SavedBatch(name=name, changed_at=changed, size_bytes=stat.st_size, steps=steps)

    def load(self, name: str) -> Batch:
        """Read a saved batch.

        Raises:
            BadInput: the name is refused, nothing is saved under it (NOT_FOUND), or the file cannot be read
                or has mistakes (see `read_batch`).
        """
        return read_batch(self._text(name), self._path(name).name)

    def _text(self, name: str) -> str:
        path = self._path(name)
        try:
            return path.read_text("utf-8")
        except FileNotFoundError as error:
            raise self._not_saved(name) from error
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(sentences(f"{path} cannot be read: {fault_words(error)}")) from error

    def save(self, name: str, batch: Batch) -> None:
        """Write a batch, replacing a batch saved under the same name.

        Raises:
            BadInput: the name is refused, an argument cannot be written as YAML, or the file cannot be
                written.
        """
        self._write(self._path(name), batch_to_yaml(batch))

    @staticmethod
    def _write(path: Path, text: str) -> None:
        try:
            write_atomic(path, text)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}.") from error

    def rename(self, name: str, to: str) -> None:
        """Rename a saved batch. Never replaces another saved batch.

        The `name` inside the file changes too if it was the old name. Comments stay, unless the new name
        cannot be put into its line and the file is written again.

        Raises:
            BadInput: a name is refused, `to` is taken, nothing is saved under `name` (NOT_FOUND), or the
                file cannot be read or written.
        """
        old, new = self._path(name), self._path(to)
        if old == new:
            return
        text = self._text(name)
        # On a file system that ignores case, a name that differs only in case is the same file.
        if new.exists() and not new.samefile(old):
            raise BadInput(f"There is a saved batch “{to}” already.")
        renamed = _renamed(text, name, to)
        try:
            old.rename(new)
            sync_folder(new.parent)
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
            raise self._not_saved(name) from error
        except OSError as error:
            raise BadInput(f"{path} cannot be deleted: {error.strerror}.") from error

    def _not_saved(self, name: str) -> BadInput:
        known = meant_or_known(name, self.names(), "Saved batches")
        return BadInput(f"No batch is saved as {name!r}. {known}.", ErrorCode.NOT_FOUND)


def _renamed(text: str, name: str, to: str) -> str:
    """The text of a batch file with the batch renamed to `to`; unchanged if the name in it is not `name`."""
    try:
        batch = read_batch(text, "")
    except BadInput:
        return text  # an invalid batch keeps its text; only the file is renamed
    if batch.name != name:
        return text
    wanted = batch.model_copy(update={"name": to})
    line = f"name: {json.dumps(to, ensure_ascii=False)}"
    edited = _NAME_LINE.sub(lambda _match: line, text, count=1)
    try:
        if read_batch(edited, "") == wanted:
            return edited
    except BadInput:
        pass  # the name spans several lines, or the file is JSON
    return batch_to_yaml(wanted)
