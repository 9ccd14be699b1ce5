"""Regular expressions from tool schemas, matched in bounded time.

A `pattern` comes from a device or an MCP server, and thirty characters can make Python's own matcher run for
years. So a pattern is parsed once. Where its parse tree proves that backtracking stays cheap for a text of
this length, `re` matches it; otherwise a set-of-states matcher does, linear in pattern times text. What
neither can match within the budget raises instead of hanging.

The dialect is ECMA-262, as JSON Schema requires: `$` matches only at the very end, `\\d` and `\\w` are ASCII,
named groups are `(?<name>…)`, and `\\p{L}` works for Unicode's general categories. Back-references cannot be
matched in bounded time and are refused.
"""

from __future__ import annotations

import importlib
import re
import string
import unicodedata
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from core.schema_forms.ecma import CATEGORIES, CATEGORY_BASE, PatternUnsupported, translate

__all__ = ["PatternTooCostly", "PatternUnsupported", "SafePattern", "safe_pattern"]

# The standard library's own regular expression parser: private by name, unchanged from 3.11 to 3.14, and the
# only access to exactly the tree that `re` would run.
_parser: Any = importlib.import_module("re._parser")
_INFINITE = int(_parser.MAXREPEAT)

FAST_BUDGET = 2_000_000
"""Backtracking steps (about 10 ns each) up to which `re` may be used."""
STEP_BUDGET = 250_000
"""Steps (about 0.4 µs each) that the set-of-states matcher may take for one text."""
MAX_PROGRAM = 4_000
MAX_SOURCE = 2_000
# Compiling a class with characters beyond Latin-1 takes `re` 3 ms, and 10 ms where it ignores case.
MAX_WIDE = 8
_WIDE, _WIDE_SIZE = 256, 350
# Characters whose answer one class remembers.
_MOST_REMEMBERED = 512


class PatternTooCostly(ValueError):
    """The text is too long for this pattern to be matched within the budget."""


def _growth(tree: Any) -> tuple[float, int] | None:
    """Bound the attempts of `re` to match: at most `factor * (n + 1) ** degree`, or None without a bound."""
    factor, degree = 1.0, 0
    for op, value in tree:
        name = str(op)
        if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "FAILURE"):
            continue
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, body = value
            inner = _growth(body)
            if inner is None or (inner != (1.0, 0) and high > 1):
                return None
            if high == _INFINITE or high - low > 1_000:
                degree += 1
            else:
                factor *= (high - low + 1) * inner[0]
                degree += inner[1]
            continue
        parts = value[1] if name == "BRANCH" else [value[3] if name == "SUBPATTERN" else value[1]]
        grown = [_growth(part) for part in parts]
        if any(part is None for part in grown):
            return None
        known = [part for part in grown if part is not None]
        factor *= sum(part[0] for part in known) + (1 if name.startswith("ASSERT") else 0)
        degree += max((part[1] for part in known), default=0)
    return factor, degree


class _CharSet:
    """A character class that remembers its answer for each character."""

    __slots__ = ("_ignore_case", "_items", "_memo", "_negate")

    def __init__(self, items: list[Any], ignore_case: bool) -> None:
        self._negate = bool(items) and str(items[0][0]) == "NEGATE"
        self._items = items[1:] if self._negate else items
        self._ignore_case = ignore_case
        self._memo: dict[str, bool] = {}

    def __call__(self, char: str) -> bool:
        known = self._memo.get(char)
        if known is None:
            tries = {char, char.lower(), char.upper()} if self._ignore_case else {char}
            hit = any(self._has(item, one) for item in self._items for one in tries if len(one) == 1)
            known = hit != self._negate
            if len(self._memo) < _MOST_REMEMBERED:
                self._memo[char] = known
        return known

    @staticmethod
    def _has(item: tuple[Any, Any], char: str) -> bool:
        op, value = str(item[0]), item[1]
        code = ord(char)
        if op == "LITERAL":
            if CATEGORY_BASE <= value < CATEGORY_BASE + len(CATEGORIES):
                return unicodedata.category(char).startswith(CATEGORIES[value - CATEGORY_BASE])
            return bool(code == value)
        if op == "RANGE":
            return bool(value[0] <= code <= value[1])
        kind = str(value).removeprefix("CATEGORY_").removeprefix("NOT_")
        hit = {
            "DIGIT": lambda: "0" <= char <= "9",
            "SPACE": lambda: char.isspace() or char == "\ufeff",
            "WORD": lambda: char in _WORD,
        }[kind]()
        return hit != ("_NOT_" in str(value))


_WORD = frozenset(string.ascii_letters + string.digits + "_")
_Assertion = Callable[[str, int], bool]


def _at_boundary(text: str, position: int) -> bool:
    before = position > 0 and text[position - 1] in _WORD
    after = position < len(text) and text[position] in _WORD
    return before != after


