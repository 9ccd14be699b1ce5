"""Defines typed conditions on one argument of a call, used by rules and grants.

A value that a condition cannot decide counts against the call: `forbids` returns whether a deny or ask rule
applies (in doubt yes), `permits` whether an allow rule or a grant applies (in doubt no). In a list, one
element is enough to forbid; all elements are needed to permit.
"""

from __future__ import annotations

import itertools
import math
import ntpath
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from pydantic import Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer, model_validator

from core.models.frozen import FrozenModel
from core.schema_forms.patterns import PatternTooCostly, PatternUnsupported, SafePattern, safe_pattern

Scalar = str | int | float | bool | None

LONGEST_PATH = 4_096
"""In characters. Longer paths are undecided: listing the folders above a path takes quadratic time."""

_DRIVE = re.compile(r"^[A-Za-z]:[\\/]|^\\\\")
# Folders with two names: merged /usr and /run on Linux, /private and /System/Volumes/Data on macOS.
_ALIASES = (
    (re.compile(r"^/System/Volumes/Data(?=/|$)"), ""),
    (re.compile(r"^/private(?=/(?:etc|tmp|var)(?:/|$))"), ""),
    (re.compile(r"^/(?=(?:bin|sbin|lib|lib32|lib64|libx32)(?:/|$))"), "/usr/"),
    (re.compile(r"^/var/(?=run(?:/|$))"), "/"),
    (re.compile(r"^/var/(?=lock(?:/|$))"), "/run/"),
)
# Paths that can lead to any folder: through a process, an open file or (on macOS) a file's number.
_ANYWHERE = re.compile(r"^/proc/.*?/(?:root|cwd|exe|fd|map_files)(?:/|$)|^/dev/fd(?:/|$)|^/\.vol/")
_OUT_OF_PROC = re.compile(r"/proc/.*/(?:root|cwd|fd)/+\.\.(?:/|$)")
_SHORT_NAME = re.compile(r"~\d")
_MOST_ELEMENTS = 1_000
_LONGEST_NUMBER = 4_300


class Undecidable(Exception):
    """The condition cannot decide this value."""


class UnknownPath(str):
    """A path that a call writes, and that nothing here knows. No condition can decide it."""


