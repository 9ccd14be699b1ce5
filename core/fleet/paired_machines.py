"""Binds each pairing to the machine that used it first; another machine waits for an operator's signature.

A copy of a device's state folder holds its token. Without the binding, the copy would take the device's
place, and an approval given for one machine would run on the other. The identity is what the device's client
reports of itself (`core.machine_id`): this protects against copies, not against a program that has the token
and lies. A client that reports no identity is let in as long as the pairing is not bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from core.audit.entries import NewEntry
from core.audit.events import DeviceBound
from core.errors import BadInput, ErrorCode, Refused
from core.models.devices import NO_MACHINE, Machine
from core.text import escape_hidden

ANOTHER = "another machine answers"
"""A refusal of another machine begins with this text."""
_IDENTITY = re.compile(r"[0-9a-f]{64}")
_LONGEST_HOST = 64


def machine_of(metadata: Mapping[str, Any]) -> Machine:
    """The machine that a registration's metadata describes; missing or invalid values are left empty."""
    ours, system = metadata.get("quarterdeck"), metadata.get("system_info")
    identity = ours.get("identity") if isinstance(ours, dict) else None
    host = system.get("hostname") if isinstance(system, dict) else None
    return Machine(
        identity=identity if isinstance(identity, str) and _IDENTITY.fullmatch(identity) else "",
        host=escape_hidden(host[:_LONGEST_HOST], keep_lines=False) if isinstance(host, str) else "",
    )


class PairedMachines:
    """The machines that pairings are bound to, and those that wait for an operator, by device."""

    def __init__(
        self,
        bound: Mapping[str, Machine],
        record: Callable[[list[NewEntry]], None],
        changed: Callable[[str], None],
    ) -> None:
        """`bound` is what the journal has. `record` writes an entry as soon as the journal can be written.

        `changed` is called with the name of a device whose machines have changed.
        """
        self._bound = dict(bound)
        self._others: dict[str, Machine] = {}
        self._record = record
        self._changed = changed

    def of(self, device: str) -> Machine:
        """The machine that a device's pairing is bound to; without an identity if it is not bound."""
        return self._bound.get(device, NO_MACHINE)

    def other_of(self, device: str) -> Machine | None:
        """The machine that showed the same pairing last, and was refused."""
        return self._others.get(device)

    def admit(self, device: str, metadata: Mapping[str, Any]) -> None:
        """Check that a registration comes from the machine that the pairing is bound to.

        Raises:
            Refused: it comes from another machine, which is held until an operator accepts it.
        """
        bound, machine = self.of(device), machine_of(metadata)
        if not bound.identity or machine.identity == bound.identity:
            return
        self._others[device] = machine
        self._changed(device)
        raise Refused(
            self.why_held(device),
            ErrorCode.DENIED_BY_POLICY,
            f"If that machine is meant, accept it (quarterdeck devices accept {device}); if both are, pair "
            "it under a name of its own.",
        )

    def why_held(self, device: str) -> str:
        """Why the other machine that showed a device's pairing is not let in; empty if there is none."""
        other = self._others.get(device)
        if other is None:
            return ""
        return (
            f"{ANOTHER} as {device}: {other.words}, was {self.of(device).words}; it is held until "
            f"an operator accepts it: quarterdeck devices accept {device}"
        )

    def bind(self, device: str, metadata: Mapping[str, Any], paired_at: str) -> None:
        """Bind a pairing that is not bound to the machine of this registration, if it reports an identity."""
        machine = machine_of(metadata)
        if self.of(device).identity or not machine.identity:
            return
        self._bound[device] = machine
        bound = DeviceBound(machine=machine.identity, host=machine.host, paired_at=paired_at)
        self._record([bound.entry("service", device=device)])
        self._changed(device)

    def waiting(self, device: str, identity: str) -> Machine:
        """The machine of this identity that waits for an operator.

        Raises:
            BadInput: there is none, or another machine has come meanwhile.
        """
        other = self._others.get(device)
        if other is None:
            raise BadInput(f"No other machine has shown the pairing of {device}.", ErrorCode.NOT_FOUND)
        if other.identity != identity:
            raise BadInput(f"By now it is {other.words} that answers as {device}; look again.")
        return other

    def accept(self, device: str, machine: Machine) -> None:
        """Bind a pairing to another machine, once the journal has the operator's signature."""
        self._others.pop(device, None)
        self._bound[device] = machine
        self._changed(device)

    def forget(self, device: str) -> None:
        """Unbind a device that was paired again or forgotten."""
        self._others.pop(device, None)
        self._bound.pop(device, None)
