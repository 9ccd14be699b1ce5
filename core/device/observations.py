"""Observation refs: single-use ids of screenshots, by which a click names the screenshot it was aimed at."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from core.device.desktop.interface import Layer
from core.errors import BadInput, DeviceError, ErrorCode

LIFETIME_S = 30.0
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Observation:
    """A screenshot's area in screen pixels, and the size in which it was sent."""

    monitor: int
    left: int
    top: int
    width: int
    height: int
    picture_width: int
    picture_height: int
    # The layers on the screen just before the screenshot was taken, the topmost first.
    layers: tuple[Layer, ...] = field(default=(), compare=False, repr=False)

    @property
    def scale(self) -> float:
        """Picture pixels for each screen pixel."""
        return self.picture_width / self.width

    def on_screen(self, x: float, y: float) -> tuple[int, int]:
        """The screen pixel at the centre of a picture's pixel.

        Raises:
            BadInput: the pixel is outside the picture.
        """
        if not (0 <= x < self.picture_width and 0 <= y < self.picture_height):
            raise BadInput(
                f"({x:g}, {y:g}) is outside the picture, which is {self.picture_width} × "
                f"{self.picture_height} pixels."
            )
        across = (int(x) + 0.5) * self.width / self.picture_width
        down = (int(y) + 0.5) * self.height / self.picture_height
        return self.left + min(int(across), self.width - 1), self.top + min(int(down), self.height - 1)

    def shows(self, x: int, y: int, now: Sequence[Layer], met: str | None) -> bool:
        """Whether a screen pixel still belongs to the same layer as in the picture.

        `now` are the present layers; `met` is the id of the layer that a pointer hits at this pixel. Layers
        above it, which take no clicks, must be the same as well.
        """
        before = [one for one in self.layers if one.box.holds(x, y)]
        after = [one for one in now if one.box.holds(x, y)]
        depth = next((at for at, one in enumerate(after, 1) if one.id == met), len(after))
        same = before[:depth] == after[:depth]
        return same and (met is not None or len(before) == len(after))


class ObservationStore:
    """Issues opaque refs that are valid for 30 seconds and one use, on this device only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: OrderedDict[str, tuple[float, Observation]] = OrderedDict()

    def issue(self, observation: Observation) -> str:
        """Store `observation` and return its ref."""
        ref = secrets.token_urlsafe(18)
        self._held[ref] = (self._clock() + LIFETIME_S, observation)
        while len(self._held) > _KEPT:
            self._held.popitem(last=False)
        return ref

    def consume(self, ref: str) -> Observation:
        """Return a ref's observation and invalidate the ref.

        Raises:
            DeviceError: the ref expired, was used, or is not this device's (code `stale_observation`).
        """
        expires, observation = self._held.pop(ref, (0.0, None))
        if observation is None:
            raise DeviceError(
                "This observation was used already, or is not this device's.", ErrorCode.STALE_OBSERVATION
            )
        if self._clock() >= expires:
            raise DeviceError("This observation is older than 30 seconds.", ErrorCode.STALE_OBSERVATION)
        return observation
