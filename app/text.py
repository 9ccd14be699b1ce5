"""Counts, times, durations, people and profiles as the screens write them."""

from __future__ import annotations

from datetime import UTC, datetime

from core.errors import ErrorCode, QuarterdeckError
from core.policy.models import Profile
from core.text import escape_hidden, plural

__all__ = ["plural"]

THIN_SPACE = "\N{THIN SPACE}"
PROFILE_WORDS: dict[Profile, str] = {
    Profile.OBSERVE: "reads only, nothing else is sent",
    Profile.GUARDED: "low risk runs, the rest asks",
    Profile.TRUSTED: "low and medium risk run, the rest asks",
    Profile.LOCKDOWN: "everything asks",
}


def one_line(text: str | None) -> str:
    """Text of a device or of a program in one line: what cannot be seen in it is written out."""
    return escape_hidden(text or "", keep_lines=False)


def count_words(number: int) -> str:
    """A count with groups of three digits: 18,204."""
    return f"{number:,}"


def with_nothing_sent(reason: str) -> str:
    """A reason behind "Nothing was sent.", which many reasons say themselves: it is said once."""
    return reason if "nothing was sent" in reason.casefold() else f"Nothing was sent. {reason}".strip()


def problem_text(error: QuarterdeckError) -> str:
    """What is wrong and what to do; the general advice about bad input is about the arguments of calls."""
    return error.message if error.code is ErrorCode.INVALID_ARGUMENTS else error.info.sentences


def parse_time(stamp: str) -> datetime:
    """Read ISO 8601 as a local time.

    Raises:
        ValueError: it is not a time.
    """
    moment = datetime.fromisoformat(stamp)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone()


def clock(stamp: str | None, seconds: bool = True) -> str:
    """Local clock time, with the day where it is not today's; an em dash when there is none."""
    if not stamp:
        return "—"
    moment = parse_time(stamp)
    words = moment.strftime("%H:%M:%S" if seconds else "%H:%M")
    days = (datetime.now().astimezone().date() - moment.date()).days
    if days == 0:
        return words
    return f"yesterday {words}" if days == 1 else f"{moment:%Y-%m-%d} {words}"


def short_clock(stamp: str | None) -> str:
    """`clock` for narrow columns: the time today, else month, day and time without seconds."""
    if not stamp:
        return "—"
    moment = parse_time(stamp)
    today = datetime.now().astimezone().date() == moment.date()
    return f"{moment:%H:%M:%S}" if today else f"{moment:%m-%d %H:%M}"


def last_heard(stamp: str | None) -> str:
    """How long ago a device was heard: `now`, `40 s ago`, `6 min ago`, then clock time."""
    if not stamp:
        return "never"
    seconds = (datetime.now(UTC) - parse_time(stamp)).total_seconds()
    if seconds < 15:
        return "now"
    if seconds < 60:
        return f"{int(seconds)} s ago"
    if seconds < 3600:
        return f"{int(seconds / 60)} min ago"
    return clock(stamp, seconds=False)


def left_words(seconds: float) -> str:
    """Time left as minutes and seconds: `4:31`."""
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def milliseconds(value: float | None) -> str:
    """A duration: `0.4 ms`, `14 ms`, `2.3 s`; an em dash when there is none."""
    if value is None:
        return "—"
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def person_words(actor: str) -> str:
    """Who did something: an operator by name, a window that proved none by its user, others in full."""
    kind, _, name = actor.partition(":")
    match kind:
        case "operator" if name:
            return name
        case "window" if name:
            return f"{name} (not proved)"
        case _:
            return actor
