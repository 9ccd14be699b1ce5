"""What new content takes over from the file it replaces, and how much of a changed file is looked at."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from core.aip.messages import Command, Result
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits, Undo
from core.device.device_store import DeviceStore
from core.device.fs import file_ops
from core.device.fs.safe_path import DirHandle
from core.device.guard import Guard
from core.device.undo import UndoStore
from core.errors import BadInput
from tests.fakes.rights import folder_without_privileges
from tests.fakes.work import bytes_read

MEBIBYTE = 1 << 20
_LARGE = 1 << 34


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
async def router(root: Path, tmp_path: Path) -> AsyncIterator[Router]:
    built = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "files")
    yield built
    await built.close()


async def call(router: Router, tool: str, **arguments: Any) -> Result:
    command = Command(tool_name=tool, tool_type="action", parameters=arguments, call_id="c")
    return await router.run(command, deadline_s=60)


async def good(router: Router, tool: str, **arguments: Any) -> Any:
    result = await call(router, tool, **arguments)
    assert result.error is None
    return result.result


def bits(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize(("before", "after"), [(0o4755, "0755"), (0o2750, "0750"), (0o7711, "0711")])
async def test_new_content_runs_with_nobody_elses_rights(
    router: Router, root: Path, mode: str, before: int, after: str
) -> None:
    path = root / "tool"
    path.write_text("old")
    path.chmod(before)
    undo = (await good(router, "write_file", file_path=str(path), content="new", mode=mode))["undo"]
    assert bits(path) == after
    await good(router, "undo", undo_id=undo)
    assert (path.read_text(), bits(path)) == ("old", after)


@pytest.mark.parametrize("tool", ["undo", "restore_file"])
async def test_restored_content_runs_with_nobody_elses_rights_whatever_was_kept_of_it(
    router: Router, root: Path, tool: str
) -> None:
    path = root / "tool"
    path.write_text("old")
    path.chmod(0o755)
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    # As an older device client kept it; and somebody gave the new file the bit as well.
    router._context.store.do(
        lambda connection: connection.execute(
            "UPDATE undo_entries SET entry = replace(entry, ?, ?)",
            (f'"mode":{0o755}', f'"mode":{0o6755}'),
        )
    )
    assert router._context.undo.entry(undo).mode == 0o6755
    path.chmod(0o4755)
    await good(router, tool, undo_id=undo)
    assert (path.read_text(), bits(path)) == ("old", "0755")


async def test_a_file_that_grew_beyond_what_was_written_is_not_read_before_undo_says_no(
    router: Router, root: Path
) -> None:
    path = root / "log"
    path.write_text("old")
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    os.truncate(path, _LARGE)
    before = bytes_read()
    said = (await call(router, "undo", undo_id=undo)).error or ""
    assert bytes_read() - before < MEBIBYTE
    assert said.startswith("changed_since: ")
    assert f"{path} has changed since: it holds {_LARGE} bytes" in said
    # Nothing is lost: what the write left can still be undone.
    os.truncate(path, 3)
    await good(router, "undo", undo_id=undo)
    assert path.read_text() == "old"


async def test_a_file_that_grows_while_it_is_read_is_not_read_to_its_end(
    router: Router, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "log"
    path.write_text("old")
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    honest = DirHandle.open_file

    def opened(folder: DirHandle) -> tuple[int, os.stat_result]:
        found = honest(folder)
        os.truncate(path, _LARGE)
        return found

    monkeypatch.setattr(DirHandle, "open_file", opened)
    os.truncate(path, 3)
    before = bytes_read()
    said = (await call(router, "restore_file", undo_id=undo)).error or ""
    assert bytes_read() - before < 2 * file_ops.MOST_WRITTEN
    assert said.startswith("changed_since: ")
    assert "has changed since: it holds more than" in said


async def test_what_was_appended_to_a_large_file_can_be_undone(router: Router, root: Path) -> None:
    size = file_ops.MOST_WRITTEN + 5
    path = root / "log"
    path.touch()
    os.truncate(path, size)
    tracemalloc.start()
    try:
        undo = (await good(router, "write_file", file_path=str(path), content="more", mode="append"))["undo"]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Once the old content, and not the quota's 512 MiB.
    assert most < size * 1.25
    assert path.stat().st_size == size + 4
    await good(router, "undo", undo_id=undo)
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(bytes(size)).digest()


def test_no_device_takes_a_write_larger_than_undo_expects() -> None:
    Limits(max_argument_bytes=file_ops.MOST_WRITTEN)
    with pytest.raises(ValidationError):
        Limits(max_argument_bytes=file_ops.MOST_WRITTEN + 1)


# POSIX.1e's list as Linux keeps it: (tag, rights, id) of the owner, user 1234, the group, the mask, the rest.
_NOBODY_ELSE = 0xFFFFFFFF
_ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *row)
    for row in (
        *((1, 6, _NOBODY_ELSE), (2, 6, 1234), (4, 0, _NOBODY_ELSE)),
        *((16, 6, _NOBODY_ELSE), (32, 0, _NOBODY_ELSE)),
    )
)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's extended attributes")
async def test_access_control_lists_and_notes_outlive_new_content_and_none_is_added(
    router: Router, root: Path
) -> None:
    listed, plain = root / "listed", root / "folder" / "plain"
    plain.parent.mkdir()
    for path in (listed, plain):
        path.write_text("old")
        path.chmod(0o640)
    try:
        os.setxattr(listed, "system.posix_acl_access", _ACL)
        os.setxattr(listed, "user.note", b"by hand")
        os.setxattr(plain.parent, "system.posix_acl_default", _ACL)
    except OSError:
        pytest.skip("this disk has no access control lists")
    for path in (listed, plain):
        undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
        for content in ("new", "old"):
            assert path.read_text() == content
            # Without its list the group, which the list keeps out, would have the mask's rights.
            had = {name: os.getxattr(path, name) for name in os.listxattr(path)}
            kept = {"system.posix_acl_access": _ACL, "user.note": b"by hand"} if path == listed else {}
            assert had == kept
            assert bits(path) == ("0660" if path == listed else "0640")
            if content == "new":
                await good(router, "undo", undo_id=undo)


async def test_where_the_group_cannot_be_kept_no_other_group_is_let_in(
    router: Router, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_ops, "keep_owner", lambda *words: False)
    for before, after in ((0o640, "0600"), (0o664, "0644")):
        (root / "a").write_text("old")
        (root / "a").chmod(before)
        await good(router, "write_file", file_path=str(root / "a"), content="new", mode="append")
        assert bits(root / "a") == after


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
def test_a_file_that_may_not_be_written_is_not_replaced_and_a_folder_need_not_be_listed() -> None:
    with folder_without_privileges() as top:
        (top / "way").mkdir()
        file = top / "way" / "file"
        file.write_text("old")
        guard, undo = Guard(DeviceConfig(roots=(top,))), UndoStore(DeviceStore(top), Undo())
        file.chmod(0o444)
        with pytest.raises(BadInput, match="read-only for this user"):
            file_ops.write(guard.hold(str(file)), b"new", "overwrite", undo)
        assert file.read_text() == "old"
        file.chmod(0o644)
        (top / "way").chmod(0o300)
        file_ops.write(guard.hold(str(file)), b"new", "overwrite", undo)
        assert file.read_text() == "new"
        (top / "way").chmod(0o700)


@pytest.mark.parametrize("said", [errno.EINVAL, errno.EIO])
async def test_a_folder_that_cannot_be_made_durable_costs_no_undo(
    router: Router, root: Path, monkeypatch: pytest.MonkeyPatch, said: int
) -> None:
    (root / "a").write_text("old")
    honest, ours = os.fsync, os.stat(root).st_ino

    def fsync(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == ours:
            raise OSError(said, os.strerror(said))
        honest(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    written = await call(router, "write_file", file_path=str(root / "a"), content="new")
    undone = await call(router, "restore_file", undo_id=written.result["undo"])
    # Some file systems know of no such thing; where it failed, that is told, and what happened as well.
    for answer in (written, undone):
        told = "was changed, but may not outlive a power cut" in (answer.error or "")
        assert told is (answer.error is not None) is (said == errno.EIO)
    assert undone.result["existed"]
    assert (root / "a").read_text() == "old"
