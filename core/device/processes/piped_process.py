"""Programs with a pipe to each standard stream, such as MCP servers, as their callers know them.

On Linux the supervisor starts them, and a `ChildMonitor` kills every descendant of such a program when the
program or the device client ends. Elsewhere the process group is all that is known of its descendants.
"""

from __future__ import annotations

import abc
import asyncio

BUFFER = 65_536
_CLOSE_POLITE_S = 1.0
_TERM_POLITE_S = 0.5
_KILL_S = 1.0


class PipedProcess(abc.ABC):
    """A started program and the ends of its pipes that belong to this process."""

    def __init__(
        self, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    @abc.abstractmethod
    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the program's end, at most `seconds`; False if it still runs.

        Processes that it started and that hold its pipes open are not waited for.
        """

    async def stop(self) -> None:
        """End the program in three steps, within 2.5 s: close its input, send SIGTERM to its group, kill it.

        Its descendants are killed in any case, also if the program has ended by itself.
        """
        try:
            self.stdin.close()
            if not await self.wait(_CLOSE_POLITE_S):
                self._terminate()
                await self.wait(_TERM_POLITE_S)
        finally:
            self._kill()
            await self.wait(_KILL_S)

    @abc.abstractmethod
    def close(self) -> None:
        """Close the pipes: a process that could not be killed may hold their other ends open."""

    @abc.abstractmethod
    def _terminate(self) -> None:
        """Ask the program's process group to end."""

    @abc.abstractmethod
    def _kill(self) -> None:
        """Kill the program and its descendants, as far as they are known."""
