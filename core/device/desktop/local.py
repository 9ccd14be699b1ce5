"""Chooses the desktop implementation of this system; only its libraries are imported."""

from __future__ import annotations

import sys

from core.device.desktop.interface import Desktop, NoDesktop


def local_desktop() -> Desktop:
    """This machine's desktop, not connected yet."""
    if sys.platform == "linux":
        from core.device.desktop.linux.backend import LinuxDesktop

        return LinuxDesktop()
    elif sys.platform == "win32":
        from core.device.desktop.win32 import WindowsDesktop

        return WindowsDesktop()
    elif sys.platform == "darwin":
        from core.device.desktop.macos import MacDesktop

        return MacDesktop()
    else:
        return NoDesktop(sys.platform)
