"""Reads YAML or JSON text into a tree in which every value and key has its line and column.

Plain scalars follow the YAML 1.2 core schema, so `on`, `no` and `1:30` are strings. The parser's events are
used directly, so nothing is built for an alias or a tag. Errors are: aliases, anchors, tags, duplicate keys,
numbers that YAML versions read differently (`012`), and nesting deeper than `DEEPEST` levels. Faults are
collected, not raised.
"""

from __future__ import annotations

import bisect
import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from core.broken_text import holds_half_a_character, valid_text
from core.json_walk import is_finite, refuse_constant

DEEPEST = 40

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TWO_READINGS = re.compile(r"[-+]?0[0-9]+")
_WORDS: dict[str, bool | None] = {
    word: value
    for value, words in ((None, "null Null NULL ~"), (True, "true True TRUE"), (False, "false False FALSE"))
    for word in [*words.split(), *([""] if value is None else [])]
}

Place = tuple[int, int]
"""Line and column, counting from 1."""


@dataclass(slots=True)
class Node:
    """A value with its place in the text. `value` is a dict or list of nodes, or a scalar.

    `keys` has the place of each key of a dict.
    """

    value: Any
    place: Place
    keys: dict[str, Place] = field(default_factory=dict)

    def plain(self) -> Any:
        """The value as plain dicts, lists and scalars, without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """A mistake in the text: its place and a description."""

    place: Place
    what: str


class CannotGoOn(Exception):
    """Reading stopped at an error. The collected faults describe it."""


def read_document(text: str) -> tuple[Node | None, list[Fault]]:
    """Read a text as JSON if it is valid JSON, otherwise as YAML.

    Returns the tree and the faults. The tree is None if reading stopped at an error or the text is empty.
    """
    builder = _Builder()
    try:
        if _is_json(text):
            _read_json(text, builder)
        else:
            _read_yaml(text, builder)
    except CannotGoOn:
        return None, builder.faults
    if builder.root is None and not builder.faults:
        builder.fault((1, 1), "there is nothing in it")
    return builder.root, builder.faults


def resolve(text: str) -> Any:
    """The value of a plain (unquoted) YAML 1.2 scalar.

    Raises:
        ValueError: the text is an ambiguous, infinite, too large or too long number; the message says which.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _TWO_READINGS.fullmatch(text):
        bare = text.lstrip("+-").lstrip("0") or "0"
        raise ValueError(f'{text} can be read in two ways; write {bare}, or "{text}" for the text')
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f'{text} is not a number that can be sent; write "{text}" for the text')
    if len(text) > 400 and _FLOAT.fullmatch(text):
        raise ValueError("this number is too long")
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not is_finite(number):
            raise ValueError(f'{text} is too large; write "{text}" for the text')
        return number
    return text


