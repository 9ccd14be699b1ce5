"""The requests that one act would answer for: device and code of each, and the arguments that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal

from app.text import one_line
from app.widgets.code_view import CodeView
from app.widgets.section import Section
from core.approvals.models import Approval
from core.approvals.request_groups import differing
from core.statements import short_code

MOST_LINES = 8
_SAME = "the same each time, one signature and code each"
_DIFFERS = "the same but for what is listed, one signature and code each"


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
        self._hint = _SAME
        self.box.end_seen.connect(self._mark_seen)
        self.hide()

    def show_members(self, members: Sequence[Approval], fates: Mapping[str, str] | None = None) -> None:
        """List the members' devices; hidden where there is one only.

        With `fates`, by request, each line says what became of that one.
        """
        self.setVisible(len(members) > 1)
        self._has_fates = fates is not None
        table = differing(members)
        rows = sorted(
            (
                one_line(one.request.device),
                short_code(one.request.digest),
                *values,
                (fates or {}).get(one.id, ""),
            )
            for one, values in zip(members, table.rows or ((),) * len(members), strict=True)
        )
        if table.columns:
            rows.insert(0, ("device", "code", *map(one_line, table.columns), ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = tuple(
            "   ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
        if lines == self._shown:
            return
        self._shown = lines
        self._hint = _DIFFERS if table.columns else _SAME
        devices = len({one.request.device for one in members})
        same = devices == len(members)
        self.head.title.setText(f"{devices} devices" if same else f"{len(members)} requests")
        self.head.set_hint(f"{self._hint}, end not seen")
        self.box.show_text("\n".join(lines))
        if fates is not None:
            self.head.set_hint("what became of each")

    def _mark_seen(self) -> None:
        if not self._has_fates:
            self.head.set_hint(f"{self._hint}, end seen")
        self.end_seen.emit()

    @property
    def end_was_seen(self) -> bool:
        """True when every device was on the screen, or there is one only."""
        return self.isHidden() or self.box.end_was_seen
