"""What a person may want to look at before answering a request, as read-only calls that fit it."""

from __future__ import annotations

from typing import Any

from core.fleet.models import Plain

NOT_THERE = "There is no such file yet."
"""What a preview's `problem` says of a file that would be new."""


class Helper(Plain):
    """One read-only call that helps to decide. It goes through the dispatcher like any other command."""

    id: str
    title: str
    device: str
    tool: str
    parameters: dict[str, Any]


class Region(Plain):
    """A rectangle in pixels of a picture."""

    x: int
    y: int
    width: int
    height: int


class Preview(Plain):
    """What is there now, beside what was asked for.

    For a file: `before` and `after` as text (None where it is not text, too large, or not there; `problem`
    says so). `is_new`: the device has looked, and there is no such file. For an action at an element or a
    point: the last picture's blob with the target outlined. `taken_at` is when the file was read or the
    picture taken (UTC, ISO 8601).
    """

    kind: str
    before: str | None = None
    after: str | None = None
    picture: str | None = None
    target: Region | None = None
    point: tuple[int, int] | None = None
    label: str = ""
    taken_at: str | None = None
    problem: str = ""
    is_new: bool = False
