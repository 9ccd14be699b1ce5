"""The device's check of every call's arguments, and its limit on results; no console can switch it off.

Size, schema, NUL and NaN, and paths are checked in that order. A tool runs only after all four.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import unicodedata
from pathlib import Path, PurePath
from typing import Any

from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from pydantic_core import PydanticSerializationError, to_json
from referencing import Registry

from core.broken_text import fault_words, holds_half_a_character, with_valid_text
from core.commitments import SECRET_MARK
from core.device.config import DeviceConfig
from core.device.fs.safe_path import SafePath, shown
from core.device.private_places import private_places, shown_place
from core.device.tool import NAMESPACE, Tool
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.json_walk import is_finite, place_text, walk
from core.secret_rule import may_be_secret
from core.text import sentences

_SHOWN = 120
_MOST_LINKS = 40
# The system's limit. Resolving takes time quadratic in the length, and an argument may have a megabyte.
_LONGEST_PATH = 32_767 if sys.platform == "win32" else 4_096
_PROCESSES = Path("/proc")
_OWN_PROCESS = _PROCESSES / "self"


class Guard:
    """Checks arguments before a tool runs, and shortens results that are too large."""

    def __init__(self, config: DeviceConfig) -> None:
        self._config = config
        self._limits = config.limits
        self._roots = config.roots
        self._closed = config.closed_paths
        self._validators: dict[str, Validator] = {}

    def check(self, tool: Tool, parameters: dict[str, Any] | None) -> dict[str, Any]:
        """Check all but the paths, whose check may block on a disk.

        Raises:
            BadInput: the arguments are too large, violate the tool's schema, or hold a NUL character, a
                number that is not finite, or a secret's placeholder.
        """
        arguments = parameters or {}
        size = _encoded_size(arguments)
        if size > self._limits.max_argument_bytes:
            raise BadInput(
                f"The arguments of {tool.name} are {size} bytes; this device takes at most "
                f"{self._limits.max_argument_bytes}.",
                ErrorCode.TOO_LARGE,
            )
        if tool.namespace != NAMESPACE:
            # A hosted server's schema could keep the jsonschema validator busy for years; this validator's
            # work is limited. Imported here, since a device without hosted servers never needs it.
            from core.schema_forms.validator import validator_for as validator_within_bounds

            faults = validator_within_bounds(tool.input_schema).errors(arguments)
            if faults:
                raise BadInput(sentences(f"{tool.name}: {_short(faults[0].message)}"))
            _refuse_odd(arguments)
            return arguments
        validator = self._validators.get(tool.key)
        if validator is None or validator.schema is not tool.input_schema:
            made = validator_for(tool.input_schema, default=Draft202012Validator)
            # An empty registry, so that no schema can make this device fetch another schema.
            validator = self._validators[tool.key] = made(tool.input_schema, registry=Registry())
        fault = next(validator.iter_errors(arguments), None)
        if fault is not None:
            raise BadInput(_explain(fault, tool))
        _refuse_odd(arguments)
        return arguments

    def hold_paths(self, tool: Tool, arguments: dict[str, Any], approved: bool) -> dict[str, SafePath]:
        """Resolve a tool's path arguments. Blocks on the disk.

        The policy may allow an observation by its arguments alone, and a symlink in them can lead to any
        place. So the resolved path must not be private unless an operator `approved` exactly this call.

        Raises:
            BadInput: a path is relative, or leads outside the roots (code `path_not_allowed`).
            Refused: a path is private (code `denied_by_device`).
        """
        paths = {name: self.hold(arguments[name], name) for name in tool.path_arguments if name in arguments}
        if tool.tool_type == "data_collection" and not approved:
            for resolved in paths.values():
                self._refuse_private(resolved.path)
        return paths

    def _refuse_private(self, path: Path) -> None:
        names = {_comparable(above) for above in (path, *path.parents)}
        way = _identities(path, *path.parents)
        for place in private_places(self._config):
            # As with closed paths: another name of the same file or folder is private as well.
            if _comparable(place) in names or not way.isdisjoint(_identities(place)):
                raise Refused(
                    f"{shown_place(place)} is private: it is shown only to a call that an operator approved.",
                    ErrorCode.DENIED_BY_DEVICE,
                )

    def hold(self, given: str, argument: str = "path") -> SafePath:
        """Resolve one path, symlinks and `..` included, and find the root that it is below.

        Raises:
            BadInput: the path is not allowed (code `path_not_allowed`), or is not a usable absolute path.
        """
        if "\0" in given:
            raise BadInput(f"{argument} holds a NUL character.")
        if len(given) > _LONGEST_PATH:
            raise BadInput(
                f"{argument} has {len(given)} characters; allowed are {_LONGEST_PATH}: {_short(given)}."
            )
        try:
            path = Path(given).expanduser()
        except RuntimeError as error:
            raise BadInput(f"{argument} begins with a home folder that is not known here.") from error
        if not path.is_absolute():
            raise BadInput(f"{argument} must be an absolute path, or begin with ~: {_short(given)}.")
        if sys.platform == "win32" and names_stream(path):
            raise BadInput(
                f"{argument} names a stream of a file, by the colon in it; only files and folders can be "
                f"named: {_short(given)}.",
                ErrorCode.PATH_NOT_ALLOWED,
            )
        try:
            resolved = Path(os.path.realpath(path))
            planted = _planted_link(path)
        except (OSError, ValueError) as error:
            raise BadInput(
                sentences(f"{argument} cannot be resolved: {error}"), ErrorCode.PATH_NOT_ALLOWED
            ) from error
        if planted is not None:
            raise BadInput(
                f"{argument} {_short(given)} leads through {_short(shown(planted))}, a link that another "
                "user put where everybody may write.",
                ErrorCode.PATH_NOT_ALLOWED,
            )
        if not _is_text(resolved):
            # JSON could not hold the name in a result, an error or an undo entry.
            leads = f"{argument} {_short(given)} leads to a name that is not UTF-8: {shown(str(resolved))}"
            raise BadInput(leads, ErrorCode.PATH_NOT_ALLOWED)
        way = _identities(resolved, *resolved.parents)
        closed = (*self._closed, _OWN_PROCESS)
        if _is_own_thread(resolved) or any(_is_closed_by(resolved, one, way) for one in closed):
            raise BadInput(
                f"{argument} {_short(given)} belongs to the device client itself.", ErrorCode.PATH_NOT_ALLOWED
            )
        for root in self._roots:
            if _below(resolved, root):
                return SafePath(resolved, root)
        leads = "" if resolved == path else f", which leads to {resolved},"
        allowed = ", ".join(str(root) for root in self._roots)
        raise BadInput(
            f"{argument} {_short(given)}{leads} is not below an allowed root ({allowed}).",
            ErrorCode.PATH_NOT_ALLOWED,
        )

    def bound(self, result: Any, limit: int | None = None) -> tuple[Any, int]:
        """The result, shortened if its JSON exceeds this device's limit or `limit`, and its size in bytes.

        The longest texts are shortened first, then the longest list by whole rows. A shortened object has
        `truncated: true`. U+FFFD takes the place of text that is not valid Unicode.

        Raises:
            DeviceError: the result is not JSON (code `bad_result`).
        """
        most = min(self._limits.max_output_bytes, limit or self._limits.max_output_bytes)
        try:
            size = result_size(result)
        except DeviceError:
            if not holds_half_a_character(result):
                raise
            # File names, titles of windows and arguments of processes may hold any bytes.
            result = with_valid_text(result)
            size = result_size(result)
        if size <= most:
            return result, size
        shorter = _shortened(result, most)
        return shorter, result_size(shorter)

    def process_slot(self, running: int) -> None:
        """Check that another process may start.

        Raises:
            Refused: as many processes as this device allows are already running.
        """
        if running >= self._limits.max_processes:
            raise Refused(
                f"{running} processes are running; this device allows {self._limits.max_processes} at once.",
                ErrorCode.DENIED_BY_DEVICE,
            )


def result_size(result: Any) -> int:
    """The size of a result as JSON, in bytes.

    Raises:
        DeviceError: it is not JSON.
    """
    try:
        return len(to_json(result))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise DeviceError(
            sentences(f"The tool's result is not JSON: {fault_words(error)}"), ErrorCode.BAD_RESULT
        ) from error


def _encoded_size(arguments: dict[str, Any]) -> int:
    try:
        return len(to_json(arguments))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadInput(sentences(f"The arguments are not JSON: {fault_words(error)}")) from error


def _planted_link(path: Path) -> str | None:
    """The first symlink in a path that another user made in a sticky, world-writable folder such as /tmp.

    Linux itself does not follow such links (`fs.protected_symlinks`). This device resolves paths itself, so
    without this check the link could redirect a write meant for /tmp to this user's own files.
    """
    if sys.platform == "win32":
        return None
    else:
        at, rest = path.anchor, [part for part in path.parts[1:] if part != "."][::-1]
        links = 0
        while rest and links <= _MOST_LINKS:
            part = rest.pop()
            here = os.path.dirname(at) if part == ".." else os.path.join(at, part)
            try:
                facts = os.lstat(here)
            except OSError:
                return None
            if not stat.S_ISLNK(facts.st_mode):
                at = here
                continue
            links += 1
            folder = os.stat(at)
            shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
            if shared and facts.st_uid not in {os.geteuid(), folder.st_uid}:
                return here
            target = os.readlink(here)
            at = path.anchor if target.startswith(os.sep) else at
            rest += [name for name in target.split(os.sep) if name not in {"", "."}][::-1]
        return None


def names_stream(path: PurePath) -> bool:
    """Whether a path of Windows names a stream of a file (`a.txt:more`), which no list of files shows.

    `a.txt::$DATA` is a.txt by another name, under which no closed or private file would be recognized.
    """
    return ":" in str(path)[len(path.drive) :]


def _below(path: Path, root: Path) -> bool:
    if path.is_relative_to(root):
        return True
    # Windows ignores case: `normcase` makes names comparable there.
    return Path(os.path.normcase(path)).is_relative_to(os.path.normcase(root))


def _is_closed_by(path: Path, closed: Path, way: set[tuple[int, int]]) -> bool:
    """Whether `closed` is the path or above it. `way`: the (device, inode) pairs of path and parents."""
    if _below(path, closed):
        return True
    if sys.platform == "darwin" and Path(_folded(path)).is_relative_to(_folded(closed)):
        # Most file systems of macOS ignore case and Unicode forms; a path that may be closed is refused.
        return True
    # A hard link, a bind mount or another case of the name leads to the same file or folder.
    return not way.isdisjoint(_identities(closed))


def _is_own_thread(path: Path) -> bool:
    """Whether a path is below /proc/N, N being a thread of this process, whose memory holds tokens."""
    if not path.is_relative_to(_PROCESSES) or path == _PROCESSES:
        return False
    number = path.relative_to(_PROCESSES).parts[0]
    return number.isdigit() and (_OWN_PROCESS / "task" / number).exists()


def _comparable(path: str | Path) -> str:
    """A path in the form for comparisons: case-folded where the system ignores case."""
    return _folded(path) if sys.platform == "darwin" else os.path.normcase(path)


def _identities(*paths: str | Path) -> set[tuple[int, int]]:
    found = set()
    for path in paths:
        with contextlib.suppress(OSError):
            facts = os.stat(path)
            found.add((facts.st_dev, facts.st_ino))
    return found


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _folded(path: str | Path) -> str:
    return unicodedata.normalize("NFC", str(path)).casefold()


def _short(value: Any) -> str:
    shown = value if isinstance(value, str) else repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}… ({len(shown)} characters)"


def _refuse_odd(arguments: dict[str, Any]) -> None:
    """Refuse values that schemas allow: NUL, NaN (passes every limit), infinity and secrets' placeholders."""
    for value, place, _ in walk(arguments):
        if place is not None and isinstance(name := place[1], str) and "\0" in name:
            raise BadInput(f"the name of {place_text(place[0]) or 'an argument'} holds a NUL character.")
        if isinstance(value, str):
            if "\0" in value:
                raise BadInput(f"{place_text(place) or 'an argument'} holds a NUL character.")
        elif not is_finite(value):
            raise BadInput(f"{place_text(place) or 'an argument'} must be a finite number, not {value}.")
        elif isinstance(value, dict) and SECRET_MARK in value:
            where = place_text(place) or "the call"
            raise BadInput(f'{where} holds "{SECRET_MARK}", which only stands for a secret.')


