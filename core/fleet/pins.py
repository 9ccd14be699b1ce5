"""How each tool was trusted first, or reviewed last: its definition, and what its device said beside it.

Kept in `contracts.json` of the home and written before it counts. The journal has every change of it.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import BadInput, JournalCorrupt
from core.fleet.models import Risk
from core.home import write_private

FORMAT = "quarterdeck.contracts/2"


@dataclass(frozen=True, slots=True)
class Claims:
    """What a device says beside a tool's definition, as far as a contract follows from it.

    `risk` is the one that it claims itself, `ours` whether it calls itself our own device client.
    """

    risk: Risk | None
    ours: bool

    def with_care(self, other: Claims) -> Claims:
        """Of both the one that asks for more care, in each respect."""
        risks = [risk for risk in (self.risk, other.risk) if risk is not None]
        return Claims(max(risks, key=lambda risk: risk.rank, default=None), self.ours and other.ours)

    def words_after(self, before: Claims) -> str:
        """What asks for less care than `before` did, as a sentence goes on after the tool's name."""
        said: list[str] = []
        if before.risk is not None and self.risk is None:
            said.append(f"no longer claims {before.risk.value} risk")
        elif before.risk is not None and self.risk is not None and self.risk.rank < before.risk.rank:
            said.append(f"now claims {self.risk.value} risk, no longer {before.risk.value}")
        if self.ours is not before.ours:
            said.append(f"is now offered by {self.client}")
        return " and ".join(said)

    @property
    def client(self) -> str:
        """Who offers the tool, as far as it says so itself."""
        return "quarterdeck-device" if self.ours else "another client"


# How claims are written behind a digest, and the other way round: there are no more than these.
_WORDS = {
    Claims(risk, ours): f"{risk.value if risk else 'unrated'} {'ours' if ours else 'stranger'}"
    for risk in (None, *Risk)
    for ours in (True, False)
}
_CLAIMS = {words: claims for claims, words in _WORDS.items()}


@dataclass(frozen=True, slots=True)
class Pin:
    """The digest of a tool's trusted definition, and the most careful of the claims that came with it."""

    definition: str
    claims: Claims


# By device and name, what the file has. Thousands of pins are read and written as they are: a text each.
_Rows = dict[str, dict[str, str]]
_Staged = tuple[str, dict[str, str]]


class Pins:
    """Device and tool name → how it was trusted.

    A tool is found by its name, by which it is called: its key is just another thing that the device says.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pins: _Rows = {}
        # What an earlier version pinned, without claims: device and tool key → digest of the definition.
        self._earlier: _Rows = {}
        self._staged: dict[object, _Staged] = {}
        self._writing = asyncio.Lock()

    def load(self) -> Pins:
        """Read the file; without it nothing is pinned yet.

        Raises:
            JournalCorrupt: the file is damaged. Starting without pins would trust whatever comes.
        """
        try:
            data = json.loads(self._path.read_text("utf-8"))
            known = data.get("format") == FORMAT
            self._pins = _rows(data["devices"]) if known else {}
            self._earlier = _rows(data["earlier"] if known else data)
            for row in (row for rows in self._pins.values() for row in rows.values()):
                if row.partition(" ")[2] not in _CLAIMS:
                    raise ValueError(f"{row!r} is no pin")
        except FileNotFoundError:
            self._pins, self._earlier = {}, {}
        except (OSError, ValueError, AttributeError, KeyError) as error:
            raise JournalCorrupt(
                f"{self._path} is damaged ({error}). Move it away to trust every tool anew."
            ) from error
        return self

    def get(self, device: str, tool_name: str) -> Pin | None:
        """How this tool was trusted, or None when it was never seen, or by an earlier version only."""
        row = self._pins.get(device, {}).get(tool_name)
        if row is None:
            return None
        digest, _, claims = row.partition(" ")
        return Pin(digest, _CLAIMS[claims])

    def names(self, device: str) -> set[str]:
        """The tools of a device that were ever pinned, by name."""
        return set(self._pins.get(device, ()))

    def earlier(self, device: str, tool_name: str, tool_key: str) -> str | None:
        """The digest of the definition that an earlier version trusted; None once it is pinned anew."""
        digests = self._earlier.get(device)
        if digests is None or self.get(device, tool_name) is not None:
            return None
        named = (digest for key, digest in digests.items() if _name_in(key) == tool_name)
        return digests.get(tool_key) or next(named, None)

    async def pin(self, device: str, pins: dict[str, Pin]) -> None:
        """Trust these tools, by their names, like this from now on.

        A thousand devices that arrive together are a few writes: whoever writes takes along all that wait.

        Raises:
            BadInput: the file cannot be written; nothing is trusted.
        """
        ticket = object()
        rows = {name: f"{pin.definition} {_WORDS[pin.claims]}" for name, pin in pins.items()}
        self._staged[ticket] = (device, rows)
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
            if device in self._pins or device in self._earlier:
                await self._replace(_without(self._pins, device), _without(self._earlier, device))

    async def _write(self, staged: dict[object, _Staged]) -> None:
        changed, earlier = dict(self._pins), dict(self._earlier)
        for device, rows in staged.values():
            changed[device] = {**changed.get(device, {}), **rows}
            if device in earlier:
                left = {key: digest for key, digest in earlier[device].items() if _name_in(key) not in rows}
                earlier[device] = left
        await self._replace(changed, {device: left for device, left in earlier.items() if left})
        for ticket in staged:
            self._staged.pop(ticket, None)

    async def _replace(self, pins: _Rows, earlier: _Rows) -> None:
        try:
            # None of these is changed once it is made, so a thread may read them.
            await asyncio.to_thread(_store, self._path, pins, earlier)
        except OSError as error:
            raise BadInput(f"{self._path} cannot be written: {error.strerror}.") from error
        self._pins, self._earlier = pins, earlier


def _name_in(key: str) -> str:
    """The tool's name in a key as clients make it, such as `action::click`."""
    return key.partition("::")[2]


def _without(devices: _Rows, name: str) -> _Rows:
    return {device: tools for device, tools in devices.items() if device != name}


def _rows(devices: Any) -> _Rows:
    """Raises `AttributeError` for what is not devices with tools."""
    return {
        str(device): {str(name): str(row) for name, row in tools.items()} for device, tools in devices.items()
    }


def _store(path: Path, pins: _Rows, earlier: _Rows) -> None:
    parts = [f'"{part}": {_lines(rows)}' for part, rows in (("devices", pins), ("earlier", earlier))]
    write_private(path, f'{{\n"format": "{FORMAT}",\n' + ",\n".join(parts) + "\n}\n")


def _lines(devices: _Rows) -> str:
    """A device a line: readable, and quick to make however many there are."""
    lines = (f"{json.dumps(name)}: {json.dumps(devices[name], sort_keys=True)}" for name in sorted(devices))
    return "{\n" + ",\n".join(lines) + "\n}"
