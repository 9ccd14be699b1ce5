"""Reads and controls the programs on this machine's screen: one interface for Linux, Windows and macOS."""

from __future__ import annotations

from core.device.desktop.interface import Desktop
from core.device.desktop.local import local_desktop

__all__ = ["Desktop", "local_desktop"]
