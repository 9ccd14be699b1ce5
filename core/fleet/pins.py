"""Which definition of each tool was trusted first; a changed one is blocked until it is reviewed.

Kept in `contracts.json` of the home and written before it counts. The journal has every change of it.
"""

from __future__ import annotations

import json
from pathlib import Path

from core.errors import BadInput, JournalCorrupt
from core.home import write_private


class Pins:
    """Device name and tool key → digest of the trusted definition."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pins: dict[str, dict[str, str]] = {}

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

    def pin(self, device: str, digests: dict[str, str]) -> None:
        """Trust these definitions, keyed by tool key, from now on.

        Raises:
            BadInput: the file cannot be written.
        """
        changed = {**self._pins, device: {**self._pins.get(device, {}), **digests}}
        try:
            write_private(self._path, json.dumps(changed, indent=1, sort_keys=True))
        except OSError as error:
            raise BadInput(f"{self._path} cannot be written: {error.strerror}.") from error
        self._pins = changed
