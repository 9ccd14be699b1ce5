"""The file tools `read_file`, `list_directory`, `write_file`, and `restore_file`, which undoes a write."""

from __future__ import annotations

import base64
import binascii
import os
import threading
from typing import Any

from core.device.fs import file_ops
from core.device.fs.listing import list_folder
from core.device.tool import (
    OBSERVES,
    Contract,
    Tool,
    ToolCall,
    Unavailable,
    nullable,
    object_schema,
    text,
    whole_number,
    yes_or_no,
)
from core.device.tool_context import ToolContext
from core.device.undo import ID_PATTERN
from core.errors import BadInput
from core.text import sentences
from core.text_encodings import LONGEST_NAME, UTF_8, encoded, refuse_too_large

# Bytes of a result in addition to the content.
_ENVELOPE_BYTES = 512
_ENCODING = text(
    "How `content` is bytes in the file: a text encoding such as utf-8, utf-16, utf-16-le, latin-1, cp1252; "
    "or base64 where `content` is bytes. utf-16, utf-32 and utf-8-sig begin with a byte order mark.",
    minLength=1,
    maxLength=LONGEST_NAME,
    default=UTF_8,
    examples=[UTF_8, "base64", "utf-16", "latin-1", "cp1252"],
)
DEFAULT_ROWS = 1000
_DIGEST = "SHA-256 in hexadecimal"
_NOTE = text("Present where the file has other names (hard links), which keep the content that they had.")


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """The file tools, which are available on every platform."""
    limits = workshop.config.limits

    async def read_file(call: ToolCall) -> dict[str, Any]:
        _refuse_folder(call)
        encoding = call.arguments.get("encoding", UTF_8)
        room = min(limits.max_output_bytes, call.room or limits.max_output_bytes) - _ENVELOPE_BYTES
        most, offset = int(call.arguments.get("max_bytes", room)), int(call.arguments.get("offset", 0))
        held = call.paths["file_path"]
        return await workshop.in_thread(file_ops.read, held, encoding, offset, most, room)

    async def write_file(call: ToolCall) -> dict[str, Any]:
        _refuse_folder(call)
        content, encoding = call.arguments["content"], call.arguments.get("encoding", UTF_8)
        mode = call.arguments.get("mode", "overwrite")
        if encoding == "base64":
            try:
                data = base64.b64decode(content, validate=True)
            except (binascii.Error, ValueError) as error:
                raise BadInput(sentences(f"content is not base64: {error}")) from error
        else:
            data = encoded(content, encoding, append=mode == "append")
            # Encoding may turn one byte into four, and undo reads back no more than this limit.
            refuse_too_large(data, file_ops.MOST_WRITTEN)
        held = call.paths["file_path"]
        return await workshop.in_thread(file_ops.write, held, data, mode, workshop.undo)

    async def restore_file(call: ToolCall) -> dict[str, Any]:
        return await workshop.in_thread(restore, workshop, call.arguments["undo_id"])

    async def list_directory(call: ToolCall) -> dict[str, Any]:
        glob, most = call.arguments.get("glob", "*"), int(call.arguments.get("max_rows", DEFAULT_ROWS))
        over = threading.Event()
        try:
            return await workshop.in_thread(
                list_folder, call.paths["path"], glob, most, lambda: not over.is_set()
            )
        finally:
            over.set()

    return [
        _read_file(read_file),
        _list_directory(list_directory),
        _write_file(write_file),
        _restore_file(restore_file),
    ], []


def _refuse_folder(call: ToolCall) -> None:
    """Refuse a path that can only name a folder: resolving it would drop its end, and name a file.

    Raises:
        BadInput: it ends with a separator, or with `.` or `..`.
    """
    given: str = call.arguments["file_path"]
    if os.path.basename(given.replace(os.altsep or os.sep, os.sep)) in ("", os.curdir, os.pardir):
        raise BadInput(f"file_path {given!r} names a folder; a file's path ends with its name.")


def restore(workshop: ToolContext, undo_id: str) -> dict[str, Any]:
    """Undo one write of a file. Blocks on the disk.

    Raises:
        BadInput: the id is not known, or the file changed since the write or is no longer below a root.
    """
    # The path is checked again, because roots may have been removed since the write.
    held = workshop.guard.hold(workshop.undo.entry(undo_id).path, "the kept path")
    return file_ops.restore(held, undo_id, workshop.undo)


