"""Recordings in a form in which two plays of one story are equal: what is chance in them has a number."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"
HOME = FOLDER.parent / "home.tar.xz"

# Measured values: how long, how much, how loaded.
MEASURED = re.compile(
    r"(_ms|_s|_percent|_bytes|pid|rtt|latency|clock_offset|bytes|remaining|execution_time)$|^(took|size|at|start|end)$"
)
_CHANCE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))"
    r"|(?P<clock>\b\d\d:\d\d:\d\d\b)"
    r"|(?P<pairing>\bqd1\.[\w-]+\.[0-9a-f]{8}\b)"
    r"|(?P<key>(?<=…)[0-9a-f]{4}\b)"
    r"|(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<port>(?<=127\.0\.0\.1:)\d+)"
    r"|(?P<id>(?<![0-9A-Za-z])[0-9A-HJKMNP-TV-Z]{26}(?![0-9A-Za-z]))"
    r"|(?P<hex>\b[0-9a-f]{24,}\b)"
    r"|(?P<base64>(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,}={0,2})"
)


@dataclass(slots=True)
class Chance:
    """Gives each chance string the number of its first appearance; `fixed` ones stay as they are."""

    fixed: frozenset[str] = frozenset()
    places: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def plain(self, value: Any, key: str = "") -> Any:
        """The value with nothing of chance in it."""
        if isinstance(value, dict):
            return {self._text(name): self.plain(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self.plain(part, key) for part in value]
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and MEASURED.search(key):
            return "<number>"
        return value

    def _text(self, text: str) -> str:
        for place, name in self.places.items():
            whole = rf"(?<![\w+/]){re.escape(place)}(?![\w+=])"
            text = re.sub(whole, name, text)
        return _CHANCE.sub(self._number, text)

    def _number(self, match: re.Match[str]) -> str:
        kind, text = match.lastgroup or "", match.group()
        if kind in ("time", "clock", "port", "pairing", "key"):
            return f"<{kind}>"
        self.seen.add(text)
        if text in self.fixed:
            return text
        number = self._numbers.setdefault((kind, text), len(self._numbers) + 1)
        return f"<{kind} {number}>"


def lines_of(recording: list[Any] | dict[str, Any]) -> list[str]:
    """As it is kept: a member each line, as JSON."""
    members = recording if isinstance(recording, list) else [{key: part} for key, part in recording.items()]
    return [json.dumps(member, ensure_ascii=False, sort_keys=True) for member in members]


def difference(name: str, kept: list[str], now: list[str]) -> str:
    """What is not as it was kept, as a unified diff of the members that changed; empty when all is."""
    texts = []
    for tag, *(start, end, first, last) in difflib.SequenceMatcher(None, kept, now, False).get_opcodes():
        if tag != "equal":
            head = f"{name}.json, line {start + 1}"
            old, new = _spread(kept[start:end]), _spread(now[first:last])
            texts += difflib.unified_diff(old, new, f"{head}, kept", f"{head}, now", lineterm="", n=4)
    return "\n".join(texts)


def _spread(lines: list[str]) -> list[str]:
    return [row for line in lines for row in json.dumps(json.loads(line), indent=1).splitlines()]


def text_difference(name: str, kept: str, now: str) -> str:
    """What is not as it was kept in a file of text, as a unified diff; empty when all is."""
    old, new = kept.splitlines(), now.splitlines()
    return "\n".join(difflib.unified_diff(old, new, f"{name}, kept", f"{name}, now", lineterm=""))


def kept(name: str) -> list[str]:
    """The lines of a recording as they were kept."""
    return (FOLDER / f"{name}.json").read_text().splitlines()


def fixed_strings() -> frozenset[str]:
    """Digests that come out the same in every play: they are part of what is kept."""
    return frozenset((FOLDER / "fixed.txt").read_text().splitlines())


def write(recordings: dict[str, list[str]], fixed: Iterable[str]) -> None:
    """Keep these."""
    FOLDER.mkdir(exist_ok=True)
    for name, lines in recordings.items():
        (FOLDER / f"{name}.json").write_text("\n".join(lines) + "\n")
    (FOLDER / "fixed.txt").write_text("\n".join(sorted(fixed)) + "\n")
