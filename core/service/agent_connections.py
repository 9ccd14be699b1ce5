"""The connections of agents to this service: who is connected, since when, over what, with which program."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from core.audit.entries import NewEntry
from core.audit.events import AgentConnected, AgentLeft
from core.ids import now_utc
from core.policy.agent_models import ClientProgram, Transport
from core.service.api.models import AgentConnection

MOST_RECORDED, RECORDED_WITHIN_S = 60, 3600.0
"""An agent that connects more often than this is not journalled each time; its runs name its program."""

# Ends a connection, for a reason.
End = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Attachment:
    """One connection of an agent, from its hello on. It counts as connected from its first call on."""

    actor: str
    end: End
    transport: Transport | Literal[""] = ""
    program: ClientProgram = field(default_factory=ClientProgram)
    since: str = ""
    recorded: bool = False
    # Why the service has ended it; empty until it does.
    ended: str = ""


class AgentConnections:
    """The attached agents. One per service."""

    def __init__(
        self,
        write: Callable[[list[NewEntry]], None],
        changed: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`write` writes journal entries; `changed` is told the actor whose connections are others now."""
        self._write = write
        self._changed = changed
        self._clock = clock
        self._attached: dict[str, list[Attachment]] = defaultdict(list)
        self._recorded_at: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MOST_RECORDED))

    def attach(self, actor: str, end: End) -> Attachment:
        """Take over a connection whose agent has proved itself."""
        attachment = Attachment(actor, end)
        self._attached[actor].append(attachment)
        return attachment

    def use(self, attachment: Attachment) -> None:
        """Note that an agent makes a call; the first one makes it connected."""
        if not attachment.since:
            attachment.since = now_utc()
            self._tell(attachment)

    def introduce(self, attachment: Attachment, transport: Transport, program: ClientProgram) -> None:
        """Note what program is at the end of a connection, as it calls itself."""
        if attachment.since and (attachment.transport, attachment.program) == (transport, program):
            return
        attachment.transport, attachment.program = transport, program
        attachment.since = attachment.since or now_utc()
        self._tell(attachment)

    def detach(self, attachment: Attachment) -> None:
        """Forget a connection that has ended."""
        attached = self._attached[attachment.actor]
        if attachment not in attached:
            return
        attached.remove(attachment)
        if not attached:
            del self._attached[attachment.actor]
        if attachment.recorded:
            left = AgentLeft(
                transport=attachment.transport, program=attachment.program.words, reason=attachment.ended
            )
            self._write([left.entry(attachment.actor)])
        if attachment.since:
            self._changed(attachment.actor)

    def end(self, actor: str, reason: str) -> int:
        """End every connection of an agent; returns the number of those that were in use."""
        attached = [one for one in self._attached.get(actor, []) if not one.ended]
        for attachment in attached:
            attachment.ended = reason
            attachment.end(reason)
        return sum(bool(attachment.since) for attachment in attached)

    def of(self, actor: str) -> list[AgentConnection]:
        """The connections of an agent that are in use, oldest first."""
        return [
            AgentConnection(transport=one.transport, program=one.program, since=one.since)
            for one in self._attached.get(actor, [])
            if one.since and not one.ended
        ]

    def _tell(self, attachment: Attachment) -> None:
        at, recorded = self._clock(), self._recorded_at[attachment.actor]
        if len(recorded) < MOST_RECORDED or at - recorded[0] >= RECORDED_WITHIN_S:
            recorded.append(at)
            attachment.recorded = True
            event = AgentConnected(transport=attachment.transport, program=attachment.program.words)
            self._write([event.entry(attachment.actor)])
        self._changed(attachment.actor)
