"""The changes that a client wishes for: what the window and the command line ask an operator to sign.

The service makes the same change from what it is about to do (`core.service.proposals`), and only where both
are equal is anything signed. What takes long to import is imported where needed: the window starts with this.
"""

from __future__ import annotations

from typing import Any

from core.approvals.models import Operator
from core.canonical_json import sha256_hex
from core.changes import Change, ChangeKind
from core.fleet.models import DeviceSettings, Tool
from core.home import Settings

RESUME = Change(kind=ChangeKind.RESUME)


def policy_change(text: str) -> Change:
    """Making `text` the accepted policy."""
    from core.service.trusted import POLICY_SUBJECT

    after = {"sha256": sha256_hex(text.encode())}
    return Change(kind=ChangeKind.POLICY, subject=POLICY_SUBJECT, after=after)


def settings_change(settings: Settings) -> Change:
    """Accepting what these settings, as settings.toml has them, loosen."""
    from core.service.trusted import SETTINGS_SUBJECT, loosening_settings

    return Change(kind=ChangeKind.SETTINGS, subject=SETTINGS_SUBJECT, after=loosening_settings(settings))


def pairing_change(name: str, settings: DeviceSettings, string: str | None = None) -> Change:
    """Pairing a device that dials in; with the `string` that it printed, one that listens.

    Raises:
        BadInput: it is no pairing string.
    """
    wanted = _given(settings)
    if string is None:
        return Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after={"direction": "in", **wanted})
    from core.aip.pairing import decode_pairing

    line = decode_pairing(string)
    after = {"direction": "out", "url": line.url, "fingerprint": line.fingerprint, **wanted}
    return Change(kind=ChangeKind.DEVICE_PAIRED, subject=name, after=after)


def device_change(name: str, settings: DeviceSettings) -> Change:
    """Other tags, another colour band or agent for a device."""
    return Change(kind=ChangeKind.DEVICE_SET, subject=name, after=_given(settings))


def listening_change(address: str) -> Change:
    """Listening for devices at another address."""
    return Change(kind=ChangeKind.LISTENING, after={"address": address.strip()})


def contract_change(tool: Tool) -> Change:
    """Trusting a tool that changed, as it is defined now."""
    subject = f"{tool.device}/{tool.tool_key}"
    return Change(kind=ChangeKind.CONTRACT, subject=subject, after={"contract": tool.contract.digest})


def operator_added(operator: Operator) -> Change:
    """One more operator."""
    from core.approvals.operators import adding

    return adding(operator)


def operator_removed(operator: Operator) -> Change:
    """One operator less."""
    from core.approvals.operators import removing

    return removing(operator)


def _given(settings: DeviceSettings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_none=True)
