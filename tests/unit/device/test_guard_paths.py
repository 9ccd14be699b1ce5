"""Paths that look like any other and are the device client's own, or do something when they are opened."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path, PureWindowsPath

import pytest

from core.device import DeviceConfig
from core.device.fs import file_ops
from core.device.guard import Guard, names_stream
from core.errors import BadInput


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_a_fifo_that_is_not_read_is_not_opened_either(root: Path) -> None:
    os.mkfifo(root / "fifo")
    # Opening it would wake this one, and leaving it again would kill it.
    waiting = threading.Thread(target=lambda: os.close(os.open(root / "fifo", os.O_WRONLY)))
    waiting.start()
    held = Guard(DeviceConfig(roots=(root,))).hold(str(root / "fifo"))
    with pytest.raises(BadInput, match="not a regular file"):
        file_ops.read(held, "utf-8", 0, 10, 10)
    waiting.join(0.1)
    was_waiting = waiting.is_alive()
    os.close(os.open(root / "fifo", os.O_RDONLY | os.O_NONBLOCK))
    waiting.join()
    assert was_waiting


@pytest.mark.parametrize(
    ("path", "is_stream"),
    [
        (r"C:\x.txt:stream", True),
        (r"C:\state\token::$DATA", True),
        (r"C:\state:$I30:$INDEX_ALLOCATION\token", True),
        (r"\\?\C:\x.txt:stream", True),
        (r"\\server\share\x:y", True),
        (r"C:\x.txt", False),
        ("C:/a/b", False),
        ("C:\\", False),
        (r"\\?\C:\x.txt", False),
        (r"\\server\share\x", False),
    ],
)
def test_a_stream_of_a_file_is_known_by_its_colon(path: str, is_stream: bool) -> None:
    assert names_stream(PureWindowsPath(path)) is is_stream


def test_a_closed_folder_is_closed_by_whatever_other_name_it_is_reached(root: Path) -> None:
    (root / "state" / "undo").mkdir(parents=True)
    # As with a bind mount, or on a disk that ignores case: two names, neither of which leads to the other.
    (root / "other").symlink_to(root / "state")
    guard = Guard(DeviceConfig(roots=(root,)).model_copy(update={"closed_paths": (root / "other",)}))
    for path in (root / "state", root / "state" / "undo" / "x"):
        with pytest.raises(BadInput, match="belongs to the device client itself"):
            guard.hold(str(path))
    guard.hold(str(root / "state-of-things"))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc")
def test_the_device_clients_own_memory_and_environment_are_closed_where_everything_else_is_open() -> None:
    guard = Guard(DeviceConfig(roots=(Path("/"),)))
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        for whose in ("self", "thread-self", str(os.getpid()), str(other.native_id)):
            for what in ("mem", "environ", "fd"):
                with pytest.raises(BadInput, match="belongs to the device client itself"):
                    guard.hold(f"/proc/{whose}/{what}")
        guard.hold(f"/proc/{os.getppid()}/comm")
        guard.hold("/proc/meminfo")
    finally:
        done.set()
        other.join()
