"""The requests that one act would answer for: the device of each, and the code of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal

from app.text import one_line
from app.widgets.code_view import CodeView
from app.widgets.section import Section
from core.approvals.models import Approval
from core.statements import short_code

MOST_LINES = 8
_HINT = "the same each time, one signature and code each"


class GroupSection(Section):
    """Every device, by name; nothing is approved before the last of them was on the screen.

    Signals:
        end_seen: the last device was on the screen.
    """

    end_seen = Signal()

    def __init__(self) -> None:
        super().__init__("Devices")
        self.box = CodeView("Devices of this request", most_lines=MOST_LINES)
        self.add(self.box)
        self._shown: tuple[str, ...] = ()
        self._has_fates = False
        self.box.end_seen.connect(self._mark_seen)
        self.hide()

    def show_members(self, members: Sequence[Approval], fates: Mapping[str, str] | None = None) -> None:
        """List the members' devices; hidden where there is one only.

        With `fates`, by request, each line says what became of that one.
        """
        self.setVisible(len(members) > 1)
        self._has_fates = fates is not None
        named = (
            (one_line(one.request.device), short_code(one.request.digest), (fates or {}).get(one.id, ""))
            for one in members
        )
        lines = tuple("\t".join(parts) for parts in sorted(named))
        if lines == self._shown:
            return
        self._shown = lines
        devices = len({one.request.device for one in members})
        same = devices == len(members)
        self.head.title.setText(f"{devices} devices" if same else f"{len(members)} requests")
        self.head.set_hint(f"{_HINT}, end not seen")
        widest = max((len(line.partition("\t")[0]) for line in lines), default=0)
        rows = (line.split("\t") for line in lines)
        words = (f"{name.ljust(widest)}   {code}   {fate}".rstrip() for name, code, fate in rows)
        self.box.show_text("\n".join(words))
        if fates is not None:
            self.head.set_hint("what became of each")

    def _mark_seen(self) -> None:
        if not self._has_fates:
            self.head.set_hint(f"{_HINT}, end seen")
        self.end_seen.emit()

    @property
    def end_was_seen(self) -> bool:
        """True when every device was on the screen, or there is one only."""
        return self.isHidden() or self.box.end_was_seen
