"""Events that links report to their owner, whether the device or the console dialled."""

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
    """A rejected connection. `name` is the device whose token or name it used, if known."""

    reason: str
    peer: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A device's heartbeat: how many milliseconds its clock is ahead of the console's, and its load."""

    clock_offset_ms: float | None = None
    metrics: Metrics | None = None


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """An answer to commands whose caller had given up.

    `call_ids` are the ids that were sent, in order; `results` come from the device and may carry other ids.
    `problem` describes what is wrong with the answer; an answer that could not be read has no results.
    """

    call_ids: tuple[str | None, ...]
    results: tuple[Result, ...]
    problem: str = ""


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """Callbacks to a link's owner, called in the event loop; they must not block.

    `on_late` receives answers that came after their caller had given up, once for each command frame.
    `on_progress` is called only for pending calls, in order, and within the limits of `LinkLimits`.
    """

    on_connected: Callable[[DeviceLink], None] = _ignore
    on_lost: Callable[[DeviceLink, str], None] = _ignore
    on_refused: Callable[[RefusedAttempt], None] = _ignore
    on_late: Callable[[DeviceLink, LateAnswer], None] = _ignore
    on_progress: Callable[[DeviceLink, Progress], None] = _ignore
    on_heartbeat: Callable[[DeviceLink, Heartbeat], None] = _ignore
    on_tools_changed: Callable[[DeviceLink], None] = _ignore
