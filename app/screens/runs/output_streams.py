"""What a command wrote: its streams in a result, whole or as a blob, made safe to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.screens.runs.terminal_colors import ColoredPart, take_colors
from core.commands.results import CommandResult

STREAMS = ("stdout", "stderr", "content")
MOST_SHOWN = 1_000_000
LONGEST_LINE = 8_000


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: its name, its text, or the blob that holds it with its size in bytes."""

    name: str
    text: str = ""
    blob: str = ""
    size: int = 0

    @property
    def is_error(self) -> bool:
        """Whether this is what a command complains on."""
        return self.name == "stderr"


@dataclass(frozen=True, slots=True)
class Shown:
    """A stream as it is shown: hidden characters written out; `left` bytes are not shown.

    `colored` are the parts that the command wrote in a colour of a terminal.
    """

    name: str
    text: str
    is_error: bool
    left: int = 0
    colored: tuple[ColoredPart, ...] = ()


def streams_of(result: CommandResult | None) -> list[Stream]:
    """The streams of a result that has some; what a failed command complained about comes first."""
    value: Any = result.result if result is not None else None
    if not isinstance(value, dict):
        return []
    found = [stream for name in STREAMS if (stream := _stream(name, value.get(name))) is not None]
    if not found or not ("stdout" in value or "stderr" in value or found[0].size):
        return []
    failed = value.get("exit_code") not in (0, None)
    return sorted(found, key=lambda stream: failed and not stream.is_error)


def _stream(name: str, value: Any) -> Stream | None:
    if isinstance(value, str):
        return Stream(name, text=value, size=len(value.encode("utf-8", "replace")))
    if isinstance(value, dict) and isinstance(value.get("blob"), str):
        size = value.get("size")
        return Stream(name, blob=value["blob"], size=size if isinstance(size, int) else 0)
    return None


def make_readable(stream: Stream, data: bytes | None) -> Shown:
    """The stream's text for the screen, bounded; `data` are the bytes of its blob."""
    whole = stream.text if data is None else data[: MOST_SHOWN * 4].decode("utf-8", "replace")
    text = whole[:MOST_SHOWN]
    if len(text) > LONGEST_LINE:
        text = "\n".join(_cut(line) for line in text.split("\n"))
    seen = len(whole[:MOST_SHOWN].encode("utf-8", "replace"))
    size = stream.size if data is None else len(data)
    # The text view makes one line end of these two, which would move everything behind them.
    shown, colored = take_colors(text.replace("\r\n", "\n"))
    return Shown(stream.name, shown, stream.is_error, max(0, size - seen), tuple(colored))


def _cut(line: str) -> str:
    left = len(line) - LONGEST_LINE
    return line if left <= 0 else f"{line[:LONGEST_LINE]} … {left} more characters in this line"
