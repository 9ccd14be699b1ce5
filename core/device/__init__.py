"""The device client: a process of its own that offers this machine's tools over AIP.

It imports nothing of the console but the wire (`core.aip`), the error words and the task owner, so that it
installs and runs on a machine where nothing else of Quarterdeck is wanted.
"""

from __future__ import annotations

from core.device.build import build_router
from core.device.config import DeviceConfig, load_config
from core.device.router import Router

__all__ = ["DeviceConfig", "Router", "build_router", "load_config"]
