"""The unsaved policy on the disk, so that a crash or a restart of the window loses nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from core.files import write_atomic

FILE = "window-policy-draft.json"


class PolicyDraft(BaseModel):
    """A text that was not saved, and the digest of the file that it was begun from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["quarterdeck.policy-draft/1"] = "quarterdeck.policy-draft/1"
    text: str
    digest: str


class PolicyDraftStore:
    """Reads and writes the draft. Writing may be done in a thread; the newest one wins."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.Lock()
        self._newest = 0
        self._written = 0

    def number(self) -> int:
        """The number of the next write; taken on the window's own thread."""
        self._newest += 1
        return self._newest

    def write(self, number: int, draft: PolicyDraft | None) -> None:
        """Replace the file in one step, or remove it; not when something newer was written already.

        Raises:
            OSError: it could not be written; what was there before is still there.
        """
        with self._lock:
            if number <= self._written:
                return
            if draft is None:
                self.path.unlink(missing_ok=True)
            else:
                # Escaped, so that half a character does not keep the rest from being saved.
                write_atomic(self.path, json.dumps(draft.model_dump()))
            self._written = number

    def read(self) -> PolicyDraft | None:
        """The draft, or None where there is none.

        Raises:
            ValueError: it cannot be read; it is kept beside, its name in the error.
        """
        try:
            return PolicyDraft.model_validate(json.loads(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, ValidationError, ValueError, RecursionError) as error:
            raise ValueError(self._set_aside()) from error

    def _set_aside(self) -> str:
        kept = self.path.with_suffix(".broken")
        try:
            self.path.replace(kept)
        except OSError as error:
            return f"{self.path} cannot be read, nor set aside: {error.strerror}"
        return f"it is not a draft of this version; it is kept as {kept}"
