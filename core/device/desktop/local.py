"""Chooses the desktop of the system this runs on. Each one's libraries load only there."""

from __future__ import annotations

import sys

from core.device.desktop.interface import Desktop, NoDesktop


def local_desktop(platform: str = sys.platform) -> Desktop:
    """This machine's desktop, not yet connected to."""
    if platform == "linux":
        from core.device.desktop.linux.backend import LinuxDesktop

        return LinuxDesktop()
    if platform == "win32":
        from core.device.desktop.win32 import WindowsDesktop

        return WindowsDesktop()
    if platform == "darwin":
        from core.device.desktop.macos import MacDesktop

        return MacDesktop()
    return NoDesktop(platform)
