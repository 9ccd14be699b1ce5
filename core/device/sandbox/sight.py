"""Remarks on what a command line of the read-only shell could not see because of the sandbox.

The sandbox has its own processes, no network, no sockets and some empty folders. So `ps` lists four processes
and succeeds, and its output does not show that it describes the sandbox only. The remarks are derived from
the command line. For an unknown program, which may look anywhere, there is a general remark. This is no
protection: a command line that disguises its program still gets its output, with the general remark.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.device.private_places import is_below
from core.programs.catalog import common_name, program_of
from core.programs.record import Asks, Kind, Program

FOLDERS = "folders"


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that a command line asked for and could not see: its kind, the reason, another tool."""

    what: str
    why: str
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """The disk as seen from a command line that starts in `folder`: without `hidden`, except `shown`."""

    folder: str
    home: str
    hidden: tuple[str, ...]
    shown: tuple[str, ...] = ()

    def missing(self, paths: Sequence[str], recursive: bool) -> list[str]:
        """The hidden folders that contain a path or the start folder.

        `recursive` adds the hidden folders below a folder in `paths`, or below the start folder if there is
        none.
        """
        found = [place for place in self.hidden if any(self._is_hidden(path, place) for path in paths)]
        found += [place for place in self.hidden if self._is_hidden(self.folder, place)]
        if recursive:
            folders = [path for path in paths if os.path.isdir(path)] or [self.folder]
            found += [
                place
                for place in self.hidden
                if os.path.lexists(place) and any(is_below(place, folder) for folder in folders)
            ]
        return list(dict.fromkeys(found))

    def _is_hidden(self, path: str, place: str) -> bool:
        return is_below(path, place) and not any(
            is_below(path, shown) for shown in self.shown if is_below(shown, place)
        )


