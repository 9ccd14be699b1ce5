"""Looks up the record of a program by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.programs.containers import CONTAINER_TOOLS
from core.programs.databases import DATABASES
from core.programs.development import DEVELOPMENT
from core.programs.files import FILES
from core.programs.languages import LANGUAGES
from core.programs.machine import MACHINE
from core.programs.network import NETWORK
from core.programs.record import Kind, Program
from core.programs.wrappers import WRAPPERS

RECORDS: tuple[Program, ...] = (
    *FILES, *NETWORK, *MACHINE, *CONTAINER_TOOLS, *DEVELOPMENT, *LANGUAGES, *DATABASES, *WRAPPERS,
)  # fmt: skip
"""All records."""
PROGRAMS: dict[str, Program] = {name: record for record in RECORDS for name in record.names}
"""The records by the common names of their programs."""
ORDINARY = frozenset(name for record in RECORDS for name in record.ordinary)
"""The names that are usual where an option or a variable names a program."""

_UNKNOWN = Program(())
_COMMON_NAMES = {alias: name for record in RECORDS for alias, name in record.aliases}
_VERSIONED = re.compile(r"([a-z][a-z-]*?)-?\d+(?:\.\d+)*[a-z]?$")
_MAY_HAVE_A_VERSION = frozenset({Kind.SHELL, Kind.INTERPRETER, Kind.VERSIONED})
_LOADER = re.compile(r"ld(?:-[\w-]+)?\.so(?:\.\d+)*$|ld-musl.*\.so\.1$")


def common_name(name: str) -> str:
    """The name of a program in the records: lower case, without `.exe` or a language's version."""
    bare = name.casefold().removesuffix(".exe")
    if _LOADER.match(bare):
        return "ld.so"
    if versioned := _VERSIONED.match(bare):
        family = _COMMON_NAMES.get(versioned[1], versioned[1])
        if family in PROGRAMS and not PROGRAMS[family].kinds.isdisjoint(_MAY_HAVE_A_VERSION):
            return family
    return _COMMON_NAMES.get(bare, bare)


def program_of(name: str) -> Program:
    """The record of a program by its common name; a record without any fact if the program is not known."""
    return PROGRAMS.get(name) or next(
        (PROGRAMS[family] for family in _FAMILIES if name.startswith(family)), _UNKNOWN
    )


def named(kind: Kind) -> Iterator[str]:
    """The common names of the programs of this kind."""
    return (name for name, record in PROGRAMS.items() if kind in record.kinds)


_FAMILIES = tuple(named(Kind.FAMILY))
