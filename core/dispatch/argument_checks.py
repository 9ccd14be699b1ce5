"""Stage 3: argument checks that a schema cannot express. They recurse into lists and objects.

The device enforces its own path limits regardless of the console. This stage refuses early, names the
argument, and follows symlinks on this computer as the device will. `check_form` and `harden` depend on the
arguments alone; `check_roots` reads the disk each time. The roots apply to the device's own tools only: a
"path" of a hosted MCP server may belong to a repository or a web service.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

from core.aip.limits import MOST_ARGUMENTS_SENT, MOST_TEXT_SENT
from core.commitments import SECRET_MARK
from core.controls import program_of
from core.errors import BadInput, ErrorCode
from core.json_walk import Place, place_text, walk
from core.models.devices import Device
from core.models.tools import BUILT_IN_NAMESPACE, Tool
from core.policy.analysis.built_in_tools import PATH_ARGUMENTS
from core.policy.constraints import Undecidable
from core.policy.real_paths import ResolvedPaths, paths_in

MOST_TEXT = MOST_TEXT_SENT
MOST_TOTAL = MOST_ARGUMENTS_SENT
MOST_DEPTH = 64
MOST_VALUES = 100_000

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
# A `data:` URL contains its own data and reaches no other place.
URL_SCHEMES = ("http:", "https:", "data:")


def check_form(parameters: dict[str, Any]) -> None:
    """Refuse arguments that are too large or nested too deep, before they are copied, hashed or stored.

    Also refuses, at any depth, an object with the key `SECRET_MARK`: it would be displayed as a redacted
    secret. In an operator's edit, secrets are restored from such marks before this check.

    Raises:
        BadInput: `too_large`, naming the argument and the limit, or `invalid_arguments`.
    """
    if not isinstance(parameters, dict):
        raise BadInput("The arguments must be an object.")
    total = 0
    for values, (value, place) in enumerate(_walk(parameters), 1):
        if values > MOST_VALUES:
            raise BadInput(f"The arguments hold more than {MOST_VALUES:,} values.", ErrorCode.TOO_LARGE)
        if isinstance(value, str):
            size = len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
            total += size
            if size > MOST_TEXT:
                where = _named(place)
                raise BadInput(
                    f"{where} is {size:,} bytes; the most is {MOST_TEXT:,}, whatever a device takes.",
                    ErrorCode.TOO_LARGE,
                )
        if total > MOST_TOTAL:
            raise BadInput(f"The arguments are over {MOST_TOTAL:,} bytes together.", ErrorCode.TOO_LARGE)


@dataclass(frozen=True, slots=True)
class Roots:
    """The allowed folders of a device that shares this computer's disk, and the real paths found on it."""

    folders: list[Path]
    leads: ResolvedPaths


def may_have_paths(tool: Tool, parameters: dict[str, Any]) -> bool:
    """Whether arguments may hold a path. Symlinks can change, so such paths are followed for each call."""
    named = not PATH_ARGUMENTS.isdisjoint(tool.input_schema.get("properties", ()))
    return named or next(paths_in(parameters), None) is not None


def harden(tool: Tool, parameters: dict[str, Any]) -> None:
    """Refuse NUL bytes, broken Unicode, malformed paths and URLs, and calls that name two programs.

    Raises:
        BadInput: `invalid_arguments` or `too_large`, naming the argument.
    """
    if tool.namespace == BUILT_IN_NAMESPACE:
        # A call that names two programs could be judged by the first and executed on the second.
        program_of(parameters)
    for value, place, is_path, form in _texts(tool, parameters):
        if "\x00" in value:
            raise BadInput(f"{_named(place)} holds a NUL byte.")
        if _SURROGATE.search(value):
            raise BadInput(f"{_named(place)} is not valid Unicode text.")
        if is_path:
            _check_path(_named(place), value)
        elif form in ("uri", "url"):
            _check_url(_named(place), value)


def check_roots(tool: Tool, parameters: dict[str, Any], roots: Roots) -> None:
    """Refuse paths that lead out of the allowed folders of a device that shares this computer's disk.

    Raises:
        BadInput: `path_not_allowed`, naming the argument.
    """
    if tool.namespace != BUILT_IN_NAMESPACE:
        return
    for value, place, is_path, _ in _texts(tool, parameters):
        if is_path:
            _check_inside(_named(place), value, roots)


