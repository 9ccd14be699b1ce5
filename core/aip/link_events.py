"""Events that links report to their owner, whether the device or the console dialled."""

from __future__ import annotations

from dataclasses import dataclass

from core.aip.extensions import Metrics, RecalledResult
from core.aip.messages import Result


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
    `recalled`: the device was asked for it. `never_seen`: the device says that it never saw the call, how far
    back that is certain, and refuses it from now on; there are no results.
    """

    call_ids: tuple[str | None, ...]
    results: tuple[Result, ...]
    problem: str = ""
    recalled: bool = False
    never_seen: RecalledResult | None = None
