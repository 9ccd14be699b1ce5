"""Parses a shell line into its commands, with tree-sitter-bash.

Lines longer than `LONGEST` characters or with more than `MOST_SIGNS` shell signs are not parsed
(`LineTooComplex`), because the parser's error recovery can take quadratic time. Within these limits the
slowest lines found (generated repetitions) take about a tenth of a second, and usual lines a tenth of a
millisecond.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from core.models.tools import Risk
from core.programs.catalog import common_name, program_of
from core.programs.record import Program

LONGEST = 16_384
MOST_SIGNS = 1_000

# To a shell, all of these characters are parts of words. The grammar treats some of them as blanks.
_PARTS_OF_WORDS = re.compile(r"[^\x00\t\n\x20-\x7e]")
_SIGNS = re.compile(r"[|&;<>(){}`!$\"'\[\]]")
_ESCAPED = re.compile(r"\\(\n|.)|[^\\]+|\\", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([$`\"\\\n])|[^\\]+|\\", re.DOTALL)
_ESCAPED_IN_BACKQUOTES = re.compile(r"\\([$`\\])|[^\\]+|\\", re.DOTALL)
_ANSI_C = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))|[^\\]+|\\",
    re.DOTALL,
)
_ANSI_C_SIGNS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_GLOB = re.compile(r"[*?\[]")
_INDEX = re.compile(r"\w\[")
_COMMAND_BEGINS = re.compile(r"[$<>](?:\\\n)+[({]|\\.|\$\(|`", re.DOTALL)
_ANSI_C_END = re.compile(r"(?:\\.|[^'\\])*+'", re.DOTALL)
_BEFORE_A_COMMENT = frozenset(" \t\n;&|()<>")
_MOST_DOUBTS = 10


class CommandFinding(NamedTuple):
    """An effect of a part of a line in words, with its risk and the word of the line that it refers to."""

    text: str
    risk: Risk
    word: Word | None


class _Piece(NamedTuple):
    """A part of a word: its expanded text, its offset, and whether the text is known before the line runs."""

    text: str
    at: int
    known: bool = True
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a shell line.

    `text` is the word as the shell expands it, up to the first part that is only known when the line runs;
    `known` is true if there is no such part. `written` is the whole word, with unknown parts in their source
    form. `source` is the whole word in its source form; `start` and `end` are its character offsets in the
    line. `pattern`: the shell replaces the word by matching file names. `runs` are pairs of offsets, in
    `written` and in the line, from which on both texts are the same.
    """

    text: str
    known: bool
    source: str
    start: int
    end: int
    written: str = ""
    pattern: bool = False
    runs: tuple[tuple[int, int], ...] = ()

    def cut(self, start: int, end: int | None = None) -> Word:
        """The part of the word between two offsets in `written`, as a word."""
        end = len(self.written) if end is None else end
        text = self.written[start:end]
        known_to = len(self.text)
        known = self.known or end <= known_to
        runs = tuple(
            (max(at - start, 0), place + max(start - at, 0)) for at, place in self._runs_in(start, end)
        )
        first, last = self.span(start, end)
        known_part = text if known else text[: max(known_to - start, 0)]
        return Word(known_part, known, text, first, last, text, self.pattern, runs)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The offsets in the line of a part of `written`; those of the whole word if they are unknown."""
        if not self.runs or start >= end:
            return self.start, self.end
        first, last = self._place(start), self._place(end - 1) + 1
        return (first, last) if self.start <= first < last <= self.end else (self.start, self.end)

    def _place(self, offset: int) -> int:
        at, place = self.runs[max(bisect_right(self.runs, (offset, 1 << 60)) - 1, 0)]
        return place + max(offset - at, 0)

    def _runs_in(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for number, run in enumerate(self.runs):
            ends = self.runs[number + 1][0] if number + 1 < len(self.runs) else len(self.written)
            if ends > start and run[0] < end:
                yield run


def join_words(words: Iterable[Word], source: str = "") -> Word:
    """Words joined by blanks to one word, as a program joins its arguments to a line for a shell."""
    words = list(words)
    written, text, known = "", "", True
    runs: list[tuple[int, int]] = []
    for index, word in enumerate(words):
        blank = " " if index else ""
        if known:
            text += blank + word.text
            known = word.known
        written += blank
        runs.extend((len(written) + at, place) for at, place in word.runs)
        written += word.written
    start, end = (words[0].start, words[-1].end) if words else (0, 0)
    return Word(text, known, source or written, start, end, written, False, tuple(runs))


class Assignment(NamedTuple):
    """A variable with the value that the line gives it."""

    name: str
    value: Word


@dataclass(frozen=True, slots=True)
class Call:
    """A simple command: its words, the first of which is its name, and the variables set for it.

    `input_texts` are the texts of the line that it gets as input, `input_files` the files. `name` is the
    program's common name (`core.programs.catalog.common_name`), "" if it is only known when the line runs.
    `program` is its record.
    """

    words: tuple[Word, ...]
    start: int
    end: int
    assignments: tuple[Assignment, ...] = ()
    input_texts: tuple[Word, ...] = ()
    input_files: tuple[Word, ...] = ()
    name: str = field(init=False)
    program: Program = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Looked up once, because every rule needs it.
        object.__setattr__(self, "name", self._name())
        object.__setattr__(self, "program", program_of(self.name))

    def _name(self) -> str:
        first = self.words[0] if self.words else None
        if first is None or not first.known or (first.pattern and first.text != "["):
            return ""
        return common_name(re.split(r"[/\\]", first.text)[-1].strip("\r"))

    @property
    def args(self) -> tuple[Word, ...]:
        """The words after the name."""
        return self.words[1:]

    @property
    def assigned(self) -> tuple[str, ...]:
        """The names of the variables set for this command."""
        return tuple(assignment.name for assignment in self.assignments)

    def inside(self, words: tuple[Word, ...]) -> Call:
        """The call that consists of these words of this call, with the same input."""
        return Call(words, self.start, self.end, (), self.input_texts, self.input_files)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection of output into a file."""

    target: Word
    appends: bool