_WHY = {
    Asks.PROCESSES: ("It sees only the processes of this one command.", "list_processes"),
    Asks.SOCKETS: ("It sees no socket of the machine.", "shell_execute"),
    Asks.NETWORK: (
        "It has no network; the machine's interfaces are not shown.",
        "get_system_info info_type=network",
    ),
    Asks.SERVICES: ("It reaches no daemon, and their files below /run are not shown.", "shell_execute"),
    Asks.PACKAGES: (
        "It reads what is installed, and neither the repositories' lists nor what a daemon knows.",
        "shell_execute",
    ),
    Asks.OWNERS: (
        "It has a user namespace of its own: other users and groups look like `nobody`.",
        "list_directory",
    ),
    Asks.DEVICES: ("Its /dev has only a few of the machine's devices.", "get_system_info info_type=hardware"),
    Asks.MOUNTS: (
        "The sandbox's own mounts are among those that are shown.",
        "get_system_info info_type=disk",
    ),
    Asks.ENVIRONMENT: ("Its environment is not that of the device client or of a login.", "shell_execute"),
    Asks.ANYTHING: (
        "It sees its own processes only, no network, no sockets, no daemons, and none of the hidden folders.",
        "shell_execute",
    ),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SEPARATOR = re.compile(r"[;&|()\n]+")
_INSIDE = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_PROC = re.compile(r"/proc/(?:\d+|\*|\[)")
_PROC_NET = re.compile(r"/proc/(?:self/|thread-self/)?net\b|/sys/class/net\b")
_OWNER_OPTION = re.compile(r"-[A-Za-z]*[lo][A-Za-z]*")
_ABOUT_OWNERS = frozenset(("-user", "-group", "-uid", "-gid", "-nouser", "-nogroup"))
# The names of all other users and groups in a user namespace that maps one of each (user_namespaces(7)).
_NOBODY = re.compile(rb"\b(?:nobody|nogroup|65534)\b")
_RECURSIVE_OPTION = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--recursive")
_MOST_DEPTH = 4
_MOST_FOLDERS = 10


def unseen(line: str, sight: Sight, output: bytes = b"") -> list[Unseen]:
    """The things that this command line asked for and could not see, each once. `output` is its output.

    May block on the disk, because it checks which folders exist.
    """
    found: dict[str, Unseen] = {}

    def note(what: Asks, program: str) -> None:
        why, instead = _WHY[what]
        found.setdefault(what, Unseen(what.value, f"{program}: {why}", instead))

    recursive = False
    for program, words in _commands(line):
        record = program_of(common_name(program))
        if Kind.LISTS_INSTALLED in record.kinds and _lists_installed(words):
            continue
        if record.asks not in (Asks.NOTHING, Asks.INSIDE):
            note(record.asks, program)
        if _NOBODY.search(output) and _shows_owners(record, words):
            note(Asks.OWNERS, program)
        if Kind.SEARCHES in record.kinds and not _ABOUT_OWNERS.isdisjoint(words):
            note(Asks.OWNERS, program)
        recursive |= Kind.WALKS in record.kinds or (
            Kind.MAY_WALK in record.kinds and any(map(_RECURSIVE_OPTION.fullmatch, words))
        )
    if _PROC.search(line):
        note(Asks.PROCESSES, "/proc")
    if _PROC_NET.search(line):
        note(Asks.NETWORK, "/proc/net" if "/proc" in line else "/sys/class/net")
    places = sight.missing(_paths(line, sight), recursive)
    if places:
        shown = ", ".join(places[:_MOST_FOLDERS]) + (" and others" if len(places) > _MOST_FOLDERS else "")
        found[FOLDERS] = Unseen(FOLDERS, f"Not shown, and empty where listed: {shown}.", "list_directory")
    return list(found.values())


def _lists_installed(words: Sequence[str]) -> bool:
    """Whether apt asks only for installed packages, which are in dpkg's database (apt(8))."""
    return words[:1] == ["list"] and "--installed" in words and "--upgradable" not in words


def _shows_owners(record: Program, words: Sequence[str]) -> bool:
    return Kind.SHOWS_OWNERS in record.kinds or (
        Kind.MAY_SHOW_OWNERS in record.kinds and any(map(_OWNER_OPTION.fullmatch, words))
    )


def _commands(line: str, depth: int = 0) -> Iterator[tuple[str, list[str]]]:
    """Each command of a line: the name of its program and its arguments."""
    command: list[str] = []
    for token in _tokens(line):
        if _SEPARATOR.fullmatch(token):
            yield from _command(command)
            command = []
            continue
        command.append(token)
        if depth < _MOST_DEPTH:
            for inside in _INSIDE.finditer(token):
                yield from _commands(inside[1] or inside[2] or "", depth + 1)
    yield from _command(command)


def _command(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    for index, word in enumerate(words):
        # A keyword is one only as it is written, without a folder.
        keyword = program_of(word)
        if Kind.BEFORE_A_NAME in keyword.kinds:
            return
        if Kind.KEYWORD in keyword.kinds and keyword.asks is not Asks.INSIDE:
            continue
        if _ASSIGNMENT.match(word) or word.startswith(("<", ">")):
            continue
        name, rest = os.path.basename(word), words[index + 1 :]
        record = program_of(common_name(name))
        if record.asks is Asks.INSIDE or (Kind.FROM_INPUT in record.kinds and rest):
            while rest and (rest[0].startswith("-") or rest[0][:1].isdigit()):
                rest = rest[1:]
            yield from _command(rest)
            return
        yield name, rest
        if Kind.SEARCHES in record.kinds and record.wraps is not None:
            for option in sorted(record.wraps.after.intersection(rest)):
                yield from _command(rest[rest.index(option) + 1 :])
        return


def _tokens(line: str) -> list[str]:
    reader = shlex.shlex(line.replace("\n", ";"), posix=True, punctuation_chars=";&|()")
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:
        # A quote is not closed. The shell parses such a line differently, or rejects it.
        return line.split()


def _paths(line: str, sight: Sight) -> list[str]:
    """Every word of a line that may be a path, as an absolute path."""
    paths: dict[str, None] = {}
    for token in _tokens(line):
        for word in re.split(r"[\s=:,'\"<>]+", token):
            path = _expanded(word, sight.home)
            if path:
                paths[os.path.normpath(os.path.join(sight.folder, path))] = None
    return list(paths)


def _expanded(word: str, home: str) -> str | None:
    """A word as a path, with the home folder expanded; None for an option."""
    if word.startswith("-"):
        return None
    for start in ("~", "$HOME", "${HOME}"):
        if word == start or word.startswith(f"{start}/"):
            return home + word[len(start) :]
    return word
