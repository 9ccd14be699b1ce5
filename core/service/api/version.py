"""The version of the console API, which a client and the service must share."""

from __future__ import annotations

API_VERSION = 8
