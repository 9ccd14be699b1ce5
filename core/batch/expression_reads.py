"""Finds what an expression reads of its context, by its syntax tree, and the bounds that follow from it.

cel-cpp parses at most 32 levels and ends after 10,000 iterations. What an iteration costs is bounded here:
loops stand at most two deep, run over data that a path names, and use little else; cel-cpp copies a list for
each element that `map` and `filter` append, so those take short lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from core.batch.cel_syntax import (
    ADD,
    INDEX,
    SIZE,
    SPLIT,
    Call,
    Collection,
    Constant,
    Loop,
    Name,
    Select,
    Syntax,
)
from core.batch.large_integers import digits_of

MOST_LOOPS_DEEP = 2
MOST_APPENDED = 1_000
"""Most elements of a list that `map` or `filter` runs over."""
LARGEST_CONTEXT = 1024 * 1024
"""Most bytes of JSON that one evaluation reads."""
LARGEST_IN_LOOP = 4096
"""Most bytes of JSON of a value that a loop uses beside the elements that it runs over."""
MOST_READ = 32 * 1024 * 1024
"""Most bytes that all uses of the loops' elements read together."""


class TooCostly(Exception):
    """An expression exceeds a bound; the argument says which. `at` is an offset in its text."""

    def __init__(self, what: str, at: int = 0) -> None:
        super().__init__(what)
        self.at = at


@dataclass(slots=True)
class Part:
    """The part of a value that is read: all of it (`whole`), its size, some fields, or some elements.

    `first` is the number of elements from the start that are read; None means all.
    """

    whole: bool = False
    sized: bool = False
    fields: dict[str, Part] = field(default_factory=dict)
    elements: Part | None = None
    first: int | None = 0

    def field_part(self, name: str) -> Part:
        """The part of a field of this value."""
        return self.fields.setdefault(name, Part())

    def element_part(self, first: int | None) -> Part:
        """The part that is read of its elements; `first` as for the class."""
        self.elements = self.elements or Part()
        self.first = None if first is None or self.first is None else max(self.first, first)
        return self.elements

    def cut(self, value: Any) -> Any:
        """The value without what is not read. Values of another kind than expected stay as they are."""
        if self.whole:
            return value
        if isinstance(value, dict):
            if self.elements is not None or self.sized:
                return value
            return {name: part.cut(value[name]) for name, part in self.fields.items() if name in value}
        if isinstance(value, list):
            if self.elements is None:
                return [None] * len(value)
            return self.elements._cut_all(value if self.first is None or self.sized else value[: self.first])
        return value

    def _cut_all(self, values: list[Any]) -> list[Any]:
        names = self.fields
        if self.elements is None and not self.sized and all(part.whole for part in names.values()):
            # The usual case, without a call for each of thousands of rows: a third of the time.
            return [
                {name: value[name] for name in names if name in value}
                if isinstance(value, dict) and not self.whole
                else value
                for value in values
            ]
        return [self.cut(value) for value in values]


# Their texts have at most as many pieces as the text that they are given.
_KEEPS_PIECES = frozenset({"trim"})

Path = tuple[str | int, ...]
"""Names of fields and numbers of elements, from a variable on."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of a value that is checked before an evaluation: elements of a list, or bytes of JSON.

    With `separator` it is the pieces into which a text is split.
    """

    path: Path
    elements: bool = False
    separator: str = ""

    def check(self, data: Mapping[str, Any]) -> None:
        """Raise TooCostly if the value in `data` exceeds the limit."""
        value: Any = data
        for name in self.path:
            try:
                value = value[name]
            except (KeyError, IndexError, TypeError):
                return
        shown = ".".join(map(str, self.path))
        if self.separator:
            pieces = value.count(self.separator) + 1 if isinstance(value, str) else 0
            if pieces > MOST_APPENDED:
                raise TooCostly(f"{shown} has {pieces:,} pieces; map and filter take {MOST_APPENDED:,}")
        elif self.elements:
            if isinstance(value, dict | list) and len(value) > MOST_APPENDED:
                raise TooCostly(f"{shown} has {len(value):,} elements; map and filter take {MOST_APPENDED:,}")
        elif isinstance(value, str | list | dict) and (size := size_of(value)) > LARGEST_IN_LOOP:
            raise TooCostly(f"{shown} has {size:,} bytes; a loop may use {LARGEST_IN_LOOP:,} beside its list")


def size_of(value: Any) -> int:
    """Bytes of a value as JSON.

    Raises:
        TooCostly: it holds a number or a text that JSON or CEL cannot hold.
    """
    try:
        return len(orjson.dumps(value, default=digits_of))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise TooCostly(f"a value cannot be used: {error}") from error


@dataclass(slots=True)
class Reads:
    """Everything that one expression reads. `places` has each path that it names, with its offset.

    `keys` has the offsets of constant names in brackets, as in `steps["check-disk"]`, with the names.
    """

    roots: Part = field(default_factory=Part)
    places: list[tuple[tuple[str, ...], int]] = field(default_factory=list)
    keys: list[tuple[int, str]] = field(default_factory=list)
    bounds: set[Bound] = field(default_factory=set)
    element_uses: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """A value that a path names. `path` has its constant names and numbers; `exact`: all of them are."""

    part: Part
    path: Path
    exact: bool

    def inner(self, part: Part, step: str | int | None) -> _Place:
        if step is None or not self.exact:
            return _Place(part, self.path, False)
        return _Place(part, (*self.path, step), True)


def reads_of(tree: Syntax) -> Reads:
    """The reads of an expression.

    Raises:
        TooCostly: its loops are nested too deeply, or run over data of unbounded size.
    """
    finder = _Finder()
    finder.use(tree)
    return finder.reads


