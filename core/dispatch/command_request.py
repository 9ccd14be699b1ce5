"""A wish for one command, what it is bound to, and what the dispatcher needs of everybody else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from core.audit.entries import Entry, NewEntry
from core.dispatch.arguments import CheckedArguments
from core.dispatch.channel import BasicCommandDispatcher
from core.dispatch.models import CommandResult, Evidence
from core.fleet.models import Device, Tool
from core.ids import new_id
from core.policy.models import Decision
from core.policy.real_paths import Leads
from core.statements import Request


class Stage(StrEnum):
    """What whoever ordered a command is told while it is on its way."""

    WAITING = "waiting"
    RUNNING = "running"


OnStage = Callable[[Stage, str], None]


@dataclass(frozen=True, slots=True)
class Order:
    """A wish for one call. `said` is what the asker says about it: kept and quoted, never judged.

    `edited_from` is the request for approval in which an operator put other arguments in place.

    An `unasked` one waits for nobody: where the policy would ask, it is refused.

    `evidence_for` is the call whose rules, or whose freshness, want this picture.

    A `glimpse` is a small picture for the wall: no card and no comparison ever rests on it.

    `operators` are those who asked for it and who edited it, as their keys have proved; an empty name is a
    person of whom that is not known.

    `on_decided` is given what the policy says of it, before an operator is asked; again after an edit.

    `cancelled` is asked until the command has left: once it says yes, nothing of this order is sent.
    """

    device: str
    tool: str
    parameters: dict[str, Any]
    actor: str
    run: str | None = None
    step: str | None = None
    timeout: float | None = None
    said: str = ""
    edited_from: str = ""
    unasked: bool = False
    evidence_for: str = ""
    glimpse: bool = False
    operators: tuple[str, ...] = ("",)
    call_id: str = field(default_factory=new_id)
    cancelled: Callable[[], bool] = lambda: False
    on_decided: Callable[[Decision], None] = lambda decision: None

    @property
    def shows_whole_screen(self) -> bool:
        """Whether a screenshot taken by this order shows a whole screen and not a part of it."""
        return shows_whole_screen(self.parameters)


def shows_whole_screen(parameters: Mapping[str, Any]) -> bool:
    """Whether these arguments of `screenshot` ask for a whole screen, not for a region or a window."""
    return bool(parameters.get("region", "fullscreen") == "fullscreen")


class Target(NamedTuple):
    """A device at one moment. `shares_disk`: its paths are this computer's; `roots`: its folders then."""

    device: Device
    tools: dict[str, Tool]
    channel: BasicCommandDispatcher | None
    roots: list[Path] | None
    shares_disk: bool = False


class Devices(Protocol):
    """The fleet, as far as the dispatcher needs it."""

    def target(self, device: str, refreshed: bool = False) -> Target:
        """The device as it is now; `BadInput` (`unknown_device`) when there is none of that name.

        `refreshed`: whoever asks has looked at the policy's file in this very turn of the loop.
        """
        ...

    def offered(self, device: str, tool: str) -> Tool | None:
        """A tool as the device defines it, whatever its contract says now; `BadInput` as for `target`."""
        ...

    async def schemas_of(self, tool: str, devices: list[str]) -> list[Any]:
        """The input schemas that are known of a tool of this name, none twice.

        As these devices define it, or defined it when it was trusted; where none of them ever had it, as any
        device defines it.
        """
        ...

    def channel(self, device: str) -> BasicCommandDispatcher | None:
        """The way to the device as it is now, None while it is away; `BadInput` as for `target`."""
        ...

    def began(self, device: str, call_id: str, what: str) -> None: ...
    def ended(
        self,
        device: str,
        call_id: str,
        result: CommandResult,
        glimpse: bool = False,
        whole_screen: bool = True,
    ) -> None: ...


class Recorder(Protocol):
    """The journal, as far as the dispatcher needs it."""

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]: ...
    def note_all(self, entries: list[NewEntry]) -> None: ...
    async def put_blob(self, data: bytes) -> str: ...
    async def get_blob(self, sha: str) -> bytes: ...


class Bound(NamedTuple):
    """An order bound to one contract. `request` is what is shown and written of it, whatever comes of it."""

    order: Order
    target: Target
    tool: Tool
    request: Request


class Prepared(NamedTuple):
    """An order whose arguments have passed the first three stages. `request` has its secrets masked."""

    order: Order
    target: Target
    tool: Tool
    request: Request
    arguments: CheckedArguments
    # Entries of stages that have passed and may share one write with the next: at the latest they are
    # written when the command is asked about, refused, or leaves.
    held: list[NewEntry]
    # Pictures that rules wanted before it left.
    before: list[Evidence]
    # Where its paths lead, on a disk that is shared; None where there are none to follow.
    leads: Leads | None = None
