"""Pins: the trusted definition of each tool, and its device's claims, as first seen or last reviewed.

The journal is the only source: `contract_pinned` entries set pins, `device_forgotten` removes a device's.
`contracts.json` in the home is a copy for people and other programs; its content is never trusted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import BadInput
from core.files import read_own_text, write_atomic
from core.log import Logger
from core.models.tools import Risk
from core.text import escape_hidden, some_names

log = Logger(__name__)

FORMAT = "quarterdeck.contracts/3"
# Bytes by which the copy may exceed twice its expected length and still be read.
_SPARE = 1 << 20
_LONGEST_SHOWN = 80
_LARGEST_COPY = 64 << 20
_DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Claims:
    """A device's claims beside a tool's definition, as far as a contract depends on them.

    `risk` is the claimed risk; `ours`: the device identifies itself as our own device client.
    """

    risk: Risk | None
    ours: bool

    def with_care(self, other: Claims) -> Claims:
        """The more careful of both claims, for each field."""
        risks = [risk for risk in (self.risk, other.risk) if risk is not None]
        return Claims(max(risks, key=lambda risk: risk.rank, default=None), self.ours and other.ours)

    def words_after(self, before: Claims) -> str:
        """The loosening against `before`, as the predicate of a sentence that begins with the tool."""
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
        """The claimed client, in words."""
        return "quarterdeck-device" if self.ours else "another client"


# The text of each possible claim in a pin's row, and the reverse mapping.
_WORDS: dict[Claims, str] = {
    Claims(risk, ours): f"{risk.value if risk else 'unrated'} {'ours' if ours else 'stranger'}"
    for risk in (None, *Risk)
    for ours in (True, False)
}
_CLAIMS = {words: claims for claims, words in _WORDS.items()}


@dataclass(frozen=True, slots=True)
class Pin:
    """The digest of a tool's trusted definition, and the most careful claims that came with it."""

    definition: str
    claims: Claims

    @property
    def row(self) -> str:
        """The pin as a line, such as `<digest> high ours`, in which it is signed, journalled and copied."""
        return f"{self.definition} {_WORDS[self.claims]}"


def pin_of(row: object) -> Pin:
    """Parse a pin's row.

    Raises:
        BadInput: `row` is not a valid pin.
    """
    digest, _, words = row.partition(" ") if isinstance(row, str) else ("", "", "")
    if len(digest) != 64 or not _DIGITS.issuperset(digest) or words not in _CLAIMS:
        raise BadInput(f"{repr(row)[:_LONGEST_SHOWN]} is not a pin.")
    return Pin(digest, _CLAIMS[words])


# Rows by device and tool name. Thousands of pins are stored and written as text, without parsing.
Rows = dict[str, dict[str, str]]


class Pins:
    """The pins by device and tool name.

    The key is the tool's name, because calls use it; the tool's key is only a claim of the device.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the copy, `contracts.json`."""
        self._path = path
        self._pins: Rows = {}
        self._copied = True
        self._writing = asyncio.Lock()

    def restore(self, pins: Rows) -> list[str]:
        """Load the pins that the journal holds; returns notes on where the copy differs.

        Rewrites the copy if it differs.
        """
        self._pins = pins
        notes: list[str] = []
        wanted = _text(pins)
        text: str | None = ""
        found: Rows = {}
        try:
            text = read_own_text(self._path, 2 * len(wanted) + _SPARE)
            if text is None and pins:
                notes.append("contracts.json was missing; what the journal has of every tool holds.")
            elif text is not None and text != wanted:
                found = read_rows(text)
        except BadInput as error:
            notes.append(f"{error.message} What the journal has of every tool holds.")
        others = [name for name, rows in found.items() if not rows.items() <= pins.get(name, {}).items()]
        if others:
            shown = some_names(escape_hidden(name[:_LONGEST_SHOWN], keep_lines=False) for name in others)
            notes.append(
                f"contracts.json says something else of the tools of {shown} than the journal, which holds."
            )
        if text != wanted and (pins or text is not None):
            self._log_problem(_stored(self._path, pins))
        return notes

    def get(self, device: str, tool_name: str) -> Pin | None:
        """The tool's pin; None if it has none."""
        row = self._pins.get(device, {}).get(tool_name)
        return None if row is None else pin_of(row)

    def names(self, device: str) -> set[str]:
        """The names of all tools that were ever pinned for a device."""
        return set(self._pins.get(device, ()))

    async def pin(self, device: str, pins: Mapping[str, Pin]) -> None:
        """Set pins by tool name; the journal has recorded them already."""
        rows = {name: pin.row for name, pin in pins.items()}
        self._pins = {**self._pins, device: {**self._pins.get(device, {}), **rows}}
        await self._copy()

    async def forget(self, device: str) -> None:
        """Remove all pins of a device: the next device of that name starts without any."""
        if device in self._pins:
            self._pins = {name: tools for name, tools in self._pins.items() if name != device}
            await self._copy()

    async def _copy(self) -> None:
        """Write the copy. Each write covers all pins, so a thousand devices at once cause few writes."""
        self._copied = False
        async with self._writing:
            if not self._copied:
                self._copied = True
                # The rows are replaced, never modified, so a thread may read them.
                self._log_problem(await asyncio.to_thread(_stored, self._path, self._pins))

    def _log_problem(self, problem: str) -> None:
        if problem:
            log.warning("the copy of what is trusted of tools could not be written", problem=problem)


def read_rows(text: str) -> Rows:
    """Parse the pins of a `contracts.json`.

    Raises:
        BadInput: the text is not in the format.
    """
    try:
        data = json.loads(text)
        devices: dict[str, dict[str, Any]] = data["devices"]
        return {
            device: {name: pin_of(row).row for name, row in tools.items()}
            for device, tools in devices.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BadInput) as error:
        raise BadInput(f"contracts.json was not as it was written ({error}).") from error


def known_tools(path: Path) -> dict[str, set[str]]:
    """The names of the tools that each device ever had, from the copy at `path`; empty if it is unreadable.

    Only for hints: trust is decided by the journal.
    """
    try:
        text = read_own_text(path, _LARGEST_COPY)
        return {device: set(tools) for device, tools in read_rows(text or "").items()}
    except BadInput:
        return {}


def _stored(path: Path, pins: Rows) -> str:
    """Write the copy; returns why it could not be written, else an empty string."""
    try:
        write_atomic(path, _text(pins))
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return ""


def _text(pins: Rows) -> str:
    """The text of the copy, one device per line: readable, and fast for many devices."""
    lines = (f"{json.dumps(name)}: {json.dumps(pins[name], sort_keys=True)}" for name in sorted(pins))
    return f'{{\n"format": "{FORMAT}",\n"devices": {{\n' + ",\n".join(lines) + "\n}\n}\n"
