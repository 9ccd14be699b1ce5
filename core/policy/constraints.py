"""Typed conditions on one argument of a call, as rules and grants state them.

A condition answers for whole calls it has never seen, so what it cannot decide has to count against the call:
`forbids` asks whether a deny or ask rule applies (in doubt yes), `permits` whether an allow rule or a grant
does (in doubt no). Of a list every element counts: one is enough to forbid, all are needed to permit.
"""

from __future__ import annotations

import itertools
import math
import ntpath
import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any, Self

from pydantic import Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer, model_validator

from core.fleet.models import Plain
from core.schema_forms.patterns import PatternTooCostly, PatternUnsupported, SafePattern, safe_pattern

Scalar = str | int | float | bool | None

LONGEST_PATH = 4_096
"""In characters. What is longer no rule decides: the folders above a path take the square of its length."""

_DRIVE = re.compile(r"^[A-Za-z]:[\\/]|^\\\\")
# What Linux and macOS have under a second name: merged /usr, /run, and what lies below /private on macOS.
_ALIASES = (
    (re.compile(r"^/System/Volumes/Data(?=/|$)"), ""),
    (re.compile(r"^/private(?=/(?:etc|tmp|var)(?:/|$))"), ""),
    (re.compile(r"^/(?=(?:bin|sbin|lib|lib32|lib64|libx32)(?:/|$))"), "/usr/"),
    (re.compile(r"^/var/(?=run(?:/|$))"), "/"),
    (re.compile(r"^/var/(?=lock(?:/|$))"), "/run/"),
)
# Ways into any folder by way of a process, of an open file or (on macOS) of a file's number.
_ANYWHERE = re.compile(r"^/proc/.*?/(?:root|cwd|exe|fd|map_files)(?:/|$)|^/dev/fd(?:/|$)|^/\.vol/")
_OUT_OF_PROC = re.compile(r"/proc/.*/(?:root|cwd|fd)/+\.\.(?:/|$)")
_SHORT_NAME = re.compile(r"~\d")
_MOST_ELEMENTS = 1_000
_LONGEST_NUMBER = 400


class Unsure(Exception):
    """This value cannot be decided by this condition."""