class Constraint(FrozenModel):
    """A condition on one argument. All given fields must hold; at least one must be given.

    `min`, `max`: bounds of a number. `min_length`, `max_length`: in characters, or elements of a list.
    `pattern`: searched for in the text, in linear time (`core.schema_forms.patterns`). `below`: an absolute
    folder, or a folder below `~`.

    A path is judged by its file, not by its spelling. Paths are compared after resolving `..`; the
    alternative names of system folders count as the same folder, and `~` and symbolic links are followed on
    the disk of this computer. So `equals` and `one_of` forbid a file by each of its names, but permit it by
    the written name only; `pattern` forbids if any name matches, and permits if all match. Hard links, bind
    mounts and file systems that ignore case are not recognised on any device, as paths do not show them.
    """

    equals: Scalar | list[Any] | dict[str, Any] = None
    one_of: list[Scalar] | None = None
    pattern: str | None = None
    below: str | None = None
    min: int | float | None = None
    max: int | float | None = None
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
        if any(isinstance(edge, float) and math.isnan(edge) for edge in (self.min, self.max)):
            raise ValueError("min and max are numbers")
        return self

    @model_serializer(mode="wrap")
    def _only_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Serialise only the given fields: `equals` null is a condition, an absent `equals` is not.

        So a condition keeps its meaning over a socket and after a restart, and a signature over one of the
        two is not valid for the other.
        """
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}

    @property
    def wants_equal(self) -> bool:
        """Whether `equals` was given; null counts as given."""
        return "equals" in self.model_fields_set

    @property
    def literal(self) -> str:
        """A text that every value matched by the pattern contains, or "" if none is known."""
        return self._pattern.literal if self._pattern is not None else ""

    @property
    def _by_element(self) -> bool:
        """Whether the condition applies to each element of a list instead of the list as a whole."""
        return not self.wants_equal and self.min_length is None and self.max_length is None

    @property
    def _equals_one(self) -> bool:
        return self.wants_equal and not isinstance(self.equals, (list, dict))

    @property
    def paths(self) -> list[str]:
        """The paths that `equals` and `one_of` name."""
        named: list[Any] = [self.equals, *(self.one_of or ())]
        return [value for value in named if is_path(value)]

    def forbids(self, value: Any, real: Callable[[str], str] | None = None, *, path: bool = True) -> bool:
        """Whether a deny or ask rule applies to this value. True if undecided.

        `real` resolves a path on this computer's disk to its normal path, or raises `Undecidable`. `path`:
        the argument may be a path; a shell line is none, whatever it begins with.
        """
        inside = isinstance(value, (list, dict)) and (self._by_element or self._equals_one)
        if inside and len(value) > _MOST_ELEMENTS:
            return True
        if inside and any(self.forbids(element, real, path=path) for element in elements(value)):
            return True
        try:
            return self._holds(value, real, all_ways=False, path=path)
        except Undecidable:
            return True

    def in_doubt(self, value: Any, real: Callable[[str], str] | None = None, *, path: bool = True) -> bool:
        """Whether `forbids` is true of this value only because it cannot be decided."""
        if isinstance(value, (list, dict)):
            return len(value) > _MOST_ELEMENTS or any(
                self.in_doubt(element, real, path=path) for element in elements(value)
            )
        try:
            self._holds(value, real, all_ways=False, path=path)
        except Undecidable:
            return True
        return False

    def permits(self, value: Any, real: Callable[[str], str] | None = None, *, path: bool = True) -> bool:
        """Whether an allow rule or a grant applies to this value; False if undecided."""
        if self._by_element and isinstance(value, list):
            return 0 < len(value) <= _MOST_ELEMENTS and all(
                self.permits(element, real, path=path) for element in value
            )
        try:
            return self._holds(value, real, all_ways=True, path=path)
        except Undecidable:
            return False

    def words(self) -> str:
        """The condition in words."""
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

    def _holds(self, value: Any, real: Callable[[str], str] | None, *, all_ways: bool, path: bool) -> bool:
        if isinstance(value, UnknownPath):
            raise Undecidable
        loose = path and not all_ways
        if self.wants_equal and not _is_value(value, [self.equals], real, loose=loose):
            return False
        if self.one_of is not None and not _is_value(value, self.one_of, real, loose=loose):
            return False
        # Many tools accept a number written as a text, so for deny and ask rules such a text is a number.
        number = value if all_ways else _as_number(value)
        if not self._fits_number(number) or not self._fits_length(value):
            return False
        if self._pattern is not None:
            fitting = map(self._fits_pattern, names_of(value, real) if path else [value])
            if not (all(fitting) if all_ways else any(fitting)):
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
            raise Undecidable from error


def elements(value: Any) -> Iterator[Any]:
    """The direct elements of a list or values of an object; nothing for other values."""
    if isinstance(value, (list, dict)):
        yield from value.values() if isinstance(value, dict) else value


def _as_number(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > _LONGEST_NUMBER:
        return value
    # A float would round an integer beyond 2^53.
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _figure(number: float) -> str:
    """A number with all significant digits, so that the text shown for a grant equals the signed value."""
    if isinstance(number, int):
        return str(number)
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else repr(number)


def same(value: Any, wanted: Any) -> bool:
    """Equality of JSON values: `1` equals `1.0`, and neither equals `true`."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(same, value, wanted))
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(same(value[key], wanted[key]) for key in value)
    return bool(value == wanted) if type(value) is type(wanted) else _same_number(value, wanted)


def _same_number(value: Any, wanted: Any) -> bool:
    return isinstance(value, (int, float)) and isinstance(wanted, (int, float)) and value == wanted


def is_path(value: Any) -> bool:
    """Whether a value is the text of an absolute path, or of a path below a home."""
    return isinstance(value, str) and (value.startswith("~") or is_absolute(value)) and "\n" not in value


def names_of(value: Any, real: Callable[[str], str] | None) -> Iterator[Any]:
    """The value, and of a path its other names: without `..`, by main names of folders, after its links."""
    yield value
    if not is_path(value) or len(value) > LONGEST_PATH:
        return
    normal = normal_path(value)
    if normal != value:
        yield normal
    if (main := main_name(normal)) != normal:
        yield main
    if real is not None:
        yield real(value)


def _is_value(value: Any, wanted: Sequence[Any], real: Callable[[str], str] | None, *, loose: bool) -> bool:
    """Whether a value is one of those wanted; `loose`: or the same file as one of them."""
    if any(same(value, one) for one in wanted):
        return True
    return (
        loose
        and isinstance(value, str)
        and any(_is_same_file(value, one, real) for one in wanted if is_path(one))
    )


