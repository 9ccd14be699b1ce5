"""The filter of the fleet: which devices are shown."""

from __future__ import annotations

from app.items.filter_edit import FilterEdit, Words
from core.models.device_filter import LANGUAGE

WORDS = Words(
    LANGUAGE,
    {
        "name": "a device's name",
        "os": "platform or system",
        "tag": "a tag",
        "health": "online, busy, stale, …",
        "production": "yes or no",
        "profile": "guarded, trusted, …",
        "client": "its device client",
        "channel": "how it is linked",
    },
    usual="tag",
)


class DeviceFilterEdit(FilterEdit):
    """Asks which devices are shown."""

    def __init__(self) -> None:
        super().__init__("Filter devices", "os:linux tag:lab !name:db-*", WORDS)