def _explain(fault: ValidationError, tool: Tool) -> str:
    """The message for a schema violation: it names the argument and what is allowed."""
    name = ".".join(str(part) for part in fault.absolute_path)
    schema = fault.schema if isinstance(fault.schema, dict) else {}
    wanted: Any = fault.validator_value
    given: Any = fault.instance
    if may_be_secret(schema):
        return f"{name} is not as {tool.name} wants it ({fault.validator}: {wanted})"
    if fault.validator == "required":
        return f"{tool.name} needs the argument {', '.join(key for key in wanted if key not in given)}"
    if fault.validator == "additionalProperties":
        known = list(schema.get("properties", {}))
        surplus = ", ".join(str(key) for key in given if key not in known)
        return f"{name or tool.name} has no argument {_short(surplus)}. It takes: {', '.join(known)}"
    if fault.validator == "enum":
        allowed = ", ".join("null" if item is None else str(item) for item in wanted)
        return f"Unknown {name.replace('_', ' ')}: {_short(given)}. One of: {allowed}"
    if fault.validator == "type":
        words = wanted if isinstance(wanted, str) else " or ".join(wanted)
        return f"{name or 'the arguments'} must be of type {words}, not {_short(given)}"
    if fault.validator == "oneOf":
        return f"{name} cannot be {_short(given)}. {schema.get('description', '')}".rstrip()
    return f"{name}: {_short(fault.message)}"


