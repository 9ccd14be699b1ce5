"""Previews of requests that act on a screen: what the card shows of it, with the target marked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from core.approvals.preview_models import Preview
from core.controls import PROGRAM_NAMES
from core.dispatch.card_views import CardView
from core.dispatch.stale_target import Screenshot, has_screen_target, targets_point
from core.policy.analysis.built_in_tools import SCREEN_TARGETS, ScreenTarget
from core.statements import Request

NO_ANSWER = "the device has not answered yet"
NO_TOOL = "this device takes no pictures"
_OLDER = "This one is older than the request; nothing is compared with it."


class LastPicture(NamedTuple):
    """A device's last picture, and when it came (UTC, ISO 8601)."""

    blob: str | None
    taken_at: str | None


def screen_preview(
    request: Request, view: CardView | None, last: LastPicture, takes_pictures: bool = True
) -> Preview:
    """The preview of a request for a tool that uses the pointer or the keyboard.

    `view` is None where the device takes no pictures, or has not answered in time.
    """
    if view is None:
        return _without_picture(request, NO_ANSWER if takes_pictures else NO_TOOL, last)
    if view.picture is None:
        return _without_picture(request, view.problem, last)
    shown = Preview(
        kind="screen",
        picture=view.picture.blob,
        taken_at=view.taken_at,
        age_s=view.age_s,
        problem=_sentence(view.problem),
    )
    if targets_point(request.tool_name):
        return _with_point(shown, request.parameters, view.picture)
    if not has_screen_target(request.tool_name, request.parameters):
        return shown.model_copy(update={"problem": shown.problem or _where_it_goes(request)})
    return _with_control(shown, view, view.picture)


def _where_it_goes(request: Request) -> str:
    if SCREEN_TARGETS[request.tool_name] is ScreenTarget.WINDOW:
        return "It brings a window to the front, and presses nothing."
    if request.parameters.keys() & {"window_id", *PROGRAM_NAMES}:
        return "It goes to whatever has the focus in that window, or nowhere."
    return "It goes to whatever has the focus, or the pointer."


def _with_point(shown: Preview, parameters: dict[str, Any], picture: Screenshot) -> Preview:
    x, y = parameters.get("x"), parameters.get("y")
    if not isinstance(x, (int, float)) or not isinstance(y, (int, float)):
        return shown.model_copy(update={"problem": "The point is not a pair of numbers."})
    point = (int(x), int(y))
    label = f"{point[0]}, {point[1]}"
    seen = picture.evidence
    if seen is None or not (0 <= point[0] < (seen.width or 0) and 0 <= point[1] < (seen.height or 0)):
        return shown.model_copy(update={"label": label, "problem": "The point is outside the picture."})
    return shown.model_copy(update={"label": label, "point": point, "compared": True})


def _with_control(shown: Preview, view: CardView, picture: Screenshot) -> Preview:
    if view.control is None:
        if not view.fault:
            return shown
        why = f"Which control is meant cannot be said: {view.fault}."
        return shown.model_copy(update={"problem": shown.problem or why})
    label = " ".join(filter(None, (view.control.role, view.control.name)))
    target = picture.shown_part(view.control.box)
    problem = shown.problem or ("" if target else "The control is not in this picture.")
    return shown.model_copy(
        update={"target": target, "label": label, "problem": problem, "compared": target is not None}
    )


def _without_picture(request: Request, why: str, last: LastPicture) -> Preview:
    """Why there is no picture, and the device's last one, which is older than the request."""
    if last.blob is None or targets_point(request.tool_name):
        # A point means something in the picture that it names only.
        return Preview(kind="screen", problem=_sentence(why))
    return Preview(
        kind="screen",
        picture=last.blob,
        taken_at=last.taken_at,
        age_s=_age_s(last.taken_at),
        problem=f"{_sentence(why)} {_OLDER}",
    )


def _age_s(stamp: str | None) -> float | None:
    """The age of a time stamp of this service."""
    if not stamp:
        return None
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds())


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""
