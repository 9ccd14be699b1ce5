"""How a hosted server is, and how patient its host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a server stands. A failed one is still tried again, seldom."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `back_off` is the range of the wait between two starts.

    `after_giving_up_s` is for servers that are started here; an address is asked again within `back_off`.
    """

    start_s: float = 60.0
    back_off: tuple[float, float] = (0.5, 30.0)
    give_up_after: int = 6
    after_giving_up_s: float = 300.0
    steady_s: float = 60.0
    ping_s: float = 20.0
    ping_answer_s: float = 10.0
    call_waits_s: float = 10.0
    # Between two looks at a list of tools that is said to have changed.
    relist_s: float = 1.0


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server as `--check` shows it."""

    name: str
    kind: str
    where: str
    state: State
    tools: int = 0
    restarts: int = 0
    reason: str = ""
