"""Suggests read-only calls (helpers) that help an operator to decide a request.

Helpers are derived from the request's arguments and the tools that the device offers. A helper has no
permission of its own: it goes through the dispatcher like any other command. No part of the request is run to
find out its effect. Words of a shell line are parsed; a helper contains only words without a command in them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Set
from typing import Any

from core.approvals.preview_models import Helper
from core.canonical_json import digest_of
from core.controls import programs_named
from core.models.tool_names import (
    LIST_DIRECTORY,
    LIST_PROCESSES,
    LIST_WINDOWS,
    READ_FILE,
    READ_SHELL,
    SCREENSHOT,
    WRITE_FILE,
)
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS, SHELL_ARGUMENTS
from core.policy.analysis.shell.parser import Line, LineTooComplex, Word, read_line
from core.policy.analysis.shell.wrappers import innermost
from core.programs.record import Kind
from core.statements import Request
from core.text import short_line
from core.text_encodings import UTF_8

MOST_HELPERS = 8
MOST_BYTES = 256 * 1024

_SCREEN_TOOLS = frozenset(
    name for name, tool in BUILT_IN_TOOLS.items() if tool.target is not None or tool.opens_or_closes
)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)[^}`$]*\})")
_GLOB = re.compile(r"[*?\[]")
# A plain variable expands to text only; every other expansion can contain a command.
_RUNS_SOMETHING = re.compile(r"\$\(|`|[<>]\(|\$\{(?![A-Za-z_]\w*\})")

HelperCall = tuple[str, str, dict[str, Any]]


def helpers_for(request: Request, offered: Set[str]) -> list[Helper]:
    """The helpers for this request among the `offered` tools; the result and its ids are deterministic.

    The secrets in `request` are redacted, so that no helper can contain one.
    """
    helpers: dict[str, Helper] = {}
    for title, tool, parameters in _helper_calls(request, offered):
        helper_id = digest_of({"tool": tool, "parameters": parameters})[:16]
        if tool in offered and helper_id not in helpers and len(helpers) < MOST_HELPERS:
            helpers[helper_id] = Helper(
                id=helper_id, title=title, device=request.device, tool=tool, parameters=parameters
            )
    return list(helpers.values())


def _helper_calls(request: Request, offered: Set[str]) -> Iterator[HelperCall]:
    parameters, name = request.parameters, request.tool_name
    line = parameters.get(SHELL_ARGUMENTS.get(name, ""))
    if isinstance(line, str):
        yield from _calls_for_line(line, parameters.get("working_directory"), offered)
    if name == WRITE_FILE and isinstance(path := parameters.get("file_path"), str):
        yield _read_call(path, parameters.get("encoding"))
        yield _list_call(posixpath.dirname(path) or "/", "*")
    elif name not in SHELL_ARGUMENTS:
        yield from _calls_for_paths(parameters)
    for program in (*programs_named(parameters), parameters.get("app_name")):
        if isinstance(program, str) and program:
            yield _processes_call(program)
    if name in _SCREEN_TOOLS:
        yield "Take a picture", SCREENSHOT, {}
        yield "List windows", LIST_WINDOWS, {}


def _calls_for_paths(parameters: dict[str, Any]) -> Iterator[HelperCall]:
    """Suggest looking at each path among the arguments of a tool that this module does not know."""
    for value in parameters.values():
        if isinstance(value, str) and value.startswith(("/", "~/")) and "\n" not in value:
            yield _list_call(value.rstrip("/") or "/", "*") if value.endswith("/") else _read_call(value)


def _calls_for_line(text: str, folder: Any, offered: Set[str]) -> Iterator[HelperCall]:
    try:
        line = read_line(text)
    except LineTooComplex:
        return
    folder = folder if isinstance(folder, str) and folder else None
    own_variables = _own_variables(line)
    for word in _written_words(line):
        if not own_variables & set(_names_in(word.source)):
            yield from _calls_for_word(word, folder, offered)
    for redirect in line.redirects:
        if redirect.target.known and (path := _absolute(redirect.target.text, folder)):
            yield _read_call(path)
    for call in map(innermost, line.calls):
        if call.program.is_a(Kind.ENDS):
            for word in call.args:
                if word.known and re.fullmatch(r"[A-Za-z][\w.-]*", word.text):
                    yield _processes_call(word.text)
        elif call.program.is_a(Kind.SHELL, Kind.INTERPRETER):
            first = next((word for word in call.args if word.known), None)
            if first and not first.text.startswith("-") and (path := _absolute(first.text, folder)):
                yield _read_call(path)
    yield from _calls_for_variables(own_variables, text, folder)


def _written_words(line: Line) -> Iterator[Word]:
    """The arguments that deleting and writing programs act on; deletions first."""
    calls = [call for call in map(innermost, line.calls) if call.words]
    for call in sorted(calls, key=lambda item: not item.program.is_a(Kind.DELETES)):
        operands = [word for word in call.args if not word.source.startswith("-")]
        kinds = call.program.kinds
        if call.program.is_a(Kind.WRITES_OPERANDS, Kind.DELETES):
            # The first argument may be a mode or an owner, not a path.
            yield from operands[1:] if Kind.RIGHTS_FIRST in kinds else operands
        elif Kind.WRITES_LAST in kinds:
            yield from operands[-1:]


def _calls_for_word(word: Word, folder: str | None, offered: Set[str]) -> Iterator[HelperCall]:
    if _RUNS_SOMETHING.search(word.source):
        return
    path = _absolute(word.text, folder) if word.known else None
    short_word = short_line(word.source)
    if path is not None and LIST_DIRECTORY in offered:
        head, tail = posixpath.split(path.rstrip("/") or "/")
        if _GLOB.search(tail) and not _GLOB.search(head):
            yield f"List what {short_word} matches", LIST_DIRECTORY, {"path": head or "/", "glob": tail}
            return
        if not _GLOB.search(path):
            yield f"List {short_word}", LIST_DIRECTORY, {"path": path, "glob": "*"}
            return
    command = f"ls -lad -- {word.source}"
    if _only_lists(command):
        extra = {"working_directory": folder} if folder else {}
        yield f"List what {short_word} matches", READ_SHELL, {"command": command, **extra}


def _only_lists(command: str) -> bool:
    """Whether `command` is still a single `ls` without redirection after a word of the request was appended.

    This check prevents the request from injecting a command into a helper.
    """
    line = read_line(command)
    return line.parsed and [call.name for call in line.calls] == ["ls"] and not line.redirects


def _own_variables(line: Line) -> set[str]:
    """The names of the variables that the line itself sets; outside the line their values are different."""
    variables = {name for call in line.calls for name in call.assigned}
    variables |= {*line.loop_variables, *(assignment.name for assignment in line.assignments)}
    for call in line.calls:
        if call.program.is_a(Kind.DECLARES, Kind.SETS_VARIABLES):
            variables.update(word.source.partition("=")[0] for word in call.args)
    return variables


def _names_in(text: str) -> list[str]:
    return [match[1] or match[2] for match in _VARIABLE.finditer(text)]


def _calls_for_variables(own_variables: Set[str], text: str, folder: str | None) -> Iterator[HelperCall]:
    names = dict.fromkeys(_names_in(text))
    extra = {"working_directory": folder} if folder else {}
    for name in names:
        if name not in own_variables:
            command = f"printf '%s\\n' \"${{{name}-(not set)}}\""
            yield f"Read ${name}", READ_SHELL, {"command": command, **extra}


def _absolute(path: str, folder: str | None) -> str | None:
    """The path independent of the device's working directory; None if it cannot be determined."""
    if not path or "\n" in path or "\0" in path:
        return None
    if path == "~" or path.startswith(("/", "~/")):
        return path
    if path.startswith(("~", "-")) or folder is None or not folder.startswith(("/", "~/")):
        return None
    return posixpath.join(folder, path)


def _read_call(path: str, encoding: Any = None) -> HelperCall:
    """The call that reads a file, in the text encoding that the request would write."""
    has_encoding = isinstance(encoding, str) and encoding not in (UTF_8, "base64")
    extra = {"encoding": encoding} if has_encoding else {}
    return f"Read {short_line(path)}", READ_FILE, {"file_path": path, "max_bytes": MOST_BYTES, **extra}


def _list_call(path: str, glob: str) -> HelperCall:
    return f"List {short_line(path)}", LIST_DIRECTORY, {"path": path, "glob": glob}


def _processes_call(name: str) -> HelperCall:
    return f"List processes named {short_line(name)}", LIST_PROCESSES, {"name": name}
