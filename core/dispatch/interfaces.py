"""The parts of the fleet and of the journal that the dispatcher needs."""

from __future__ import annotations

from typing import Any, Protocol

from core.audit.entries import Entry, NewEntry
from core.audit.models import Page
from core.commands.channel import BasicCommandDispatcher
from core.commands.request import CommandRequest, Target
from core.commands.results import CommandResult
from core.models.tools import Tool


class Devices(Protocol):
    """The part of the fleet that the dispatcher needs."""

    def target(self, device: str) -> Target:
        """A snapshot of the device; raises `BadInput` (`unknown_device`) when there is none of that name.

        Its tools are judged by the policy that was last read.
        """
        ...

    def offered(self, device: str, tool: str) -> Tool | None:
        """A tool as the device defines it, even if its contract changed; raises `BadInput` like `target`."""
        ...

    def common(self, tool: str, devices: list[str]) -> Tool | None:
        """A tool as all these devices define it now; None if one lacks it, or defines it otherwise."""
        ...

    async def schemas_of(self, tool: str, devices: list[str]) -> list[Any]:
        """The known input schemas of a tool of this name, without duplicates.

        These devices' present and last trusted schemas; if none of them ever had the tool, those of any
        device.
        """
        ...

    def channel(self, device: str) -> BasicCommandDispatcher | None:
        """The device's present channel, None while it is offline; raises `BadInput` like `target`."""
        ...

    def began(self, device: str, call_id: str, what: str) -> None: ...
    def ended(self, request: CommandRequest, result: CommandResult) -> None: ...


class Recorder(Protocol):
    """The part of the journal that the dispatcher needs."""

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]: ...
    def note_all(self, entries: list[NewEntry]) -> None: ...
    def note_late(self, entries: list[NewEntry]) -> None: ...
    async def noted(self, entries: list[NewEntry]) -> None: ...
    async def noted_late(self, entries: list[NewEntry]) -> None: ...
    async def put_blob(self, data: bytes) -> str: ...
    async def get_blob(self, sha: str) -> bytes: ...
    async def query(self, query: str, *, limit: int = ...) -> Page: ...
