"""The state of a hosted server, and the time-outs and intervals of its host.

Apart from `server`, because the host needs these before the SDK is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The state of a server. A failed server is still retried, at long intervals.

    A server that is switched off is in the configuration, and is not started.
    """

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Timing:
    """Times in seconds. `back_off` is the range of the wait between two starts.

    `after_giving_up_s` applies to local processes; a server at an address is retried within `back_off`.
    """

    start_s: float = 60.0
    back_off: tuple[float, float] = (0.5, 30.0)
    give_up_after: int = 6
    after_giving_up_s: float = 300.0
    steady_s: float = 60.0
    ping_s: float = 20.0
    ping_answer_s: float = 10.0
    call_waits_s: float = 10.0
    # The range of the time between two listings when the server announces changes of its tools: it doubles
    # with each listing that differs, and begins again after `steady_s` without one.
    relist_s: tuple[float, float] = (1.0, 300.0)


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server's state, for display. `where` is its command or address, redacted."""

    name: str
    kind: str
    where: str
    state: State
    tools: int = 0
    restarts: int = 0
    reason: str = ""
    how_to_fix: str = ""
