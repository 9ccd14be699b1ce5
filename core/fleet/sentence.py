"""A sentence as an operator types it, taken apart: the values in it, and the other words.

A value is what stands for itself: a quoted text, a path, an address, a chord of keys, a point, a number, a
line for a shell. The search for tools looks for the words, and takes from a value only its kind; `do` makes
arguments of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_MODIFIER = r"(?:ctrl|control|shift|alt|option|meta|super|win|cmd|command|altgr)"
_NAMED_KEY = (
    r"(?:f(?:[1-9]|1\d|2[0-4])|enter|return|escape|esc|tab|space|spacebar|backspace|delete|del|insert|home|end|"
    r"page ?up|page ?down|pgup|pgdn|left|right|up|down|print ?screen|caps ?lock)"
)
# In the order in which they are looked for: what is in quotes is nothing else.
_PATTERNS = {
    "quoted": (
        r"(?<!\w)'(?P<single>[^'\n]+)'(?!\w)|\"(?P<double>[^\"\n]+)\"|“(?P<curved>[^”\n]+)”|`(?P<tick>[^`\n]+)`"
    ),
    "url": r"\b[a-z][a-z0-9+.-]*://[^\s,;'\"]+",
    "path": r"(?<![\w/.])(?:~[\w.-]*|\.{1,2})?/[^\s,;'\"]*|(?<!\S)~(?!\S)|\b[A-Za-z]:\\[^\s,;'\"]*",
    "glob": r"(?<!\S)[\w.-]*\*[\w.*-]*(?!\S)",
    # "report.txt", but no domain, and no abbreviation such as "e.g."
    "file": (
        r"(?<![\w/.@:~-])(?![A-Za-z]\.[A-Za-z]\b)[\w-]+(?:\.[\w-]+)*\.(?!(?:com|org|net|info|io|dev|local|de|eu|uk)\b)"
        r"[A-Za-z][A-Za-z0-9]{0,4}(?![\w-]|\.\w)"
    ),
    "chord": rf"(?<![\w+])(?:{_MODIFIER}\s?\+\s?)+(?:{_NAMED_KEY}\b|[^\s+])",
    "point": r"(?<![\w.,])\(?\d+\s?[,x×]\s?\d+\)?(?![\w.,]*\w)",
    "number": r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.]*\w)",
}
_VALUE = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()), re.IGNORECASE)
RUN = re.compile(
    r"^\s*(?:please\s+)?(?:run|execute|invoke)\s+(?:(?:the|a)\s+)?(?:shell\s+)?(?P<kind>(?:command|line)\s+)?",
    re.IGNORECASE,
)
"""The beginning of a sentence whose rest may be a line for a shell; `kind` where it says so."""
_LINE_END = re.compile(r"\s+(?:and|then)\b|[,;]\s|$", re.IGNORECASE)
_OPTION = re.compile(r"\s--?[A-Za-z]")
_OPERATOR = re.compile(r"\s(?:\||&&|\|\||>|>>|<)\s")
_KEY_WORD = re.compile(rf"\b{_NAMED_KEY}\b", re.IGNORECASE)


class ValueKind(StrEnum):
    """What a value is, by its form."""

    LINE = "line"
    QUOTED = "quoted"
    URL = "url"
    PATH = "path"
    GLOB = "glob"
    CHORD = "chord"
    POINT = "point"
    NUMBER = "number"


# The words that a tool has that takes such a value.
CUES: Mapping[ValueKind, tuple[str, ...]] = {
    ValueKind.LINE: ("shell", "command"),
    ValueKind.QUOTED: (),
    ValueKind.URL: ("url", "web"),
    ValueKind.PATH: ("file", "path"),
    ValueKind.GLOB: ("glob", "match"),
    ValueKind.CHORD: ("key",),
    ValueKind.POINT: ("point", "pixel"),
    ValueKind.NUMBER: (),
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value: its kind, its text without quotes, and its place in the sentence."""

    kind: ValueKind
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, its values in order, and `rest`: the sentence with blanks in place of the values."""

    text: str
    values: tuple[Value, ...]
    rest: str

    def of(self, kind: ValueKind) -> list[str]:
        """The values of one kind."""
        return [value.text for value in self.values if value.kind is kind]

    def keys(self) -> list[str]:
        """The keys and chords: a key's name counts only where there is no chord."""
        if chords := self.of(ValueKind.CHORD):
            return chords
        return [found.group() for found in _KEY_WORD.finditer(self.rest)]


def read_sentence(text: str) -> Sentence:
    """Take a sentence apart."""
    values = []
    rest = text
    if (line := _line_in(text)) is not None:
        values.append(line)
        rest = _blanked(rest, line)
    for found in _VALUE.finditer(rest):
        form = str(found.lastgroup)
        kind = ValueKind.PATH if form == "file" else ValueKind(form)
        inner = next((part for part in found.group("single", "double", "curved", "tick") if part), None)
        # A full stop or a question mark at the end is the sentence's.
        said = inner if inner is not None else found.group()
        if kind in (ValueKind.PATH, ValueKind.URL):
            said = said.rstrip("?!") if len(said) > 1 else said
            said = said[:-1] if said.endswith(".") and not said.endswith("..") and len(said) > 2 else said
        values.append(Value(kind, said, *found.span()))
        rest = _blanked(rest, values[-1])
    return Sentence(text, tuple(values), rest)


def _line_in(text: str) -> Value | None:
    """The line for a shell: a known program with an option, or a line after "run"."""
    said = RUN.match(text)
    start = said.end() if said else len(text) - len(text.lstrip())
    ended = _LINE_END.search(text, start)
    line = text[start : ended.start() if ended else len(text)].rstrip()
    if not line or not (said or _OPTION.search(line)) or line[0] in "'\"“`":
        return None
    if (said and said["kind"]) or _is_line(line, said is not None):
        return Value(ValueKind.LINE, line, start, start + len(line))
    return None


def _is_line(line: str, to_run: bool) -> bool:
    """Whether words that begin with the name of a program, `to_run` after "run", are a line for a shell.

    The name of a program by itself may mean one with a window, as in "run firefox": it is a line where the
    program is known for more than being run.
    """
    # Imported here, as most sentences have no line, and the records of programs take long to load.
    from core.programs.catalog import common_name, program_of
    from core.programs.record import Asks

    first = line.split(maxsplit=1)[0]
    if to_run and ("/" in first or _OPTION.search(line) or _OPERATOR.search(line)):
        return True
    record = program_of(common_name(first))
    only_run = bool(record.ordinary) and record.asks is Asks.ANYTHING
    return bool(record.names) and (" " in line or not only_run)


def _blanked(text: str, value: Value) -> str:
    return f"{text[: value.start]}{' ' * (value.end - value.start)}{text[value.end :]}"
