"""The file tools, used and attacked through the router, as a command would."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import Command, Result, ResultStatus
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits, Undo
from core.device.guard import Guard
from core.errors import BadInput
from tests.fakes.read_shell import NO_READ_SHELL


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
async def router(root: Path, tmp_path: Path) -> AsyncIterator[Router]:
    config = DeviceConfig(roots=(root,), tools_off=NO_READ_SHELL)
    built = build_router(config, tmp_path / "state", "files")
    yield built
    await built.close()


async def call(router: Router, tool: str, **arguments: Any) -> Result:
    kind = "data_collection" if tool == "read_file" else "action"
    return await router.run(
        Command(tool_name=tool, tool_type=kind, parameters=arguments, call_id="c"), deadline_s=10
    )


async def good(router: Router, tool: str, **arguments: Any) -> Any:
    result = await call(router, tool, **arguments)
    assert result.status is ResultStatus.SUCCESS, result.error
    return result.result


async def refused(router: Router, tool: str, **arguments: Any) -> str:
    result = await call(router, tool, **arguments)
    assert result.status is ResultStatus.FAILURE
    assert result.result is None
    return result.error or ""


@pytest.mark.parametrize("end", ["/", "//", "/.", "/..", "/trail/"])
async def test_a_path_that_names_a_folder_is_no_file(router: Router, root: Path, end: str) -> None:
    (root / "note").write_text("kept")
    for tool, more in (("write_file", {"content": "x"}), ("read_file", {})):
        for name in ("note", "new"):
            said = await refused(router, tool, file_path=f"{root}/{name}{end}", **more)
            assert said.startswith("invalid_arguments: ")
            assert "names a folder" in said
    assert os.listdir(root) == ["note"]
    assert (root / "note").read_text() == "kept"


async def test_what_is_written_is_read_back_with_its_digest(router: Router, root: Path) -> None:
    written = await good(router, "write_file", file_path=str(root / "a.txt"), content="grüße\n")
    assert written["bytes_written"] == len("grüße\n".encode())
    read = await good(router, "read_file", file_path=str(root / "a.txt"))
    assert read == {
        "content": "grüße\n",
        "size": written["bytes_written"],
        "sha256": written["sha256"],
        "truncated": False,
    }
    assert os.listdir(root) == ["a.txt"]


async def test_bytes_that_are_not_text_travel_as_base64(router: Router, root: Path) -> None:
    data = bytes(range(256))
    path = str(root / "b.bin")
    coded = base64.b64encode(data).decode()
    await good(router, "write_file", file_path=path, content=coded, encoding="base64")
    assert (root / "b.bin").read_bytes() == data
    assert (await good(router, "read_file", file_path=path, encoding="base64"))["content"] == coded
    assert "not UTF-8 text" in await refused(router, "read_file", file_path=path)
    error = await refused(router, "write_file", file_path=path, content="not base64!", encoding="base64")
    assert error.startswith("invalid_arguments: content is not base64")
    assert (root / "b.bin").read_bytes() == data


async def test_a_part_never_ends_inside_a_character(router: Router, root: Path) -> None:
    (root / "c").write_text("aé€")
    part = await good(router, "read_file", file_path=str(root / "c"), max_bytes=5)
    assert part["content"] == "aé"
    assert part["truncated"]
    assert part["size"] == 6
    rest = await good(router, "read_file", file_path=str(root / "c"), offset=3)
    assert rest["content"] == "€"
    assert not rest["truncated"]
    # Nothing at all would be read again and again.
    error = await refused(router, "read_file", file_path=str(root / "c"), offset=3, max_bytes=2)
    assert error.startswith("invalid_arguments: max_bytes (2) ends inside the first character")


@pytest.mark.parametrize("offset", [6, 1000, 2**53 - 1])
async def test_behind_the_end_there_is_nothing_and_the_size_is_the_files(
    router: Router, root: Path, offset: int
) -> None:
    (root / "c").write_text("aé€")
    read = await good(router, "read_file", file_path=str(root / "c"), offset=offset)
    assert (read["content"], read["size"], read["truncated"]) == ("", 6, False)


async def test_the_modes_create_overwrite_and_append_do_as_they_say(router: Router, root: Path) -> None:
    file = root / "d"
    path = str(file)
    await good(router, "write_file", file_path=path, content="one", mode="create")
    assert "exists" in await refused(router, "write_file", file_path=path, content="two", mode="create")
    await good(router, "write_file", file_path=path, content="+two", mode="append")
    assert file.read_text() == "one+two"
    await good(router, "write_file", file_path=path, content="three", mode="overwrite")
    assert file.read_text() == "three"


async def test_a_file_keeps_its_mode_when_it_is_overwritten_and_restored(router: Router, root: Path) -> None:
    path = root / "script"
    path.write_text("old")
    path.chmod(0o750)
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    await good(router, "restore_file", undo_id=undo)
    assert path.read_text() == "old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


async def test_undo_brings_back_the_mode_that_was_there_before_the_write(router: Router, root: Path) -> None:
    path = root / "notes"
    path.write_text("old")
    path.chmod(0o644)
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    path.chmod(0o600)
    await good(router, "restore_file", undo_id=undo)
    assert path.read_text() == "old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


async def test_a_write_is_undone_once_and_only_once(router: Router, root: Path) -> None:
    path = root / "e"
    path.write_bytes(b"before")
    undo = (await good(router, "write_file", file_path=str(path), content="after"))["undo"]
    restored = await good(router, "restore_file", undo_id=undo)
    assert restored == {
        "file_path": str(path),
        "existed": True,
        "sha256": hashlib.sha256(b"before").hexdigest(),
    }
    assert path.read_bytes() == b"before"
    assert (await refused(router, "restore_file", undo_id=undo)).startswith("not_found: ")


async def test_undoing_the_making_of_a_file_removes_it(router: Router, root: Path) -> None:
    undo = (await good(router, "write_file", file_path=str(root / "f"), content="x"))["undo"]
    restored = await good(router, "restore_file", undo_id=undo)
    assert not restored["existed"]
    assert not (root / "f").exists()


async def test_restoring_is_refused_when_the_file_changed_since_and_stays_possible(
    router: Router, root: Path
) -> None:
    path = root / "g"
    path.write_text("old")
    undo = (await good(router, "write_file", file_path=str(path), content="new"))["undo"]
    path.write_text("edited by a person")
    assert "has changed since" in await refused(router, "restore_file", undo_id=undo)
    assert path.read_text() == "edited by a person"
    path.write_text("new")
    await good(router, "restore_file", undo_id=undo)
    assert path.read_text() == "old"


async def test_undo_survives_a_restart_of_the_device(router: Router, root: Path, tmp_path: Path) -> None:
    (root / "h").write_text("old")
    undo = (await good(router, "write_file", file_path=str(root / "h"), content="new"))["undo"]
    await router.close()
    again = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "files")
    await good(again, "restore_file", undo_id=undo)
    assert (root / "h").read_text() == "old"
    await again.close()


async def test_restoring_obeys_roots_that_became_narrower(router: Router, root: Path, tmp_path: Path) -> None:
    undo = (await good(router, "write_file", file_path=str(root / "i"), content="new"))["undo"]
    (root / "only").mkdir()
    narrow = build_router(DeviceConfig(roots=(root / "only",)), tmp_path / "state", "files")
    assert (await refused(narrow, "restore_file", undo_id=undo)).startswith("path_not_allowed: ")
    assert (root / "i").exists()
    await narrow.close()


async def test_content_beyond_the_undo_quota_is_not_overwritten(root: Path, tmp_path: Path) -> None:
    config = DeviceConfig(roots=(root,), undo=Undo(max_bytes=10))
    router = build_router(config, tmp_path / "state", "files")
    (root / "big").write_text("x" * 11)
    (root / "sparse").touch()
    os.truncate(root / "sparse", 10**12)
    for name in ("big", "sparse"):
        for mode in ("overwrite", "append"):
            error = await refused(router, "write_file", file_path=str(root / name), content="", mode=mode)
            assert error.startswith("denied_by_device: ")
    assert (root / "big").read_text() == "x" * 11
    assert (root / "sparse").stat().st_size == 10**12
    await router.close()


@pytest.mark.parametrize("way", ["plain", "dots", "link", "folder link", "root link"])
@pytest.mark.parametrize("tool", ["read_file", "write_file"])
async def test_no_way_leads_out_of_the_roots(router: Router, root: Path, way: str, tool: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    secret = outside / "secret"
    secret.write_text("secret")
    (root / "link").symlink_to(secret)
    (root / "folder").symlink_to(outside)
    paths = {
        "plain": str(secret),
        "dots": f"{root}/x/../../outside/secret",
        "link": str(root / "link"),
        "folder link": str(root / "folder" / "secret"),
        "root link": str(root / "folder" / ".." / "outside" / "secret"),
    }
    content = {"content": "owned"} if tool == "write_file" else {}
    error = await refused(router, tool, file_path=paths[way], **content)
    assert error.startswith("path_not_allowed: ")
    assert secret.read_text() == "secret"
    assert os.listdir(outside) == ["secret"]


async def test_a_name_that_only_begins_like_a_root_is_outside(router: Router, root: Path) -> None:
    beside = root.parent / "root-beside"
    beside.mkdir()
    error = await refused(router, "write_file", file_path=str(beside / "x"), content="")
    assert error.startswith("path_not_allowed: ")


async def test_the_devices_own_files_are_closed_below_a_root(root: Path) -> None:
    (root / "device.toml").write_text("")
    config = DeviceConfig(roots=(root,)).closing(root / "device.toml")
    router = build_router(config, root / "state", "files")
    for path in (root / "device.toml", root / "state" / "undo" / "x.json"):
        error = await refused(router, "write_file", file_path=str(path), content="roots = ['/']")
        assert error.startswith("path_not_allowed: ")
    assert (root / "device.toml").read_text() == ""
    await router.close()


def test_a_parent_swapped_for_a_symlink_after_the_check_is_noticed(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "dir").mkdir()
    held = Guard(DeviceConfig(roots=(root,))).hold(str(root / "dir" / "file"))
    (root / "dir").rmdir()
    (root / "dir").symlink_to(outside)
    with pytest.raises(BadInput, match="changed while it was being opened"), held.folder():
        pass
    assert os.listdir(outside) == []


def test_a_file_swapped_for_a_symlink_after_the_check_is_not_followed(root: Path) -> None:
    (root.parent / "secret").write_text("secret")
    (root / "file").write_text("mine")
    held = Guard(DeviceConfig(roots=(root,))).hold(str(root / "file"))
    (root / "file").unlink()
    (root / "file").symlink_to(root.parent / "secret")
    with held.folder() as folder, pytest.raises(BadInput, match="changed while it was being opened"):
        folder.open_file()


@pytest.mark.parametrize("path", ["relative.txt", "./x", "~nobody-by-this-name/x", "", "/proc/self/mem"])
async def test_a_path_that_is_not_absolute_or_not_known_is_refused(router: Router, path: str) -> None:
    error = await refused(router, "read_file", file_path=path)
    assert "file_path" in error


async def test_a_nul_in_a_path_or_in_content_is_refused(router: Router, root: Path) -> None:
    error = await refused(router, "read_file", file_path=f"{root}/a\0b")
    assert error == "invalid_arguments: file_path holds a NUL character."
    error = await refused(router, "write_file", file_path=str(root / "n"), content="a\0b")
    assert error == "invalid_arguments: content holds a NUL character."
    assert not (root / "n").exists()


async def test_what_is_not_a_regular_file_is_neither_read_nor_replaced(router: Router, root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "dir").mkdir()
    for name in ("fifo", "dir"):
        assert "not a regular file" in await refused(router, "read_file", file_path=str(root / name))
        error = await refused(router, "write_file", file_path=str(root / name), content="x")
        assert "not a regular file" in error
    assert stat.S_ISFIFO((root / "fifo").stat().st_mode)


async def test_a_name_as_long_as_may_be_is_written_and_overwritten(router: Router, root: Path) -> None:
    path = root / ("漢" * 85)
    for content in ("one", "two"):
        await good(router, "write_file", file_path=str(path), content=content)
    assert path.read_text() == "two"
    for tool, more in (("read_file", {}), ("write_file", {"content": ""})):
        error = await refused(router, tool, file_path=f"{path}x", **more)
        assert error == f"invalid_arguments: {path}x: File name too long."


async def test_a_way_to_a_name_that_is_not_text_is_refused_in_words(router: Router, root: Path) -> None:
    (root / "link").symlink_to(os.fsdecode(b"bad\xff"))
    (root / os.fsdecode(b"bad\xff")).mkdir()
    for tool, more in (("read_file", {}), ("write_file", {"content": "x"})):
        error = await refused(router, tool, file_path=str(root / "link" / "x"), **more)
        assert error.startswith("path_not_allowed: ")
        assert error.endswith("not UTF-8: " + str(root / "bad\\xff" / "x"))


async def test_a_missing_file_or_folder_is_named(router: Router, root: Path) -> None:
    assert (await refused(router, "read_file", file_path=str(root / "no"))).startswith("not_found: ")
    error = await refused(router, "write_file", file_path=str(root / "no" / "x"), content="")
    assert error == f"not_found: {root / 'no'} does not exist."


async def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(
    router: Router, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "j").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.device.fs.file_ops.os.fsync", full)
    # Undo keeps its own copy first, and that disk is just as full.
    error = await refused(router, "write_file", file_path=str(root / "j"), content="new")
    assert "No space left" in error
    assert (root / "j").read_text() == "old"
    assert os.listdir(root) == ["j"]


async def test_reading_stops_at_the_devices_limit_and_says_so(root: Path, tmp_path: Path) -> None:
    config = DeviceConfig(roots=(root,), limits=Limits(max_output_bytes=2048))
    router = build_router(config, tmp_path / "state", "files")
    (root / "long").write_bytes(b"\x01" * 10_000)
    for encoding in ("utf-8", "base64"):
        result = await call(router, "read_file", file_path=str(root / "long"), encoding=encoding)
        assert result.status is ResultStatus.SUCCESS
        assert result.result["truncated"]
        assert len(result.model_dump_json()) < 2048 + 200
        content = result.result["content"]
        sent = content.encode() if encoding == "utf-8" else base64.b64decode(content)
        assert result.result["sha256"] == hashlib.sha256(sent).hexdigest()
        # What shares a frame with others has less room, and is as whole.
        command = Command(
            tool_name="read_file",
            tool_type="data_collection",
            parameters={"file_path": str(root / "long"), "encoding": encoding},
        )
        less = (await router.run(command, 10, 1024)).result
        assert 0 < len(less["content"]) < len(content)
        sent = less["content"].encode() if encoding == "utf-8" else base64.b64decode(less["content"])
        assert less["sha256"] == hashlib.sha256(sent).hexdigest()
    await router.close()


def test_a_folder_swapped_while_it_is_held_does_not_redirect_what_is_written(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "dir").mkdir()
    held = Guard(DeviceConfig(roots=(root,))).hold(str(root / "dir" / "file"))
    with held.folder() as folder:
        (root / "dir").rename(root / "moved")
        (root / "dir").symlink_to(outside)
        os.close(folder.open("file", os.O_WRONLY | os.O_CREAT))
    assert os.listdir(outside) == []
    assert os.listdir(root / "moved") == ["file"]
