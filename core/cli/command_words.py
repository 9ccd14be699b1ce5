"""The words of all commands, as `core.completion` reads them: commands, options, kinds of values.

`resources/commands.json` has them, because reading them from the commands imports all modules of the program:
`python -m core.cli.command_words > resources/commands.json`. A test holds the two equal.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from typer.main import get_group

from core.aip.messages import ResultStatus
from core.audit.entries import Kind as EntryKind
from core.audit.query import FIELDS as QUERY_FIELDS
from core.cli.app import app
from core.cli.command_table import LazyGroup, command
from core.commands.results import Verdict
from core.completion.kinds import KINDS, Kind
from core.models.device_filter import FIELDS, LANGUAGE, OS_NAMES
from core.policy.agent_models import OPERATORS_SET

# Sentences of help beside an option; a shell shows one line.
_LONGEST_HELP = 100


def all_words() -> dict[str, Any]:
    """Everything that `resources/commands.json` holds."""
    closed: dict[str, type[Enum]] = {"kind": EntryKind, "status": ResultStatus, "verdict": Verdict}
    return {
        "commands": _group_words(get_group(app)),
        "filter": {
            "fields": {name: list(LANGUAGE.closed.get(name, ())) for name in FIELDS},
            "of_agents": [name for name in FIELDS if name in OPERATORS_SET],
            "os": OS_NAMES,
        },
        "query": {
            "fields": {
                name: [member.value for member in closed[name]] if name in closed else []
                for name in QUERY_FIELDS
            }
        },
    }


def _group_words(group: Any) -> dict[str, Any]:
    lazy = isinstance(group, LazyGroup)
    return {
        "help": group.get_short_help_str(_LONGEST_HELP),
        **_parameters(group),
        **({"default": group.default_command} if hasattr(group, "default_command") else {}),
        "commands": {
            name: _command_words(command(name) if lazy else one) for name, one in group.commands.items()
        },
    }


def _command_words(one: Any) -> dict[str, Any]:
    if hasattr(one, "commands"):
        return _group_words(one)
    return {"help": one.get_short_help_str(_LONGEST_HELP), **_parameters(one)}


def _parameters(one: Any) -> dict[str, Any]:
    declared = inspect.signature(one.callback, eval_str=True).parameters if one.callback else {}
    options: list[dict[str, Any]] = []
    arguments: list[dict[str, Any]] = []
    for parameter in one.params:
        many = {"many": True} if parameter.multiple or parameter.nargs == -1 else {}
        value = {} if getattr(parameter, "is_flag", False) else _value(one, parameter, declared)
        if parameter.param_type_name == "argument":
            arguments.append({**value, **many})
        else:
            names = [*parameter.opts, *parameter.secondary_opts]
            options.append({"names": names, "help": _first_line(parameter.help), **value, **many})
    return {"options": options, "arguments": arguments}


def _value(one: Any, parameter: Any, declared: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """What may be offered for a value: the words of a closed set, or its kind."""
    plain = _plain(typing.get_args(declared[parameter.name].annotation)[0])
    if inspect.isclass(plain) and issubclass(plain, Enum):
        return {"choices": [str(member.value) for member in plain]}
    if plain in (int, float):
        return {"kind": Kind.TEXT.value}
    if parameter.metavar not in KINDS:
        raise TypeError(f"{one.name}: core.completion.kinds has no kind for {parameter.metavar!r}.")
    return {"kind": KINDS[parameter.metavar].value}


def _plain(declared: Any) -> Any:
    """The type of one value: without `None` and `list`."""
    if isinstance(declared, types.UnionType):
        [declared] = [part for part in typing.get_args(declared) if part is not types.NoneType]
    return typing.get_args(declared)[0] if typing.get_origin(declared) is list else declared


def _first_line(text: str | None) -> str:
    return " ".join((text or "").split())[:_LONGEST_HELP]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(all_words(), indent=1, ensure_ascii=False) + "\n")
