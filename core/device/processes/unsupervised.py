"""Programs that this process starts itself, without a supervisor (macOS and Windows)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from core.device.processes.piped_process import BUFFER, PipedProcess
from core.errors import DeviceError, ErrorCode
from core.own_console import OWN_CONSOLE
from core.text import sentences

_POLL_S = 0.02
_SLOWEST_POLL_S = 0.5
# Only Windows has it. An application that is launched keeps its console: a window is what it is started for.
_GROUP_FLAG: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


class UnsupervisedProcess(PipedProcess):
    """A child of this process with a process group of its own (macOS and Windows)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        super().__init__(process.stdin, process.stdout, process.stderr)
        self._process = process

    async def wait(self, seconds: float | None = None) -> bool:
        # Not `process.wait()`, which also waits for the program's children that hold the pipes open.
        clock = asyncio.get_running_loop().time
        deadline = None if seconds is None else clock() + seconds
        pause = _POLL_S
        while self._process.returncode is None and (deadline is None or clock() < deadline):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SLOWEST_POLL_S)
        return self._process.returncode is not None

    if sys.platform == "win32":

        def _kill(self) -> None:
            self._terminate()

        def _terminate(self) -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._process.terminate()

    else:

        def _kill(self) -> None:
            self._signal_group(signal.SIGKILL)

        def _terminate(self) -> None:
            self._signal_group(signal.SIGTERM)

        def _signal_group(self, number: int) -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def close(self) -> None:
        # asyncio has no public way to close the pipes of a process.
        transport = getattr(self._process, "_transport", None)
        if isinstance(transport, asyncio.SubprocessTransport):
            transport.close()


async def start_unsupervised(
    program: list[str], environment: dict[str, str], folder: str | None
) -> PipedProcess:
    """Start a program in a process group of its own.

    Raises:
        OSError: the program cannot be executed, or the folder cannot be entered.
        ValueError: an argument or a variable cannot be given to a program.
    """
    if sys.platform == "win32":
        # Windows finds scripts such as npx.cmd only by their full name.
        program = [shutil.which(program[0], path=environment.get("PATH")) or program[0], *program[1:]]
    starting = asyncio.get_running_loop().create_task(
        asyncio.create_subprocess_exec(
            *program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=folder,
            limit=BUFFER,
            start_new_session=True,
            creationflags=OWN_CONSOLE,
        )
    )
    try:
        return UnsupervisedProcess(await asyncio.shield(starting))
    except asyncio.CancelledError:
        # The process may run already, and asyncio would wait for ever for a start that is cancelled midway.
        process = UnsupervisedProcess(await starting)
        await process.stop()
        process.close()
        raise


_launched: list[subprocess.Popen[bytes]] = []


def launch_detached(program: list[str], environment: dict[str, str], folder: Path) -> int:
    """Start a program in a session of its own, whose output is discarded."""
    _launched[:] = [process for process in _launched if process.poll() is None]
    try:
        process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=folder,
            start_new_session=True,
            creationflags=_GROUP_FLAG,
        )
    except OSError as error:
        raise DeviceError(
            sentences(f"{program[0]} cannot be started: {error.strerror}"), ErrorCode.TOOL_FAILED
        ) from error
    _launched.append(process)
    return process.pid
