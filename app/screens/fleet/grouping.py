"""Devices as tiles, and the groups they stand in on the wall."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from app.components.wall_layout import WallGroup
from app.components.wall_tile import Tile
from app.look.states import health_look
from app.screens.fleet.rows import platform_icon
from app.shell.words import last_heard, parse_time
from core.fleet.models import Device, Health

GROUPINGS = ("none", "tag", "platform", "health")
PRODUCTION = "Production"
OTHER = "Other tags"
# A picture of a device that answers may be older than one of a device that may have gone on without us.
OLD_S, OLD_ONLINE_S = 60.0, 900.0
_PLATFORMS = {"linux": "Linux", "windows": "Windows", "win32": "Windows", "macos": "macOS", "darwin": "macOS"}
_WELL = (Health.ONLINE, Health.BUSY)


def group_devices(devices: Iterable[Device], by: str) -> list[WallGroup]:
    """Groups in their order; production first, as a group of its own or first within its group."""
    groups: dict[tuple[int, str], list[Device]] = {}
    for device in devices:
        groups.setdefault(_group(device, by), []).append(device)
    if by == "tag":
        # A row of tiles for each single device would be mostly empty.
        alone = [key for key, members in groups.items() if len(members) == 1 and key[0] == 1]
        for key in alone if len(alone) > 1 else ():
            groups.setdefault((2, OTHER), []).extend(groups.pop(key))
    made = []
    for (_, name), members in sorted(groups.items(), key=lambda one: (one[0][0], one[0][1].casefold())):
        members.sort(key=lambda one: (not one.production, one.name))
        made.append(WallGroup(name, tuple(one.name for one in members), name == PRODUCTION))
    return made


def _group(device: Device, by: str) -> tuple[int, str]:
    match by:
        case "tag":
            if device.production:
                return 0, PRODUCTION
            tag = next((tag for tag in device.tags if tag != "prod"), "")
            return (1, tag.capitalize()) if tag else (3, "No tag")
        case "platform":
            return 1, _PLATFORMS.get(device.platform.casefold(), device.platform or "Not known")
        case "health":
            return list(Health).index(device.health), health_look(device.health.value).word
        case _:
            return 0, "Devices"


def picture_age(device: Device, now: datetime | None = None) -> str:
    """How old a picture is, where that matters: `picture 6 min old`; empty while it is fresh."""
    if not device.picture or not device.picture_at:
        return ""
    age = ((now or datetime.now(UTC)) - parse_time(device.picture_at)).total_seconds()
    if age < (OLD_ONLINE_S if device.health in _WELL else OLD_S):
        return ""
    if age < 3600:
        return f"picture {int(age / 60)} min old"
    if age < 86_400:
        return f"picture {int(age / 3600)} h old"
    return f"picture {int(age / 86_400)} d old"


def device_tile(device: Device) -> Tile:
    """One device as a tile. An offline one shows no picture: what was there is not there now."""
    offline = device.health is Health.OFFLINE
    needs_answer = "approval" in device.doing or "waits" in device.doing
    line = device.progress or device.doing
    if not line:
        line = _quiet_line(device)
    picture = "" if offline else device.picture or ""
    age = "" if offline else picture_age(device)
    return Tile(
        key=device.name,
        icon=platform_icon(device.platform),
        health=device.health.value,
        line=line,
        waiting=needs_answer,
        picture=picture,
        age=age,
        production=device.production,
        cpu=tuple(device.cpu_percents[-24:]),
        memory=tuple(device.memory_percents[-24:]),
        load=""
        if device.cpu_percents or device.memory_percents or device.health not in _WELL
        else "load not told",
        spoken=_spoken(device, line, age),
    )


def _quiet_line(device: Device) -> str:
    if device.health is Health.RECONNECTING:
        return device.reason
    if device.health in _WELL:
        return f"{device.round_trip_ms:.0f} ms" if device.round_trip_ms is not None else ""
    return f"heard {last_heard(device.last_heard)}"


def _spoken(device: Device, line: str, age: str) -> str:
    parts = [device.name, health_look(device.health.value).word]
    if device.production:
        parts.append(PRODUCTION)
    if device.picture and device.health is not Health.OFFLINE:
        parts.append("with a picture")
    if line:
        parts.append(line)
    if device.cpu_percents:
        parts.append(f"CPU {device.cpu_percents[-1]:.0f} %")
    if device.memory_percents:
        parts.append(f"memory {device.memory_percents[-1]:.0f} %")
    if age:
        parts.append(age)
    if device.reason and device.reason != line:
        parts.append(device.reason)
    return ", ".join(parts)
