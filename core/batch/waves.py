"""Which devices of a run begin when: its waves, as the plan shows them and the run keeps them.

The first wave is the canary: so many devices, such a part of them, or those that a filter matches. Devices in
production come last in each wave's order unless the batch says `order: as_listed`.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.batch.models import Limit, Rollout
from core.errors import BadInput
from core.models.device_filter import parse_filter
from core.models.devices import Device
from core.text import plural

Waves = tuple[tuple[str, ...], ...]
_NAMED = 5


def planned_waves(rollout: Rollout, devices: Sequence[Device]) -> Waves:
    """The names of the devices, wave by wave, in the order in which they begin.

    Raises:
        BadInput: the canary's filter is malformed, or matches none of the devices.
    """
    ordered = list(devices)
    if rollout.order == "production_last":
        ordered.sort(key=lambda device: device.production)
    canary = rollout.canary
    if _is_filter(canary):
        device_filter = parse_filter(str(canary))
        first = [device for device in ordered if device_filter.matches(device)]
        if devices and not first:
            raise BadInput(
                f"No device of this batch is its canary: {canary!r} matches none of the {len(devices)}. "
                "Name one of them, such as name:lab-1, or a number of devices."
            )
        chosen = {device.name for device in first}
        ordered = [*first, *(device for device in ordered if device.name not in chosen)]
        sizes = [len(first), *_sizes(len(ordered) - len(first), len(ordered), rollout.wave)]
    else:
        sizes = _counted_sizes(rollout, len(ordered))
    return in_waves([device.name for device in ordered], sizes)


def wave_lines(waves: Sequence[Sequence[str]], production: Sequence[str], most: int = 6) -> list[str]:
    """What begins when, a line for each of the first `most` waves; of each, production is named first."""
    marked = set(production)
    lines = []
    for number, wave in enumerate(waves[:most], 1):
        names = sorted(wave, key=lambda name: name not in marked)
        shown = [f"{name} (production)" if name in marked else name for name in names[:_NAMED]]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        lines.append(f"Wave {number}: {', '.join(shown)}{more}")
    if len(waves) > most:
        later = [name for wave in waves[most:] for name in wave]
        risky = sum(name in marked for name in later)
        lines.append(
            f"Waves {most + 1} to {len(waves)}: {plural(len(later), 'device')}"
            + (f", {risky} of them in production" if risky else "")
        )
    return lines


def sizes_of(waves: Waves) -> list[int]:
    """How many devices each wave has, as a run records it; empty where all are one."""
    return [len(wave) for wave in waves] if len(waves) > 1 else []


def recorded_sizes(rollout: Rollout, devices: int) -> list[int]:
    """The sizes for a run that has recorded none: one wave, or what older runs derived from numbers."""
    if _is_filter(rollout.canary):
        return []
    sizes = _counted_sizes(rollout, devices)
    return sizes if len(sizes) > 1 else []


def in_waves(devices: Sequence[str], sizes: Sequence[int]) -> Waves:
    """Devices in their order, divided into waves of these sizes."""
    waves, start = [], 0
    for size in sizes:
        waves.append(tuple(devices[start : start + size]))
        start += size
    return tuple(wave for wave in waves if wave)


def _is_filter(canary: int | str | None) -> bool:
    return isinstance(canary, str) and not canary.endswith("%")


def _counted_sizes(rollout: Rollout, devices: int) -> list[int]:
    first = min(_number(rollout.canary, devices), devices)
    return [*([first] if first else []), *_sizes(devices - first, devices, rollout.wave)]


def _sizes(left: int, devices: int, wave: Limit | None) -> list[int]:
    size = _number(wave, devices) or max(left, 1)
    return [min(size, left - start) for start in range(0, left, size)]


def _number(limit: Limit | None, devices: int) -> int:
    """A part of devices is rounded up, so that it is never none of them."""
    if isinstance(limit, str):
        return -(-devices * int(limit.removesuffix("%")) // 100)
    return limit or 0
