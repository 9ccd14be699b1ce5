"""Finds applications by their common name, and closes programs, with a request before they are killed."""

from __future__ import annotations

import configparser
import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from core.device import process_table
from core.errors import BadInput, ErrorCode, Refused

if sys.platform == "linux":
    from core.device.processes.supervisor_client import SCRIPT

_FILES = ("%f", "%F", "%u", "%U")
_BETWEEN_LOOKS_S = 0.05


@dataclass(frozen=True, slots=True)
class DesktopEntry:
    """An application in the desktop's menu (a .desktop file). `line` is its `Exec`, split into words."""

    name: str
    line: tuple[str, ...]
    terminal: bool


def command_for(app_name: str, arguments: list[str]) -> list[str]:
    """The command line of an application: from the desktop's menu, otherwise of a program on PATH.

    Raises:
        BadInput: there is no such application, or it needs a terminal.
    """
    if sys.platform == "darwin":
        return ["open", "-n", "-a", app_name, "--args", *arguments]
    else:
        return _found(app_name, arguments)


def _found(app_name: str, arguments: list[str]) -> list[str]:
    """The command line of a menu entry or a program on PATH, as `command_for`."""
    entry = _entry(app_name)
    if entry is not None and not entry.terminal:
        return _filled(entry, arguments)
    program = shutil.which(app_name) if os.sep not in app_name else None
    if program is not None and entry is None:
        return [program, *arguments]
    if entry is not None:
        raise BadInput(f"{app_name} needs a terminal; run it with shell_execute.")
    if os.sep in app_name:
        raise BadInput(
            f"{app_name!r} is a path: give the name of a menu entry, or of a program on PATH; a program "
            "elsewhere is run with shell_execute.",
            ErrorCode.NOT_FOUND,
        )
    raise BadInput(
        f"There is no application {app_name!r}: no menu entry has this name, and no program on PATH.",
        ErrorCode.NOT_FOUND,
    )


def _filled(entry: DesktopEntry, arguments: list[str]) -> list[str]:
    """The entry's line with its field codes replaced; without a code for files, arguments are appended."""
    line: list[str] = []
    placed = False
    for word in entry.line:
        if word in _FILES and not placed:
            line += arguments
            placed = True
        elif word == "%c":
            line.append(entry.name)
        elif not (len(word) == 2 and word.startswith("%") and word != "%%"):
            line.append(word.replace("%%", "%"))
    return line if placed else [*line, *arguments]


def _entry(app_name: str) -> DesktopEntry | None:
    """The menu entry whose file or name is `app_name`; the user's entries take precedence."""
    wanted = app_name.casefold()
    for folder in _menu_folders():
        for path in sorted(folder.glob("**/*.desktop")):
            by_file = path.stem.casefold() == wanted or path.name.casefold() == wanted
            # Reading a FIFO would block.
            entry = _read_entry(path) if path.is_file() else None
            if entry is not None and (by_file or entry.name.casefold() == wanted):
                return entry
    return None


def _menu_folders() -> Iterator[Path]:
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    shared = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    for base in (home, *shared.split(":")):
        if base:
            yield Path(base, "applications")


def _read_entry(path: Path) -> DesktopEntry | None:
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    try:
        parser.read(path, "utf-8")
        section = parser["Desktop Entry"]
        words = shlex.split(section.get("exec", ""))
        hidden = section.getboolean("hidden", fallback=False)
        terminal = section.getboolean("terminal", fallback=False)
    except (OSError, KeyError, ValueError, configparser.Error):
        return None
    tried = section.get("tryexec")
    if not words or hidden or (tried and shutil.which(tried) is None):
        return None
    return DesktopEntry(section.get("name", path.stem), tuple(words), terminal)


def protected() -> set[int]:
    """Processes that no console may end: init, this device client, its ancestors and its supervisor."""
    me = psutil.Process()
    mine = {1, me.pid, *(one.pid for one in me.parents())}
    if sys.platform == "linux":
        for one in me.children(recursive=True):
            # A child that has just ended raises an error.
            with contextlib.suppress(psutil.Error):
                # The supervisor ends with the device client; its monitors end with their commands.
                if str(SCRIPT) in one.cmdline():
                    mine.add(one.pid)
    return mine