def _shortened(result: Any, most: int) -> Any:
    if isinstance(result, str):
        return text_within(result, most)
    if isinstance(result, dict):
        cut = dict(result)
        for key in sorted(cut, key=lambda name: len(cut[name]) if isinstance(cut[name], str) else 0)[::-1]:
            over = result_size({**cut, "truncated": True}) - most
            if over <= 0 or not isinstance(cut[key], str):
                break
            cut[key] = text_within(cut[key], max(2, result_size(cut[key]) - over))
        cut["truncated"] = True
        if result_size(cut) > most:
            _drop_rows(cut, most)
        if result_size(cut) <= most:
            return cut
    said = to_json(result)[: most // 2].decode("utf-8", "ignore")
    return {"truncated": True, "beginning": text_within(said, max(2, most - 64))}


def _drop_rows(cut: dict[str, Any], most: int) -> None:
    """Remove rows from the end of the longest list until the result fits."""
    lists = [(result_size(value), key) for key, value in cut.items() if isinstance(value, list)]
    if not lists:
        return
    size, key = max(lists)
    room = size - (result_size(cut) - most)
    rows: list[Any] = []
    for row in cut[key]:
        # One more byte for the comma or bracket.
        room -= result_size(row) + 1
        if room < 1:
            break
        rows.append(row)
    cut[key] = rows


def text_within(value: str, most: int) -> str:
    """The longest beginning of `value` whose JSON has at most `most` bytes."""
    low, high, size = 0, min(len(value), most), len('""')
    while low < high:
        middle = (low + high + 1) // 2
        # A character's JSON does not depend on its neighbours, so only the added part is measured.
        more = result_size(value[low:middle]) - len('""')
        if size + more <= most:
            low, size = middle, size + more
        else:
            high = middle - 1
    return value[:low]
