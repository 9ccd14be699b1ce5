"""Each stage of opening a connection fails by its own name: real sockets that stay silent at that stage."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from core.aip import resolve
from core.aip.connection import _Progress, open_connection
from core.aip.connection_failures import DialStage, StageTimeout
from core.aip.limits import LinkLimits
from core.aip.tls import load_or_make_identity, pinned_client_context, server_context
from tests.fakes.patience import PATIENCE_S

LIMITS = LinkLimits(close_s=0.1)
STAGE_S = 0.2


@contextmanager
def full_listener() -> Iterator[int]:
    """A port whose queue is full: the system drops further requests to connect, as a firewall does."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(8):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@asynccontextmanager
async def silent(identity: Path | None = None) -> AsyncIterator[int]:
    """A port that takes connections, and TLS where it has an identity, and says nothing."""
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    secure = server_context(load_or_make_identity(identity)) if identity else None
    server = await asyncio.start_server(hold, "127.0.0.1", 0, ssl=secure)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for writer in held:
            writer.transport.abort()


async def stage_of(url: str, fingerprint: str = "") -> DialStage:
    tls = pinned_client_context(fingerprint) if url.startswith("wss") else None
    with pytest.raises(StageTimeout) as failed:
        async with asyncio.timeout(PATIENCE_S):
            await open_connection(url, LIMITS, STAGE_S, tls=tls)
    assert failed.value.seconds == STAGE_S
    return failed.value.stage


async def test_a_look_up_that_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's resolver is the machine's edge; `test_silent_name_server` has a real one."""
    answered = threading.Event()

    def waits(*args: object, **more: object) -> list[object]:
        answered.wait(PATIENCE_S)
        return []

    monkeypatch.setattr(resolve.socket, "getaddrinfo", waits)
    try:
        assert await stage_of("ws://localhost:1/ws") is DialStage.LOOKUP
    finally:
        answered.set()


async def test_a_host_that_does_not_take_the_connection() -> None:
    with full_listener() as port:
        assert await stage_of(f"ws://127.0.0.1:{port}/ws") is DialStage.TCP


async def test_a_handshake_that_is_not_answered() -> None:
    async with silent() as port:
        assert await stage_of(f"wss://127.0.0.1:{port}/ws", "a" * 64) is DialStage.TLS


async def test_a_request_for_a_link_that_is_not_answered(tmp_path: Path) -> None:
    async with silent() as port:
        assert await stage_of(f"ws://127.0.0.1:{port}/ws") is DialStage.UPGRADE
    fingerprint = load_or_make_identity(tmp_path).fingerprint
    async with silent(tmp_path) as port:
        assert await stage_of(f"wss://127.0.0.1:{port}/ws", fingerprint) is DialStage.UPGRADE


async def test_each_stage_has_the_whole_time_so_that_a_slow_line_connects() -> None:
    progress = _Progress(PATIENCE_S)
    async with progress.bound:
        ends = [progress.bound.when()]
        for stage in (DialStage.TCP, DialStage.TLS, DialStage.UPGRADE):
            await asyncio.sleep(0.001)
            progress.reached(stage)
            ends.append(progress.bound.when())
    assert ends == sorted(set(ends), key=lambda end: end or 0.0)


async def test_without_a_bound_the_caller_bounds_the_whole() -> None:
    async with silent() as port:
        with pytest.raises(TimeoutError) as failed:
            async with asyncio.timeout(STAGE_S):
                await open_connection(f"ws://127.0.0.1:{port}/ws", LIMITS, None)
    assert not isinstance(failed.value, StageTimeout)