def process_of(pid: int, process_name: str | None) -> psutil.Process:
    """The process with an id, which must be called `process_name` if that is given.

    Raises:
        BadInput: there is no such process.
        Refused: it is protected.
    """
    try:
        # A thread has an id as well, and a signal to it would end the process that it belongs to.
        if not psutil.pid_exists(pid):
            raise psutil.NoSuchProcess(pid)
        process = psutil.Process(pid)
    except psutil.NoSuchProcess as error:
        raise BadInput(f"There is no process {pid}.", ErrorCode.NOT_FOUND) from error
    if process_name is not None and not _is_called(process, process_name.casefold()):
        # The program that was meant has ended, and its id is another's now.
        raise BadInput(f"Process {pid} is not called {process_name!r}.", ErrorCode.NOT_FOUND)
    if pid in protected() or _is_kernels(process):
        raise _kept(f"Process {pid}")
    return process


def programs(process_name: str) -> list[psutil.Process]:
    """The first process of each program of this user with a name, oldest first.

    A process whose parent has the same name belongs to its parent's program, as a browser's do.

    Raises:
        BadInput: there is none.
        Refused: all of them are protected.
    """
    kept, wanted = protected(), process_name.casefold()
    called = [one for one in psutil.process_iter() if _is_called(one, wanted)]
    if not called:
        raise BadInput(f"No process is called {process_name!r}.", ErrorCode.NOT_FOUND)
    ours = {one.pid: one for one in called if one.pid not in kept and _is_own(one)}
    if not ours:
        raise _kept(f"Every process called {process_name!r}")
    first = []
    for one in ours.values():
        with contextlib.suppress(*process_table.UNREADABLE):
            if one.ppid() not in ours:
                first.append(one)
    return sorted(first, key=lambda one: one.pid)


def _kept(what: str) -> Refused:
    return Refused(
        f"{what} is the system's, another user's, or carries the device client itself; it stays.",
        ErrorCode.DENIED_BY_DEVICE,
    )


def _is_called(process: psutil.Process, wanted: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        names = {process.name()}
        with contextlib.suppress(psutil.AccessDenied, OSError):
            names.add(os.path.basename(process.exe()))
    except process_table.UNREADABLE:
        return False
    # In the form in which `list_processes` shows them.
    names = {process_table.readable(name) for name in names}
    names |= {name.removesuffix(".exe") for name in names}
    return wanted in {name.casefold() for name in names}


def _is_own(process: psutil.Process) -> bool:
    if sys.platform == "win32":
        return True
    else:
        with contextlib.suppress(psutil.Error):
            return bool(process.uids().real == os.getuid())
        return False


def _is_kernels(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return sys.platform == "linux" and 2 in {process.pid, process.ppid()}
    return False


def close(processes: list[psutil.Process], seconds: float, force: bool) -> tuple[list[int], list[int]]:
    """Ask processes to end, and with `force` kill those still alive after `seconds`. Blocks meanwhile.

    Programs with windows are first asked to close these, so that they can offer to save. Returns the ids of
    the processes that ended, and of those that did not.
    """
    pids = {one.pid for one in processes}
    asked = _ask_windows(pids)
    waiting = [one for one in processes if one.pid in asked]
    # Programs that were asked through their windows get half of the time before they are terminated.
    left = _wait(waiting, seconds / 2) if waiting else []
    late = {one.pid for one in left}
    rest = [one for one in processes if one.pid not in asked or one.pid in late]
    for process in rest:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    alive = _wait(rest, seconds / 2 if waiting else seconds)
    if force:
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        alive = _wait(alive, seconds)
    remaining = sorted(one.pid for one in alive)
    return sorted(pids - set(remaining)), remaining


def _wait(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait at most `seconds`; returns the processes that have not ended. A zombie counts as ended."""
    until = time.monotonic() + seconds
    alive = list(processes)
    while alive:
        alive = [one for one in alive if _is_alive(one)]
        if not alive or time.monotonic() > until:
            break
        time.sleep(_BETWEEN_LOOKS_S)
    return alive


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _ask_windows(pids: set[int]) -> set[int]:
    """Ask the X windows of processes to close, like their close button; returns the ids that had windows."""
    if sys.platform == "linux" and os.environ.get("DISPLAY"):
        from core.device.desktop.linux.x11_windows import ask_to_close

        return ask_to_close(pids)
    return set()
