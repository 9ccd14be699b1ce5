"""Previews of approval requests: the present state beside the requested effect.

Files are shown as text, screens as their last picture. Reads go through the dispatcher (`Look`), as
observations that need no approval. `Preview.problem` explains what cannot be shown.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Set
from typing import Any, Protocol

from core.approvals.grants import holds_secret
from core.approvals.models import Approval
from core.approvals.preview_models import NOT_THERE, Preview, Region
from core.audit.entries import Entry, Kind
from core.audit.models import Page
from core.audit.query import Query, quoted
from core.controls import PROGRAM_NAMES, Node, meant, program_text, search_for
from core.dispatch.models import CommandResult
from core.dispatch.stale_target import Screenshot, with_screen_position
from core.dispatch.undone_path import undone_path
from core.errors import BadInput, ErrorCode
from core.ids import now_utc
from core.policy.analysis.built_in_tools import (
    CLOSE_APPLICATION,
    LIST_PROCESSES,
    READ_FILE,
    RESTORE_FILE,
    SCREEN_TARGETS,
    SCREENSHOT,
    UI_TREE,
    WRITE_FILE,
    ScreenTarget,
)
from core.text_encodings import UTF_8, encoded

MOST_BYTES = 1024 * 1024
PICTURES_LOOKED_AT = 40
NO_READ = "This device has no tool to read the file with, so that nothing can be compared."

Look = Callable[[str, dict[str, Any]], Awaitable[CommandResult]]


class Reads(Protocol):
    """The part of the journal that previews use."""

    async def query(
        self, query: str | Query, before: int | None = None, after: int | None = None, limit: int = 200
    ) -> Page: ...
    async def get_blob(self, sha: str) -> bytes: ...


class Previewer:
    """Builds the preview of one request. `look` makes a read-only call on the request's device."""

    def __init__(
        self,
        approval: Approval,
        journal: Reads,
        look: Look,
        last_picture: str | None,
        offered: Set[str],
    ) -> None:
        """`offered` are the names of the device's tools; no other tool is called."""
        self._request = approval.request
        self._journal = journal
        self._look = look
        self._last_picture = last_picture
        self._offered = offered

    async def preview(self) -> Preview:
        """Build the preview; its `kind` is `file`, `screen`, `program` or `nothing`."""
        name = self._request.tool_name
        if name == WRITE_FILE:
            return await self._write()
        if name == RESTORE_FILE:
            return await self._restore()
        if name == CLOSE_APPLICATION:
            return await self._program()
        match SCREEN_TARGETS.get(name):
            case None:
                return Preview(kind="nothing", problem="This tool has nothing to be shown beforehand.")
            case ScreenTarget.POINT:
                return await self._point()
            case _:
                return await self._element()

    async def _write(self) -> Preview:
        given = self._request.parameters
        path, mode = given.get("file_path"), given.get("mode", "overwrite")
        if not isinstance(path, str):
            return Preview(kind="file", problem="The path is secret or missing.")
        before, taken_at, problem, exists = await self._file(path, _encoding(given))
        new, fault = _content(given)
        after = new
        if new is None:
            problem = fault or problem
        elif mode == "append" and exists:
            # Without the old text, the text after appending is not known.
            after = before + new if before is not None else None
        elif mode == "create" and exists:
            after, problem = None, "There is such a file already: “create” would be refused."
        if not exists and not problem:
            problem = NOT_THERE
        return Preview(
            kind="file",
            before=before,
            after=after,
            problem=problem,
            taken_at=taken_at,
            label=path,
            is_new=not exists,
        )

    async def _restore(self) -> Preview:
        mark = self._request.parameters.get("undo_id")
        path = await undone_path(self._journal, self._request.device, mark)
        if path is None:
            return Preview(kind="file", problem="The journal does not say which file this change was to.")
        before, taken_at, problem, _ = await self._file(path)
        kept = "The device alone keeps the old content; what comes back cannot be shown before."
        return Preview(kind="file", before=before, problem=problem or kept, taken_at=taken_at, label=path)

    async def _program(self) -> Preview:
        pid = self._request.parameters.get("pid")
        if not isinstance(pid, int):
            return Preview(kind="program", problem="It names no process; the device looks for it.")
        if LIST_PROCESSES not in self._offered:
            return Preview(kind="program", problem="This device has no tool to look at its processes with.")
        result = await self._look(LIST_PROCESSES, {"pid": pid})
        if result.error is not None:
            return Preview(kind="program", problem=result.error.message)
        rows = result.result.get("processes") if isinstance(result.result, dict) else None
        if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
            return Preview(kind="program", problem=f"There is no process {pid} now.", taken_at=now_utc())
        return Preview(kind="program", label=_program_words(pid, rows[0]), taken_at=now_utc())

    async def _file(self, path: str, encoding: str = UTF_8) -> tuple[str | None, str | None, str, bool]:
        """A file's text, the time of reading, the reason if there is no text, and whether the file exists."""
        if READ_FILE not in self._offered:
            return None, None, NO_READ, True
        # UTF-8 is the default; leaving it out also serves device clients without the `encoding` argument.
        more = {} if encoding == UTF_8 else {"encoding": encoding}
        result = await self._look(READ_FILE, {"file_path": path, "max_bytes": MOST_BYTES, **more})
        error = result.error
        if error is not None:
            if error.code is ErrorCode.NOT_FOUND or "does not exist" in error.message:
                return None, now_utc(), "", False
            return None, None, error.message, True
        found = result.result if isinstance(result.result, dict) else {}
        if found.get("truncated"):
            size = found.get("size")
            return None, now_utc(), f"The file has {size:,} bytes, too many to compare.", True
        content = await self._whole(found.get("content"))
        return content, now_utc(), "" if content is not None else "The device gave no text.", True

    async def _whole(self, content: Any) -> str | None:
        """The complete text of a result, read from the journal if it was stored as a blob."""
        if isinstance(content, dict) and isinstance(content.get("blob"), str):
            data = await self._journal.get_blob(content["blob"])
            return data.decode("utf-8", "replace")
        return content if isinstance(content, str) else None

    async def _point(self) -> Preview:
        given = self._request.parameters
        x, y = given.get("x"), given.get("y")
        shot = await self._shot(lambda told: told.get("observation") == given.get("observation"))
        if shot is None:
            return Preview(kind="screen", problem="The picture that this point is in is not known here.")
        if not isinstance(x, (int, float)) or not isinstance(y, (int, float)):
            return Preview(kind="screen", problem="The point is no pair of numbers.")
        told, picture, taken_at = shot
        width: Any = told.get("width")
        height: Any = told.get("height")
        point = (int(x), int(y))
        known = isinstance(width, int) and isinstance(height, int)
        outside = not (known and 0 <= point[0] < width and 0 <= point[1] < height)
        return Preview(
            kind="screen",
            picture=picture,
            point=None if outside else point,
            label=f"{point[0]}, {point[1]}",
            taken_at=taken_at,
            problem="The point is outside the picture." if outside else "",
        )

    async def _element(self) -> Preview:
        # Only the device's last picture: before the call is sent, its target is compared with that picture.
        shot = await self._shot(lambda told: _picture_of(told) == self._last_picture)
        if shot is None:
            return Preview(kind="screen", problem="There is no picture of this device's screen yet.")
        told, picture, taken_at = shot
        shown = Preview(kind="screen", picture=picture, taken_at=taken_at)
        wanted = {
            key: value
            for key, value in self._request.parameters.items()
            if key in ("control_id", "window_id", *PROGRAM_NAMES, "role", "name") and isinstance(value, str)
        }
        if SCREEN_TARGETS[self._request.tool_name] is ScreenTarget.WINDOW:
            return shown.model_copy(
                update={"problem": "It brings a window to the front, and presses nothing."}
            )
        if not wanted:
            return shown.model_copy(update={"problem": "It goes to whatever has the focus, or the pointer."})
        if not wanted.keys() & {"control_id", "role", "name"}:
            return shown.model_copy(
                update={"problem": "It goes to whatever has the focus in that window, or nowhere."}
            )
        found, problem = await self._control(wanted)
        if found is None:
            return shown.model_copy(update={"problem": problem})
        label = " ".join(filter(None, (found.role, found.name)))
        target = _in_picture(found.box, told)
        problem = "" if target else "The control is not in this picture."
        return shown.model_copy(update={"target": target, "label": label, "problem": problem})

    async def _control(self, wanted: dict[str, str]) -> tuple[Node | None, str]:
        try:
            scope = search_for(wanted)
        except BadInput as error:
            return None, f"Which control is meant cannot be said: {error.message}"
        result = await self._look(UI_TREE, scope)
        if result.error is not None:
            return None, f"Where the control is cannot be read: {result.error.message}"
        fit = meant(result.result, wanted)
        if not fit:
            return None, "No control on the screen fits now."
        if len(fit) > 1:
            return None, f"{len(fit)} controls fit now; which one is meant is not said."
        return fit[0], ""

    async def _shot(
        self, wanted: Callable[[dict[str, Any]], bool]
    ) -> tuple[dict[str, Any], str, str | None] | None:
        """The newest matching picture: the tool's result, the picture's blob, and when it was taken."""
        query = f"device:{quoted(self._request.device)} tool:{SCREENSHOT} kind:{Kind.RESULT_RECORDED}"
        page = await self._journal.query(query, limit=PICTURES_LOOKED_AT)
        for entry in page.entries:
            told = _result_of(entry)
            picture = _picture_of(told)
            if picture is not None and wanted(told):
                taken_at = told.get("taken_at")
                return told, picture, taken_at if isinstance(taken_at, str) else entry.time
        return None


