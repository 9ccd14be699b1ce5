"""How each tool was trusted first, or reviewed last: its definition, and what its device said beside it.

The journal is the only source: `contract_pinned` entries say what is pinned, `device_forgotten` ends it.
`contracts.json` of the home is a copy for people and other programs; nothing that stands in it counts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from core.errors import BadInput
from core.files import read_own_text
from core.fleet.models import Risk
from core.home import write_private
from core.text import escape_hidden, some_names

log = structlog.get_logger(__name__)

FORMAT = "quarterdeck.contracts/3"
# How far the copy may be longer than it would be written now, in bytes, to be looked at at all.
_SPARE = 1 << 20
_LONGEST_SHOWN = 80
_LARGEST_COPY = 64 << 20
_DIGITS = frozenset("0123456789abcdef")


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
_WORDS: dict[Claims | None, str] = {
    Claims(risk, ours): f"{risk.value if risk else 'unrated'} {'ours' if ours else 'stranger'}"
    for risk in (None, *Risk)
    for ours in (True, False)
}
_WORDS[None] = "claims unknown"
_CLAIMS = {words: claims for claims, words in _WORDS.items()}


@dataclass(frozen=True, slots=True)
class Pin:
    """The digest of a tool's trusted definition, and the most careful of the claims that came with it.

    `claims` is None for a pin of a version that did not record claims; the first that the device makes count.
    """

    definition: str
    claims: Claims | None

    @property
    def row(self) -> str:
        """The pin as one line, such as `<digest> high ours`: so it is signed, journalled and copied."""
        return f"{self.definition} {_WORDS[self.claims]}"


def pin_of(row: object) -> Pin:
    """The pin that is written as this row.

    Raises:
        BadInput: it is no pin.
    """
    digest, _, words = row.partition(" ") if isinstance(row, str) else ("", "", "")
    if len(digest) != 64 or not _DIGITS.issuperset(digest) or words not in _CLAIMS:
        raise BadInput(f"{repr(row)[:_LONGEST_SHOWN]} is no pin")
    return Pin(digest, _CLAIMS[words])


# By device and name of a tool, its row. Thousands of pins are kept and written as they are: a text each.
Rows = dict[str, dict[str, str]]


class Pins:
    """Device and tool name → how it was trusted.

    A tool is found by its name, by which it is called: its key is just another thing that the device says.
    """

    def __init__(self, path: Path) -> None:
        """`path` is of the copy."""
        self._path = path
        self._pins: Rows = {}
        self._copied = True
        self._writing = asyncio.Lock()

    def restore(self, pins: Rows) -> list[str]:
        """Take up what the journal says is pinned; gives what of the copy does not count, in words.

        The copy is written anew where it is not as it would be written now.
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
        """How this tool was trusted, or None when it was never seen."""
        row = self._pins.get(device, {}).get(tool_name)
        return None if row is None else pin_of(row)

    def names(self, device: str) -> set[str]:
        """The tools of a device that were ever pinned, by name."""
        return set(self._pins.get(device, ()))

    async def pin(self, device: str, pins: Mapping[str, Pin]) -> None:
        """Trust these tools, by their names, like this from now on, as the journal has it already."""
        rows = {name: pin.row for name, pin in pins.items()}
        self._pins = {**self._pins, device: {**self._pins.get(device, {}), **rows}}
        await self._copy()

    async def forget(self, device: str) -> None:
        """Trust nothing of a device any more: the next of that name is a stranger."""
        if device in self._pins:
            self._pins = {name: tools for name, tools in self._pins.items() if name != device}
            await self._copy()

    async def _copy(self) -> None:
        """Write the copy. A thousand devices that arrive together are a few writes: each takes along all."""
        self._copied = False
        async with self._writing:
            if not self._copied:
                self._copied = True
                # None of these is changed once it is made, so a thread may read them.
                self._log_problem(await asyncio.to_thread(_stored, self._path, self._pins))

    def _log_problem(self, problem: str) -> None:
        if problem:
            log.warning("the copy of what is trusted of tools could not be written", problem=problem)


def read_rows(text: str) -> Rows:
    """The pins in the text of a `contracts.json`, also in one of the version before.

    Raises:
        BadInput: it is not as it is written.
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
    """The names of the tools that each device ever had, by the copy at `path`; empty where it cannot be read.

    Good enough for a hint: what is trusted is what the journal says.
    """
    try:
        text = read_own_text(path, _LARGEST_COPY)
        return {device: set(tools) for device, tools in read_rows(text or "").items()}
    except BadInput:
        return {}


def _stored(path: Path, pins: Rows) -> str:
    """Write the copy; gives why it could not be written."""
    try:
        write_private(path, _text(pins))
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return ""


def _text(pins: Rows) -> str:
    """A device a line: readable, and quick to make however many there are."""
    lines = (f"{json.dumps(name)}: {json.dumps(pins[name], sort_keys=True)}" for name in sorted(pins))
    return f'{{\n"format": "{FORMAT}",\n"devices": {{\n' + ",\n".join(lines) + "\n}\n}\n"