_ASSERTIONS: dict[str, _Assertion] = {
    "AT_BEGINNING": lambda text, at: at == 0,
    "AT_BEGINNING_STRING": lambda text, at: at == 0,
    "AT_END": lambda text, at: at == len(text),
    "AT_END_STRING": lambda text, at: at == len(text),
    "AT_BOUNDARY": _at_boundary,
    "AT_NON_BOUNDARY": lambda text, at: not _at_boundary(text, at),
}

# One instruction: ("char", test) | ("split", a, b) | ("jump", a) | ("assert", test)
#                | ("look", program, width_behind or -1, negate) | ("match",)
_Instruction = tuple[Any, ...]


class _Room:
    """How much a program may still grow: a repeated lookahead is compiled once for every repetition."""

    def __init__(self) -> None:
        self.left = MAX_PROGRAM
        # Whether a repeated part matches only the empty text: `re` would really count its repetitions, and
        # the pattern decides how many.
        self.counts_nothing = False
        # Instructions that consume no character: a path may be this long without any text.
        self.still = 0
        # Keyed by identity, which is safe: the caller holds the tree while it is compiled.
        self._wide: dict[int, int] = {}

    @property
    def wide(self) -> int:
        """How many classes reach beyond Latin-1; a class that ignores case counts as three."""
        return sum(self._wide.values())

    def take(self) -> None:
        """Count one instruction.

        Raises:
            PatternUnsupported: the program would be too large.
        """
        self.left -= 1
        if self.left < 0:
            raise PatternUnsupported("the pattern is too large")

    def note(self, items: list[Any], ignore_case: bool) -> None:
        """Record a character class, to count those beyond Latin-1."""
        codes = [code for _, value in items for code in (value if isinstance(value, tuple) else (value,))]
        if any(isinstance(code, int) and code >= _WIDE for code in codes):
            self._wide[id(items)] = 3 if ignore_case else 1


class _Program:
    """A parse tree compiled to instructions for the set-of-states matcher."""

    def __init__(self, tree: Any, flags: int, room: _Room) -> None:
        self._room = room
        self.code: list[_Instruction] = []
        self.looks: list[_Program] = []
        self._emit_tree(tree, flags)
        self._add(("match",))

    @property
    def size(self) -> int:
        """The number of instructions, those of lookaheads and lookbehinds included."""
        return len(self.code) + sum(one.size for one in self.looks)

    def _add(self, instruction: _Instruction) -> int:
        self._room.take()
        self._room.still += instruction[0] in ("assert", "look")
        self.code.append(instruction)
        return len(self.code) - 1

    def _emit_tree(self, tree: Any, flags: int) -> None:
        for op, value in tree:
            self._emit(str(op), value, flags)

    def _emit(self, op: str, value: Any, flags: int) -> None:
        ignore_case = bool(flags & re.IGNORECASE)
        if op == "LITERAL":
            self._add(("char", _CharSet([(op, value)], ignore_case)))
        elif op == "NOT_LITERAL":
            self._add(("char", _CharSet([("NEGATE", None), ("LITERAL", value)], ignore_case)))
        elif op == "ANY":
            dot_all = bool(flags & re.DOTALL)
            self._add(
                ("char", (lambda char: True) if dot_all else (lambda char: char not in "\n\r\u2028\u2029"))
            )
        elif op == "IN":
            self._room.note(value, ignore_case)
            self._add(("char", _CharSet(value, ignore_case)))
        elif op == "AT":
            if flags & re.MULTILINE or str(value) not in _ASSERTIONS:
                raise PatternUnsupported("multi-line anchors are not supported")
            self._add(("assert", _ASSERTIONS[str(value)]))
        elif op == "BRANCH":
            self._emit_branch(value[1], flags)
        elif op == "SUBPATTERN":
            _, added, removed, body = value
            self._emit_tree(body, (flags | added) & ~removed)
        elif op in ("MAX_REPEAT", "MIN_REPEAT"):
            self._emit_repeat(value[0], value[1], value[2], flags)
        elif op in ("ASSERT", "ASSERT_NOT"):
            direction, body = value
            width = int(body.getwidth()[0]) if direction < 0 else -1
            self.looks.append(_Program(body, flags, self._room))
            self._add(("look", self.looks[-1], width, op == "ASSERT_NOT"))
        elif op == "FAILURE":
            self._add(("assert", lambda text, at: False))
        else:
            raise PatternUnsupported(f"{op.lower().replace('_', ' ')} cannot be matched in bounded time")

    def _emit_branch(self, choices: list[Any], flags: int) -> None:
        ends: list[int] = []
        for choice in choices[:-1]:
            split = self._add(("split", 0, 0))
            self._emit_tree(choice, flags)
            ends.append(self._add(("jump", 0)))
            self.code[split] = ("split", split + 1, len(self.code))
        self._emit_tree(choices[-1], flags)
        for end in ends:
            self.code[end] = ("jump", len(self.code))

    def _emit_repeat(self, low: int, high: int, body: Any, flags: int) -> None:
        for _ in range(low):
            before = len(self.code)
            self._emit_tree(body, flags)
            if len(self.code) == before:
                self._room.counts_nothing = True
                return
        if high == _INFINITE:
            split = self._add(("split", 0, 0))
            self._emit_tree(body, flags)
            self._add(("jump", split))
            self.code[split] = ("split", split + 1, len(self.code))
            return
        splits: list[int] = []
        for _ in range(high - low):
            splits.append(self._add(("split", 0, 0)))
            self._emit_tree(body, flags)
        for split in splits:
            self.code[split] = ("split", split + 1, len(self.code))


