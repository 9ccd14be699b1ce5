"""The words that a shell may offer, and which of them a terminal may show."""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST_HELP = 80


@dataclass(frozen=True, slots=True)
class Offer:
    """One word that may stand at the cursor; `help` is shown beside it where a shell does so.

    `is_open`: more follows without a blank, as after `key=` or a folder. `is_path`: a leading `~` is the
    user's home folder.
    """

    text: str
    help: str = ""
    is_open: bool = False
    is_path: bool = False


def is_plain(text: str) -> bool:
    """Whether a text can be typed and shown as it is.

    A shell inserts exactly what it is offered, so that a name with line ends, hidden characters or letters
    that reorder the line cannot be escaped, and is not offered.
    """
    return bool(text) and shown(text) == text


def shown(text: str) -> str:
    """A text on one line, with hidden characters and right-to-left letters escaped."""
    if text.isascii() and text.isprintable():
        return text
    # Imported here: its tables take as long as the rest of this package, and few names need them.
    from core.text import escape_hidden, escape_right_to_left

    return escape_right_to_left(escape_hidden(text, keep_lines=False))


def short_help(*texts: str) -> str:
    """Texts of a device or a person as one short line beside a word."""
    line = shown(" ".join(" ".join(texts).split()))
    return line if len(line) <= _LONGEST_HELP else f"{line[: _LONGEST_HELP - 1]}…"
