"""Stage 3: argument checks that a schema cannot express, also of what is in lists and objects.

The device enforces its own path limits regardless of the console. This stage refuses early, names the
argument, and follows symlinks on this computer as the device will. `harden` depends on the arguments alone;
`check_roots` reads the disk each time. The roots apply to the device's own tools only: a
"path" of a hosted MCP server may belong to a repository or a web service.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

from core.commands.arguments import Text, WalkedArguments, text_name
from core.controls import program_of
from core.errors import BadInput, ErrorCode
from core.json_walk import Place, walk
from core.models.devices import Device
from core.models.tools import BUILT_IN_NAMESPACE, Tool
from core.policy.analysis.built_in_tools import PATH_ARGUMENTS
from core.policy.constraints import Undecidable
from core.policy.real_paths import ResolvedPaths, paths_in

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
# A `data:` URL contains its own data and reaches no other place.
URL_SCHEMES = ("http:", "https:", "data:")


@dataclass(frozen=True, slots=True)
class Roots:
    """The allowed folders of a device that shares this computer's disk, and the real paths found on it."""

    folders: list[Path]
    leads: ResolvedPaths


def may_have_paths(tool: Tool, arguments: WalkedArguments) -> bool:
    """Whether arguments may hold a path. Symlinks can change, so such paths are followed for each call."""
    named = not PATH_ARGUMENTS.isdisjoint(tool.input_schema.get("properties", ()))
    return named or next(paths_in(arguments.sent), None) is not None


def harden(tool: Tool, arguments: WalkedArguments) -> None:
    """Refuse NUL bytes, broken Unicode, malformed paths and URLs, and calls that name two programs.

    Raises:
        BadInput: `invalid_arguments` or `too_large`, naming the argument.
    """
    if tool.namespace == BUILT_IN_NAMESPACE:
        # A call that names two programs could be judged by the first and executed on the second.
        program_of(arguments.sent)
    for value, place, is_path, form in _texts(tool, arguments.texts):
        if "\x00" in value:
            raise BadInput(f"{text_name(place)} holds a NUL byte.")
        if _SURROGATE.search(value):
            raise BadInput(f"{text_name(place)} is not valid Unicode text.")
        if is_path:
            _check_path(text_name(place), value)
        elif form in ("uri", "url"):
            _check_url(text_name(place), value)


def check_roots(tool: Tool, arguments: WalkedArguments, roots: Roots) -> None:
    """Refuse paths that lead out of the allowed folders of a device that shares this computer's disk.

    Raises:
        BadInput: `path_not_allowed`, naming the argument.
    """
    if tool.namespace != BUILT_IN_NAMESPACE:
        return
    for value, place, is_path, _ in _texts(tool, arguments.texts):
        if is_path:
            _check_inside(text_name(place), value, roots)


def outside_said_roots(tool: Tool, parameters: dict[str, Any], device: Device) -> str:
    """Why a remote device will likely refuse a path: it is outside the roots that the device reports.

    Empty if it will not, or if that is not known: only the device can follow links and resolve `~`.
    """
    if tool.namespace != BUILT_IN_NAMESPACE or not device.roots:
        return ""
    kind: type[PurePath] = PureWindowsPath if device.platform.startswith("win") else PurePosixPath
    normal = ntpath.normpath if kind is PureWindowsPath else posixpath.normpath
    roots = [kind(normal(root)) for root in device.roots]
    texts = ((value, place) for value, place, _ in walk(parameters) if isinstance(value, str))
    for value, place, is_path, _ in _texts(tool, texts):
        path = kind(normal(value)) if is_path else None
        if path is not None and path.is_absolute() and not any(path.is_relative_to(root) for root in roots):
            allowed = ", ".join(device.roots)
            return (
                f"{device.name} will refuse it: {text_name(place)} is outside its allowed roots: {allowed}."
            )
    return ""


def _texts(tool: Tool, texts: Iterable[Text]) -> Iterator[tuple[str, Place, bool, Any]]:
    """Yield every text in the arguments: the text, its place, whether it is a path, its schema format."""
    described = tool.input_schema.get("properties")
    properties = described if isinstance(described, dict) else {}
    for value, place in texts:
        # Of a name with a dot in it, the part behind the dot counts.
        name = text_name(place).rsplit(".", 1)[-1].split("[")[0]
        schema = properties.get(name, {})
        form = schema.get("format") if isinstance(schema, dict) else None
        yield value, place, name in PATH_ARGUMENTS or form == "path", form


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