def _program_words(pid: int, row: dict[str, Any]) -> str:
    titles = row.get("windows")
    windows = [title for title in titles if isinstance(title, str)] if isinstance(titles, list) else []
    words = [f"{row.get('name')}, {program_text(pid, windows) if windows else f'process {pid}, no window'}"]
    named = (("user", "of user"), ("started_at", "started"), ("command_line", "command line"))
    words += [f"{name} {row[key]}" for key, name in named if isinstance(row.get(key), str) and row[key]]
    return ", ".join(words)


def _encoding(given: dict[str, Any]) -> str:
    """The text encoding of a file that a call writes; bytes (base64) are compared as UTF-8."""
    encoding = given.get("encoding", UTF_8)
    return encoding if isinstance(encoding, str) and encoding != "base64" else UTF_8


def _content(given: dict[str, Any]) -> tuple[str | None, str]:
    """The text that would be written, or the reason why none can be shown."""
    content = given.get("content")
    if holds_secret(content):
        return None, "What would be written is secret."
    if not isinstance(content, str):
        return None, "What would be written is no text."
    if given.get("encoding", UTF_8) != "base64":
        try:
            encoded(content, _encoding(given), append=given.get("mode") == "append")
        except BadInput as error:
            return None, f"The device would refuse this: {error.message}"
        return content, ""
    try:
        return base64.b64decode(content, validate=True).decode("utf-8"), ""
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None, "What would be written is not text."


def _result_of(entry: Entry) -> dict[str, Any]:
    told = entry.body.get("result", {}).get("result")
    return told if isinstance(told, dict) else {}


def _picture_of(told: dict[str, Any]) -> str | None:
    image = told.get("image")
    blob = image.get("blob") if isinstance(image, dict) else None
    return blob if isinstance(blob, str) else None


def _in_picture(box: Any, told: dict[str, Any]) -> Region | None:
    """The part of a box on the screen that a picture shows, in its pixels; None if it shows none of it.

    The same place is compared before the call is sent.
    """
    width, height = told.get("width"), told.get("height")
    if not isinstance(box, dict) or not isinstance(told.get("screen_box"), dict):
        return None
    if not isinstance(width, int) or not isinstance(height, int):
        return None
    region = with_screen_position(Screenshot(""), told).in_picture(box)
    if region is None:
        return None
    left, top = max(0, region.x), max(0, region.y)
    right, bottom = min(width, region.x + region.width), min(height, region.y + region.height)
    if right <= left or bottom <= top:
        return None
    return Region(x=left, y=top, width=right - left, height=bottom - top)
