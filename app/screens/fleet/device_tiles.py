"""Devices as tiles, and the groups they stand in on the wall."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from app.items.tile_layout import TileGroup
from app.items.tile_painter import TileItem
from app.screens.fleet.device_columns import is_measured, natural, platform_icon
from app.text import last_heard, one_line, parse_time
from app.theme.state_looks import health_look
from core.models.devices import Device, Health
from core.service.console import LivePicture, LiveState

GROUPINGS = ("none", "tag", "platform", "health")
PRODUCTION = "Production"
OTHER = "Other tags"
# A picture of a device that answers may be older than one of a device that may have gone on without us.
OLD_S, OLD_ONLINE_S = 60.0, 900.0
# Beside live tiles one that is not says so sooner.
OLD_BESIDE_LIVE_S = 15.0
NOT_LIVE = "not live"
_PLATFORMS = {"linux": "Linux", "windows": "Windows", "win32": "Windows", "macos": "macOS", "darwin": "macOS"}
_WELL = (Health.ONLINE, Health.BUSY)


def group_devices(devices: Iterable[Device], by: str) -> list[TileGroup]:
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
        members.sort(key=lambda one: (not one.production, natural(one.name).casefold()))
        made.append(TileGroup(name, tuple(one.name for one in members), name == PRODUCTION))
    return made


def _group(device: Device, by: str) -> tuple[int, str]:
    match by:
        case "tag":
            if device.production:
                return 0, PRODUCTION
            tag = next((tag for tag in device.tags if tag != "prod"), "")
            return (1, tag.capitalize()) if tag else (3, "No tag")
        case "platform":
            return 1, _PLATFORMS.get(device.platform.casefold(), one_line(device.platform) or "Not known")
        case "health":
            return list(Health).index(device.health), health_look(device.health.value).word
        case _:
            return 0, "Devices"


def newest_picture(device: Device) -> tuple[str, str]:
    """The newer one of the last picture taken on request and the last live one, and when; empty if none."""
    one, other = (device.picture, device.picture_at), (device.glimpse, device.glimpse_at)
    if other[0] and other[1] and (not one[1] or parse_time(other[1]) > parse_time(one[1])):
        one = other
    return one[0] or "", one[1] or ""


def picture_age(device: Device, now: datetime | None = None, old_s: float | None = None) -> str:
    """How old a picture is, where that matters: `picture 6 min old`; empty while it is fresh.

    It is old after `old_s` seconds; without that, it depends on whether the device answers.
    """
    picture, at = newest_picture(device)
    if not picture or not at:
        return ""
    age = ((now or datetime.now(UTC)) - parse_time(at)).total_seconds()
    usual = OLD_ONLINE_S if device.health in _WELL else OLD_S
    if age < (usual if old_s is None else old_s):
        return ""
    if age < 60:
        return f"picture {int(age)} s old"
    if age < 3600:
        return f"picture {int(age / 60)} min old"
    if age < 86_400:
        return f"picture {int(age / 3600)} h old"
    return f"picture {int(age / 86_400)} d old"


def device_tile(device: Device, live: LivePicture | None = None) -> TileItem:
    """One device as a tile. An offline one shows no picture: what was there is not there now.

    `live` is how its live picture stands, where one is wished for.
    """
    offline = device.health is Health.OFFLINE
    needs_answer = "approval" in device.doing or "waits" in device.doing
    is_live = live is not None and live.state is LiveState.LIVE and not offline
    why_not = live.why if live is not None and live.state is LiveState.REFUSED else ""
    line = one_line(device.progress or device.doing or why_not or _quiet_line(device))
    picture = "" if offline else newest_picture(device)[0]
    age = "" if offline or is_live else picture_age(device, old_s=OLD_BESIDE_LIVE_S if live else None)
    if why_not and picture:
        age = age or NOT_LIVE
    return TileItem(
        key=device.name,
        icon=platform_icon(device.platform),
        health=device.health.value,
        line=line,
        waiting=needs_answer,
        picture=picture,
        age=age,
        live=is_live,
        no_picture=NOT_LIVE if why_not else "no picture",
        production=device.production,
        cpu=tuple(device.cpu_percents[-24:]) if is_measured(device) else (),
        memory=tuple(device.memory_percents[-24:]) if is_measured(device) else (),
        load=""
        if device.cpu_percents or device.memory_percents or device.health not in _WELL
        else "load not told",
        spoken=_spoken(device, line, age, live),
    )


def _quiet_line(device: Device) -> str:
    if device.health is Health.RECONNECTING:
        return device.reason
    if device.health in _WELL:
        return f"{device.round_trip_ms:.0f} ms" if device.round_trip_ms is not None else ""
    return f"heard {last_heard(device.last_heard)}"


def _spoken(device: Device, line: str, age: str, live: LivePicture | None) -> str:
    parts = [device.name, health_look(device.health.value).word]
    if device.production:
        parts.append(PRODUCTION)
    if newest_picture(device)[0] and device.health is not Health.OFFLINE:
        is_live = live is not None and live.state is LiveState.LIVE
        parts.append("with a live picture" if is_live else "with a picture")
    if line:
        parts.append(line)
    if device.cpu_percents and is_measured(device):
        parts.append(f"CPU {device.cpu_percents[-1]:.0f} %")
    if device.memory_percents and is_measured(device):
        parts.append(f"memory {device.memory_percents[-1]:.0f} %")
    if age and age != NOT_LIVE:
        parts.append(age)
    if live is not None and live.why:
        parts.append(f"{NOT_LIVE}: {one_line(live.why)}")
    if device.reason and one_line(device.reason) != line:
        parts.append(one_line(device.reason))
    return ", ".join(parts)
