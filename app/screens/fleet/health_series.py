"""A device's history as stretches of time, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from app.screens.fleet.device_columns import is_measured, trip_scale
from app.text import clock, milliseconds, parse_time
from app.theme.state_looks import health_look
from app.widgets.charts import Series, Span
from core.fleet.models import HealthChange
from core.models.devices import Device

LEAST_S = 60.0


def health_spans(history: Sequence[HealthChange], now: datetime | None = None) -> tuple[Span, ...]:
    """Stretches from the first change until now, which is the end of the band; oldest first.

    A band is of a minute at least: of a device that is known for less its beginning is left empty. Empty
    without any change.
    """
    changes = sorted(history, key=lambda one: one.at)
    if not changes:
        return ()
    end = now or datetime.now(UTC)
    start = parse_time(band_start(changes, end))
    whole = max(LEAST_S, (end - start).total_seconds())
    spans = []
    for place, change in enumerate(changes):
        following = changes[place + 1].at if place + 1 < len(changes) else None
        until = parse_time(following) if following else end
        first = (parse_time(change.at) - start).total_seconds() / whole
        last = (until - start).total_seconds() / whole
        word = health_look(change.health.value).word
        ended = f"until {clock(following)}" if following else "until now"
        words = f"{word} from {clock(change.at)} {ended}"
        if change.reason:
            words += f". {change.reason}"
        spans.append(Span(change.health.value, min(1.0, first), min(1.0, max(first, last)), words))
    return tuple(spans)


def band_start(history: Sequence[HealthChange], now: datetime | None = None) -> str:
    """The UTC stamp at which the band of a history begins; the history has one change at least."""
    end = now or datetime.now(UTC)
    first = min(parse_time(change.at) for change in history)
    return min(first, end - timedelta(seconds=LEAST_S)).isoformat()


def device_series(device: Device) -> tuple[Series, ...]:
    """Round trip, CPU and memory of a device; only what it tells, and nothing once its link was lost."""
    if not is_measured(device):
        return ()
    found = []
    if device.round_trips_ms:
        trip = milliseconds(device.round_trip_ms)
        trips = tuple(device.round_trips_ms)
        found.append(Series("Round trip", trip, trips, trip_scale(trips)))
    if device.cpu_percents:
        found.append(Series.percent("CPU", device.cpu_percents))
    if device.memory_percents:
        found.append(Series.percent("Memory", device.memory_percents))
    return tuple(found)
