"""The monitors, numbered as pictures number them."""

from __future__ import annotations

import mss
import mss.exception

from core.device.desktop.model import Box
from core.errors import DeviceError, ErrorCode


def monitors_now() -> list[Box]:
    """The monitors; the first has number 1. Blocks for milliseconds.

    Raises:
        DeviceError: the screen cannot be read.
    """
    try:
        with mss.MSS() as screen:
            return [
                Box(int(one["left"]), int(one["top"]), int(one["width"]), int(one["height"]))
                for one in screen.monitors[1:]
            ]
    except (mss.exception.ScreenShotError, OSError) as error:
        raise DeviceError(f"The screen cannot be read: {error}", ErrorCode.TOOL_FAILED) from error