@dataclass(frozen=True, slots=True)
class Doubt:
    """A part of the line that a shell may read differently than the parser, by its offsets.

    `why` is the reason in words, "" if the part only has to be parsed again; `line` is the part as a line.
    """

    why: str
    start: int
    end: int
    line: Word | None = None


@dataclass(slots=True)
class Line:
    """A parsed shell line; its lists have no particular order. `pipelines` have the spans of their stages.

    `assignments` are those outside of commands. `inputs` are files from which input is redirected. `indices`
    are texts that a shell may read as a number and that have a command in an array's index. `loop_variables`
    are the names that `for` and `select` set. `parsed` is false if a part is no valid shell grammar.
    """

    calls: list[Call] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    inputs: list[Word] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    pipelines: list[list[tuple[int, int]]] = field(default_factory=list)
    functions: list[tuple[str, int, int]] = field(default_factory=list)
    background: list[tuple[int, int]] = field(default_factory=list)
    indices: list[Word] = field(default_factory=list)
    loop_variables: list[str] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    parsed: bool = True


class LineTooComplex(Exception):
    """The line is too long or too complex to be parsed in bounded time."""


def read_line(text: str) -> Line:
    """Parse a shell line; of a line with invalid parts, the result has the valid ones.

    Raises:
        LineTooComplex: the line is over the limits.
    """
    if len(text) > LONGEST or sum(1 for _ in _SIGNS.finditer(text)) > MOST_SIGNS:
        raise LineTooComplex
    return _Reader(text).read()


def has_index(word: Word) -> bool:
    """Whether a text, read as a number or a variable's name, runs a command in the index of an array."""
    index = _INDEX.search(word.written)
    return index is not None and any(word.written.find(sign, index.end()) >= 0 for sign in ("$(", "`"))


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


