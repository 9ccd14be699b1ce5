"""Models of the read-only calls and previews that help an operator to decide a request."""

from __future__ import annotations

from typing import Any

from core.models.frozen import FrozenModel

NOT_THERE = "There is no such file yet."
"""The text of a preview's `problem` for a file that does not exist yet."""


class Helper(FrozenModel):
    """A read-only call that helps to decide a request; the dispatcher treats it like any other command."""

    id: str
    title: str
    device: str
    tool: str
    parameters: dict[str, Any]


class Region(FrozenModel):
    """A rectangle of a picture, in pixels."""

    x: int
    y: int
    width: int
    height: int


class Preview(FrozenModel):
    """The present content of a request's target, and the content that the request would produce.

    For a file: `before` and `after` are its text, or None if it is not text, too large or missing; `problem`
    then has the reason. `is_new` is true if the device has looked and the file does not exist. For an action
    on a screen: `picture` is the blob of the picture that was taken for this request, or else of the device's
    last one; `target` or `point` is the target's position in it, and `compared` tells whether the target is
    compared with this picture before the request is sent. For a program (`kind` is `program`): `label` says
    which one it is, by process id, windows and command line. `taken_at` is when the file or the program was
    read or the picture taken (UTC, ISO 8601). `age_s` is the age of a picture in seconds.
    """

    kind: str
    before: str | None = None
    after: str | None = None
    picture: str | None = None
    target: Region | None = None
    point: tuple[int, int] | None = None
    label: str = ""
    taken_at: str | None = None
    age_s: float | None = None
    compared: bool = False
    problem: str = ""
    is_new: bool = False