class _Run:
    """The matching of one text: its step budget and the states that are known to fail."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = STEP_BUDGET
        self._failed: dict[int, set[int]] = {}

    def reaches_match(self, program: _Program, start: int) -> bool:
        """Whether `program` matches from `start`; a state that failed once is never tried again."""
        width = len(self.text) + 1
        failed = self._failed.setdefault(id(program), set())
        fresh: set[int] = set()
        stack = [start]
        while stack:
            state = stack.pop()
            if state in failed or state in fresh:
                continue
            self.left -= 1
            if self.left < 0:
                raise PatternTooCostly
            fresh.add(state)
            counter, at = divmod(state, width)
            op, *rest = program.code[counter]
            if op == "match":
                return True
            if op == "split":
                stack += (rest[1] * width + at, rest[0] * width + at)
            elif op == "jump":
                stack.append(rest[0] * width + at)
            elif op == "char":
                if at < len(self.text) and rest[0](self.text[at]):
                    stack.append(state + width + 1)
            elif rest[0](self.text, at) if op == "assert" else self._sees(at, *rest):
                stack.append(state + width)
        failed |= fresh
        return False

    def _sees(self, at: int, program: _Program, behind: int, negate: bool) -> bool:
        """Whether a lookahead or lookbehind holds at this position."""
        start = at if behind < 0 else at - behind
        return (start >= 0 and self.reaches_match(program, start)) != negate


def _literal(tree: Any) -> str:
    """The longest text that occurs in every match; empty where case is ignored or no text is certain."""
    if int(tree.state.flags) & int(re.IGNORECASE):
        return ""
    runs = [""]
    for op, value in tree:
        if str(op) == "LITERAL":
            runs[-1] += chr(value)
        elif str(op) != "AT":
            runs.append("")
    return max(runs, key=len)


class SafePattern:
    """A pattern compiled for searching in bounded time.

    `size` is the cost of compiling it, in instructions. `literal` occurs in every text that matches, so most
    other texts are ruled out without matching.
    """

    def __init__(self, source: str) -> None:
        """Parse `source`.

        Raises:
            PatternUnsupported: it is not a regular expression, is too large, or has back-references.
        """
        if len(source) > MAX_SOURCE:
            raise PatternUnsupported("the pattern is too long")
        try:
            translated, has_category = translate(source)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = _parser.parse(translated, re.ASCII)
                room = _Room()
                self._program = _Program(tree, int(tree.state.flags), room)
                slow = has_category or room.wide > MAX_WIDE or room.counts_nothing
                self._fast = None if slow else re.compile(translated, re.ASCII)
            self._growth = _growth(tree)
        except (re.error, RecursionError, OverflowError) as error:
            raise PatternUnsupported(str(error) or "nested too deeply") from error
        self.source = source
        self.size = self._program.size + (0 if slow else room.wide * _WIDE_SIZE)
        self.literal = "" if has_category else _literal(tree)
        # A few of them, such as `^` and `$`, cost almost nothing.
        self._still = room.still // 16
        self._anchored = bool(tree) and str(tree[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")

    def _is_cheap(self, length: int) -> bool:
        if self._fast is None or self._growth is None:
            return False
        return self._ways(length) <= FAST_BUDGET

    def _ways(self, length: int) -> float:
        assert self._growth is not None, "only asked where there is a bound"
        factor, degree = self._growth
        ways = factor * float(length + 1) ** (degree + (0 if self._anchored else 1))
        return ways * max(self._still, 1 if degree <= 1 and self._anchored else length + 1)

    def most_steps(self, length: int) -> int:
        """The most validation steps (10 µs each) that a search in a text of this length takes, about."""
        if self._is_cheap(length):
            return int(self._ways(length) / 1_000)
        # A lookahead or lookbehind may read the same place again and again, so only the budget bounds it.
        known = not self._program.looks
        return (min(STEP_BUDGET, self._program.size * (length + 1)) if known else STEP_BUDGET) // 12

    def search(self, text: str) -> bool:
        """Whether the pattern occurs anywhere in `text`.

        Raises:
            PatternTooCostly: the search exceeds the budget.
        """
        if self._fast is not None and self._is_cheap(len(text)):
            return self._fast.search(text) is not None
        run = _Run(text)
        starts = (0,) if self._anchored else range(len(text) + 1)
        return any(run.reaches_match(self._program, start) for start in starts)


@lru_cache(maxsize=1024)
def safe_pattern(source: str) -> SafePattern:
    """Return the compiled pattern, cached by its source.

    Raises:
        PatternUnsupported: see `SafePattern`.
    """
    return SafePattern(source)