class _Reader:
    """Walks one syntax tree without recursion, so that nesting cannot exhaust the stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        # The grammar's scanner reads beyond its tables, and can crash, on characters outside ASCII. To a
        # shell they are parts of words and never of names; so is the sign that replaces them here, which also
        # makes the parser's byte offsets equal to character offsets.
        self._data = _PARTS_OF_WORDS.sub("%", text).encode("ascii")
        self._line = Line()
        # The spans in which no command can stand, and the offsets at which the parser saw one begin or end.
        self._closed: list[tuple[int, int]] = []
        self._command_offsets: set[int] = set()

    def read(self) -> Line:
        root = Parser(_language()).parse(self._data).root_node
        # The grammar stops at NUL and would not see the rest of the line.
        self._line.parsed = not root.has_error and b"\0" not in self._data
        if not self._line.parsed:
            self._note_unparsed(root)
        stack = [(root, False, False)]
        while stack:
            node, tests, quoted = stack.pop()
            self._take(node, tests, quoted)
            tests = tests or node.type == "test_command"
            quoted = quoted or self._is_backquoted(node)
            stack.extend((child, tests, quoted) for child in node.children)
        self._unseen_commands()
        return self._line

    def _take(self, node: Node, tests: bool, quoted: bool) -> None:
        match node.type:
            case "command":
                self._line.calls.extend(self._calls(node))
            case "declaration_command" | "unset_command":
                self._line.calls.append(self._declaration(node))
            case "variable_assignment":
                if node.parent is None or node.parent.type not in ("command", "declaration_command"):
                    self._line.assignments.append(self._assignment(node))
            case "file_redirect":
                self._redirect(node)
            case "for_statement":
                if (name := node.child_by_field_name("variable")) is not None:
                    self._line.loop_variables.append(self._source(name))
            case "pipeline":
                self._line.pipelines.append(self._stages(node))
            case "function_definition":
                name = node.child_by_field_name("name")
                if name is not None:
                    self._line.functions.append((self._source(name), *self._span(node)))
            case "&":
                self._line.background.append(self._span(node))
            case "raw_string" | "ansi_c_string" | "string":
                if node.type != "string":
                    self._closed.append(self._span(node))
                if node.type == "ansi_c_string":
                    self._find_ansi_c_end(node)
                if tests and has_index(word := self._word(node)):
                    self._line.indices.append(word)
            case "comment":
                self._comment(node)
            case "command_substitution" | "process_substitution" | "arithmetic_expansion":
                self._command_offsets.update((node.start_byte, node.end_byte - 1))
                if not quoted and self._is_backquoted(node):
                    self._backquoted(node)
            case "heredoc_redirect":
                self._find_heredoc_end(node)
            case "heredoc_body":
                if self._is_verbatim(node):
                    self._closed.append(self._span(node))
            case "expansion":
                if re.search(r"@P\}$", self._source(node)):
                    why = "Cannot be judged: it runs what is in a variable, by the expansion @P"
                    self._note_doubt(why, *self._span(node))

    def _calls(self, node: Node) -> Iterator[Call]:
        """The call of a command; two calls if a line's end followed by a backslash ends the first."""
        words: list[list[Node]] = []
        lines: list[tuple[int, int]] = []
        assignments: list[Assignment] = []
        texts: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child))
            elif child.type == "herestring_redirect":
                texts.extend(self._word(part) for part in child.named_children[-1:])
            elif child.type not in ("file_redirect", "heredoc_redirect", "comment"):
                named = child.type == "command_name" and child.named_children
                part = child.named_children[0] if named else child
                begins_line = bool(words) and self._source(part)[:1] == "\n"
                if begins_line:
                    # The parser attaches a word that begins a line with a backslash to the line before.
                    lines.append((len(words), part.start_byte))
                if words and not begins_line and self._continues_word(words[-1][-1], part):
                    words[-1].append(part)
                else:
                    words.append([part])
        above = node.parent
        if above is not None and above.type == "redirected_statement":
            texts.extend(self._input_texts(above))
        elif above is not None and above.type == "pipeline" and above.named_children[0] == node:
            # A here-document's node contains the rest of its command's line, for example in `cat <<E | sh`.
            texts.extend(self._piped_input_texts(above))
        made = tuple(self._word(*nodes) for nodes in words)
        around = above if above is not None and above.type == "redirected_statement" else node
        inputs = [child for child in around.named_children if child.type == "file_redirect"]
        files = tuple(self._word(target) for child in inputs if (target := self._input(child)) is not None)
        first, start = 0, node.start_byte
        for number, end in [*lines, (len(made), node.end_byte)]:
            yield Call(
                made[first:number], start, end, tuple(assignments) if not first else (), tuple(texts), files
            )
            first, start = number, end

    def _continues_word(self, before: Node, node: Node) -> bool:
        """Whether the parser split a word that continues after a line's end or after quotes."""
        return not self._text[before.end_byte : node.start_byte].replace("\\\n", "")

    def _input_texts(self, statement: Node) -> Iterator[Word]:
        for redirect in statement.named_children:
            if redirect.type == "herestring_redirect":
                yield from (self._word(part) for part in redirect.named_children[-1:])
            elif redirect.type == "heredoc_redirect":
                yield from (
                    self._heredoc(body) for body in redirect.named_children if body.type == "heredoc_body"
                )

    def _piped_input_texts(self, pipeline: Node) -> Iterator[Word]:
        above = pipeline.parent
        if above is not None and above.type == "heredoc_redirect" and above.parent is not None:
            body = above.parent.child_by_field_name("body")
            if body is not None and self._source(body).strip() == "cat":
                yield from self._input_texts(above.parent)

    def _declaration(self, node: Node) -> Call:
        """`export`, `declare`, `unset` and similar commands, for which the grammar has nodes of their own."""
        words: list[Word] = []
        for child in node.children:
            if self._source(child)[:1] == "\n":
                why = "Cannot be judged: a command stands where the parser sees an argument"
                self._note_doubt(why, child.start_byte, node.end_byte, child.start_byte)
            elif self._source(child) and not child.type.startswith(("here", "file_redirect")):
                words.append(self._word(child))
        return Call(tuple(words), *self._span(node))

    def _assignment(self, node: Node) -> Assignment:
        name = node.child_by_field_name("name") or node.children[0]
        value = node.child_by_field_name("value")
        end = node.end_byte
        word = self._word(value) if value is not None else Word("", True, "", end, end)
        return Assignment(self._source(name), word)

    def _redirect(self, node: Node) -> None:
        target = node.child_by_field_name("destination")
        sign = next((child.type for child in node.children if ">" in child.type), "")
        if target is not None and sign == ">&" and node.child_by_field_name("descriptor") is None:
            self._expanded_twice(target)
        if (source := self._input(node)) is not None:
            self._line.inputs.append(self._word(source))
        elif target is not None and target.type != "number" and sign:
            self._line.redirects.append(Redirect(self._word(target), appends=">>" in sign))

    def _expanded_twice(self, target: Node) -> None:
        """Note a command in the quotes of what follows `>&`, where bash expands it all the same."""
        if target.type in ("raw_string", "string", "word", "concatenation", "ansi_c_string"):
            word = self._word(target)
            starts = [at + len(sign) for sign in ("$(", "`") if (at := word.written.find(sign)) >= 0]
            if starts and len(self._line.doubts) < _MOST_DOUBTS:
                end = max(word.written.rfind(")"), word.written.rfind("`"))
                start = min(starts)
                line = word.cut(start, end if end > start else len(word.written))
                why = "Runs a command that stands in quotes behind >&"
                self._line.doubts.append(Doubt(why, word.start, word.end, line))

    @staticmethod
    def _input(node: Node) -> Node | None:
        """The file that a redirection of input reads; None for another redirection."""
        target = node.child_by_field_name("destination")
        reads = any(child.type == "<" for child in node.children)
        return target if reads and target is not None and target.type != "number" else None

    def _stages(self, node: Node) -> list[tuple[int, int]]:
        stages = [self._span(child) for child in node.named_children]
        above = node.parent
        if above is not None and above.type == "heredoc_redirect" and above.parent is not None:
            # The command that reads the here-document precedes it; the rest of the pipeline is inside it.
            stages.insert(0, (above.parent.start_byte, above.start_byte))
        return stages

    def _word(self, *nodes: Node) -> Word:
        pieces = [piece for node in nodes for piece in self._pieces(node)]
        start, end = nodes[0].start_byte, nodes[-1].end_byte
        return _assemble_word(pieces, self._text[start:end], start, end)

    def _pieces(self, node: Node) -> Iterator[_Piece]:
        """The pieces of a word as the shell expands them, where that is known from the line."""
        source, at = self._source(node), node.start_byte
        match node.type:
            case "word" | "variable_name":
                at += len(source) - len(source.lstrip("\n"))
                source = source.lstrip("\n")
                yield from _unescaped_pieces(_ESCAPED, source, at, bare=True)
            case "number" | "extglob_pattern" | "regex" | "file_descriptor":
                yield _Piece(source, at)
            case "raw_string":
                yield _Piece(source[1:-1], at + 1)
            case "ansi_c_string":
                yield from _ansi_c_pieces(source[2:-1], at + 2)
            case "string":
                yield from self._quoted_pieces(node, at + 1, node.end_byte - 1)
            case "translated_string":
                for child in node.named_children:
                    yield from self._pieces(child)
            case "concatenation":
                yield from self._concatenation_pieces(node)
            case "variable_assignment":
                value = node.child_by_field_name("value")
                yield _Piece(self._text[at : value.start_byte if value is not None else node.end_byte], at)
                if value is not None:
                    yield from self._pieces(value)
            case _ if not node.is_named:
                yield _Piece(source, at)
            case _:
                yield _Piece(source, at, known=False)

    def _quoted_pieces(self, node: Node, start: int, end: int) -> Iterator[_Piece]:
        # Line ends inside a string are in no child node, so the text is taken from the source.
        for child in node.named_children:
            if child.type not in ("string_content", "heredoc_content"):
                yield from _unescaped_pieces(_ESCAPED_IN_QUOTES, self._text[start : child.start_byte], start)
                yield _Piece(self._source(child), child.start_byte, known=False)
                start = child.end_byte
        yield from _unescaped_pieces(_ESCAPED_IN_QUOTES, self._text[start:end], start)

    def _heredoc(self, node: Node) -> Word:
        start, end = self._span(node)
        text = self._source(node)
        verbatim = self._is_verbatim(node)
        pieces = [_Piece(text, start)] if verbatim else list(self._quoted_pieces(node, start, end))
        return _assemble_word(pieces, text, start, end)

    def _is_verbatim(self, body: Node) -> bool:
        """Whether a here-document's delimiter is quoted, so that nothing in it is expanded."""
        starts = (
            [child for child in body.parent.named_children if child.type == "heredoc_start"]
            if body.parent
            else []
        )
        return any(sign in self._source(start) for start in starts for sign in "'\"\\")

    def _concatenation_pieces(self, node: Node) -> Iterator[_Piece]:
        expands = False
        for child, after in pairwise([*node.children, None]):
            assert child is not None
            source = self._source(child)
            if source == "{" and after is not None:
                expands = bool(re.search(r",|\.\.", self._source(after)))
            if child.type == "word" and source in ("{", "}") and expands:
                # A brace expansion becomes several words.
                yield _Piece(source, child.start_byte, known=False)
                continue
            yield from self._pieces(child)

    def _find_ansi_c_end(self, node: Node) -> None:
        """Find the end of a `$'…'` text as a shell does: the parser reads `\\'` as an escaped quote."""
        end = _ANSI_C_END.match(self._text, node.start_byte + 2)
        if end is not None and end.end() != node.end_byte:
            why = "Cannot be judged: a shell ends this text in quotes where the parser does not"
            self._note_doubt(why, end.end(), len(self._text), end.end())

    def _find_heredoc_end(self, node: Node) -> None:
        """Find the end of a here-document as a shell does: the parser misses some."""
        parts = {child.type: child for child in node.children}
        start, body = parts.get("heredoc_start"), parts.get("heredoc_body")
        if start is None:
            return
        delimiter = self._source(start)
        if re.search(r"[|&;<>()]", delimiter) and not re.match(r"['\"]", delimiter):
            why = "Cannot be judged: where this here-document ends is unclear"
            self._note_doubt(why, start.start_byte, len(self._text), start.start_byte)
            return
        delimiter = re.sub(r"['\"\\]", "", delimiter)
        at = body.start_byte if body is not None else len(self._text)
        ends = parts["heredoc_end"].start_byte if "heredoc_end" in parts else len(self._text)
        while at < ends:
            line = self._text[at : _line_end(self._text, at)]
            if (line.lstrip("\t") if "<<-" in parts else line) == delimiter:
                why = "Cannot be judged: a shell ends this here-document where the parser does not"
                self._note_doubt(why, at, len(self._text), at + len(line))
                return
            at += len(line) + 1

    def _comment(self, node: Node) -> None:
        before = node.start_byte
        while before >= 2 and self._text[before - 2 : before] == "\\\n":
            before -= 2
        slashes = before - 1
        while slashes > 0 and self._text[slashes - 1] == "\\":
            slashes -= 1
        escaped = (before - 1 - slashes) % 2 == 1
        if before and (escaped or self._text[before - 1] not in _BEFORE_A_COMMENT):
            why = "Cannot be judged: what looks like a comment goes on with the word before it"
            self._note_doubt(why, *self._span(node), node.start_byte + 1)
        self._closed.append(self._span(node))

    def _is_backquoted(self, node: Node) -> bool:
        return (
            node.type == "command_substitution" and self._data[node.start_byte : node.start_byte + 1] == b"`"
        )

    def _backquoted(self, node: Node) -> None:
        """Commands in backquotes inside backquotes are escaped, so that the parser reads them as words."""
        start, end = node.start_byte + 1, node.end_byte - 1
        text = self._text[start:end]
        if re.search(r"\\[$`\\]", text):
            pieces = list(_unescaped_pieces(_ESCAPED_IN_BACKQUOTES, text, start))
            line = _assemble_word(pieces, text, start, end)
            self._line.doubts.append(Doubt("", start, end, line))

    def _unseen_commands(self) -> None:
        """Find commands that a shell would run and the parser did not see, in words and here-documents."""
        closed = sorted(self._closed)
        number, at, opened = 0, 0, -1
        while len(self._line.doubts) < _MOST_DOUBTS and (sign := _COMMAND_BEGINS.search(self._text, at)):
            at = sign.start()
            while number < len(closed) and closed[number][1] <= at:
                number += 1
            if number < len(closed) and closed[number][0] <= at:
                at = closed[number][1]
                continue
            at = sign.end()
            if sign.group()[0] == "\\" or sign.start() in self._command_offsets:
                continue
            if "\n" in sign.group():
                why = "Cannot be judged: a line's end stands inside the sign that begins a command"
                self._note_doubt(why, sign.start(), len(self._text), sign.end())
                continue
            if sign.group() == "`" and opened < 0:
                opened = sign.start()
                continue
            if sign.group() == "`":
                start, end, opened = opened + 1, sign.start(), -1
            else:
                start = sign.end()
                end = self._text.find(")", start)
                end = len(self._text) if end < 0 else end
            self._note_doubt(
                "Cannot be judged: a command stands where the parser sees plain text", start, end, start
            )
        if opened >= 0:
            self._note_doubt("Cannot be judged: a backquote is not closed", opened, len(self._text))

    def _note_unparsed(self, root: Node) -> None:
        """Note the first part that is not shell grammar."""
        start, end = max(self._data.find(b"\0"), 0), len(self._text)
        node: Node | None = root
        while node is not None and root.has_error:
            start, end = self._span(node)
            node = next((child for child in node.children if child.has_error or child.is_missing), None)
        part = self._text[start:end]
        start, end = start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())
        if start >= end:
            start, end = 0, len(self._text)
        self._note_doubt("Cannot be parsed as a shell line", start, end)

    def _note_doubt(self, why: str, start: int, end: int, line_from: int = -1) -> None:
        """Note a part that a shell may read differently; from `line_from` on, as a line of its own."""
        line = None
        if line_from >= 0:
            line = _assemble_word([_Piece(self._text[line_from:end], line_from)], "", line_from, end)
        if len(self._line.doubts) < _MOST_DOUBTS:
            self._line.doubts.append(Doubt(why, start, end, line))

    def _source(self, node: Node) -> str:
        return self._text[node.start_byte : node.end_byte]

    @staticmethod
    def _span(node: Node) -> tuple[int, int]:
        return node.start_byte, node.end_byte


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _assemble_word(pieces: list[_Piece], source: str, start: int, end: int) -> Word:
    text, written, known, pattern = "", "", True, False
    runs: list[tuple[int, int]] = []
    for piece in pieces:
        known = known and piece.known
        if known:
            text += piece.text
        pattern = pattern or (piece.bare and _GLOB.search(piece.text) is not None)
        if not runs or runs[-1][1] - runs[-1][0] != piece.at - len(written):
            runs.append((len(written), piece.at))
        written += piece.text
    return Word(text, known, source or written, start, end, written, pattern, tuple(runs))


def _unescaped_pieces(pattern: re.Pattern[str], source: str, at: int, bare: bool = False) -> Iterator[_Piece]:
    """The pieces of a text without the backslashes that a shell removes."""
    for part in pattern.finditer(source):
        if part[1] is None:
            yield _Piece(part.group(), at + part.start(), bare=bare)
        elif part[1] != "\n":
            yield _Piece(part[1], at + part.start() + 1)


def _ansi_c_pieces(source: str, at: int) -> Iterator[_Piece]:
    """The pieces of a `$'…'` text: bash manual, ANSI-C Quoting."""
    for part in _ANSI_C.finditer(source):
        hexadecimal = part[1] or part[2] or part[3]
        text = part.group()
        if hexadecimal or part[4]:
            code = int(hexadecimal, 16) if hexadecimal else int(part[4], 8) & 0xFF
            text = chr(code) if 0 < code < 0x110000 else "\ufffd"
        elif part[5]:
            text = chr(ord(part[5]) & 0x1F)
        elif part[6]:
            text = _ANSI_C_SIGNS.get(part[6], part[6] if part[6] in "\\'\"?" else part.group())
        yield _Piece(text, at + part.start())
