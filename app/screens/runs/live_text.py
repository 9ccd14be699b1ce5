"""The output of a running command as it comes: pieces of two streams, made safe to show, with their times."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.screens.runs.output_streams import LONGEST_LINE
from app.screens.runs.terminal_colors import ColorReader
from app.text import count_words
from core.batch.models import OutputChunk, OutputPiece, OutputStream


@dataclass(frozen=True, slots=True)
class LivePart:
    """Text of one look. `tone` is a role of the theme, empty for the usual one; `time` is UTC, ISO 8601.

    `is_remark`: the window says it, not the command.
    """

    text: str
    time: str
    tone: str = ""
    is_error: bool = False
    is_remark: bool = False


@dataclass(slots=True)
class LiveText:
    """Reads the pieces of one call in order. `next` is the position from which more is asked for."""

    next: int = 0
    ended: bool = False
    _line: int = 0
    _readers: dict[OutputStream, ColorReader] = field(
        default_factory=lambda: {"stdout": ColorReader(), "stderr": ColorReader()}
    )

    def take(self, chunk: OutputChunk) -> list[OutputPiece]:
        """The pieces of a chunk that were not taken before, to be read one after the other."""
        pieces = [piece.since(self.next) for piece in chunk.pieces if piece.end > self.next]
        self.next, self.ended = max(self.next, chunk.next), chunk.ended
        return pieces

    def read(self, piece: OutputPiece, before: int) -> list[LivePart]:
        """A piece as it is shown; `before` is the end of the piece before it."""
        parts = []
        if piece.at > before:
            words = f"… {count_words(piece.at - before)} characters were not kept …\n"
            words = f"\n{words}" if self._line else words
            parts.append(LivePart(words, piece.time, "text3", is_remark=True))
            self._line = 0
        is_error = piece.stream == "stderr"
        for shown, tone in self._readers[piece.stream].read(piece.text):
            parts += [
                LivePart(text, piece.time, "" if is_error else tone, is_error, remark)
                for text, remark in self._cut(shown)
            ]
        return parts

    def _cut(self, text: str) -> list[tuple[str, bool]]:
        """The text with an end of line, which the command did not write, in each line that is too long."""
        parts: list[tuple[str, bool]] = []
        kept = ""
        for number, line in enumerate(text.split("\n")):
            if number:
                kept, self._line = f"{kept}\n", 0
            start = 0
            while self._line + len(line) - start > LONGEST_LINE:
                end = start + LONGEST_LINE - self._line
                parts += [(kept + line[start:end], False), (" …\n", True)]
                kept, start, self._line = "", end, 0
            kept += line[start:]
            self._line += len(line) - start
        return [*parts, (kept, False)] if kept else parts
