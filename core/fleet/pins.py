"""Which definition of each tool was trusted first; a changed one is blocked until it is reviewed.

Kept in `contracts.json` of the home and written before it counts. The journal has every change of it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from core.errors import BadInput, JournalCorrupt
from core.home import write_private

_Staged = tuple[str, dict[str, str]]


class Pins:
    """Device name and tool key → digest of the trusted definition."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pins: dict[str, dict[str, str]] = {}
        self._staged: dict[object, _Staged] = {}
        self._writing = asyncio.Lock()

    def load(self) -> Pins:
        """Read the file; without it nothing is pinned yet.

        Raises:
            JournalCorrupt: the file is damaged. Starting without pins would trust whatever comes.
        """
        try:
            data = json.loads(self._path.read_text("utf-8"))
            self._pins = {
                str(device): {str(k): str(v) for k, v in tools.items()} for device, tools in data.items()
            }
        except FileNotFoundError:
            self._pins = {}
        except (OSError, ValueError, AttributeError) as error:
            raise JournalCorrupt(
                f"{self._path} is damaged ({error}). Move it away to trust every tool anew."
            ) from error
        return self

    def get(self, device: str, tool_key: str) -> str | None:
        """The trusted definition's digest, or None when this tool was never seen."""
        return self._pins.get(device, {}).get(tool_key)

    async def pin(self, device: str, digests: dict[str, str]) -> None:
        """Trust these definitions, keyed by tool key, from now on.

        A thousand devices that arrive together are a few writes: whoever writes takes along all that wait.

        Raises:
            BadInput: the file cannot be written; nothing is trusted.
        """
        ticket = object()
        self._staged[ticket] = (device, digests)
        try:
            async with self._writing:
                if ticket in self._staged:
                    await self._write(dict(self._staged))
        finally:
            self._staged.pop(ticket, None)

    async def forget(self, device: str) -> None:
        """Trust nothing of a device any more: the next of that name is a stranger.

        Raises:
            BadInput: the file cannot be written.
        """
        async with self._writing:
            if device in self._pins:
                await self._replace({name: tools for name, tools in self._pins.items() if name != device})

    async def _write(self, staged: dict[object, _Staged]) -> None:
        changed = dict(self._pins)
        for device, digests in staged.values():
            changed[device] = {**changed.get(device, {}), **digests}
        await self._replace(changed)
        for ticket in staged:
            self._staged.pop(ticket, None)

    async def _replace(self, pins: dict[str, dict[str, str]]) -> None:
        try:
            await asyncio.to_thread(write_private, self._path, _text(pins))
        except OSError as error:
            raise BadInput(f"{self._path} cannot be written: {error.strerror}.") from error
        self._pins = pins


def _text(pins: dict[str, dict[str, str]]) -> str:
    """A device a line: readable, and quick to make however many there are."""
    lines = (f"{json.dumps(name)}: {json.dumps(pins[name], sort_keys=True)}" for name in sorted(pins))
    return "{\n" + ",\n".join(lines) + "\n}\n"