def _is_same_file(value: str, wanted: str, real: Callable[[str], str] | None) -> bool:
    """Whether a text names the file of the path `wanted`.

    Raises:
        Undecidable: only the device knows.
    """
    if len(value) > LONGEST_PATH:
        raise Undecidable
    if real is not None and is_path(value):
        return normal_path(value) == normal_path(wanted) or real(value) == real(wanted)
    if not is_absolute(value):
        # Only the device knows where it leads: to the file, if the last names are equal or it goes up.
        parts = re.split(r"[/\\]", value)
        if parts[-1] == re.split(r"[/\\]", wanted)[-1] or ".." in parts:
            raise Undecidable
        return False
    if is_ambiguous_path(value):
        raise Undecidable
    path, file = normal_path(value), normal_path(wanted)
    if file.startswith("~"):
        return path.endswith(file[1:])
    # Windows resolves a path without a drive on the current drive.
    return main_name(path) == main_name(file) or (file[1:2] == ":" and path.lower() == file[2:])


def is_absolute(path: str) -> bool:
    """Whether a path (Unix or Windows) begins at a root."""
    return path.startswith("/") or bool(_DRIVE.match(path))


def normal_path(path: str) -> str:
    """A path without `.`, `..` and doubled separators. Windows paths become lower case with `/`."""
    if _DRIVE.match(path):
        return ntpath.normpath(path).lower().replace("\\", "/").rstrip("/")
    # POSIX leaves the meaning of two leading slashes to the system; supported systems treat them as one.
    return posixpath.normpath(re.sub(r"^/+", "/", path))


def is_ambiguous_path(path: str) -> bool:
    """Whether the system may resolve an absolute path to another place than its text says.

    Windows has several names for one file (shares of a drive, short names, trailing dots and spaces). On
    other systems `C:` is an ordinary folder name, so `..` leads out of it. Links below `/proc` can lead
    anywhere.
    """
    parts = path.replace("\\", "/").split("/")
    if parts[:2] == ["", ""] and len(parts) > 2 and (parts[2] in ("?", ".") or "$" in path):
        return True
    if not _DRIVE.match(path):
        # `..` after a link of /proc leads out of the link's target, not out of the folder in the text.
        return bool(_ANYWHERE.match(normal_path(path)) or _OUT_OF_PROC.search(path))
    return any(
        part == ".." or (part != "." and part.endswith((".", " "))) or _SHORT_NAME.search(part)
        for part in parts
    )


def main_name(path: str) -> str:
    """A normal path with a folder's second name replaced by its main name: `/lib/x` becomes `/usr/lib/x`."""
    for second, first in _ALIASES:
        path = second.sub(first, path) or "/"
    return path


def folders_of(path: str) -> list[str]:
    """A normal path and every folder above it, including the root."""
    folders = [path]
    while "/" in path and path != "/":
        path = path.rpartition("/")[0] or "/"
        folders.append(path)
    return folders


def _is_below(value: Any, folder: str, real: Callable[[str], str] | None, *, all_ways: bool) -> bool:
    if not isinstance(value, str):
        return False
    if len(value) > LONGEST_PATH:
        raise Undecidable
    homes = value.startswith("~") and folder.startswith("~")
    if value.startswith("~") and not (homes and _first_part(value) == _first_part(folder)):
        # Below a home, whose place only the device knows.
        if real is None:
            raise Undecidable
        return real(folder) in folders_of(real(value))
    if not homes and (not is_absolute(value) or is_ambiguous_path(value)):
        # Only the device knows where a relative path leads.
        raise Undecidable
    readings = _readings(normal_path(value), normal_path(folder), loose=not all_ways)
    if real is not None:
        # Lazily, because a path that is below by name alone can be denied without following links.
        readings = itertools.chain(readings, _below_after_links(real, value, folder))
    return all(readings) if all_ways else any(readings)


def _first_part(path: str) -> str:
    return normal_path(path).partition("/")[0]


def _readings(path: str, folder: str, *, loose: bool) -> Iterator[bool]:
    """Whether the normal path `path` is below `folder`, by each reading of the two.

    `loose` adds the readings that only deny and ask rules use.
    """
    yield folder in folders_of(path)
    yield main_name(folder) in folders_of(main_name(path))
    if loose and path.startswith("/"):
        # Windows resolves a path without a drive on the current drive. Only the device knows where `~` is, so
        # the folder's part below the home matches anywhere in the path.
        if folder[1:2] == ":" and folder[2:]:
            yield folder[2:] in folders_of(path.lower())
        elif folder.startswith("~/"):
            yield f"{folder[1:]}/" in f"{path}/"


def _below_after_links(real: Callable[[str], str], path: str, folder: str) -> Iterator[bool]:
    """Whether a path is below a folder after following the links of both."""
    yield real(folder) in folders_of(real(path))
