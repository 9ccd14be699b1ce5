"""Previews of approval requests: the present state beside the requested effect.

Files are shown as text, screens as a picture. Reads go through the dispatcher (`Look`), as observations that
need no approval. `Preview.problem` explains what cannot be shown.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Set
from typing import Any, Protocol

from core.approvals.models import Approval
from core.approvals.preview_models import NOT_THERE, Preview
from core.audit.models import Page
from core.audit.query import Query
from core.commands.results import CommandResult
from core.commitments import holds_stand_in
from core.controls import program_text
from core.dispatch.card_views import CardView
from core.dispatch.undone_path import undone_path
from core.errors import BadInput, ErrorCode
from core.ids import now_utc
from core.models.tool_names import (
    CLOSE_APPLICATION,
    LIST_PROCESSES,
    READ_FILE,
    RESTORE_FILE,
    SCREENSHOT,
    WRITE_FILE,
)
from core.policy.analysis.built_in_tools import SCREEN_TARGETS
from core.service.screen_previews import LastPicture, screen_preview
from core.text_encodings import UTF_8, encoded

MOST_BYTES = 1024 * 1024
NO_READ = "This device has no tool to read the file with, so that nothing can be compared."

Look = Callable[[str, dict[str, Any]], Awaitable[CommandResult]]
View = Callable[[], Awaitable[CardView | None]]


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
        view: View,
        last_picture: LastPicture,
        offered: Set[str],
    ) -> None:
        """`view` awaits what the card shows of the screen. `offered` are the names of the device's tools."""
        self._request = approval.request
        self._journal = journal
        self._look = look
        self._view = view
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
        if name in SCREEN_TARGETS:
            takes_pictures = SCREENSHOT in self._offered
            return screen_preview(self._request, await self._view(), self._last_picture, takes_pictures)
        return Preview(kind="nothing", problem="This tool has nothing to be shown beforehand.")

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
    if holds_stand_in(content):
        return None, "The content to be written is secret."
    if not isinstance(content, str):
        return None, "The content to be written is not text."
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
