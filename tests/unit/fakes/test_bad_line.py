"""The line of the network tests: it holds, limits, cuts and resets exactly, and the sender feels it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.fakes.bad_line import QUEUE, BadLine, bad_line
from tests.fakes.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio

LONG = bytes(range(256)) * 4096


@dataclass
class End:
    """One end of a carried connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@asynccontextmanager
async def line_with_ends() -> AsyncIterator[tuple[BadLine, End, End]]:
    """The line, the device that dialled, and the console."""
    accepted: asyncio.Queue[End] = asyncio.Queue()
    server = await asyncio.start_server(lambda *end: accepted.put_nowait(End(*end)), "127.0.0.1", 0)
    async with (
        server,
        bad_line(server.sockets[0].getsockname()[1]) as line,
        asyncio.timeout(PATIENCE_S),
    ):
        device = End(*await asyncio.open_connection("127.0.0.1", line.port))
        console = await accepted.get()
        try:
            yield line, device, console
        finally:
            while not accepted.empty():
                accepted.get_nowait().writer.transport.abort()
            for end in (device, console):
                end.writer.transport.abort()
                with contextlib.suppress(OSError):
                    await end.writer.wait_closed()


async def test_carries_bytes_whole_both_ways_and_counts_them():
    async with line_with_ends() as (line, device, console):
        for sender, receiver in ((device, console), (console, device)):
            sender.writer.write(LONG)
            assert await receiver.reader.readexactly(len(LONG)) == LONG
        assert [direction.passed for direction in line.directions] == [len(LONG)] * 2


async def test_lets_exactly_as_many_bytes_pass_as_allowed():
    async with line_with_ends() as (line, device, console):
        line.to_console.cut()
        line.to_console.allow(10_001)
        device.writer.write(LONG)
        await line.to_console.passed_in_all(10_001)
        await line.to_console.is_held()
        assert await console.reader.readexactly(10_001) == LONG[:10_001]
        assert line.to_console.passed == 10_001
        line.to_console.restore()
        assert await console.reader.readexactly(len(LONG) - 10_001) == LONG[10_001:]


async def test_a_held_line_slows_its_sender_down():
    async with line_with_ends() as (line, device, _):
        line.cut()
        device.writer.transport.set_write_buffer_limits(0)
        device.writer.write(LONG * 8)
        await line.to_console.is_held()
        assert line.to_console.taken <= 2 * QUEUE
        # The rest is left in the sender, which knows it.
        assert device.writer.transport.get_write_buffer_size() > 0


async def test_cuts_one_direction_and_leaves_the_other():
    async with line_with_ends() as (line, device, console):
        line.to_device.cut()
        console.writer.write(b"answer")
        device.writer.write(b"asked")
        assert await console.reader.readexactly(5) == b"asked"
        await line.to_device.is_held()
        line.restore()
        assert await device.reader.readexactly(6) == b"answer"


async def test_ends_a_connection_that_its_sender_ended():
    async with line_with_ends() as (_, device, console):
        device.writer.write(b"last")
        device.writer.write_eof()
        assert await console.reader.read() == b"last"


async def test_resets_both_ends():
    async with line_with_ends() as (line, device, console):
        line.reset()
        for end in (device, console):
            with pytest.raises(ConnectionResetError):
                await end.reader.read()


async def test_an_end_that_was_not_reset_learns_it_when_it_sends():
    async with line_with_ends() as (line, device, console):
        line.reset(device=False)
        with pytest.raises(ConnectionResetError):
            await console.reader.read()
        device.writer.write(b"anybody there?")
        with pytest.raises(ConnectionResetError):
            await device.reader.read()


async def test_a_new_connection_waits_while_the_line_is_cut():
    async with line_with_ends() as (line, _, _):
        line.cut()
        reader, writer = await asyncio.open_connection("127.0.0.1", line.port)
        assert line.connections == 1
        line.restore()
        await line.connected(2)
        writer.close()
        await writer.wait_closed()
        assert await reader.read() == b""


async def test_refuses_new_connections():
    async with line_with_ends() as (line, _, _):
        line.refuses = True
        reader, writer = await asyncio.open_connection("127.0.0.1", line.port)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert line.connections == 1


async def test_a_limited_rate_still_carries_everything():
    async with line_with_ends() as (line, device, console):
        line.slow(8_000_000, queue=4096)
        device.writer.write(LONG[:100_000])
        assert await console.reader.readexactly(100_000) == LONG[:100_000]
