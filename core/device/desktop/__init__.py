"""What programs show on this machine's screen, and the hands to use it: one interface, three systems."""

from __future__ import annotations

from core.device.desktop.interface import Desktop
from core.device.desktop.local import local_desktop

__all__ = ["Desktop", "local_desktop"]
