"""A shell line as the commands in it: parsed with tree-sitter-bash, never pattern-matched.

Lines longer than `LONGEST` characters or with more than `MOST_SIGNS` shell signs are not parsed (`TooMuch`):
the parser's error recovery can take time proportional to their square. Within these limits the worst lines
found by generating repetitions take about a tenth of a second, and usual ones a tenth of a millisecond.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

LONGEST = 16_384
MOST_SIGNS = 1_000

_OUTSIDE_ASCII = re.compile(r"[^\x00-\x7f]")
_SIGNS = re.compile(r"[|&;<>(){}`!$\"'\[\]]")


@dataclass(frozen=True, slots=True)
class Word:
    """One argument. `text` is what the shell makes of it up to the first part only known when it runs.

    `known` says that there is no such part. `source` is how it is written; `start` and `end` are character
    offsets into the line.
    """

    text: str
    known: bool
    source: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Call:
    """A simple command: its words, the first of them its name, and the variables set for it.

    `here` says that it is given text to read in the line itself.
    """

    words: tuple[Word, ...]
    start: int
    end: int
    assigned: tuple[str, ...] = ()
    here: bool = False

    @property
    def name(self) -> str:
        """The program's name without folders, in small letters; empty when only known when it runs."""
        first = self.words[0] if self.words else None
        if first is None or not first.known:
            return ""
        bare = re.split(r"[/\\]", first.text)[-1].casefold()
        return bare.removesuffix(".exe")

    @property
    def args(self) -> tuple[Word, ...]:
        """The words after the name."""
        return self.words[1:]


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection of output into a file."""

    target: Word
    appends: bool


@dataclass(slots=True)
class Line:
    """What a shell line contains, in any order. `pipelines` hold the spans of their stages."""

    calls: list[Call] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    pipelines: list[list[tuple[int, int]]] = field(default_factory=list)
    functions: list[tuple[str, int, int]] = field(default_factory=list)
    background: list[tuple[int, int]] = field(default_factory=list)
    parsed: bool = True


class TooMuch(Exception):
    """The line is too long or too tangled to be parsed in bounded time."""


def read_line(text: str) -> Line:
    """Parse a shell line. `parsed` is off when part of it is not shell grammar; what was understood is there.

    Raises:
        TooMuch: the line is over the limits.
    """
    if len(text) > LONGEST or sum(1 for _ in _SIGNS.finditer(text)) > MOST_SIGNS:
        raise TooMuch
    return _Reader(text).read()


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


class _Reader:
    """Walks one syntax tree without recursion, so that nesting cannot exhaust the stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        # The grammar's scanner reads beyond its tables, and can crash, on characters outside ASCII. To a
        # shell they are all parts of words and never of names, as is the sign that stands for them here; this
        # also makes the parser's byte offsets the text's own.
        self._data = _OUTSIDE_ASCII.sub("%", text).encode("ascii")
        self._line = Line()

    def read(self) -> Line:
        root = Parser(_language()).parse(self._data).root_node
        # The grammar stops at NUL; whatever came after it would be unseen.
        self._line.parsed = not root.has_error and b"\0" not in self._data
        stack = [root]
        while stack:
            node = stack.pop()
            self._take(node)
            stack.extend(node.children)
        return self._line

    def _take(self, node: Node) -> None:
        match node.type:
            case "command":
                self._line.calls.append(self._call(node))
            case "declaration_command" | "unset_command":
                self._line.calls.append(self._declaration(node))
            case "file_redirect":
                self._redirect(node)
            case "pipeline":
                self._line.pipelines.append([self._span(child) for child in node.named_children])
            case "function_definition":
                name = node.child_by_field_name("name")
                if name is not None:
                    self._line.functions.append((self._source(name), *self._span(node)))
            case "&":
                self._line.background.append(self._span(node))

    def _call(self, node: Node) -> Call:
        words: list[Word] = []
        assigned: list[str] = []
        here = False
        for child in node.named_children:
            if child.type == "variable_assignment":
                assigned.append(self._source(child).split("=", 1)[0].rstrip("+"))
            elif child.type == "herestring_redirect":
                here = True
            elif child.type == "command_name":
                words.append(self._word(child.named_children[0] if child.named_children else child))
            elif child.type not in ("file_redirect", "heredoc_redirect", "comment"):
                words.append(self._word(child))
        above = node.parent
        if above is not None and above.type == "redirected_statement":
            here = here or any(child.type.startswith("here") for child in above.named_children)
        return Call(tuple(words), *self._span(node), tuple(assigned), here)

    def _declaration(self, node: Node) -> Call:
        """`export`, `declare`, `unset` and the like, which the grammar keeps apart from commands."""
        words = [
            Word(source, "$" not in source and "`" not in source, source, *self._span(child))
            for child in node.children
            if (source := self._source(child)) and not child.type.startswith(("here", "file_redirect"))
        ]
        return Call(tuple(words), *self._span(node))

    def _redirect(self, node: Node) -> None:
        target = node.child_by_field_name("destination")
        sign = next((child.type for child in node.children if ">" in child.type), "")
        if target is None or not sign or (sign.startswith(">&") and target.type == "number"):
            return
        self._line.redirects.append(Redirect(self._word(target), appends=">>" in sign))

    def _word(self, node: Node) -> Word:
        text, known = self._value(node)
        return Word(text, known, self._source(node), *self._span(node))

    def _value(self, node: Node) -> tuple[str, bool]:
        """What the shell makes of a word, as far as it is written down."""
        source = self._source(node)
        match node.type:
            case "word":
                return re.sub(r"\\(\n|.)", lambda m: m[1].strip("\n"), source, flags=re.DOTALL), True
            case "number" | "extglob_pattern" | "regex" | "file_descriptor":
                return source, True
            case "raw_string":
                return source[1:-1], True
            case "ansi_c_string":
                return ("", False) if "\\" in source else (source[2:-1], True)
            case "string":
                return self._string(node)
            case "concatenation":
                return self._joined(node)
        return "", False

    def _string(self, node: Node) -> tuple[str, bool]:
        # Line ends inside a string are in no child of it, so the text is cut from the source.
        end, known = node.end_byte - 1, True
        for child in node.named_children:
            if child.type != "string_content":
                end, known = child.start_byte, False
                break
        inner = self._text[node.start_byte + 1 : end]
        return re.sub(r'\\([$`"\\\n])', lambda m: m[1].strip("\n"), inner), known

    def _joined(self, node: Node) -> tuple[str, bool]:
        text = ""
        for child in node.children:
            if child.type == "word" and self._source(child) in ("{", "}"):
                return text, False
            piece, known = self._value(child)
            text += piece
            if not known:
                return text, False
        return text, True

    def _source(self, node: Node) -> str:
        return self._text[node.start_byte : node.end_byte]

    @staticmethod
    def _span(node: Node) -> tuple[int, int]:
        return node.start_byte, node.end_byte
