"""The functions of expressions, by name, and how large what they make can become.

cel-cpp bounds neither what `replace` and `join` make nor how long a search for a long text takes, so both are
bounded here before an evaluation: each part of an expression by `share` times the bytes that the whole
expression reads, plus `fixed` bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from core.batch.cel_syntax import Call, Collection, Constant, Loop, Name, Select, Syntax
from core.batch.expression_reads import MOST_APPENDED
from core.similar import most_like

FUNCTIONS = (
    # Of CEL itself.
    *("size", "has", "contains", "startsWith", "endsWith", "matches"),
    *("all", "exists", "exists_one", "map", "filter"),
    *("int", "uint", "double", "string", "bool", "bytes", "type", "dyn", "timestamp", "duration"),
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfYear", "getDayOfWeek"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    # Of its extension for texts.
    *("charAt", "indexOf", "lastIndexOf", "substring", "trim", "split", "join", "replace", "format"),
    *("lowerAscii", "upperAscii", "reverse", "strings.quote"),
    # For numbers.
    *("math.greatest", "math.least", "math.abs", "math.sign", "math.sqrt"),
    *("math.ceil", "math.floor", "math.round", "math.trunc"),
    *("math.isFinite", "math.isInf", "math.isNaN"),
    *("math.bitAnd", "math.bitOr", "math.bitXor", "math.bitNot"),
    *("math.bitShiftLeft", "math.bitShiftRight"),
    # For encodings.
    *("base64.encode", "base64.decode"),
)
"""Every function that an expression may call."""

LARGEST_MADE = 32 * 1024 * 1024
"""Most bytes that a part of an expression may make."""
LONGEST_SOUGHT = 4_096
"""Most bytes of a text that is searched for in another one."""
MOST_ITERATIONS = 10_000

_SEEKS = frozenset({"indexOf", "lastIndexOf", "split", "replace"})
_MAKES = frozenset({"join", "format", "base64.encode", "strings.quote"})
# Of a number, a time or an empty text in a list.
_SMALL = 40
# `%.1000f` writes at most so many digits.
_LONGEST_NUMBER = 1_400


def like(name: str) -> list[str]:
    """The functions with a name like this one, the most alike first."""
    plain = {known.rpartition(".")[2].casefold(): known for known in reversed(FUNCTIONS)}
    close = most_like(name.rpartition(".")[2], plain, 2, cutoff=0.76)
    return [plain[match] for match in close]


class Growth(NamedTuple):
    """A bound for the bytes of a value: `share` times the bytes that the expression reads, plus `fixed`."""

    share: float = 0.0
    fixed: float = 0.0

    def of(self, read: int) -> float:
        """The bound where an expression reads so many bytes."""
        return self.share * read + self.fixed

    def plus(self, other: Growth) -> Growth:
        """The bound of both together."""
        return Growth(self.share + other.share, self.fixed + other.fixed)

    def times(self, factor: float) -> Growth:
        """The bound of a value so many times as large."""
        return Growth(self.share * factor, self.fixed * factor)


def is_bounded_anyway(tree: Syntax) -> bool:
    """Whether a tree calls none of the functions that must be bounded."""
    return not any(isinstance(node, Call) and _bounded_name(node) for node in _nodes(tree))


def too_large(tree: Syntax, read: int) -> str:
    """The part of a tree that may grow too large or slow where it reads so many bytes; else empty."""
    for node in _nodes(tree):
        if not isinstance(node, Call):
            continue
        name = _bounded_name(node)
        sought = node.arguments[1] if name in _SEEKS and len(node.arguments) > 1 else None
        if sought is not None and _growth(sought, read).of(read) > LONGEST_SOUGHT:
            return f"{name} may search for a text of more than {LONGEST_SOUGHT:,} bytes"
        if name and _growth(node, read).of(read) > LARGEST_MADE:
            return f"{name} may make more than {LARGEST_MADE:,} bytes"
    if _growth(tree, read).of(read) > LARGEST_MADE:
        return f"it may make more than {LARGEST_MADE:,} bytes"
    return ""


def _bounded_name(call: Call) -> str:
    return call.function if call.function in _SEEKS | _MAKES else ""


def _nodes(tree: Syntax) -> Iterator[Syntax]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        match node:
            case Select():
                waiting.append(node.operand)
            case Call():
                waiting += node.arguments
            case Collection():
                waiting += node.elements
            case Loop():
                waiting += (node.source, node.start, node.condition, node.step, node.result)


def _growth(node: Syntax, read: int, in_loop: bool = False) -> Growth:
    match node:
        case Constant():
            return Growth(fixed=len(node.value.encode()) if isinstance(node.value, str) else _SMALL)
        case Name():
            # The element of a loop is a part of what is read, and the running value of one is counted where
            # the loop is.
            return Growth(share=1.0)
        case Select():
            return _growth(node.operand, read, in_loop)
        case Collection():
            return _together(node.elements, read, in_loop)
        case Loop():
            step = _growth(node.step, read, True)
            # Loops in loops share the iterations of the outermost.
            times = 1 if in_loop else MOST_APPENDED if node.builds_list else MOST_ITERATIONS
            return Growth(step.share, step.fixed * times).plus(_growth(node.source, read, in_loop))
        case Call():
            return _made(node, read, in_loop)
    return Growth(fixed=_SMALL)


def _together(nodes: tuple[Syntax, ...], read: int, in_loop: bool) -> Growth:
    total = Growth(fixed=_SMALL)
    for node in nodes:
        total = total.plus(_growth(node, read, in_loop))
    return total


def _made(call: Call, read: int, in_loop: bool) -> Growth:
    arguments = call.arguments
    match call.function:
        case "replace" if len(arguments) > 2:
            text, new = _growth(arguments[0], read, in_loop), _growth(arguments[2], read, in_loop)
            old = arguments[1].value if isinstance(arguments[1], Constant) else None
            length = len(old.encode()) if isinstance(old, str) else 0
            factor = max(1.0, new.of(read) / length) if length else 1.0 + new.of(read)
            return text.times(factor).plus(Growth(fixed=new.of(read)))
        case "join":
            separator = _growth(arguments[1], read, in_loop).of(read) if len(arguments) > 1 else 0.0
            return _growth(arguments[0], read, in_loop).times(1.0 + separator)
        case "base64.encode":
            return _together(arguments, read, in_loop).times(1.4)
        case "strings.quote":
            return _together(arguments, read, in_loop).times(2)
        case "format":
            texts = _together(arguments, read, in_loop)
            pattern = arguments[0].value if isinstance(arguments[0], Constant) else None
            numbers = pattern.count("%") if isinstance(pattern, str) else texts.of(read)
            return texts.plus(Growth(fixed=numbers * _LONGEST_NUMBER))
    return _together(arguments, read, in_loop)
