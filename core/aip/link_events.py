"""What links tell their owner, whichever side dialled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.aip.extensions import Metrics, Progress
from core.aip.messages import Result

if TYPE_CHECKING:
    from core.aip.device_link import DeviceLink


@dataclass(frozen=True, slots=True)
class RefusedAttempt:
    """Somebody who was not let in. `name` is whose token or name it used, as far as that is known."""

    reason: str
    peer: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A device's sign of life: how far its clock is ahead of ours, in milliseconds, and how loaded it is."""

    clock_offset_ms: float | None = None
    metrics: Metrics | None = None


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """An answer to commands whose caller had given up on them.

    `call_ids` are those that were sent, in order; `results` may name others, as a device's word. `problem`
    says what is wrong with the answer; an answer that could not be read at all has no results.
    """

    call_ids: tuple[str | None, ...]
    results: tuple[Result, ...]
    problem: str = ""


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """What a link's owner is told, from the event loop; none of these may block.

    `on_late` gets what came after its caller had given up, once for each command frame. `on_progress` is
    only called for calls that are pending, in order, and within their allowance.
    """

    on_connected: Callable[[DeviceLink], None] = _ignore
    on_lost: Callable[[DeviceLink, str], None] = _ignore
    on_refused: Callable[[RefusedAttempt], None] = _ignore
    on_late: Callable[[DeviceLink, LateAnswer], None] = _ignore
    on_progress: Callable[[DeviceLink, Progress], None] = _ignore
    on_heartbeat: Callable[[DeviceLink, Heartbeat], None] = _ignore
    on_tools_changed: Callable[[DeviceLink], None] = _ignore
