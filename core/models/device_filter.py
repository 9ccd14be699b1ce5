"""The filter for devices: `os:linux tag:lab,prod !name:db-* health:online free-text`.

The syntax is that of `core.filter_language`; a plain word is searched for in name, tags and platform.
"""

from __future__ import annotations

from collections.abc import Callable

from core.errors import BadInput, ErrorCode
from core.filter_language import LONGEST, Filter, Language
from core.models.devices import Device, Health
from core.text import sentences

__all__ = ["FIELDS", "LANGUAGE", "LONGEST", "OS_NAMES", "DeviceFilter", "no_match", "os_word", "parse_filter"]

OS_NAMES = {"darwin": "macos", "win32": "windows"}

DeviceFilter = Filter[Device]


def os_word(device: Device) -> str:
    """The word for a device's operating system: linux, windows, macos."""
    platform = device.platform.casefold()
    return OS_NAMES.get(platform, platform)


def _systems(device: Device) -> list[str]:
    return [device.platform, device.system, os_word(device)]


FIELDS: dict[str, Callable[[Device], list[str]]] = {
    "name": lambda device: [device.name],
    "os": _systems,
    "tag": lambda device: device.tags,
    "health": lambda device: [device.health.value],
    "production": lambda device: ["yes" if device.production else "no"],
    "profile": lambda device: [device.profile],
    "client": lambda device: [device.client],
    "channel": lambda device: [device.channel],
}
"""The fields of the filter, and the values of a device that each of them matches."""

LANGUAGE = Language(
    FIELDS,
    plain=lambda device: [device.name, *device.tags, device.platform],
    closed={"health": tuple(health.value for health in Health), "production": ("yes", "no")},
)


def no_match(targets: str) -> BadInput:
    """The error for a filter that no device matches; of several terms it says that all must hold."""
    several = len(parse_filter(targets).terms) > 1 or "|" in targets
    words = (
        " All terms must hold: a blank means and, a comma means or, as in name:lab-1,lab-2."
        if several
        else ""
    )
    return BadInput(sentences(f"No device matches {targets!r}.{words}"), ErrorCode.UNKNOWN_DEVICE)


def parse_filter(text: str) -> DeviceFilter:
    """Parse a filter.

    Raises:
        BadInput: a syntax error; names the column (counting from 1) and what is allowed there.
    """
    return LANGUAGE.parse(text)
