"""The record of a program: its names, the meaning of its options, what it runs, writes and changes.

A record is data. The rules that read it are elsewhere: those of the shell analysis, the remarks on what a
sandbox hides, the suggestions for an operator. It lies below all of them, because the device client and the
console both read it, and the device client imports nothing of the console.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

from core.models.tools import Risk

MEDIUM, HIGH, CRITICAL = Risk.MEDIUM, Risk.HIGH, Risk.CRITICAL
NEVER = 1_000_000
"""The number of operands before a command that is in no operand."""


class Kind(StrEnum):
    """A group of programs that a rule in code treats alike. The comments say what the rule relies on."""

    # Languages, and programs that run text.
    SHELL = "shell"
    WINDOWS_SHELL = "windows-shell"
    SOURCES = "sources"  # runs the lines of a file in the shell itself
    INTERPRETER = "interpreter"
    AWK = "awk"
    SED = "sed"
    RUNS_LATER = "runs-later"  # runs the lines of its input at another time
    EVALUATES = "evaluates"  # joins its words to a line and runs it
    TRAPS = "traps"  # its first operand is a line
    ALIASES = "aliases"  # each `name=value` gives a name to a line
    EDITOR = "editor"  # its words and its input may contain commands for a shell
    LINE_EDITOR = "line-editor"  # changes files by the commands that it reads
    KEYWORD = "keyword"  # a reserved word of the shell
    BEFORE_A_NAME = "before-a-name"  # such a word, after which no program follows
    # Variables of the shell.
    NAMES_VARIABLES = "names-variables"  # reads words as names; a shell runs commands in an array's index
    SETS_VARIABLES = "sets-variables"  # all its words are names of variables that it sets
    DECLARES = "declares"  # its words are assignments
    SPLITS = "splits"  # with IFS, it only splits its own input
    PRINTS = "prints"  # its words become its output
    PRINTS_FORMAT = "prints-format"  # the first of them is a format
    # Other users, processes and computers.
    ROOT = "root"  # runs a command as root; without a command, a shell
    REMOTE_SHELL = "remote-shell"  # without a command, a shell on another computer
    ENDS = "ends"  # ends processes
    ENDS_BY_NUMBER = "ends-by-number"
    ENDS_BY_NAME = "ends-by-name"
    DOWNLOADS = "downloads"
    SOCKETS = "sockets"  # sends its input to another computer
    LOOKS_UP = "looks-up"  # asks the network for the names among its words
    MOUNTS = "mounts"  # `-v FROM:TO` gives a container folders of this computer
    GIT = "git"
    REDIS = "redis"
    MONGO = "mongo"
    # Files.
    DELETES = "deletes"
    ONLY_EMPTY = "only-empty"  # deletes empty folders
    MOVES = "moves"
    RIGHTS = "rights"  # changes owners or permissions
    MODES = "modes"  # an operand is a mode, as of chmod
    BLOCKS = "blocks"  # writes to `of=FILE`
    ENTERS = "enters"  # changes the working folder
    TAR = "tar"
    ZIP = "zip"
    UNZIP = "unzip"
    SEVEN_ZIP = "7z"
    UNPACKS = "unpacks"
    WRITES_OPERANDS = "writes-operands"  # each operand is written to
    RIGHTS_FIRST = "rights-first"  # except the first one, a mode or an owner
    WRITES_LAST = "writes-last"  # the last operand is written to
    WRITES_IN_PLACE = "writes-in-place"  # with -i, the operands are written to
    OUTPUT_OPTION = "output-option"  # writes to the value of -o, -O, -C, --output or a similar option
    ONLY_IF_ASKED = "only-if-asked"  # reads, and overwrites a file only if an option says so
    # Other commands, in their words or for each of many.
    SEARCHES = "searches"  # runs a command for each file that it finds
    FROM_INPUT = "from-input"  # completes its command with what it reads
    RUNS_INPUT = "runs-input"  # without a command, runs what it reads
    BUILDS = "builds"  # `NAME=VALUE` sets a variable that recipes may run
    FAMILY = "family"  # names that begin with its name belong to programs of the same use
    VERSIONED = "versioned"  # its name may end with a version, as those of shells and interpreters
    # What a sandbox shows.
    WALKS = "walks"  # reads all folders below
    MAY_WALK = "may-walk"  # does so with -r or -R
    SHOWS_OWNERS = "shows-owners"
    MAY_SHOW_OWNERS = "may-show-owners"  # does so with -l or -o
    LISTS_INSTALLED = "lists-installed"  # with `list --installed`, reads only its own files

    # Each command of a line is looked up by a dozen kinds, and the hash of an enum is written in Python.
    __hash__ = str.__hash__


class Asks(StrEnum):
    """A part of the machine that a program asks for, and that a sandbox may hide."""

    PROCESSES = "processes"
    SOCKETS = "sockets"
    NETWORK = "network"
    SERVICES = "services"
    PACKAGES = "packages"
    OWNERS = "owners"
    DEVICES = "devices"
    MOUNTS = "mounts"
    ENVIRONMENT = "environment"
    ANYTHING = "anything"
    NOTHING = "nothing"  # files that are named to it, the kernel's data on the machine, its own arguments
    INSIDE = "inside"  # what the program inside its words asks for


class Takes(NamedTuple):
    """The options of a program that take a value: `attached` only in the same word, `twice` two values.

    `long` are the long ones of both, shortest first. `whole` are those of several letters after one dash.
    """

    values: frozenset[str]
    attached: frozenset[str]
    twice: frozenset[str]
    long: tuple[str, ...]
    whole: frozenset[str]


def takes(names: str = "") -> Takes:
    """The options in a text: `-o --output -i? --bind:2`.

    `?` marks an option whose value, if any, is in the same word; `:2` marks an option with two values.
    """
    words = names.split()
    attached = frozenset(word[:-1] for word in words if word.endswith("?"))
    twice = frozenset(word[:-2] for word in words if word.endswith(":2"))
    values = twice | {word for word in words if not word.endswith(("?", ":2"))}
    long = [word for word in values | attached if word.startswith("--")]
    whole = frozenset(word for word in values | attached if len(word) > 2 and word[1] != "-")
    # An ambiguous abbreviation means the shortest name. Sorted, as the order of a set differs per process.
    return Takes(values, attached, twice, tuple(sorted(long, key=lambda word: (len(word), word))), whole)


class Effect(NamedTuple):
    """The effect of a call if each pattern of `words` matches a whole argument; ` & ` separates patterns.

    An empty `words` matches any arguments.
    """

    words: str
    text: str
    risk: Risk


class Reading(NamedTuple):
    """A call only reads if `words` match its arguments (as in `Effect`) and `unless` matches none of them."""

    words: str
    unless: str = ""


@dataclass(frozen=True, slots=True)
class Wraps:
    """How a program gets the command that it runs.

    `skip`: the number of operands before the command, `NEVER` if it is in options only. `lines`: options
    whose value is a shell line. `shell`: a shell reads the words, joined; `each`: it reads each word as
    a line. `after`: words after which the command begins; `only`: it begins nowhere else. `looks`: options
    with which nothing is run. `program`: options whose value is the program, with its arguments after `--`.
    `anywhere`: options may follow the first operand. `open`: the program has options with a value that its
    record does not have. `sets`: assignments may precede the command. `splits`: the words after a line belong
    to the line.
    """

    skip: int = 0
    lines: frozenset[str] = frozenset()
    shell: bool = False
    each: bool = False
    after: frozenset[str] = frozenset()
    only: bool = False
    looks: frozenset[str] = frozenset()
    program: frozenset[str] = frozenset()
    anywhere: bool = False
    open: bool = False
    sets: bool = False
    splits: bool = False


@dataclass(frozen=True, slots=True)
class Language:
    """How an interpreter gets its program.

    `code`: options whose value is a program. `modules`: options whose value is the name of a module to run.
    `looks`: options with which it runs nothing. `verbs`: first operands after which code follows. `script`:
    the first operand is a program file.
    """

    code: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    script: bool = True


class ClientCommand(NamedTuple):
    """A command of a database client itself: `pattern` finds it in a text, with re.MULTILINE.

    The first group is a shell line (`does` is "line") or a path to which it writes ("path"). A "file" is read
    or written, "code" is loaded: both without a group.
    """

    pattern: str
    does: Literal["line", "path", "file", "code"]


@dataclass(frozen=True, slots=True)
class Client:
    """A database client: the options whose value is a query, a file of queries, or a file of results."""

    queries: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    commands: tuple[ClientCommand, ...] = ()


@dataclass(frozen=True, slots=True)
class Writes:
    """The files that a call overwrites: values of the options `to`, at whose end `adds_to` write.

    `operand`: the operands that it overwrites: "each", "second", "last", in place of which stand the values
    of the options `into`, or "fetched" for files that are named like the operands. `unless`: options with
    which it keeps the files of its operands; `force` overrules these. `needs`: without one of these options
    it overwrites no operand; `adds`: with one of these it writes at their end.
    """

    to: frozenset[str] = frozenset()
    adds_to: frozenset[str] = frozenset()
    operand: Literal["", "each", "second", "last", "fetched"] = ""
    into: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()
    force: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    adds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Sends:
    """The data that a program sends: options in `files` name files, those in `texts` may name them.

    `unchecked`: options with which it does not check who answers.
    """

    files: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    unchecked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Program:
    """The facts about a program, or about one of its subcommands.

    `names`: the names that share the record. `aliases`: other names, each with the name that it stands for.
    `options` are all options known to take a value; `single`: one dash begins a whole name, as in `find
    -name`. `runs`: options whose value is a command, if it begins with the second text. `loads`: options
    whose value names a file of code or settings.

    `changes`: effects of a call, unless it only `reads`. `always`: effects of each call; `each`: of each word
    that the last pattern matches. `ordinary`: the names that are a usual value of an option or variable that
    names a program, as written, so that one of them there is no finding.
    """

    names: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    kinds: frozenset[Kind] = frozenset()
    ordinary: frozenset[str] = frozenset()
    options: Takes = field(default_factory=takes)
    single: bool = False
    runs: tuple[tuple[str, str], ...] = ()
    loads: frozenset[str] = frozenset()
    changes: tuple[Effect, ...] = ()
    always: tuple[Effect, ...] = ()
    each: tuple[Effect, ...] = ()
    reads: tuple[Reading, ...] = ()
    wraps: Wraps | None = None
    language: Language | None = None
    client: Client | None = None
    writes: Writes | None = None
    sends: Sends | None = None
    asks: Asks = Asks.ANYTHING
    subcommands: tuple[Program, ...] = ()

    def is_a(self, *kinds: Kind) -> bool:
        """Whether the program is of one of these kinds."""
        return not self.kinds.isdisjoint(kinds)

    def subcommand(self, name: str) -> Program | None:
        """The subcommand of this name."""
        return next((verb for verb in self.subcommands if name in verb.names), None)


def program(
    names: str,
    *,
    aliases: str = "",
    kinds: str = "",
    ordinary: str | Literal[True] = "",
    options: str = "",
    single: bool = False,
    runs: str = "",
    loads: str = "",
    changes: Iterable[tuple[str, str, Risk]] = (),
    always: Iterable[tuple[str, str, Risk]] = (),
    each: Iterable[tuple[str, str, Risk]] = (),
    reads: Iterable[tuple[str, str]] = (),
    wraps: Wraps | None = None,
    language: Language | None = None,
    client: Client | None = None,
    writes: Writes | None = None,
    sends: Sends | None = None,
    asks: str = Asks.ANYTHING,
    subcommands: Iterable[Program] = (),
) -> Program:
    """A record; words in a text stand for a set of names.

    An alias stands for the first name, or with `alias=name` for that one. `ordinary=True`: all of `names`.
    `options` need not repeat those that the other parts name. With `--name=start` in `runs`, only a value
    that begins with `start` is run, without the start.
    """
    pairs = tuple((name, start) for name, _, start in (entry.partition("=") for entry in runs.split()))
    parts = (part for part in (wraps, language, client, writes, sends) if part is not None)
    with_values = {name for part in parts for name in _options_with_values(part)}
    known = {word.rstrip("?").removesuffix(":2") for word in options.split()}
    named = {name for name, _ in pairs} | set(loads.split()) | with_values
    return Program(
        names=tuple(names.split()),
        aliases=tuple(_pair(alias, names.split(maxsplit=1)[0]) for alias in aliases.split()),
        kinds=frozenset(Kind(kind) for kind in kinds.split()),
        ordinary=_set(names if ordinary is True else ordinary),
        options=takes(" ".join([options, *sorted(named - known)])),
        single=single,
        runs=pairs,
        loads=frozenset(loads.split()),
        changes=tuple(Effect(*effect) for effect in changes),
        always=tuple(Effect(*effect) for effect in always),
        each=tuple(Effect(*effect) for effect in each),
        reads=tuple(Reading(*reading) for reading in reads),
        wraps=wraps,
        language=language,
        client=client,
        writes=writes,
        sends=sends,
        asks=Asks(asks),
        subcommands=tuple(subcommands),
    )


def _pair(alias: str, first: str) -> tuple[str, str]:
    short, _, name = alias.partition("=")
    return short, name or first


def _options_with_values(part: Wraps | Language | Client | Writes | Sends) -> frozenset[str]:
    match part:
        case Wraps():
            return part.lines | part.program
        case Language():
            return part.code | part.modules
        case Client():
            return part.queries | part.files | part.results
        case Writes():
            return part.to | part.adds_to | part.into
        case Sends():
            return part.files | part.texts


def wraps(
    skip: int = 0, *, lines: str = "", after: str = "", looks: str = "", program: str = "", **flags: bool
) -> Wraps:
    """How a program gets the command that it runs (`Wraps`)."""
    return Wraps(skip, _set(lines), after=_set(after), looks=_set(looks), program=_set(program), **flags)


_LOOKS = "-V --version -h --help -v"


def language(
    code: str = "", *, modules: str = "", looks: str = _LOOKS, verbs: str = "", script: bool = True
) -> Language:
    """How an interpreter gets its program (`Language`)."""
    return Language(_set(code), _set(modules), _set(looks), _set(verbs), script)


def client(
    queries: str = "", files: str = "", results: str = "", commands: Iterable[ClientCommand] = ()
) -> Client:
    """A database client (`Client`)."""
    return Client(_set(queries), _set(files), _set(results), tuple(commands))


def sends(files: str = "", texts: str = "", unchecked: str = "") -> Sends:
    """The data that a program sends (`Sends`)."""
    return Sends(_set(files), _set(texts), _set(unchecked))


def writes(
    to: str = "",
    operand: Literal["", "each", "second", "last", "fetched"] = "",
    *,
    adds_to: str = "",
    into: str = "",
    unless: str = "",
    force: str = "",
    needs: str = "",
    adds: str = "",
) -> Writes:
    """The files that a call overwrites (`Writes`)."""
    return Writes(
        _set(to), _set(adds_to), operand, _set(into), _set(unless), _set(force), _set(needs), _set(adds)
    )


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())
