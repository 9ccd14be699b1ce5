"""Requested changes: built by the window and the command line, to be proposed and signed.

The service builds the same change from the action that it will carry out (`core.service.proposals`), and an
operator signs only if both are equal. Slow imports are local to functions, because the window imports this
module at its start.
"""

from __future__ import annotations

from typing import Any

from core.approvals.models import Operator
from core.canonical_json import sha256_hex
from core.changes import Change, ChangeKind
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Machine
from core.models.tools import Tool
from core.policy.agent_models import AgentSettings
from core.settings import Settings

RESUME = Change(kind=ChangeKind.RESUME)
NEXT_CERTIFICATE = Change(kind=ChangeKind.CERTIFICATE)


def policy_change(text: str) -> Change:
    """Making `text` the accepted policy."""
    from core.service.trusted import POLICY_SUBJECT

    after = {"sha256": sha256_hex(text.encode())}
    return Change(kind=ChangeKind.POLICY, subject=POLICY_SUBJECT, after=after)


def settings_change(home: Home) -> Change:
    """Accepting the loosening values of the present settings.toml and of this computer's device.toml.

    Raises:
        BadInput: settings.toml is broken.
    """
    from core.service.held_settings import loosening_settings, readable_device_config
    from core.service.trusted import SETTINGS_SUBJECT

    after = loosening_settings(Settings.read(home.settings), readable_device_config(home))
    return Change(kind=ChangeKind.SETTINGS, subject=SETTINGS_SUBJECT, after=after)


def pairing_change(name: str, settings: DeviceSettings, string: str | None = None) -> Change:
    """Pairing a device that dials in; with `string`, its pairing string, a device that listens.

    Raises:
        BadInput: `string` is not a pairing string.
    """
    wanted = _given(settings)
    if string is None:
        return Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after={"direction": "in", **wanted})
    from core.aip.pairing import decode_pairing

    line = decode_pairing(string)
    after = {"direction": "out", "url": line.url, "fingerprint": line.fingerprint, **wanted}
    return Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after=after)


def device_change(name: str, settings: DeviceSettings) -> Change:
    """Changing a device's tags, colour band or agent."""
    return Change(kind=ChangeKind.DEVICE_SET, subject=name, after=_given(settings))


def machine_change(name: str, machine: Machine) -> Change:
    """Letting another machine use a device's pairing."""
    return Change(kind=ChangeKind.DEVICE_BOUND, subject=name, after=machine.model_dump(mode="json"))


def listening_change(address: str) -> Change:
    """Listening for devices at another address."""
    return Change(kind=ChangeKind.LISTENING, after={"address": address.strip()})


def contract_change(tool: Tool) -> Change:
    """Trusting a changed tool by its present definition."""
    subject = f"{tool.device}/{tool.tool_key}"
    return Change(kind=ChangeKind.CONTRACT, subject=subject, after={"contract": tool.contract.digest})


def operator_added(operator: Operator) -> Change:
    """Registering an operator."""
    from core.approvals.operators import adding

    return adding(operator)


def operator_removed(operator: Operator) -> Change:
    """Removing an operator."""
    from core.approvals.operators import removing

    return removing(operator)


def agent_added(name: str, settings: AgentSettings) -> Change:
    """Adding an agent, or giving it a new token."""
    return Change(kind=ChangeKind.AGENT_ADDED, subject=name, after=settings.model_dump(mode="json"))


def agent_set(name: str, settings: AgentSettings) -> Change:
    """Replacing the settings of an agent."""
    return Change(kind=ChangeKind.AGENT_SET, subject=name, after=settings.model_dump(mode="json"))


def _given(settings: DeviceSettings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_none=True)
