"""Finds the arguments of any tool that contain a shell line, or a command as a list of words.

An argument called `command` contains a line; an argument called `script` does if the tool's name is that of a
shell; and any argument does that the tool's schema describes as a command to be run. For the built-in shells
the argument is known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from core.policy.analysis.arguments import snake
from core.policy.analysis.built_in_tools import SHELL_ARGUMENTS

MOST_LINES = 200
_MOST_MEMBERS = 5_000
_MOST_SCHEMA_TEXT = 1_000
_LINE_NAMES = frozenset(
    (
        "command cmd command_line commandline cmdline shell_command bash_command shell_cmd shell_line "
        "terminal_command shell bash"
    ).split()
)
_LINE_LIST_NAMES = frozenset("commands cmds shell_commands command_lines".split())
_LISTS_OF_LINES = _LINE_LIST_NAMES | {"lines"}
_SHELL_TOOL_LINE_NAMES = frozenset("script line lines input bash_script shell_script".split())
_SHELL_TOOL = re.compile(
    r"(?:^|_)(?:shells?|bash|zsh|sh|terminal|console|p?tty|cli|exec|ssh|powershell|pwsh|wsl|cmd|commands?|process|"
    r"subprocess|tmux|pod|container)(?:$|_)"
)
# The descriptions of such arguments in the schemas of public servers.
_DESCRIBES_LINE = re.compile(
    r"\b(?:shell|bash|terminal|powershell|console|cli)\s+(?:commands?|lines?|scripts?|code)\b|"
    r"\bcommand[\s-]?lines?\b|\bcommands?\s+(?:string\s+)?to\s+(?:be\s+)?(?:run|execute|send|launch)",
    re.IGNORECASE,
)
_PROGRAM_NAMES = frozenset("command cmd program executable app_name binary exe".split())
_ARGUMENT_LIST_NAMES = frozenset("args arguments argv arg_list".split())
# A list of words with the program first, as the `main` function of a C program gets it.
_COMMAND_LIST_NAMES = frozenset("argv".split())


class ShellLine(NamedTuple):
    """A line in an argument. `whole`: it is the argument's own text, so that offsets refer to that text."""

    argument: str
    text: str
    whole: bool


def holds_line(tool_name: str, argument: str) -> bool:
    """Whether a shell runs the text of an argument, by its name; of a dotted name, the last part counts."""
    if tool_name in SHELL_ARGUMENTS:
        return SHELL_ARGUMENTS[tool_name] == argument
    return _is_line_name(tool_name, argument.rpartition(".")[2])


def line_at(tool_name: str, path: Sequence[str | int], described: Collection[str] = frozenset()) -> bool:
    """Whether a shell reads the text at a path of a tool's arguments.

    `described` are the arguments that the schema describes as lines (`described_line_arguments`). A list of
    words is no line: a program gets each of them as it is.
    """
    names_on_path = [part for part in path if isinstance(part, str)]
    if not names_on_path:
        return False
    key = names_on_path[-1]
    if path[-1] != key and snake(key) not in _LISTS_OF_LINES:
        return False
    is_top = len(names_on_path) == 1
    return (
        _is_line_name(tool_name, key)
        or (is_top and key in described)
        or (is_top and SHELL_ARGUMENTS.get(tool_name) == key)
    )


def described_line_arguments(schema: Mapping[str, Any]) -> frozenset[str]:
    """The arguments that a tool's input schema describes as a command to be run."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset(
        name
        for name, argument_schema in properties.items()
        if _DESCRIBES_LINE.search(schema_text(argument_schema))
    )


def schema_text(schema: Any) -> str:
    """Title and description in an argument's schema, at most `_MOST_SCHEMA_TEXT` characters of each."""
    if not isinstance(schema, Mapping):
        return ""
    texts = [schema.get("title"), schema.get("description")]
    return " ".join(text[:_MOST_SCHEMA_TEXT] for text in texts if isinstance(text, str))


def _is_line_name(tool_name: str, argument: str) -> bool:
    name = snake(argument)
    return (
        name in _LINE_NAMES
        or name in _LINE_LIST_NAMES
        or (name in _SHELL_TOOL_LINE_NAMES and bool(_SHELL_TOOL.search(snake(tool_name))))
    )


def shell_lines(
    tool_name: str, parameters: Mapping[str, Any], described: frozenset[str] = frozenset()
) -> Iterator[ShellLine]:
    """The lines in a call's arguments at any depth, at most `MOST_LINES` + 1.

    `described` are the arguments that the schema describes as lines (`described_line_arguments`).
    """
    count = 0
    pending: list[tuple[str, Any, bool]] = [("", parameters, True)]
    visited = 0
    while pending and visited < _MOST_MEMBERS and count <= MOST_LINES:
        argument, value, top = pending.pop()
        visited += 1
        if isinstance(value, Mapping):
            for line in _lines_in_object(tool_name, argument, value, top, described if top else frozenset()):
                count += 1
                yield line
            members = value.items()
            pending.extend((str(key) if top else argument, member, False) for key, member in members)
        elif isinstance(value, list | tuple):
            pending.extend((argument, member, False) for member in value if isinstance(member, dict | list))


def _lines_in_object(
    tool_name: str, argument: str, value: Mapping[str, Any], top: bool, described: frozenset[str]
) -> Iterator[ShellLine]:
    programs = [(str(key), member) for key, member in value.items() if snake(str(key)) in _PROGRAM_NAMES]
    for key, words in value.items():
        if snake(str(key)) in _ARGUMENT_LIST_NAMES and _is_word_list(words):
            for name, program in programs:
                if isinstance(program, str):
                    yield ShellLine(name if top else argument, shlex.join([program, *words]), whole=False)
    for key, member in value.items():
        whole = snake(str(key)) in _COMMAND_LIST_NAMES and not isinstance(member, str)
        if not (whole or key in described or _is_line_name(tool_name, str(key))):
            continue
        name = str(key) if top else argument
        if isinstance(member, str):
            yield ShellLine(name, member, whole=top)
        elif _is_word_list(member):
            lines = member if snake(str(key)) in _LISTS_OF_LINES else [shlex.join(member)]
            yield from (ShellLine(name, line, whole=False) for line in lines)


def _is_word_list(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(word, str) for word in value)
