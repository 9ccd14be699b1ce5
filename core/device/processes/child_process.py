"""Runs child processes, and counts them; limits and reports their output while it is read.

On Linux the supervisor starts them, so that they end when the device client ends for any reason; on macOS
they have process groups of their own; on Windows they end as trees.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import psutil

from core.device.fs.safe_path import SafePath
from core.device.processes.job import POLITE_S, CompletedProcess, Job, OutputBudget
from core.device.processes.piped_process import PipedProcess
from core.device.progress import Report, no_progress

if sys.platform == "linux":
    from core.device.processes.supervised import Programs
elif sys.platform == "win32":
    from core.device.processes.windows import Programs
else:
    from core.device.processes.posix import Programs


class Children:
    """Runs commands and counts those that are running."""

    def __init__(self, max_output_bytes: int) -> None:
        self._most = max_output_bytes
        self._programs = Programs()
        self._launched: list[psutil.Process] = []
        self.running = 0

    def launched(self) -> int:
        """The number of programs started by `launch` that still run."""
        self._launched = [process for process in self._launched if _is_alive(process)]
        return len(self._launched)

    async def run_shell(
        self,
        command: str,
        folder: SafePath,
        timeout: float,
        report: Report = no_progress,
        polite: float = POLITE_S,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> CompletedProcess:
        """Run one line in the platform's shell until it ends or `timeout` seconds are over.

        After the time-out, or when the calling task is cancelled, all descendants are killed. Background
        children of a shell that has ended are not waited for. `variables` are added to its environment.
        """
        environment = {**os.environ, **variables} if variables else None
        with self._counted():
            return await self._programs.shell(
                command, folder, timeout, OutputBudget(self._most), report, polite, environment
            )

    if sys.platform != "win32":

        async def run(self, job: Job, folder: SafePath | None = None) -> CompletedProcess:
            """Run a program like `run_shell`; it starts in `folder`, which cannot be swapped for another."""
            with self._counted():
                return await self._programs.run(job, folder, OutputBudget(self._most))

    async def launch(self, program: list[str], environment: dict[str, str], folder: Path) -> int:
        """Start a program that outlives the device client, its output discarded; returns its process id.

        Raises:
            DeviceError: the program cannot be started.
        """
        pid = await self._programs.launch(program, environment, folder)
        with contextlib.suppress(psutil.NoSuchProcess):
            self._launched.append(psutil.Process(pid))
        return pid

    async def open(
        self, program: list[str], environment: dict[str, str], folder: str | None = None
    ) -> PipedProcess:
        """Start a program with pipes to its standard streams; its caller stops and closes it.

        Raises:
            OSError, ValueError, DeviceError: the program cannot be started; see `piped_process`.
        """
        return await self._programs.open(program, environment, folder)

    async def close(self) -> None:
        """Kill all running commands and wait for the supervisor's end."""
        await self._programs.close()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