class _Builder:
    """Builds the tree from parser events, with a stack instead of recursion in order to limit the depth."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.faults: list[Fault] = []
        self._open: list[Node] = []
        self._key: list[tuple[str, Place] | None] = []

    def fault(self, place: Place, what: str) -> None:
        self.faults.append(Fault(place, what))

    def stop(self, place: Place, what: str) -> CannotGoOn:
        self.fault(place, what)
        return CannotGoOn()

    def begin(self, value: dict[str, Node] | list[Node], place: Place) -> None:
        if len(self._open) >= DEEPEST:
            raise self.stop(place, f"nested too deeply; allowed are {DEEPEST} levels")
        node = Node(value, place)
        self._place(node)
        self._open.append(node)
        self._key.append(None)

    def end(self) -> None:
        self._open.pop()
        self._key.pop()

    def scalar(self, value: Any, place: Place) -> None:
        self._place(Node(value, place))

    def _place(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        above = self._open[-1]
        if isinstance(above.value, list):
            above.value.append(node)
            return
        key = self._key[-1]
        if key is None:
            self._key[-1] = (self._key_text(node), node.place)
            return
        self._key[-1] = None
        name, place = key
        if name in above.keys:
            first = above.keys[name][0]
            self.fault(place, f'the key "{name}" stands here a second time; the first is in line {first}')
            return
        above.keys[name] = place
        above.value[name] = node

    def _key_text(self, node: Node) -> str:
        if isinstance(node.value, str):
            return node.value
        shown = "this" if isinstance(node.value, dict | list) else json.dumps(node.value)
        self.fault(node.place, f"a key is a text, {shown} is not; put it in quotes")
        return shown


def _is_json(text: str) -> bool:
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return False  # the YAML reader then reports the mistake and its place
    return True


def _read_json(text: str, builder: _Builder) -> None:
    """Pass the tokens of valid JSON text to the builder."""
    strings = json.JSONDecoder()
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    token = re.compile(r'[\s,:]*(?:([{\[])|([}\]])|(")|([^\s,:{}\[\]"]+))')
    at = 0
    while match := token.match(text, at):
        begins = match.end() - len(match.group().lstrip(" \t\r\n,:"))
        line = bisect.bisect_right(starts, begins)
        place = (line, begins - starts[line - 1] + 1)
        at = match.end()
        opened, closed, quote, bare = match.groups()
        if opened:
            builder.begin({} if opened == "{" else [], place)
        elif closed:
            builder.end()
        elif quote:
            value, at = strings.raw_decode(text, at - 1)
            if holds_half_a_character(value):
                builder.fault(place, "this text is not valid Unicode: it has half a character")
            builder.scalar(valid_text(value), place)
        else:
            builder.scalar(_json_number(bare, place, builder), place)


def _json_number(bare: str, place: Place, builder: _Builder) -> Any:
    value = json.loads(bare)
    if not is_finite(value):
        builder.fault(place, f"{bare} is too large for a number")
        return 0
    return value


def _read_yaml(text: str, builder: _Builder) -> None:
    documents = 0
    try:
        # libyaml parses a megabyte in a fraction of a second; the Python loader gives the same events slower.
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            place = _place_of(event)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise builder.stop(place, "a second document begins here; allowed is one")
            elif isinstance(event, yaml.AliasEvent):
                raise builder.stop(place, f'aliases such as "*{event.anchor}" are not allowed; write it out')
            else:
                _take(event, place, builder)
    except yaml.MarkedYAMLError as error:
        raise builder.stop(*_syntax(text, error)) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise builder.stop(place, f"the character #x{error.character:04x} is not allowed in YAML") from error


def _place_of(event: yaml.Event) -> Place:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _take(event: yaml.Event, place: Place, builder: _Builder) -> None:
    if isinstance(event, yaml.NodeEvent):
        if event.anchor:
            builder.fault(place, f'anchors such as "&{event.anchor}" are not allowed')
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            builder.fault(place, f'tags such as "{tag}" are not allowed')
    if isinstance(event, yaml.ScalarEvent):
        builder.scalar(_scalar(event, place, builder), place)
    elif isinstance(event, yaml.MappingStartEvent):
        builder.begin({}, place)
    elif isinstance(event, yaml.SequenceStartEvent):
        builder.begin([], place)
    elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
        builder.end()


def _scalar(event: yaml.ScalarEvent, place: Place, builder: _Builder) -> Any:
    if not event.implicit[0]:
        return event.value
    if event.value == "<<":
        builder.fault(place, "merging with << is not allowed; write it out")
    try:
        return resolve(event.value)
    except ValueError as error:
        builder.fault(place, str(error))
        return event.value


def _syntax(text: str, error: yaml.MarkedYAMLError) -> tuple[Place, str]:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return (1, 1), f"not YAML: {error}"
    lines = text.split("\n")
    line = lines[mark.line] if mark.line < len(lines) else ""
    place = (mark.line + 1, mark.column + 1)
    if line[mark.column : mark.column + 1] == "\t" or re.match(r" *\t", line):
        return place, "a tab stands where YAML wants spaces; allowed are spaces"
    what = error.problem or "cannot be read"
    return place, f"not YAML: {error.context}, {what}" if error.context else f"not YAML: {what}"
