"""Keeps what is typed and not saved in a file, so that a crash or a restart of the window loses nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel
from PySide6.QtCore import QObject

from app.service_client import ConsoleLink
from app.widgets.util import debounce
from core.files import write_atomic
from core.log import Logger

log = Logger(__name__)

Draft = TypeVar("Draft", bound=BaseModel)


class Autosave(Generic[Draft]):
    """Writes the newest draft some time after the last change, in a thread; `None` removes the file."""

    def __init__(
        self,
        owner: QObject,
        link: ConsoleLink,
        path: Path,
        kind: type[Draft],
        draft: Callable[[], Draft | None],
        fail: Callable[[str, str], object],
        what: str,
        pause_ms: int,
    ) -> None:
        """`draft` is what to keep now, `what` names it: "batch". `fail` says what happened and what to do."""
        self._link, self._path, self._kind = link, path, kind
        self._draft, self._fail, self._what = draft, fail, what
        self._pause_ms = pause_ms
        self._pause = debounce(owner, pause_ms, self._write_soon)
        self._lock = threading.Lock()
        self._newest = self._written = 0
        self._said = ""

    def read(self) -> Draft | None:
        """The draft of an earlier window. One that cannot be read is set aside, and that is said."""
        try:
            return self._kind.model_validate(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except OSError as error:
            why = error.strerror or str(error)
        except (ValueError, RecursionError):  # pydantic's errors are values' errors, too
            why = "it is not a draft of this version"
        self._fail(
            f"The unsaved {self._what} of the last session cannot be read: {self._set_aside(why)}.", ""
        )
        return None

    def _set_aside(self, why: str) -> str:
        kept = self._path.with_suffix(".broken")
        try:
            self._path.replace(kept)
        except OSError as error:
            return f"{why}; {self._path} cannot be set aside either: {error.strerror}"
        return f"{why}; it is kept as {kept}"

    def keep_soon(self, pause_ms: int | None = None) -> None:
        """It was changed: keep it after the pause, its own or this one."""
        self._pause.start(self._pause_ms if pause_ms is None else pause_ms)

    def keep_now(self) -> None:
        """Write what is not written yet, before the window or the screen goes."""
        if self._pause.isActive():
            self._pause.stop()
            try:
                self._write(*self._next())
            except OSError as error:
                self._say_not_kept(error)

    def _next(self) -> tuple[int, Draft | None]:
        self._newest += 1
        return self._newest, self._draft()

    def _write_soon(self) -> None:
        self._link.spawn(f"keep the {self._what}", self._write_in_thread(*self._next()))

    async def _write_in_thread(self, number: int, draft: Draft | None) -> None:
        try:
            await asyncio.to_thread(self._write, number, draft)
        except OSError as error:
            self._say_not_kept(error)

    def _write(self, number: int, draft: Draft | None) -> None:
        with self._lock:
            if number <= self._written:
                return  # a newer one is there already
            if draft is None:
                self._path.unlink(missing_ok=True)
            else:
                # Escaped, so that half a character does not keep the rest from being saved.
                write_atomic(self._path, json.dumps(draft.model_dump()))
            self._written = number

    def _say_not_kept(self, error: OSError) -> None:
        log.warning("a draft cannot be written", what=self._what, problem=str(error))
        words = f"The unsaved {self._what} cannot be kept: {error.strerror or error}."
        if words != self._said:
            self._said = words
            self._fail(words, "Save it, or make room on the disk; a restart would lose it.")