class _Finder:
    def __init__(self) -> None:
        self.reads = Reads()
        # By name of a loop's variable: the element it stands for.
        self._variables: dict[str, _Place] = {}
        self._accumulators: set[str] = set()
        self._depth = 0

    def use(self, node: Syntax) -> None:
        """Note that the value of a node is used as a whole."""
        place = self._place(node)
        if place is not None:
            place.part.whole = True
            self._limit(place)

    def _limit(self, place: _Place) -> None:
        # What a loop uses beside its elements is read again in each iteration.
        if self._depth and place.path:
            self.reads.bounds.add(Bound(place.path))

    def _place(self, node: Syntax) -> _Place | None:
        """The place that a node names; None for a value that it computes, whose parts are noted."""
        match node:
            case Name():
                return self._named(node)
            case Select():
                return self._selected(node)
            case Call(function=function, arguments=(target, index)) if function == INDEX:
                return self._indexed(target, index, node.at)
            case Call(function=function, arguments=(target,)) if function == SIZE:
                place = self._place(target)
                if place is not None:
                    place.part.sized = True
                    self._limit(place)
            case Call():
                for argument in node.arguments:
                    self.use(argument)
            case Collection():
                for element in node.elements:
                    self.use(element)
            case Loop():
                return self._looped(node)
        return None

    def _named(self, node: Name) -> _Place | None:
        if node.name in self._accumulators:
            return None
        if node.name in self._variables:
            self.reads.element_uses += 1
            return self._variables[node.name]
        self.reads.places.append(((node.name,), node.at))
        return _Place(self.reads.roots.field_part(node.name), (node.name,), True)

    def _selected(self, node: Select) -> _Place | None:
        place = self._place(node.operand)
        if place is None:
            return None
        inner = place.inner(place.part.field_part(node.field), node.field)
        self._note(inner, node.at)
        if node.test_only:
            inner.part.sized = True
            return None
        return inner

    def _note(self, place: _Place, at: int) -> None:
        """Note a path of names alone."""
        names = tuple(step for step in place.path if isinstance(step, str))
        if place.exact and len(names) == len(place.path):
            self.reads.places.append((names, at))

    def _indexed(self, target: Syntax, index: Syntax, at: int) -> _Place | None:
        place = self._place(target)
        constant = index.value if isinstance(index, Constant) else None
        if not isinstance(index, Constant):
            self.use(index)
        if place is None:
            return None
        if isinstance(constant, str):
            self.reads.keys.append((index.at, constant))
            inner = place.inner(place.part.field_part(constant), constant)
            self._note(inner, at)
            return inner
        if constant is None or constant < 0:
            self._limit(place)
            return place.inner(place.part.element_part(None), None)
        return place.inner(place.part.element_part(constant + 1), constant)

    def _looped(self, loop: Loop) -> _Place | None:
        if self._depth >= MOST_LOOPS_DEEP:
            raise TooCostly(f"loops may be nested {MOST_LOOPS_DEEP} deep", loop.at)
        if self._depth and loop.builds_list:
            raise TooCostly("map and filter cannot stand inside another loop", loop.at)
        if _adds(loop.source):
            raise TooCostly("a loop cannot run over a list that is put together with +", loop.at)
        source = self._place(loop.source)
        if source is not None:
            self._limit(source)
        if loop.builds_list:
            self._limit_list(loop, source)
        element = _Place(source.part.element_part(None) if source else Part(), (), False)
        self._use_body(loop, element)
        # A filtered list is the same list to what follows, which reads fields of its elements.
        return _Place(source.part, source.path, False) if source and loop.filters else None

    def _limit_list(self, loop: Loop, source: _Place | None) -> None:
        if source is not None and source.exact:
            self.reads.bounds.add(Bound(source.path, elements=True))
        elif (pieces := self._pieces(loop.source)) is not None:
            self.reads.bounds.add(pieces)
        elif not isinstance(loop.source, Collection) and not (
            isinstance(loop.source, Loop) and loop.source.builds_list
        ):
            what = "map and filter run over a list that is named by a path, or over the split text of a path"
            raise TooCostly(what, loop.at)

    def _pieces(self, source: Syntax) -> Bound | None:
        """The bound of `path.split("…")`, whose pieces can be counted before; None for any other list."""
        if not (isinstance(source, Call) and source.function == SPLIT and len(source.arguments) > 1):
            return None
        text, separator = source.arguments[0], source.arguments[1]
        while isinstance(text, Call) and text.function in _KEEPS_PIECES and text.arguments:
            text = text.arguments[0]
        place = self._place(text)
        if place is None or not place.exact or not isinstance(separator, Constant) or not separator.value:
            return None
        return Bound(place.path, separator=str(separator.value))

    def _use_body(self, loop: Loop, element: _Place) -> None:
        outer = self._variables
        names = [name for name in (loop.variable, loop.second_variable) if name]
        self._variables = outer | dict.fromkeys(names, element)
        self._accumulators.add(loop.accumulator)
        self._depth += 1
        self.use(loop.step.arguments[0] if loop.filters and isinstance(loop.step, Call) else loop.step)
        self._depth -= 1
        self._variables = outer


def _adds(node: Syntax) -> bool:
    match node:
        case Select():
            return _adds(node.operand)
        case Call():
            return node.function == ADD or any(_adds(argument) for argument in node.arguments)
        case Collection():
            return any(_adds(element) for element in node.elements)
        case Loop():
            appended = (
                node.step.arguments[1] if node.builds_list and isinstance(node.step, Call) else node.step
            )
            return _adds(node.source) or (not node.filters and _adds(appended))
    return False
