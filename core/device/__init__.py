"""The device client: a separate process that offers this machine's tools over AIP.

Of the console it imports only the protocol (`core.aip`) and a few shared modules such as errors and tasks, so
that it can be installed and run on a machine without the rest of Quarterdeck.
"""

from __future__ import annotations

from core.device.build import build_router
from core.device.config import DeviceConfig, load_config
from core.device.router import Router

__all__ = ["DeviceConfig", "Router", "build_router", "load_config"]
