"""The half-built batch on the disk, so that a crash or a restart of the window loses nothing."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.screens.batch.document import DEFAULT_TARGETS, NEW_NAME, BatchDocument, DraftStep, tidy
from core.files import write_atomic

FILE = "window-draft.json"


class _StepOnDisk(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    tool: str
    parameters: dict[str, Any]
    timeout: float | None = None
    enabled: bool = True
    group: int = 0


class DraftOnDisk(BaseModel):
    """What is kept: the batch as it stands, complete or not, and where it was saved."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["quarterdeck.window-draft/1"] = "quarterdeck.window-draft/1"
    name: str = NEW_NAME
    description: str = ""
    targets: str = DEFAULT_TARGETS
    on_failure: Literal["stop", "continue"] = "stop"
    parallel: int = Field(default=5, ge=1, le=1000)
    steps: list[_StepOnDisk] = []
    saved_as: str = ""
    dirty: bool = False

    def content(self) -> BatchDocument:
        """The batch as it was."""
        steps = tidy(DraftStep(**one.model_dump()) for one in self.steps)
        return BatchDocument(self.name, self.description, self.targets, self.on_failure, self.parallel, steps)


class DraftStore:
    """Reads and writes the draft. Writing may be done in a thread; the newest text wins."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.Lock()
        self._newest = 0
        self._written = 0

    def prepare(self, content: BatchDocument, saved_as: str, dirty: bool) -> tuple[int, str]:
        """The text to be written, with its number; cheap, on the window's own thread."""
        kept = asdict(content)
        for step in kept["steps"]:
            del step["key"]
        self._newest += 1
        draft = DraftOnDisk.model_validate({**kept, "saved_as": saved_as, "dirty": dirty})
        # Escaped, so that half a character in an argument does not keep the rest from being saved.
        return self._newest, json.dumps(draft.model_dump())

    def write(self, number: int, text: str) -> None:
        """Replace the file in one step, unless a newer text is there already.

        Raises:
            OSError: it could not be written; what was there before is still there.
        """
        with self._lock:
            if number > self._written:
                write_atomic(self.path, text)
                self._written = number

    def read(self) -> DraftOnDisk | None:
        """The draft, or None where there is none.

        Raises:
            ValueError: it cannot be read; it is kept beside, its name in the error.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(self._set_aside(str(error))) from error
        try:
            return DraftOnDisk.model_validate(json.loads(text))
        except (ValidationError, ValueError, RecursionError) as error:
            raise ValueError(self._set_aside("it is not a draft of this version")) from error

    def _set_aside(self, why: str) -> str:
        kept = self.path.with_suffix(".broken")
        try:
            self.path.replace(kept)
        except OSError as error:
            return f"{self.path}: {why}; it cannot be set aside either: {error.strerror}"
        return f"{why}; it is kept as {kept}"
