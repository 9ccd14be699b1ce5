"""What programs show on this machine's screen, and the hands to use it: one interface, three systems."""

from __future__ import annotations

from core.device.desktop.local import local_desktop
from core.device.desktop.model import Desktop

__all__ = ["Desktop", "local_desktop"]
