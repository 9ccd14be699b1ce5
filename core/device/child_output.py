"""What a child process writes, bounded while it is read, and told as it comes."""

from __future__ import annotations

import asyncio
import codecs
import os
from typing import Literal

from core.device.tool import Report

_CHUNK = 65_536

StreamName = Literal["stdout", "stderr"]


class Budget:
    """How many bytes of output may still be kept, for both streams of one command together."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.truncated = False

    def take(self, data: bytes) -> bytes:
        """The beginning of `data` that there is still room for."""
        kept = data[: self.left]
        self.left -= len(kept)
        self.truncated = self.truncated or len(kept) < len(data)
        return kept


class Teller:
    """Decodes one stream as it comes, across chunks, for whoever watches."""

    def __init__(self, report: Report, stream: StreamName) -> None:
        self._report = report
        self._stream: StreamName = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def tell(self, data: bytes, final: bool = False) -> None:
        if text := self._decode(data, final):
            self._report(text, stream=self._stream)


class Pipe:
    """One output stream: everything is read so that the writer never blocks; the budget says what is kept.

    It is a pipe of our own rather than asyncio's, whose `wait()` does not return before every holder of the
    other end, background children included, has let go of it.
    """

    def __init__(self, budget: Budget, teller: Teller) -> None:
        self._budget = budget
        self._teller = teller
        self._kept = bytearray()
        self._end, self.for_child = os.pipe()
        self.closed = asyncio.Event()
        os.set_blocking(self._end, False)
        asyncio.get_running_loop().add_reader(self._end, self._read)

    def started(self) -> None:
        """The child has its copy of the writing end; ours would keep the pipe open."""
        os.close(self.for_child)
        self.for_child = -1

    def _read(self) -> None:
        try:
            data = os.read(self._end, _CHUNK)
        except BlockingIOError:
            return
        if data:
            kept = self._budget.take(data)
            self._kept += kept
            self._teller.tell(kept)
        else:
            self.finish()

    def finish(self) -> bytes:
        """Stop reading and return what was kept."""
        if self._end >= 0:
            asyncio.get_running_loop().remove_reader(self._end)
            os.close(self._end)
            self._end = -1
            self._teller.tell(b"", final=True)
        if self.for_child >= 0:
            self.started()
        self.closed.set()
        return bytes(self._kept)


class StreamReading:
    """The same over asyncio's own pipes, for Windows, where a loop cannot watch a plain pipe."""

    def __init__(self, reader: asyncio.StreamReader, budget: Budget, teller: Teller) -> None:
        self._teller = teller
        self._kept = bytearray()
        self._budget = budget
        self._reader = reader

    async def read(self) -> None:
        while data := await self._reader.read(_CHUNK):
            kept = self._budget.take(data)
            self._kept += kept
            self._teller.tell(kept)

    def finish(self) -> bytes:
        return bytes(self._kept)
