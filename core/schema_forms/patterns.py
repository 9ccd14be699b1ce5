"""Regular expressions from tool schemas and policies, matched in bounded time.

A `pattern` comes from a device or an MCP server, and thirty characters can make Python's own matcher run for
years. So a pattern is parsed once. Where its parse tree proves that backtracking stays cheap for a text of
this length, `re` matches it; otherwise a set-of-states matcher does, linear in pattern times text. What
neither can match within the budget raises instead of hanging.

The dialect is ECMA-262, as JSON Schema requires: `$` matches only at the very end, `\\d` and `\\w` are ASCII,
named groups are `(?<name>…)`, and `\\p{L}` works for Unicode's general categories. Back-references cannot be
matched in bounded time and are refused.

No library does this: RE2 and Rust's `regex` refuse the lookahead that pydantic writes for every Decimal;
Rust's `fancy-regex` backtracks, and refuses ECMA's `[^]` and `a{,2}`.

`Sampler` makes texts that a pattern may match, to show what else a pattern matches.
"""

from __future__ import annotations

import importlib
import re
import string
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

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


# `\p{Lu}` becomes a private-use character, which the matcher reads as "any character of that category".
_CATEGORY_BASE = 0xF0000
_CATEGORIES = re.findall(
    r"\w+",
    "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cs Co Cn",
)
_LONG_NAMES = {"Letter": "L", "Mark": "M", "Number": "N", "Punctuation": "P", "Symbol": "S", "Separator": "Z"}


class PatternUnsupported(ValueError):
    """The pattern is not a regular expression, or cannot be matched in bounded time."""


class PatternTooCostly(ValueError):
    """The text is too long for this pattern to be matched within the budget."""


MOST_QUICK = 400
"""Characters of patterns (about 30 µs each) that may be compiled at once."""
_SLOW = re.compile(r"\{|\\[uUpP]")


def is_quick(source: str) -> bool:
    """Whether a pattern compiles in a few milliseconds: it is short and has no counted repetition.

    Several patterns do together where they have at most `MOST_QUICK` characters.
    """
    # A few nested `{9}` reach the largest allowed program. Classes beyond Latin-1 are slow to compile, also
    # where their ends are written as escapes.
    return len(source) <= 100 and source.isascii() and _SLOW.search(source) is None


def _translate(source: str) -> tuple[str, bool]:
    """Rewrite ECMA-262 syntax as Python's; the flag says whether Unicode categories occur."""
    out: list[str] = []
    position, in_class, has_category = 0, False, False
    while position < len(source):
        char = source[position]
        if char == "\\":
            piece, position, is_category = _translate_escape(source, position)
            has_category = has_category or is_category
            out.append(piece)
            continue
        if in_class:
            in_class = char != "]"
            out.append("\\[" if char == "[" else char)
        elif source.startswith("[^]", position):
            out.append("[\\s\\S]")
            position += 2
        elif source.startswith("[]", position):
            out.append("(?!)")
            position += 1
        elif char == "[":
            in_class = True
            out.append(char)
            if source.startswith("^", position + 1):
                out.append("^")
                position += 1
        elif char == "$":
            out.append("\\Z")
        elif source.startswith("(?<", position) and source[position + 3 : position + 4] not in ("=", "!", ""):
            out.append("(?P<")
            position += 2
        else:
            out.append(char)
        position += 1
    return "".join(out), has_category


def _translate_escape(source: str, position: int) -> tuple[str, int, bool]:
    after = source[position + 1 : position + 2]
    if after in ("p", "P") and (
        match := re.compile(r"\{(?:gc=|General_Category=)?(\w+)\}").match(source, position + 2)
    ):
        name = _LONG_NAMES.get(match[1], match[1])
        if after == "P" or name not in _CATEGORIES:
            raise PatternUnsupported(f"\\{after}{{{match[1]}}} is not supported")
        return chr(_CATEGORY_BASE + _CATEGORIES.index(name)), match.end(), True
    if after == "u" and (match := re.compile(r"\{([0-9A-Fa-f]{1,6})\}").match(source, position + 2)):
        return re.escape(chr(int(match[1], 16))), match.end(), False
    if after == "/" or after == "-":
        return ("/" if after == "/" else "\\-"), position + 2, False
    return source[position : position + 2], position + 2, False