def outside_said_roots(tool: Tool, parameters: dict[str, Any], device: Device) -> str:
    """Why a remote device will likely refuse a path: it is outside the roots that the device reports.

    Empty if it will not, or if that is not known: only the device can follow links and resolve `~`.
    """
    if tool.namespace != BUILT_IN_NAMESPACE or not device.roots:
        return ""
    kind: type[PurePath] = PureWindowsPath if device.platform.startswith("win") else PurePosixPath
    normal = ntpath.normpath if kind is PureWindowsPath else posixpath.normpath
    roots = [kind(normal(root)) for root in device.roots]
    for value, place, is_path, _ in _texts(tool, parameters):
        path = kind(normal(value)) if is_path else None
        if path is not None and path.is_absolute() and not any(path.is_relative_to(root) for root in roots):
            allowed = ", ".join(device.roots)
            return f"{device.name} will refuse it: {_named(place)} is outside its allowed roots: {allowed}."
    return ""


def _texts(tool: Tool, parameters: dict[str, Any]) -> Iterator[tuple[str, Place, bool, Any]]:
    """Yield every string in the arguments: the string, its place, whether it is a path, its schema format."""
    named = tool.input_schema.get("properties")
    properties = named if isinstance(named, dict) else {}
    for value, place in _walk(parameters):
        if not isinstance(value, str):
            continue
        # Of a name with a dot in it, the part behind the dot counts.
        name = _named(place).rsplit(".", 1)[-1].split("[")[0]
        schema = properties.get(name, {})
        form = schema.get("format") if isinstance(schema, dict) else None
        yield value, place, name in PATH_ARGUMENTS or form == "path", form


def _named(place: Place) -> str:
    """A place in words; without one, the text is a name."""
    return place_text(place) or "a name"


def _check_path(place: str, value: str) -> None:
    if _CONTROL.search(value):
        raise BadInput(f"{place} holds a control character.")
    if not value.strip():
        raise BadInput(f"{place} is empty.")
    if len(value) > 4096:
        raise BadInput(f"{place} is longer than a path can be.", ErrorCode.TOO_LARGE)


def _check_inside(place: str, value: str, roots: Roots) -> None:
    try:
        resolved = Path(roots.leads.real(value))
    except Undecidable as error:
        wanted = "it must be an absolute path of this computer, or begin with ~"
        raise BadInput(f"{place} cannot be resolved: {wanted}.", ErrorCode.PATH_NOT_ALLOWED) from error
    if not any(resolved.is_relative_to(root) for root in roots.folders):
        allowed = ", ".join(str(root) for root in roots.folders)
        raise BadInput(
            f"{place} leads to {resolved}, which is outside the allowed roots: {allowed}.",
            ErrorCode.PATH_NOT_ALLOWED,
        )


def _check_url(place: str, value: str) -> None:
    if _CONTROL.search(value) or not value.lower().startswith(URL_SCHEMES):
        scheme = _SCHEME.match(value)
        given = scheme.group() if scheme else "this text"
        raise BadInput(f"{place} must be an http, https or data address, not {given}.")


def _walk(parameters: dict[str, Any]) -> Iterator[tuple[Any, Place]]:
    """Yield every name, and with its place every value that is no object and no list."""
    for value, place, depth in walk(parameters):
        if place is not None and isinstance(name := place[1], str):
            if name == SECRET_MARK:
                where = place_text(place[0]) or "The call"
                raise BadInput(
                    f'{where} has an argument named "{SECRET_MARK}": this only stands for a secret where '
                    "arguments are shown, and cannot be sent."
                )
            yield name, None
        if depth > MOST_DEPTH:
            raise BadInput(f"The arguments are nested deeper than {MOST_DEPTH} levels.", ErrorCode.TOO_LARGE)
        if isinstance(value, dict):
            if not all(isinstance(name, str) for name in value):
                raise BadInput(f"{place_text(place) or 'The arguments'} has a name that is not text.")
        elif not isinstance(value, list | tuple):
            yield value, place
