"""Which arguments of a call hold a shell line, or a command as a list of words, whichever server offers the
tool.

An argument called `command` holds one, one called `script` does if the tool is called a shell, and so does
one of which the tool's schema says that it is a command to be run. Of the built-in shells it is known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from core.policy.analysis.arguments import snake
from core.policy.analysis.built_in_tools import SHELL_ARGUMENTS
from core.policy.analysis.shell.tables import names

MOST_LINES = 200
_MOST_MEMBERS = 5_000
_MOST_WORDS_ABOUT = 1_000
_ONE = names(
    "command cmd command_line commandline cmdline shell_command bash_command shell_cmd shell_line "
    "terminal_command shell bash"
)
_MANY = names("commands cmds shell_commands command_lines")
_OF_A_SHELL = names("script line lines input bash_script shell_script")
_SHELL_TOOL = re.compile(
    r"(?:^|_)(?:shells?|bash|zsh|sh|terminal|console|p?tty|cli|exec|ssh|powershell|pwsh|wsl|cmd|commands?|process|"
    r"subprocess|tmux|pod|container)(?:$|_)"
)
# What schemas of public servers say of such arguments.
_SAYS_LINE = re.compile(
    r"\b(?:shell|bash|terminal|powershell|console|cli)\s+(?:commands?|lines?|scripts?|code)\b|"
    r"\bcommand[\s-]?lines?\b|\bcommands?\s+(?:string\s+)?to\s+(?:be\s+)?(?:run|execute|send|launch)",
    re.IGNORECASE,
)
_PROGRAMS = names("command cmd program executable app_name binary exe")
_WORDS = names("args arguments argv arg_list")
# A list of words with the program first, as C's `main` gets it.
_WHOLE = names("argv")


class ShellLine(NamedTuple):
    """A line in an argument. `whole`: it is the argument's own text, so that offsets mean that."""

    argument: str
    text: str
    whole: bool


def holds_line(tool_name: str, argument: str) -> bool:
    """Whether a shell runs what stands in an argument; of a dotted name, the last part counts."""
    if tool_name in SHELL_ARGUMENTS:
        return SHELL_ARGUMENTS[tool_name] == argument
    return _is_called_line(tool_name, argument.rpartition(".")[2])


def described_line_arguments(schema: Mapping[str, Any]) -> frozenset[str]:
    """The arguments of which a tool's input schema says that they are a command to be run."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset(name for name, said in properties.items() if _SAYS_LINE.search(schema_text(said)))


def schema_text(schema: Any) -> str:
    """Title and description of an argument, as far as they can matter."""
    if not isinstance(schema, Mapping):
        return ""
    texts = [schema.get("title"), schema.get("description")]
    return " ".join(text[:_MOST_WORDS_ABOUT] for text in texts if isinstance(text, str))


def _is_called_line(tool_name: str, argument: str) -> bool:
    name = snake(argument)
    return (
        name in _ONE or name in _MANY or (name in _OF_A_SHELL and bool(_SHELL_TOOL.search(snake(tool_name))))
    )


def shell_lines(
    tool_name: str, parameters: Mapping[str, Any], described: frozenset[str] = frozenset()
) -> Iterator[ShellLine]:
    """The lines in a call's arguments, in whatever depth, at most `MOST_LINES` and one.

    `described` are the arguments of which the schema says that they are lines (`described_line_arguments`).
    """
    count = 0
    waiting: list[tuple[str, Any, bool]] = [("", parameters, True)]
    looked_at = 0
    while waiting and looked_at < _MOST_MEMBERS and count <= MOST_LINES:
        argument, value, top = waiting.pop()
        looked_at += 1
        if isinstance(value, Mapping):
            for line in _in_object(tool_name, argument, value, top, described if top else frozenset()):
                count += 1
                yield line
            members = value.items()
            waiting.extend((str(key) if top else argument, member, False) for key, member in members)
        elif isinstance(value, list | tuple):
            waiting.extend((argument, member, False) for member in value if isinstance(member, dict | list))


def _in_object(
    tool_name: str, argument: str, value: Mapping[str, Any], top: bool, described: frozenset[str]
) -> Iterator[ShellLine]:
    programs = [(str(key), member) for key, member in value.items() if snake(str(key)) in _PROGRAMS]
    for key, words in value.items():
        if snake(str(key)) in _WORDS and _are_words(words):
            for name, program in programs:
                if isinstance(program, str):
                    yield ShellLine(name if top else argument, shlex.join([program, *words]), whole=False)
    for key, member in value.items():
        whole = snake(str(key)) in _WHOLE and not isinstance(member, str)
        if not (whole or key in described or _is_called_line(tool_name, str(key))):
            continue
        name = str(key) if top else argument
        if isinstance(member, str):
            yield ShellLine(name, member, whole=top)
        elif _are_words(member):
            lines = member if snake(str(key)) in _MANY | {"lines"} else [shlex.join(member)]
            yield from (ShellLine(name, line, whole=False) for line in lines)


def _are_words(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(word, str) for word in value)