def _read_file(run: Any) -> Tool:
    return Tool(
        name="read_file",
        title="Read a file",
        tool_type="data_collection",
        description="Read a file, or a part of it.",
        input_schema=object_schema(
            {
                "file_path": text("Absolute path, or one that begins with ~.", minLength=1),
                "encoding": _ENCODING,
                "offset": whole_number("First byte to read.", minimum=0, maximum=2**53 - 1, default=0),
                "max_bytes": whole_number("Most bytes to read.", minimum=1, maximum=2**53 - 1),
            },
            required=("file_path",),
        ),
        output_schema=object_schema(
            {
                "content": text("What was read."),
                "size": whole_number("Size of the whole file in bytes."),
                "sha256": text(f"{_DIGEST} of the bytes that were read."),
                "truncated": yes_or_no("Whether the file goes on after what was read."),
            }
        ),
        contract=OBSERVES,
        run=run,
        path_arguments=("file_path",),
    )


def _list_directory(run: Any) -> Tool:
    row = object_schema(
        {
            "name": text("Name; bytes that are not UTF-8 are written as \\xNN."),
            "kind": {"enum": ["file", "folder", "link", "fifo", "socket", "device", "other"]},
            "size_bytes": nullable(
                whole_number("Size; of a link, the length of its target; null where the system does not say.")
            ),
            "modified_at": nullable(text("ISO 8601.")),
            "mode": nullable(text("Permission bits, in octal.")),
            "target": nullable(text("Where a link leads, not followed; null for others.")),
        }
    )
    return Tool(
        name="list_directory",
        title="List a folder",
        tool_type="data_collection",
        description="List the entries of one folder by name. Links are shown, not followed.",
        input_schema=object_schema(
            {
                "path": text("Absolute path, or one that begins with ~.", minLength=1),
                "glob": text(
                    "Only names that match this, such as *.log.",
                    pattern="^[^/]+$",
                    maxLength=255,
                    default="*",
                ),
                "max_rows": whole_number(
                    "Most rows to return.", minimum=1, maximum=10_000, default=DEFAULT_ROWS
                ),
            },
            required=("path",),
        ),
        output_schema=object_schema(
            {
                "path": text("The folder, resolved."),
                "entries": {"type": "array", "items": row},
                "total": whole_number("How many entries match."),
                "truncated": yes_or_no("Whether some that match were left out."),
            }
        ),
        contract=OBSERVES,
        run=run,
        path_arguments=("path",),
    )


def _write_file(run: Any) -> Tool:
    return Tool(
        name="write_file",
        title="Write a file",
        tool_type="action",
        description=(
            "Write a file in one atomic step. The device keeps the old content; "
            "restore_file with the returned undo id brings it back."
        ),
        input_schema=object_schema(
            {
                "file_path": text("Absolute path, or one that begins with ~.", minLength=1),
                "content": text("What to write."),
                "encoding": _ENCODING,
                "mode": {
                    "enum": ["create", "overwrite", "append"],
                    "default": "overwrite",
                    "description": "create fails where there is a file already.",
                },
            },
            required=("file_path", "content"),
        ),
        output_schema=object_schema(
            {
                "bytes_written": whole_number("Bytes of `content`."),
                "sha256": text(f"{_DIGEST} of the whole file afterwards."),
                "undo": text("Undo id for restore_file; good once, and until it expires."),
                "note": _NOTE,
            },
            required=("bytes_written", "sha256", "undo"),
        ),
        contract=Contract("change", "medium", reversible=True, idempotent=False),
        run=run,
        path_arguments=("file_path",),
    )


def _restore_file(run: Any) -> Tool:
    return Tool(
        name="restore_file",
        title="Restore a file",
        tool_type="action",
        description="Undo one write_file. Refuses when the file has changed since. An undo id works once.",
        input_schema=object_schema({"undo_id": text("The undo id.", pattern=ID_PATTERN)}),
        output_schema=object_schema(
            {
                "file_path": text("The file."),
                "existed": yes_or_no("Whether there was a file before; if not, it was removed."),
                "sha256": nullable(text(f"{_DIGEST} of the restored content; null when removed.")),
                "note": _NOTE,
            },
            required=("file_path", "existed", "sha256"),
        ),
        contract=Contract("change", "medium", reversible=False, idempotent=False),
        run=run,
    )