class Constraint(Plain):
    """What must hold of one argument. All that are given must hold; none given is a fault.

    `min`, `max`: numbers. `min_length`, `max_length`: characters, or elements of a list. `pattern`: searched
    for in the text, in linear time (`core.schema_forms.patterns`). `below`: an absolute folder; `..` is
    resolved before comparing, second names that systems have for a folder count as the same place and, on
    the disk of this computer, symbolic links are followed. Hard links, bind mounts and file systems that
    ignore case cannot be seen in a path, here or on another device.
    """

    equals: Scalar | list[Any] | dict[str, Any] = None
    one_of: list[Scalar] | None = None
    pattern: str | None = None
    below: str | None = None
    min: float | None = None
    max: float | None = None
    min_length: int | None = Field(default=None, ge=0)
    max_length: int | None = Field(default=None, ge=0)

    _pattern: SafePattern | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _compile(self) -> Self:
        if all(value is None for _, value in self) and not self.wants_equal:
            raise ValueError(
                "a condition on an argument needs one of equals, one_of, pattern, below, min, max, …"
            )
        if self.pattern is not None:
            try:
                self._pattern = safe_pattern(self.pattern)
            except PatternUnsupported as error:
                raise ValueError(f"pattern: {error}") from error
        if self.below is not None and not is_absolute(self.below) and not self.below.startswith("~"):
            raise ValueError("below takes an absolute folder")
        if self.one_of is not None and not self.one_of:
            raise ValueError("one_of lists nothing")
        if any(edge is not None and math.isnan(edge) for edge in (self.min, self.max)):
            raise ValueError("min and max are numbers")
        return self

    @model_serializer(mode="wrap")
    def _only_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What was given and nothing else: `equals` null is a condition, and no `equals` is none.

        So a condition is the same on the other side of a socket, and after a restart; and no signature over
        one of them is good for the other.
        """
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}

    @property
    def wants_equal(self) -> bool:
        """Whether `equals` was given; null is a value like any other."""
        return "equals" in self.model_fields_set

    @property
    def literal(self) -> str:
        """A text that occurs in every value that the pattern matches, or ""."""
        return self._pattern.literal if self._pattern is not None else ""

    @property
    def _by_element(self) -> bool:
        """Whether of a list each element is looked at, rather than the list as a whole."""
        return not self.wants_equal and self.min_length is None and self.max_length is None

    @property
    def _equals_one(self) -> bool:
        return self.wants_equal and not isinstance(self.equals, (list, dict))

    def forbids(self, value: Any, real: Callable[[str], str] | None = None) -> bool:
        """Whether a rule against calls applies to this value; what cannot be decided applies.

        `real` says where a path leads on this computer's disk, as a normal path, or raises `Unsure`.
        """
        inside = isinstance(value, (list, dict)) and (self._by_element or self._equals_one)
        if inside and len(value) > _MOST_ELEMENTS:
            return True
        if inside and any(self.forbids(one, real) for one in elements(value)):
            return True
        try:
            return self._holds(value, real, all_ways=False)
        except Unsure:
            return True

    def permits(self, value: Any, real: Callable[[str], str] | None = None) -> bool:
        """Whether a rule for calls applies to this value; what cannot be decided does not."""
        if self._by_element and isinstance(value, list):
            return 0 < len(value) <= _MOST_ELEMENTS and all(self.permits(one, real) for one in value)
        try:
            return self._holds(value, real, all_ways=True)
        except Unsure:
            return False

    def words(self) -> str:
        """The condition as people read it."""
        parts = []
        if self.wants_equal:
            parts.append(f"is {self.equals!r}")
        if self.one_of is not None:
            parts.append(f"is one of {', '.join(map(repr, self.one_of))}")
        if self.pattern is not None:
            parts.append(f"matches {self.pattern}")
        if self.below is not None:
            parts.append(f"is below {self.below}")
        if self.min is not None or self.max is not None:
            low = "" if self.min is None else f"{_figure(self.min)} ≤ "
            high = "" if self.max is None else f" ≤ {_figure(self.max)}"
            parts.append(f"{low}it{high}")
        if self.min_length is not None:
            parts.append(f"has at least {self.min_length} characters or elements")
        if self.max_length is not None:
            parts.append(f"has at most {self.max_length} characters or elements")
        return " and ".join(parts)

    def _holds(self, value: Any, real: Callable[[str], str] | None, *, all_ways: bool) -> bool:
        if self.wants_equal and not same(value, self.equals):
            return False
        if self.one_of is not None and not any(same(value, one) for one in self.one_of):
            return False
        # Many tools take a number that is written as a text, so against a call it counts as one.
        number = value if all_ways else _as_number(value)
        if not self._fits_number(number) or not self._fits_length(value):
            return False
        if self._pattern is not None and not self._fits_pattern(value):
            return False
        return self.below is None or _is_below(value, self.below, real, all_ways=all_ways)

    def _fits_number(self, value: Any) -> bool:
        if self.min is None and self.max is None:
            return True
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def _fits_length(self, value: Any) -> bool:
        if self.min_length is None and self.max_length is None:
            return True
        if not isinstance(value, (str, list)):
            return False
        low = self.min_length or 0
        return low <= len(value) and (self.max_length is None or len(value) <= self.max_length)

    def _fits_pattern(self, value: Any) -> bool:
        if not isinstance(value, str) or self._pattern is None:
            return False
        try:
            return self._pattern.search(value)
        except PatternTooCostly as error:
            raise Unsure from error


def elements(value: Any) -> Iterator[Any]:
    """What is directly inside a list or object; nothing is inside anything else."""
    if isinstance(value, (list, dict)):
        yield from value.values() if isinstance(value, dict) else value


def _as_number(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > _LONGEST_NUMBER:
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _figure(number: float) -> str:
    """A number with every digit that counts: what is shown of a grant is what was signed."""
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else repr(number)


def same(value: Any, wanted: Any) -> bool:
    """Equality as JSON has it: `1` is `1.0`, and neither is `true`."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(same, value, wanted))
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(same(value[key], wanted[key]) for key in value)
    return bool(value == wanted) if type(value) is type(wanted) else _same_number(value, wanted)


