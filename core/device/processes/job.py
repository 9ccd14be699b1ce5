"""A program to run, its output while it is read, and its end: what is the same on every system."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.device.progress import Report, no_progress

CHUNK = 65_536
# Reading stops this long after the shell's end, since a background child may keep the pipes open for ever.
AFTER_END_S = 0.2
POLITE_S = 0.5

StreamName = Literal["stdout", "stderr"]


class OutputBudget:
    """The number of output bytes that may still be kept, for both streams of one command together."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.truncated = False

    def take(self, data: bytes) -> bytes:
        """The beginning of `data` that still fits; the rest is counted as truncated."""
        kept = data[: self.left]
        self.left -= len(kept)
        self.truncated = self.truncated or len(kept) < len(data)
        return kept


class OutputReporter:
    """Decodes one stream chunk by chunk and reports the text as progress."""

    def __init__(self, report: Report, stream: StreamName, encoding: str = "utf-8") -> None:
        self._report = report
        self._stream: StreamName = stream
        self._decode = codecs.getincrementaldecoder(encoding)("replace").decode

    def tell(self, data: bytes, final: bool = False) -> None:
        if text := self._decode(data, final):
            self._report(text, stream=self._stream)


@dataclass(frozen=True, slots=True)
class CompletedProcess:
    """How a command ended. `exit_code` is None after a time-out, and 128 + N after signal N.

    `left` are its processes that could not be killed. `encoding`: that of its output.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    seconds: float
    truncated: bool
    left: tuple[int, ...] = ()
    encoding: str = "utf-8"

    def output_text(self) -> str:
        """Standard output as text; bytes that are not of the encoding are replaced."""
        return self.stdout.decode(self.encoding, "replace")

    def error_text(self) -> str:
        """Standard error as text; bytes that are not of the encoding are replaced."""
        return self.stderr.decode(self.encoding, "replace")


@dataclass(frozen=True, slots=True)
class Job:
    """A program to run in `folder`. `more` become its descriptors 3 and on.

    `contained` and `group` are those of `core.device.processes.supervisor.StartRequest`. After `timeout`
    seconds it is asked to end, and killed `polite` seconds later.
    """

    program: list[str]
    folder: Path
    timeout: float
    environment: dict[str, str] | None = None
    report: Report = no_progress
    more: tuple[int, ...] = ()
    contained: bool = False
    group: str = ""
    polite: float = POLITE_S
