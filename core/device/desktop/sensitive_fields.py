"""Remembers the secret fields of the desktop: password fields, and fields into which a secret was typed."""

from __future__ import annotations

import time
from collections import OrderedDict

from core.device.desktop.interface import Window

_KEPT = 256
_PASSWORDS_KEPT = 4_096
_WINDOW_HIDDEN_S = 30.0


class SensitiveFields:
    """The secret fields of a device. A password field stays secret even if it later shows plain text."""

    def __init__(self) -> None:
        self._typed: OrderedDict[str, None] = OrderedDict()
        self._passwords: OrderedDict[str, None] = OrderedDict()
        self._owners: dict[str, int] = {}
        self._windows: dict[str, float] = {}
        self._pending_until = 0.0

    def __contains__(self, control_id: str) -> bool:
        return control_id in self._typed or control_id in self._passwords

    def fields(self) -> list[str]:
        """The ids of all secret fields."""
        return list(dict.fromkeys((*self._passwords, *self._typed)))

    def saw_password(self, control_id: str) -> None:
        """Remember a password field."""
        _keep(self._passwords, control_id, _PASSWORDS_KEPT)

    def forget(self, control_id: str) -> None:
        """Forget a field that no longer exists."""
        self._typed.pop(control_id, None)
        self._passwords.pop(control_id, None)
        self._owners.pop(control_id, None)

    def shown_by(self, control_id: str, process_id: int) -> None:
        """Remember the process whose window shows a field."""
        self._owners[control_id] = process_id
        if len(self._owners) > 2 * _PASSWORDS_KEPT:
            self._owners = {key: owner for key, owner in self._owners.items() if key in self}

    def owner(self, control_id: str) -> int | None:
        """The process whose window showed a field when that was last known."""
        return self._owners.get(control_id)

    def owners(self) -> set[int]:
        """The processes known to show secret fields."""
        return set(self._owners.values())

    def typed_into(self, control_id: str) -> None:
        """Remember a field into which a secret is typed."""
        _keep(self._typed, control_id, _KEPT)

    def typed_somewhere(self) -> None:
        """Remember that a secret is typed into an unknown field; `typed_in_window` names its window later."""
        self._pending_until = time.monotonic() + _WINDOW_HIDDEN_S

    @property
    def is_pending(self) -> bool:
        """Whether a secret is being typed into a window that is not known yet."""
        return time.monotonic() < self._pending_until

    def typed_in_window(self, window_id: str | None) -> None:
        """Remember the window into which such a secret is typed; None where it is not known."""
        if window_id is None:
            return
        self._windows[window_id] = time.monotonic() + _WINDOW_HIDDEN_S
        self._pending_until = 0.0

    def hides(self, window: Window) -> bool:
        """Whether a window must be redacted now: for 30 s after a secret was typed there."""
        return time.monotonic() < self._windows.get(window.id, 0.0) or (self.is_pending and window.active)


def _keep(kept: OrderedDict[str, None], control_id: str, most: int) -> None:
    kept[control_id] = None
    kept.move_to_end(control_id)
    while len(kept) > most:
        kept.popitem(last=False)
