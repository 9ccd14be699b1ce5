"""Times, durations and tools as the replay writes them."""

from __future__ import annotations

from dataclasses import dataclass

from app.text import parse_time

_ICONS = {
    "screenshot": "screenshot",
    "get_ui_tree": "element_tree",
    "list_controls": "element_tree",
    "shell_execute": "shell",
    "exec_cli": "shell",
    "write_file": "write_file",
    "restore_file": "undo",
    "read_file": "read_file",
}
_TYPING = ("type", "set_edit", "key", "hotkey", "annotation")


def tool_icon(tool: str) -> str:
    """The icon of a tool by its name; a wrench for a tool that is not known."""
    name = tool.lower().rpartition(".")[2]
    if name in _ICONS:
        return _ICONS[name]
    if "click" in name or "drag" in name:
        return "click"
    if name.startswith(_TYPING):
        return "type"
    return "tool"


@dataclass(frozen=True, slots=True)
class Clock:
    """Writes the time of a moment: by the clock on the wall, or since the beginning."""

    relative: bool = False

    def words(self, stamp: str, at: float, exact: bool = False) -> str:
        """`10:37:40`, or `2:34` since the beginning; `exact` adds milliseconds."""
        if self.relative:
            return since_words(at, exact)
        try:
            moment = parse_time(stamp)
        except ValueError:
            return since_words(at, exact)
        words = moment.strftime("%H:%M:%S")
        return f"{words}.{moment.microsecond // 1000:03d}" if exact else words


def since_words(seconds: float, exact: bool = False) -> str:
    """Seconds since the beginning: `0:07`, `1:02:03`, with milliseconds when `exact`."""
    thousandths = round(max(0.0, seconds) * 1000)
    if not exact:
        thousandths = thousandths // 1000 * 1000
    minutes, rest = divmod(thousandths, 60_000)
    hours, minutes = divmod(minutes, 60)
    words = f"{hours}:{minutes:02d}:{rest // 1000:02d}" if hours else f"{minutes}:{rest // 1000:02d}"
    return f"{words}.{rest % 1000:03d}" if exact else words


def lasting(seconds: float) -> str:
    """A duration: `212 ms`, `2.4 s`, `41 s`, `1:22`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    return since_words(seconds + 0.5)


def earlier(seconds: float) -> str:
    """How long before the playhead a picture was taken."""
    return "now" if seconds < 0.0005 else f"{lasting(seconds)} earlier"
