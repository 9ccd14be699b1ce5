"""Names, tags, fingerprints and addresses of devices: what is right of them, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Mapping

from core.models.devices import Device, Health

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
TAG = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$")
AGENT = re.compile(r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")
THIS_COMPUTER = "this-computer"
MOST_TAGS = 32


def name_problem(name: str, devices: Mapping[str, Device]) -> str:
    """What is wrong with a name for a new device; empty when nothing is."""
    if not name:
        return ""
    if not NAME.match(name):
        return "Letters, digits, '.', '_' and '-', at most 64, a letter or digit first."
    if name == THIS_COMPUTER:
        return f"{THIS_COMPUTER} is the computer that the console runs on."
    known = devices.get(name)
    if known is not None and known.health in (Health.ONLINE, Health.BUSY):
        return f"{name} is connected already. Choose another name, or revoke it first."
    for other in devices:
        if other != name and other.casefold() == name.casefold():
            return f"{other} differs in capitals only. Choose a name that cannot be mistaken."
    return ""


def name_note(name: str, devices: Mapping[str, Device]) -> str:
    """What goes with a name that may be used: an older token of it ends."""
    if name in devices:
        return f"{name} is known already: its old token is worthless as soon as the new one is made."
    return ""


def split_tags(text: str) -> list[str]:
    """Tags as typed: between spaces or commas, each once, in their order."""
    return list(dict.fromkeys(word for word in re.split(r"[\s,]+", text) if word))


def tags_problem(text: str) -> str:
    """What is wrong with tags; empty when nothing is."""
    tags = split_tags(text)
    if len(tags) > MOST_TAGS:
        return f"At most {MOST_TAGS} tags; these are {len(tags)}."
    wrong = next((tag for tag in tags if not TAG.match(tag)), None)
    return "" if wrong is None else f"{wrong!r} is not a tag: letters, digits, '.', '_', ':', '/' and '-'."


def agent_problem(agent: str) -> str:
    """What is wrong with the name of a stock client's agent; empty when nothing is."""
    if not agent or AGENT.match(agent):
        return ""
    return f"{agent!r} is not the name of an agent: a letter first, then letters, digits, '.', '_' and '-'."


def fingerprint_groups(fingerprint: str) -> str:
    """A digest as people compare it over a telephone: groups of four, eight a line."""
    plain = fingerprint.replace(":", "").lower()
    groups = [plain[at : at + 4] for at in range(0, len(plain), 4)]
    return "\n".join(" ".join(groups[at : at + 8]) for at in range(0, len(groups), 8))


def direction_words(device: Device) -> str:
    """Who dials whom."""
    return {
        "in": f"dials in from {device.address}" if device.address else "dials in",
        "out": f"is dialled at {device.address}" if device.address else "is dialled",
        "local": "this computer",
    }[device.direction]


def clock_words(offset_ms: float | None) -> str:
    """How far a device's clock is off."""
    if offset_ms is None:
        return "not known"
    if abs(offset_ms) < 50:
        return "agrees"
    seconds = abs(offset_ms) / 1000
    words = f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"{words} {'ahead' if offset_ms > 0 else 'behind'}"


def feature_words(device: Device) -> str:
    """Which extensions were agreed with a device."""
    if not device.features:
        return "plain AIP"
    return ", ".join(name.replace("_", " ") for name in device.features)
