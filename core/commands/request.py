"""A request for one command, and the snapshot of the device that it is for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from core.commands.channel import BasicCommandDispatcher
from core.commitments import NO_PLACES, Places, no_places
from core.ids import new_id
from core.models.devices import Device
from core.models.tools import Tool
from core.policy.models import Decision


class Stage(StrEnum):
    """The progress of a command, as reported to its caller."""

    WAITING = "waiting"
    RUNNING = "running"


OnStage = Callable[[Stage, str], None]


async def _at_once() -> None:
    """The turn of a request that has no others before it."""


class Purpose(StrEnum):
    """Why a command is requested.

    Only a `COMMAND` may wait for an approval: every other purpose reads something that no operator requested,
    and is refused if the policy asks.
    """

    COMMAND = "command"
    # A picture or a UI tree for the rules or the freshness check of another command (`evidence_for`).
    EVIDENCE = "evidence"
    # A look for an operator who is deciding about a request, whose call may be `evidence_for`.
    PREVIEW = "preview"
    # A small picture for the wall of live devices. No card and no comparison uses it.
    LIVE_VIEW = "live_view"


class Secrets(NamedTuple):
    """Secrets that a caller declares.

    `values` are redacted in what the device answers. `places` are where the secrets stand in the arguments:
    nothing else of the arguments is hidden for them, so that a caller can hide no more than its secret.
    """

    values: tuple[str, ...] = ()
    places: Places = NO_PLACES


NO_SECRETS = Secrets()


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A request for one call. `said` is the caller's text about it: stored and quoted, never judged.

    `program` is what an agent's program calls itself.

    `edited_from` is the approval request in which an operator edited the arguments.

    `evidence_for` is the id of the call for which a picture is taken or a control is read. Evidence always
    names it, and so does what the card of a request shows.

    `operators` are the persons who requested or edited the call, as proved by their keys; an empty name is a
    person without such a proof.

    `on_decided` gets the policy's decision before an operator is asked, and again after an edit.

    `machine` is the identity of the machine for which the request was made; empty if it is not known.

    `cancelled` is polled until the command is sent: once it returns True, nothing of this request is sent.

    `secrets` are secret in addition to what the tool's schema marks.

    `unquoted` are the spans of texts that a template put into a shell line as they are, with `raw(…)`.

    `turn` is awaited when a request that waited for operators was approved, before anything more is done.
    """

    device: str
    tool: str
    parameters: dict[str, Any]
    actor: str
    run: str | None = None
    step: str | None = None
    timeout: float | None = None
    said: str = ""
    program: str = ""
    edited_from: str = ""
    purpose: Purpose = Purpose.COMMAND
    evidence_for: str = ""
    operators: tuple[str, ...] = ("",)
    secrets: Secrets = NO_SECRETS
    machine: str = ""
    unquoted: Places = field(default_factory=no_places)
    call_id: str = field(default_factory=new_id)
    cancelled: Callable[[], bool] = lambda: False
    on_decided: Callable[[Decision], None] = lambda decision: None
    turn: Callable[[], Awaitable[None]] = _at_once

    def __post_init__(self) -> None:
        reads_for_another = (Purpose.EVIDENCE, Purpose.PREVIEW)
        if self.purpose is Purpose.EVIDENCE and not self.evidence_for:
            raise ValueError("Evidence names the call that it is for.")
        if self.evidence_for and self.purpose not in reads_for_another:
            raise ValueError("Only evidence and previews are for another call.")

    @property
    def may_wait(self) -> bool:
        """Whether this request may wait for an approval."""
        return self.purpose is Purpose.COMMAND

    @property
    def shows_whole_screen(self) -> bool:
        """Whether a screenshot taken by this request shows a whole screen and not a part of it."""
        return shows_whole_screen(self.parameters)


def shows_whole_screen(parameters: Mapping[str, Any]) -> bool:
    """Whether these arguments of `screenshot` ask for a whole screen, not for a region or a window."""
    return bool(parameters.get("region", "fullscreen") == "fullscreen")


class Target(NamedTuple):
    """A snapshot of a device. `roots`: its allowed folders; `shares_disk`: its paths are on this computer."""

    device: Device
    tools: dict[str, Tool]
    channel: BasicCommandDispatcher | None
    roots: list[Path] | None
    shares_disk: bool = False