def _same_number(value: Any, wanted: Any) -> bool:
    return isinstance(value, (int, float)) and isinstance(wanted, (int, float)) and value == wanted


def is_absolute(path: str) -> bool:
    """Whether a path, Unix's or Windows', begins at a root."""
    return path.startswith("/") or bool(_DRIVE.match(path))


def normal_path(path: str) -> str:
    """A path without `.`, `..` and doubled separators; Windows' in lower case with `/`."""
    if _DRIVE.match(path):
        return ntpath.normpath(path).lower().replace("\\", "/").rstrip("/")
    # Two leading slashes are one on every system we serve; POSIX leaves them to the system.
    return posixpath.normpath(re.sub(r"^/+", "/", path))


def is_odd(path: str) -> bool:
    """Whether a system may read an absolute path as another one than it says.

    Windows has other names for one file (shares of a drive, short names, dots and spaces at the end), and
    for others `C:` is a folder like any other, out of which `..` leads. Below `/proc` there are ways to
    anywhere else.
    """
    parts = path.replace("\\", "/").split("/")
    if parts[:2] == ["", ""] and len(parts) > 2 and (parts[2] in ("?", ".") or "$" in path):
        return True
    if not _DRIVE.match(path):
        # From the root of a process `..` leads elsewhere than the text says.
        return bool(_ANYWHERE.match(normal_path(path)) or _OUT_OF_PROC.search(path))
    return any(
        part == ".." or (part != "." and part.endswith((".", " "))) or _SHORT_NAME.search(part)
        for part in parts
    )


def main_name(path: str) -> str:
    """A normal path by the first name that systems have for its folder: `/lib/x` is `/usr/lib/x`."""
    for second, first in _ALIASES:
        path = second.sub(first, path) or "/"
    return path


def folders_of(path: str) -> list[str]:
    """The path itself and every folder above it, the root included; of a normal path."""
    found = [path]
    while "/" in path and path != "/":
        path = path.rpartition("/")[0] or "/"
        found.append(path)
    return found


def _is_below(value: Any, folder: str, real: Callable[[str], str] | None, *, all_ways: bool) -> bool:
    if not isinstance(value, str):
        return False
    if len(value) > LONGEST_PATH:
        raise Unsure
    homes = value.startswith("~") and folder.startswith("~")
    if homes and _first_part(value) != _first_part(folder):
        # Another user's home, or out of it: where these are, the device knows.
        raise Unsure
    if not homes and (not is_absolute(value) or is_odd(value)):
        # Where a relative path leads is the device's to know.
        raise Unsure
    ways = _ways(normal_path(value), normal_path(folder), loose=not all_ways)
    if real is not None:
        # Lazily: what is below by its name alone need not be followed to be denied.
        ways = itertools.chain(ways, _followed(real, value, folder))
    return all(ways) if all_ways else any(ways)


def _first_part(path: str) -> str:
    return normal_path(path).partition("/")[0]


def _ways(here: str, top: str, *, loose: bool) -> Iterator[bool]:
    """Whether one normal path is below another, in each way that they can be read; `loose`: in more ways."""
    yield top in folders_of(here)
    yield main_name(top) in folders_of(main_name(here))
    if loose and here.startswith("/"):
        # Windows takes a path without a drive on the current one; whose home `~` is, its device knows.
        if top[1:2] == ":" and top[2:]:
            yield top[2:] in folders_of(here.lower())
        elif top.startswith("~/"):
            yield f"{top[1:]}/" in f"{here}/"


def _followed(real: Callable[[str], str], path: str, folder: str) -> Iterator[bool]:
    """Whether a path is below a folder once the links of both are followed."""
    yield real(folder) in folders_of(real(path))
