"""The name of a device as a title: broken into lines where it has no room, and never cut."""

from __future__ import annotations

import re

from app.widgets.labels import Label, plain_tip

_BREAK = "\N{ZERO WIDTH SPACE}"
# A name is one word to Qt. What is longer than this between two signs may be broken anywhere.
_LONGEST_PART = 8


class DeviceName(Label):
    """A name that may be broken after its signs; `accessibleName` is the name itself."""

    def __init__(self) -> None:
        super().__init__("", "title", wrap=True)

    def set_name(self, name: str) -> None:
        """Show another name."""
        parts = re.findall(r"[^-_.]*[-_.]|[^-_.]+", name)
        self.setText(_BREAK.join(_BREAK.join(part) if len(part) > _LONGEST_PART else part for part in parts))
        self.setAccessibleName(name)
        self.setToolTip(plain_tip(name))
