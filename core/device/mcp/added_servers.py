"""The hosted MCP servers that a console added: a file in the device's state folder, kept for undo.

The file has the form of other MCP hosts, `{"mcpServers": {NAME: ENTRY}}`, with mode 0600, because an entry
may hold secrets. It is below the state folder, which no file tool of this device may access. Each change
keeps the former file in the undo store, so that the tool `undo` can put it back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.device.mcp.config import ServerConfig, parse_servers
from core.device.undo import UndoStore
from core.errors import BadInput, DeviceError, ErrorCode
from core.files import read_own_text, sync_folder, write_atomic
from core.text import sentences

FILE_NAME = "mcp_servers.json"
_MOST_BYTES = 1024 * 1024
_PLACE = "mcp_servers.json: mcpServers"

Entries = dict[str, Any]


class AddedServers:
    """The file of the servers that were added. Every method blocks on the disk."""

    def __init__(self, folder: Path, undo: UndoStore, taken: frozenset[str]) -> None:
        """`taken` are the names of device.toml's servers, which an added server of that name gives way to."""
        self._taken = taken
        self._path = folder / FILE_NAME
        self._undo = undo

    def entries(self) -> Entries:
        """The entries by server name, disabled ones included.

        Raises:
            BadInput: the file cannot be read, or is damaged.
        """
        return _entries_in(read_own_text(self._path, _MOST_BYTES))

    def configs(self) -> list[ServerConfig]:
        """The servers that are switched on.

        Raises:
            BadInput: the file cannot be read, or is damaged.
        """
        servers = parse_servers(self.entries(), _PLACE)
        return [server for server in servers if server.name not in self._taken]

    def change(self, change: Callable[[Entries], Entries]) -> str:
        """Replace the entries; returns the undo id of this change.

        Raises:
            BadInput: the new entries are invalid, or the file cannot be read.
            DeviceError: the file cannot be written; nothing has changed.
        """
        old = read_own_text(self._path, _MOST_BYTES)
        entries = change(_entries_in(old))
        parse_servers(entries, _PLACE)
        new = json.dumps({"mcpServers": entries}, indent=2, ensure_ascii=False).encode()
        if len(new) > _MOST_BYTES:
            raise BadInput(f"The servers' entries are larger than {_MOST_BYTES} bytes.", ErrorCode.TOO_LARGE)
        before = None if old is None else old.encode()
        try:
            undo_id = self._undo.keep(self._path, before, 0o600, _digest(new), kind="mcp_servers")
            try:
                write_atomic(self._path, new)
            except BaseException:
                self._undo.forget(undo_id)
                raise
        except OSError as error:
            raise _not_written(self._path, error) from error
        return undo_id

    def restore(self, undo_id: str) -> None:
        """Put back the file as it was before the change of this undo id.

        Raises:
            BadInput: the entry is unknown or used, or the file has changed since.
            DeviceError: the file cannot be written; nothing has changed.
        """
        entry, old = self._undo.claim(undo_id)
        try:
            now = read_own_text(self._path, _MOST_BYTES)
            if now is None or _digest(now.encode()) != entry.new_sha256:
                raise BadInput(
                    "The list of added servers has changed since; undo the later changes first.",
                    ErrorCode.CHANGED_SINCE,
                )
            if old is None:
                self._path.unlink()
                sync_folder(self._path.parent)
            else:
                write_atomic(self._path, old)
        except OSError as error:
            self._undo.give_back(undo_id)
            raise _not_written(self._path, error) from error
        except BaseException:
            self._undo.give_back(undo_id)
            raise
        self._undo.forget(undo_id)


def _entries_in(text: str | None) -> Entries:
    if text is None:
        return {}
    try:
        servers = json.loads(text)["mcpServers"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(sentences(f"{FILE_NAME} in the state folder is damaged: {error}")) from error
    if not isinstance(servers, dict):
        raise BadInput(f"{FILE_NAME} in the state folder is damaged: mcpServers is not an object.")
    return servers


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _not_written(path: Path, error: OSError) -> DeviceError:
    return DeviceError(
        sentences(f"{path} cannot be written: {error.strerror or error}"), ErrorCode.TOOL_FAILED
    )
