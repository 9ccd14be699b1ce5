"""A tree to attack through the read-only shell, and what a daemon there would hear."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import Command, Result
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits

NEEDS_BUBBLEWRAP = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("bwrap") is None, reason="needs bubblewrap"
)
# For a device of a test about something else, so that no sandbox is tried out for it.
NO_READ_SHELL = frozenset({"shell_execute_read"})
# Where the interpreter really lies: the sandbox may not see what links to it.
PYTHON = str(Path(os.path.realpath(os.path.dirname(sys.executable)), os.path.basename(sys.executable)))


def clear(folder: Path) -> None:
    """Empty a folder that stays where it is, if it is there."""
    for path in folder.iterdir() if folder.exists() else ():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def build_tree(root: Path) -> Path:
    """What is attacked: it lies below an allowed root, so that the sandbox can see it."""
    (root / "folder").mkdir(parents=True)
    (root / "file").write_text("precious\n")
    (root / "folder" / "inner").write_text("as well\n")
    (root / "link").symlink_to("file")
    os.mkfifo(root / "fifo")
    for path in (root / "file", root / "folder" / "inner"):
        path.chmod(0o640)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return root


@asynccontextmanager
async def attacked(tree: Path, state: Path) -> AsyncIterator[Router]:
    """A device whose only root is the tree."""
    limits = Limits(read_shell_processes=48)
    built = build_router(DeviceConfig(roots=(tree,), limits=limits), state, "attacked")
    yield built
    await built.close()


async def run(router: Router, line: str, *, inside: bool = True, **more: Any) -> Result:
    tool, kind = ("shell_execute_read", "data_collection") if inside else ("shell_execute", "action")
    command = Command.model_validate(
        {"tool_name": tool, "tool_type": kind, "parameters": {"command": line, "timeout": 10, **more}}
    )
    return await router.run(command, 30)


async def run_all(router: Router, lines: Sequence[str]) -> list[tuple[int, str]]:
    """Exit code and standard output of each line: all run in one sandbox, each in a shell of its own."""
    mark = "-- end of a line --"
    each = [f"bash -c {shlex.quote(line)} < /dev/null 2> /dev/null; echo {mark} $?" for line in lines]
    # The last one shows that none of them broke the shell that they all run in.
    said = (await run(router, "\n".join([*each, "echo works"]), timeout=25)).result["stdout"]
    *results, last = re.split(rf"{mark} (\d+)\n", said)
    assert last == "works\n", said
    assert len(results) == 2 * len(lines), said
    return [(int(code), out) for out, code in zip(results[::2], results[1::2], strict=True)]


async def succeeding(router: Router, lines: Sequence[str]) -> list[str]:
    """Those of these lines that end with exit code 0 in the read-only shell."""
    codes = [code for code, _ in await run_all(router, lines)]
    return [line for line, code in zip(lines, codes, strict=True) if code == 0]


def read(path: str) -> str:
    return Path(path).read_text("utf-8")


def snapshot(tree: Path) -> dict[str, Any]:
    """Everything about a tree that an attack could change, times included."""
    found: dict[str, Any] = {}
    for path in [tree, *sorted(tree.rglob("*"))]:
        facts = path.lstat()
        attributes = {}
        if not path.is_symlink():
            attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else None
        found[str(path)] = (
            *(facts.st_mode, facts.st_uid, facts.st_gid, facts.st_size, facts.st_mtime_ns),
            *(facts.st_ctime_ns, facts.st_ino, facts.st_nlink, content, attributes),
            os.readlink(path) if path.is_symlink() else None,
        )
    return found


@contextmanager
def listener(made: socket.socket) -> Iterator[list[bytes]]:
    """Take what comes to a bound socket: what was sent, or b"connected"."""
    heard: list[bytes] = []
    came = threading.Event()

    def take() -> None:
        try:
            while True:
                if made.type == socket.SOCK_STREAM:
                    made.accept()[0].close()
                    heard.append(b"connected")
                else:
                    heard.append(made.recv(100))
                came.set()
        except OSError:
            return

    if made.type == socket.SOCK_STREAM:
        made.listen()
    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    try:
        yield heard
        came.wait(2)
    finally:
        made.shutdown(socket.SHUT_RDWR) if made.type == socket.SOCK_STREAM else made.close()
        made.close()
        thread.join(0.2)


def bound(kind: str, tree: Path) -> tuple[socket.socket, str]:
    """A real listening socket, and Python that reaches it."""
    how = {"unix": socket.AF_UNIX, "abstract": socket.AF_UNIX, "datagram": socket.AF_UNIX}
    family = how.get(kind, socket.AF_INET)
    stream = kind in {"unix", "abstract", "tcp"}
    made = socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    address: Any = {"unix": str(tree / "s"), "datagram": str(tree / "s"), "abstract": f"\0qd-{os.getpid()}"}
    made.bind(address.get(kind, ("127.0.0.1", 0)))
    where = made.getsockname()
    where = where.decode() if isinstance(where, bytes) else where
    style = "SOCK_STREAM" if stream else "SOCK_DGRAM"
    code = f"import socket; s = socket.socket({int(family)}, socket.{style}); "
    return made, code + (f"s.connect({where!r})" if stream else f"s.sendto(b'hello', {where!r})")
