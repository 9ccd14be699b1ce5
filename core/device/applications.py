"""Finding a program by the name that people call it, and ending programs politely."""

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

_FILES = ("%f", "%F", "%u", "%U")
_BETWEEN_LOOKS_S = 0.05


@dataclass(frozen=True, slots=True)
class DesktopEntry:
    """An application as a desktop's menu lists it. `line` is its `Exec` in words."""

    name: str
    line: tuple[str, ...]
    terminal: bool


def command_for(app_name: str, arguments: list[str]) -> list[str]:
    """The command line of an application: from the desktop's menu, else of a program on PATH.

    Raises:
        BadInput: there is no such application, or it needs a terminal.
    """
    if sys.platform == "darwin":
        return ["open", "-n", "-a", app_name, "--args", *arguments]
    entry = _entry(app_name)
    if entry is not None and not entry.terminal:
        return _filled(entry, arguments)
    program = shutil.which(app_name) if os.sep not in app_name else None
    if program is not None and entry is None:
        return [program, *arguments]
    if entry is not None:
        raise BadInput(f"{app_name} needs a terminal; run it with shell_execute")
    if os.sep in app_name:
        raise BadInput(
            f"{app_name!r} is a path: give the name of a menu entry, or of a program on PATH; a program "
            "elsewhere is run with shell_execute",
            ErrorCode.NOT_FOUND,
        )
    raise BadInput(
        f"There is no application {app_name!r}: no menu entry has this name, and no program on PATH",
        ErrorCode.NOT_FOUND,
    )


def _filled(entry: DesktopEntry, arguments: list[str]) -> list[str]:
    """The entry's line with its field codes replaced; a program that takes no files gets them at the end."""
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
    """The menu entry whose file or whose name is `app_name`; what a user changed comes first."""
    wanted = app_name.casefold()
    for folder in _menu_folders():
        for path in sorted(folder.glob("**/*.desktop")):
            by_file = path.stem.casefold() == wanted or path.name.casefold() == wanted
            # A pipe of this name would be waited for.
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
    """Processes that no console may end: the first, this device client, and everything that it hangs from."""
    me = psutil.Process()
    mine = {1, me.pid, *(one.pid for one in me.parents())}
    for one in me.children(recursive=True):
        # One that has just ended says nothing of itself; the others do all the same.
        with contextlib.suppress(psutil.Error):
            # The warden ends with us, and only then; its keepers end with their commands.
            if "supervisor.py" in " ".join(one.cmdline()):
                mine.add(one.pid)
    return mine


def chosen(process_name: str | None, pid: int | None) -> list[psutil.Process]:
    """The processes to close.

    Raises:
        BadInput: there is none.
        Refused: it is one that this device keeps.
    """
    kept = protected()
    if pid is not None:
        try:
            # A thread has an id as well, and whoever signals it ends the process that it belongs to.
            if not psutil.pid_exists(pid):
                raise psutil.NoSuchProcess(pid)
            process = psutil.Process(pid)
        except psutil.NoSuchProcess as error:
            raise BadInput(f"There is no process {pid}", ErrorCode.NOT_FOUND) from error
        if pid in kept or _is_kernels(process):
            raise _kept(f"Process {pid}")
        return [process]
    wanted = (process_name or "").casefold()
    found = [one for one in psutil.process_iter() if _is_called(one, wanted)]
    if not found:
        raise BadInput(f"No process is called {process_name!r}", ErrorCode.NOT_FOUND)
    ours = [one for one in found if one.pid not in kept and _is_own(one)]
    if not ours:
        raise _kept(f"Every process called {process_name!r}")
    return ours


def _kept(what: str) -> Refused:
    return Refused(
        f"{what} is the system's, another user's, or carries the device client itself; it stays",
        ErrorCode.DENIED_BY_DEVICE,
    )


def _is_called(process: psutil.Process, wanted: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        names = {process.name()}
        with contextlib.suppress(psutil.AccessDenied):
            names.add(os.path.basename(process.exe()))
    except psutil.Error:
        return False
    # As `list_processes` shows them.
    names = {process_table.readable(name) for name in names}
    names |= {name.removesuffix(".exe") for name in names}
    return wanted in {name.casefold() for name in names}


def _is_own(process: psutil.Process) -> bool:
    if sys.platform == "win32":
        return True
    with contextlib.suppress(psutil.Error):
        return bool(process.uids().real == os.getuid())
    return False


def _is_kernels(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return sys.platform == "linux" and 2 in {process.pid, process.ppid()}
    return False


def close(processes: list[psutil.Process], seconds: float, force: bool) -> tuple[list[int], list[int]]:
    """Ask processes to end, and with `force` kill those that have not after `seconds`. Blocks meanwhile.

    A program with windows is asked through them first, so that it can offer to save. Returns the process ids
    that ended, and those that did not.
    """
    pids = {one.pid for one in processes}
    asked = _ask_windows(pids)
    waiting = [one for one in processes if one.pid in asked]
    # Half of the time belongs to those that were asked through their windows.
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
    """Those that have not ended; one whose parent has not looked at its end yet has ended all the same."""
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
    """Ask the X windows of these processes to close, as a click on the cross does; says whose had any."""
    if sys.platform != "linux" or not os.environ.get("DISPLAY"):
        return set()
    from core.device.desktop.linux.x11_windows import ask_to_close

    return ask_to_close(pids)