def _parse(source: str) -> tuple[Any, str, bool]:
    """The parse tree of a pattern, the pattern in Python's syntax, and whether it has Unicode categories."""
    translated, has_category = _translate(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _parser.parse(translated, re.ASCII), translated, has_category


# Exceptions for a pattern that is not a regular expression.
_PARSE_FAILS = (re.error, RecursionError, OverflowError)


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
        growths = [growth for part in parts if (growth := _growth(part)) is not None]
        if len(growths) < len(parts):
            return None
        factor *= sum(growth[0] for growth in growths) + (1 if name.startswith("ASSERT") else 0)
        degree += max((growth[1] for growth in growths), default=0)
    return factor, degree


class _CharacterClass:
    """A character class, with a bounded memory of its answer for each character."""

    __slots__ = ("_ignore_case", "_items", "_memo", "_negate")

    def __init__(self, items: list[Any], ignore_case: bool = False) -> None:
        self._negate = bool(items) and str(items[0][0]) == "NEGATE"
        self._items = items[1:] if self._negate else items
        self._ignore_case = ignore_case
        self._memo: dict[str, bool] = {}

    def __call__(self, char: str) -> bool:
        answer = self._memo.get(char)
        if answer is None:
            cases = {char, char.lower(), char.upper()} if self._ignore_case else {char}
            is_in = any(self._has(item, case) for item in self._items for case in cases if len(case) == 1)
            answer = is_in != self._negate
            if len(self._memo) < _MOST_REMEMBERED:
                self._memo[char] = answer
        return answer

    @staticmethod
    def _has(item: tuple[Any, Any], char: str) -> bool:
        op, value = str(item[0]), item[1]
        code = ord(char)
        if op == "LITERAL":
            if _CATEGORY_BASE <= value < _CATEGORY_BASE + len(_CATEGORIES):
                return unicodedata.category(char).startswith(_CATEGORIES[value - _CATEGORY_BASE])
            return bool(code == value)
        if op == "RANGE":
            return bool(value[0] <= code <= value[1])
        kind = str(value).removeprefix("CATEGORY_").removeprefix("NOT_")
        is_of_kind = {
            "DIGIT": lambda: "0" <= char <= "9",
            "SPACE": lambda: char.isspace() or char == "\ufeff",
            "WORD": lambda: char in _WORD,
        }[kind]()
        return is_of_kind != ("_NOT_" in str(value))


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


class _ProgramSize:
    """Bounds and counts the instructions of one pattern, those of its lookaheads and lookbehinds included.

    A repeated part, also a lookahead, is compiled once for every repetition.
    """

    def __init__(self) -> None:
        self.instructions = 0
        # Whether a repeated part matches only the empty text: `re` would really count its repetitions, and
        # the pattern decides how many.
        self.repeats_empty = False
        # Instructions that consume no character: a path may be this long without any text.
        self.zero_width = 0
        # Keyed by identity, which is safe: the caller holds the tree while it is compiled.
        self._wide: dict[int, int] = {}

    @property
    def wide(self) -> int:
        """How many classes reach beyond Latin-1; a class that ignores case counts as three."""
        return sum(self._wide.values())

    def add(self) -> None:
        """Count one instruction.

        Raises:
            PatternUnsupported: the program would be too large.
        """
        self.instructions += 1
        if self.instructions > MAX_PROGRAM:
            raise PatternUnsupported("the pattern is too large")

    def add_class(self, items: list[Any], ignore_case: bool) -> None:
        """Record a character class, to count those beyond Latin-1."""
        codes = [code for _, value in items for code in (value if isinstance(value, tuple) else (value,))]
        if any(isinstance(code, int) and code >= _WIDE for code in codes):
            self._wide[id(items)] = 3 if ignore_case else 1


class _Program:
    """A parse tree compiled to instructions for the set-of-states matcher."""

    def __init__(self, tree: Any, flags: int, size: _ProgramSize) -> None:
        self._size = size
        self.code: list[_Instruction] = []
        self.has_lookaround = False
        self._emit_tree(tree, flags)
        self._add(("match",))

    def _add(self, instruction: _Instruction) -> int:
        self._size.add()
        self._size.zero_width += instruction[0] in ("assert", "look")
        self.code.append(instruction)
        return len(self.code) - 1

    def _emit_tree(self, tree: Any, flags: int) -> None:
        for op, value in tree:
            self._emit(str(op), value, flags)

    def _emit(self, op: str, value: Any, flags: int) -> None:
        ignore_case = bool(flags & re.IGNORECASE)
        if op == "LITERAL":
            self._add(("char", _CharacterClass([(op, value)], ignore_case)))
        elif op == "NOT_LITERAL":
            self._add(("char", _CharacterClass([("NEGATE", None), ("LITERAL", value)], ignore_case)))
        elif op == "ANY":
            dot_all = bool(flags & re.DOTALL)
            self._add(
                ("char", (lambda char: True) if dot_all else (lambda char: char not in "\n\r\u2028\u2029"))
            )
        elif op == "IN":
            self._size.add_class(value, ignore_case)
            self._add(("char", _CharacterClass(value, ignore_case)))
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
            self.has_lookaround = True
            self._add(("look", _Program(body, flags, self._size), width, op == "ASSERT_NOT"))
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
                self._size.repeats_empty = True
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


class _Search:
    """A search in one text: its remaining steps, and the states that are known to fail."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = STEP_BUDGET
        self._failed: dict[int, set[int]] = {}

    def reaches_match(self, program: _Program, start: int) -> bool:
        """Whether `program` matches from `start`; a state that failed once is never tried again."""
        width = len(self.text) + 1
        failed = self._failed.setdefault(id(program), set())
        visited: set[int] = set()
        stack = [start]
        while stack:
            state = stack.pop()
            if state in failed or state in visited:
                continue
            self.left -= 1
            if self.left < 0:
                raise PatternTooCostly
            visited.add(state)
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
            elif rest[0](self.text, at) if op == "assert" else self._look_holds(at, *rest):
                stack.append(state + width)
        failed |= visited
        return False

    def _look_holds(self, at: int, program: _Program, behind: int, negate: bool) -> bool:
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
            tree, translated, has_category = _parse(source)
            size = _ProgramSize()
            self._program = _Program(tree, int(tree.state.flags), size)
            is_slow = has_category or size.wide > MAX_WIDE or size.repeats_empty
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._fast = None if is_slow else re.compile(translated, re.ASCII)
            self._growth = _growth(tree)
        except _PARSE_FAILS as error:
            raise PatternUnsupported(str(error) or "nested too deeply") from error
        self.source = source
        self.size = size.instructions + (0 if is_slow else size.wide * _WIDE_SIZE)
        self.literal = "" if has_category else _literal(tree)
        # A few of them, such as `^` and `$`, cost almost nothing.
        self._zero_width = size.zero_width // 16
        self._anchored = bool(tree) and str(tree[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")

    def _is_cheap(self, length: int) -> bool:
        if self._fast is None or self._growth is None:
            return False
        return self._most_attempts(length) <= FAST_BUDGET

    def _most_attempts(self, length: int) -> float:
        """The most steps of `re`'s backtracking for a text of this length."""
        assert self._growth is not None, "only asked where there is a bound"
        factor, degree = self._growth
        attempts = factor * float(length + 1) ** (degree + (0 if self._anchored else 1))
        return attempts * max(self._zero_width, 1 if degree <= 1 and self._anchored else length + 1)

    def most_steps(self, length: int) -> int:
        """The most validation steps (10 µs each) that a search in a text of this length takes, about."""
        if self._is_cheap(length):
            return int(self._most_attempts(length) / 1_000)
        # A lookahead or lookbehind may read the same place again and again, so only the budget bounds it.
        if self._program.has_lookaround:
            return STEP_BUDGET // 12
        return min(STEP_BUDGET, len(self._program.code) * (length + 1)) // 12

    def search(self, text: str) -> bool:
        """Whether the pattern occurs anywhere in `text`.

        Raises:
            PatternTooCostly: the search exceeds the budget.
        """
        if self._fast is not None and self._is_cheap(len(text)):
            return self._fast.search(text) is not None
        search = _Search(text)
        starts = (0,) if self._anchored else range(len(text) + 1)
        return any(search.reaches_match(self._program, start) for start in starts)


@lru_cache(maxsize=1024)
def safe_pattern(source: str) -> SafePattern:
    """Return the compiled pattern, cached by its source.

    Raises:
        PatternUnsupported: see `SafePattern`.
    """
    return SafePattern(source)


_MOST_REPEATED = 64
_MOST_CHOICES = 8
_DEEPEST = 40
_LONGEST = 2_000
# Preferred characters where a pattern allows several.
_USUAL = "ax1-_. /Z0@=:"


class Sampler:
    """Makes texts that a pattern may match; none where it cannot be read or names Unicode's categories.

    A sample proves nothing: try it with `SafePattern.search` or with the code that uses the pattern.
    """

    def __init__(self, source: str) -> None:
        self._tree: Any = None
        try:
            tree, _, has_category = _parse(source)
        except (PatternUnsupported, *_PARSE_FAILS):
            return
        self._tree = None if has_category else tree

    def texts(self, filling: str = "") -> Iterator[str]:
        """Yield the shortest texts, or texts with `filling` wherever a character may repeat often enough.

        The first text takes the first alternative of each choice, the next text the second, and so on.
        """
        if self._tree is None:
            return
        last = ""
        for choice in range(_MOST_CHOICES):
            text = _Sample(choice, filling).text(self._tree, 0)
            if choice and text == last:
                return
            last = text
            yield text


class _Sample:
    """One walk over a parse tree, with the alternative of a given number where it exists, else the last."""

    def __init__(self, choice: int, filling: str) -> None:
        self._choice = choice
        self._filling = filling
        self._left = _LONGEST

    def text(self, tree: Any, depth: int) -> str:
        """A text for this part of the tree, cut at the length limit."""
        parts: list[str] = []
        for op, value in tree:
            if self._left <= 0 or depth > _DEEPEST:
                break
            parts.append(self._part(str(op), value, depth))
        return "".join(parts)

    def _part(self, op: str, value: Any, depth: int) -> str:
        match op:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                self._left -= 1
                return _character(op, value)
            case "BRANCH":
                choices = value[1]
                return self.text(choices[min(self._choice, len(choices) - 1)], depth + 1)
            case "SUBPATTERN":
                return self.text(value[3], depth + 1)
            case "MAX_REPEAT" | "MIN_REPEAT":
                low, high, body = value
                return self._repeated(low, high, body, depth)
        return ""

    def _repeated(self, low: int, high: int, body: Any, depth: int) -> str:
        filling = self._filling
        op = str(body[0][0]) if len(body) == 1 else ""
        if filling and high >= len(filling) and op in ("ANY", "IN", "NOT_LITERAL"):
            # Whether each character is allowed there, only the pattern itself decides.
            self._left -= len(filling)
            more = min(max(low - len(filling), 0), _MOST_REPEATED)
            return filling + _character(op, body[0][1]) * more
        parts: list[str] = []
        for _ in range(min(max(low, 1 if filling else 0), high, _MOST_REPEATED)):
            if self._left <= 0:
                break
            parts.append(self.text(body, depth + 1))
        return "".join(parts)


def _character(op: str, value: Any) -> str:
    """A character that this part of a tree matches; a usual one where that is possible."""
    if op == "LITERAL":
        return chr(value)
    if op == "NOT_LITERAL":
        return next(char for char in _USUAL if ord(char) != value)
    if op == "ANY":
        return "x"
    matches = _CharacterClass(value)
    return next((char for char in _USUAL if matches(char)), _first(value))


def _first(items: list[Any]) -> str:
    for op, value in items:
        if str(op) == "LITERAL":
            return chr(value)
        if str(op) == "RANGE":
            return chr(value[0])
    return "\n"
