"""Finds the file that an undo would write: the file of the write that it undoes, as the journal has it."""

from __future__ import annotations

from typing import Any, Protocol

from core.audit.entries import Entry, Kind
from core.audit.models import Page
from core.audit.query import quoted
from core.models.tool_names import RESTORE_FILE, WRITE_FILE
from core.models.tools import BUILT_IN_NAMESPACE, Tool

WRITES_LOOKED_AT = 200
UNDO_ID = "undo_id"
_ANSWERS = f"{Kind.RESULT_RECORDED},{Kind.LATE_ANSWER_RECEIVED}"


class Queries(Protocol):
    """The part of the journal that is read here."""

    async def query(self, query: str, *, limit: int = ...) -> Page: ...


def undoes_a_write(tool: Tool) -> bool:
    """Whether a tool writes a file that its arguments do not name."""
    return tool.namespace == BUILT_IN_NAMESPACE and tool.tool_name == RESTORE_FILE


async def undone_path(journal: Queries, device: str, undo_id: Any) -> str | None:
    """The path that a write on this device was given; None if the journal's newest writes do not have it."""
    if not isinstance(undo_id, str):
        return None
    query = f"device:{quoted(device)} tool:{WRITE_FILE} kind:{_ANSWERS}"
    for entry in (await journal.query(query, limit=WRITES_LOOKED_AT)).entries:
        if _result_of(entry).get("undo") != undo_id or entry.call_id is None:
            continue
        asked = f"call:{quoted(entry.call_id)} kind:{Kind.COMMAND_PREPARED}"
        for prepared in (await journal.query(asked, limit=1)).entries:
            path = prepared.body.get("parameters", {}).get("file_path")
            return path if isinstance(path, str) else None
    return None


def _result_of(entry: Entry) -> dict[str, Any]:
    told = entry.body.get("result")
    if entry.kind is Kind.RESULT_RECORDED:
        told = told.get("result") if isinstance(told, dict) else None
    elif entry.body.get("outcome") is None:
        # A late answer that was not accepted as the command's.
        return {}
    return told if isinstance(told, dict) else {}
