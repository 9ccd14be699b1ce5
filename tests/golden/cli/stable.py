"""What differs from one play to the next, and from machine to machine, gets a name that stays.

Only fields that are known to differ are replaced, each by its form, its place in a table or its name. What
stands in columns keeps its width, so that a text is laid out as the real one is: an identifier of 26 letters
becomes `request1~~~`, as wide, and the digits of a time become zeros.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from core.cli.answer import Answer
from core.cli.output import Cell, Exact, Facts, Prose, Remark, Table

# Devices on the machine that plays: what they offer depends on it.
OF_THE_MACHINE = ("this-computer", "lab-2")
_NAMED = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)"
    r"|(?P<port>(?<=127\.0\.0\.1:)\d{2,})"
    r"|(?P<pairing>\bqd1\.[\w-]+\.[0-9a-f]{8}\b)"
    r"|(?P<token>\bqd[a-z]_[\w-]{30,})"
    r"|(?P<request>\ba-[0-9A-HJKMNP-TV-Z]{26}\b)"
    r"|(?P<grant>\bg-[0-9A-HJKMNP-TV-Z]{26}\b)"
    r"|(?P<id>(?<![0-9A-Za-z])[0-9A-HJKMNP-TV-Z]{26}(?![0-9A-Za-z]))"
    r"|(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<digest>\b[0-9a-f]{24,}\b)"
    r"|(?P<base64>(?<![A-Za-z0-9+/_-])(?!/tmp/)[A-Za-z0-9+/_-]{40,}={0,2})"
    r"|(?P<file>(?<=-)[0-9a-f]{16}(?=\.\w+$))"
)
# Sentences with a measured or counted value in them.
_SENTENCES = (
    (re.compile(r"\(\d+\.\d s\)"), "(0.0 s)"),
    (re.compile(r"\bin \d+(\.\d+)? ms\b"), "in 0 ms"),
    (re.compile(r"\b([Pp]rocess|kill) \d+\b"), r"\1 PID"),
    (re.compile(r"(?<=…)[0-9a-f]{4}\b"), "0000"),
    (re.compile(r"(?<=\(SHA-256 )[0-9a-f]{16}(?=…)"), "0" * 16),
    # Of a card that is shown before it is signed: its facts are lines already.
    (re.compile(r"(?m)^((?:\x1b\[2m)?Code +(?:\x1b\[0m)? +)[0-9a-f]{4} [0-9a-f]{4}$"), r"\g<1>0000 0000"),
    (re.compile(r"(?m)^((?:\x1b\[2m)?Expires in *(?:\x1b\[0m)? +)\d.*$"), r"\g<1>SPAN"),
    (re.compile(r"(?<=before change )[\w-]{24}"), "UNDO"),
    (re.compile(r'(?<="undo_id": ")[\w-]{24}(?=")'), "UNDO"),
    (re.compile(r"\b[\d,]+(?= entries\b)|(?<=missing after )\d+|(?<=No entry matches, of )\d+"), "N"),
    (re.compile(r"(?<=[Ee]ntry )[\d,]+"), "N"),
    (re.compile(r"(?<=quarterdeck/journal\n)\d+(?=\n)"), "N"),
    (re.compile(r"(?<=\nspool )\d+(?=\n)"), "N"),
    (re.compile(r"(?<=\ncheckpoints )\d+"), "N"),
)
# Columns of tables and names of facts whose values are measured or counted, or a part of a digest.
_COLUMNS = {"SEQ": "N", "ENTRY": "N", "LEFT": "SPAN", "KEY": "0000"}
_FACTS = {
    "Took": "SPAN",
    "Expires in": "SPAN",
    "Clock": "SPAN",
    "Process": "PID",
    "Code": "0000 0000",
    "Size": "SIZE",
    "Over": "N entries",
    "Blobs": "N",
    "Entries": "N",
    "Checkpoints": "N",
}
# Numbers in JSON: durations, counts of the journal, processes.
_NUMBERS = frozenset(
    "took_ms took_s duration_ms round_trip_ms clock_offset_ms remaining_s pid seq entry entries blobs "
    "checkpoints tree_size leaf_index total files size_bytes".split()
)
# Short digests in JSON, and lists that come with heartbeats.
_MARKS = {
    "undo_id": re.compile(r"[\w-]+"),
    "fingerprint": re.compile(r"[0-9a-f]{4}"),
    "code": re.compile(r"[0-9a-f]{4} [0-9a-f]{4}"),
}
_BEATS = frozenset({"cpu_percents", "memory_percents", "round_trips_ms"})


@dataclass(slots=True)
class Names:
    """Replaces what differs; `places` are texts of this machine and their names."""

    places: dict[re.Pattern[str], str]
    _numbers: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """The text with names."""
        for place, name in self.places.items():
            text = place.sub(name, text)
        text = _NAMED.sub(self._name, text)
        for sentence, name in _SENTENCES:
            text = sentence.sub(name, text)
        return text

    def _name(self, match: re.Match[str]) -> str:
        kind, found = match.lastgroup or "", match.group()
        if kind == "time":
            return re.sub(r"\d", "0", found)
        if kind == "port":
            return "PORT"
        if found not in self._numbers:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._numbers[found] = f"{kind}{self._counts[kind]}".ljust(len(found), "~")
        return self._numbers[found]

    def json(self, value: Any, key: str = "") -> Any:
        """The value with names."""
        if key in _BEATS:
            return "NUMBERS"
        if isinstance(value, dict):
            if value.get("name") in OF_THE_MACHINE and "tool_count" in value:
                value = {**value, "tool_count": "OF THE MACHINE", "unavailable": "OF THE MACHINE"}
            if value.keys() >= {"size", "entries"}:
                # A backup, as large as the journal's file.
                value = {**value, "size": "NUMBER"}
            return {self.text(name): self.json(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self.json(part, key) for part in value]
        if key == "lost":
            return "NUMBERS"
        if key == "owner" and str(value).isdigit():
            return "PID"
        if isinstance(value, str):
            if (mark := _MARKS.get(key)) and mark.fullmatch(value):
                return re.sub(r"[\w-]", "0", value)
            return self.text(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return "NUMBER" if is_number and key in _NUMBERS else value

    def answer(self, answer: Answer, value: Any) -> Answer:
        """The answer with names, which is printed as the real one is; `value` is its JSON."""
        error = answer.error
        if error is not None:
            message, following = self.text(error.message), self.text(error.next)
            error = error.model_copy(update={"message": message, "next": following})
        blocks: Any = answer.text
        return replace(
            answer,
            value=self.json(value),
            text=[self._block(block) for block in blocks],
            error=error,
            advice=tuple(map(self.text, answer.advice)),
        )

    def _block(self, block: Any) -> Any:
        match block:
            case Table():
                return Table(block.head, tuple(self._row(block.head, row) for row in block.rows))
            case Facts():
                pairs = [(self.text(name), self._cell(cell, _FACTS.get(name))) for name, cell in block.pairs]
                return Facts(tuple(pairs))
            case Prose() | Remark() | Exact():
                return type(block)(self.text(block.text))
            case _:
                return self.text(block)

    def _row(self, head: tuple[str, ...], row: tuple[Cell, ...]) -> tuple[Cell, ...]:
        names = [_COLUMNS.get(column) for column in head]
        if "TOOLS" in head and row[0].text in OF_THE_MACHINE:
            names[head.index("TOOLS")] = "12"
        return tuple(self._cell(cell, name) for cell, name in zip(row, names, strict=True))

    def _cell(self, cell: Cell, name: str | None = None) -> Cell:
        return replace(cell, text=name if name and cell.text else self.text(cell.text))
