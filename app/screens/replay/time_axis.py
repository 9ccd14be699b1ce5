"""Ticks of the time axis: round steps, by the clock or since the beginning."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.screens.replay.text import Clock, since_words
from app.text import parse_time

_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
_HOURS = (7200, 10_800, 21_600, 43_200, 86_400)
LEAST_PX = 96.0


@dataclass(frozen=True, slots=True)
class Ticks:
    """Places in seconds since the beginning, and what stands at them."""

    places: tuple[float, ...]
    words: tuple[str, ...]


def step_for(seconds: float, width: float) -> float:
    """The least round step whose labels do not touch; whole days when hours are too small."""
    least = seconds * LEAST_PX / max(1.0, width)
    for step in (*_STEPS, *_HOURS):
        if step >= least:
            return float(step)
    return 86_400.0 * math.ceil(least / 86_400)


def ticks_between(start: float, end: float, width: float, clock: Clock, began: str) -> Ticks:
    """The ticks of a stretch of time; by the clock they stand at round clock times."""
    step = step_for(end - start, width)
    shift = 0.0
    if not clock.relative:
        try:
            first = parse_time(began)
        except ValueError:
            clock = Clock(relative=True)
        else:
            shift = first.hour * 3600 + first.minute * 60 + first.second + first.microsecond / 1e6
    number = math.ceil((start + shift) / step - 1e-9)
    places: list[float] = []
    words: list[str] = []
    while (place := number * step - shift) <= end + 1e-9:
        places.append(min(end, max(start, place)))
        words.append(since_words(place, step < 1) if clock.relative else _clock_words(number * step, step))
        number += 1
    return Ticks(tuple(places), tuple(words))


def _clock_words(seconds: float, step: float) -> str:
    thousandths = round(seconds * 1000) % 86_400_000
    hours, rest = divmod(thousandths, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    words = f"{hours:02d}:{minutes:02d}"
    if step < 60:
        words += f":{rest // 1000:02d}"
    return f"{words}.{rest % 1000:03d}" if step < 1 else words
