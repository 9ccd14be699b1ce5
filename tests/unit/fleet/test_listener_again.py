"""A port that another program has: told once, tried again by itself, and listened at when it is free."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.audit.entries import Entry, Kind
from core.errors import BadInput
from core.fleet import listen_address
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.awaited import entries_when
from tests.fakes.full_disk import full_disk_for
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.remote_device import make_listening_home
from tests.fakes.signing import accepted, signing


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen_address, "TRY_AGAIN_S", (0.01, 0.02))


@pytest.fixture
def other() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


@pytest.fixture
async def service(tmp_path: Path, other: socket.socket) -> AsyncIterator[Service]:
    address = f"127.0.0.1:{other.getsockname()[1]}"
    service = await Service.open(make_listening_home(tmp_path / "home", address))
    yield service
    await service.close()
    other.close()


async def changes(service: Service, count: int) -> list[Entry]:
    """The entries about listening, oldest first, as soon as there are so many."""
    return await entries_when(service.journal, f"kind:{Kind.LISTENING_CHANGED}", count)


async def test_it_listens_as_soon_as_the_port_is_free_and_says_both_once(
    service: Service, other: socket.socket
) -> None:
    [taken] = await changes(service, 1)
    assert "taken by another program" in taken.body["problem"]
    tried = asyncio.Event()
    attempts = 0
    real = service.links._listener._tried

    async def counted() -> bool:
        nonlocal attempts
        attempts += 1
        if attempts == 5:
            tried.set()
        return await real()

    service.links._listener._tried = counted  # type: ignore[method-assign]  # to see that it is tried again
    async with asyncio.timeout(PATIENCE_S):
        await tried.wait()
    other.close()
    _, listens = await changes(service, 2)
    assert "problem" not in listens.body
    assert service.links.listening().url.endswith(f"{listens.body['to']}/ws")
    assert service.links.listening().problem == ""


async def test_who_moves_elsewhere_is_not_moved_back(service: Service, other: socket.socket) -> None:
    await signing(LocalConsole(service, "operator:anna"), service.home).devices.listen("127.0.0.1:0")
    url = service.links.listening().url
    assert not service.links._listener.taken
    other.close()
    assert service.links.listening().url == url
    assert len(await changes(service, 2)) == 2


async def test_a_listen_call_that_fails_is_one_entry(service: Service, other: socket.socket) -> None:
    taken = f"127.0.0.1:{other.getsockname()[1]}"
    console = signing(LocalConsole(service, "operator:anna"), service.home)
    await console.devices.listen("127.0.0.1:0")
    before = service.links.listening().url
    with pytest.raises(BadInput, match="taken"):
        await console.devices.listen(taken)
    found = await changes(service, 3)
    assert len(found) == 3
    assert (found[2].actor, found[2].body["to"]) == ("operator:anna", taken)
    assert "taken" in found[2].body["problem"]
    assert service.links.listening().url == before


async def test_who_loses_its_port_while_it_tries_another_comes_back_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    service = await Service.open(make_listening_home(tmp_path / "home", f"127.0.0.1:{port}"))
    taken: list[socket.socket] = []
    close = service.links._listener._close

    async def lets_go(reason: str) -> None:
        await close(reason)
        taken.append(socket.create_server(("127.0.0.1", port)))

    try:
        own = service.links.listening().url
        # Whoever is quick enough takes the port in the moment in which it is nobody's.
        with monkeypatch.context() as patched:
            patched.setattr(service.links._listener, "_close", lets_go)
            with pytest.raises(BadInput, match="not an address of this computer"):
                await service.links.listen("203.0.113.7:5000")
        [lost] = await changes(service, 1)
        assert "taken by another program" in lost.body["problem"]
        taken[0].close()
        _, back = await changes(service, 2)
        assert back.body["to"] == f"127.0.0.1:{port}"
        assert service.links.listening().url == own
    finally:
        await service.close()


async def test_what_is_far_too_long_for_an_address_is_not_kept_in_the_journal(service: Service) -> None:
    before = len(await changes(service, 1))
    with pytest.raises(BadInput, match="at most 300 characters") as caught:
        await signing(LocalConsole(service, "operator:anna"), service.home).devices.listen(
            "x" * 1_000_000 + ":5000"
        )
    assert len(caught.value.message) < 500
    assert len(await changes(service, 1)) == before


async def test_an_address_that_cannot_be_kept_is_listened_at_and_its_operator_knows_for_how_long(
    service: Service,
) -> None:
    message = r"listens at 127\.0\.0\.1:0 until it ends.*cannot be written"
    with full_disk_for(service.home.path / "settings.toml"), pytest.raises(BadInput, match=message):
        await signing(LocalConsole(service, "operator:anna"), service.home).devices.listen("127.0.0.1:0")
    assert service.links.listening().problem == ""
    assert service.links.listening().address == "127.0.0.1:0"


@pytest.mark.parametrize(
    "fault", [socket.gaierror(socket.EAI_AGAIN, "not yet"), OSError(errno.EADDRNOTAVAIL, "not yet")]
)
async def test_an_address_of_a_network_that_comes_up_later_is_listened_at_when_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: OSError
) -> None:
    """The machine's network is its edge: nobody takes it away for a test."""
    up = asyncio.Event()
    look_up = socket.getaddrinfo

    def of_the_network(host: str, *args: Any, **kwargs: Any) -> Any:
        if host == "desk.example" and not up.is_set():
            raise fault
        return look_up("127.0.0.1" if host == "desk.example" else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", of_the_network)
    port = free_port()
    home = make_listening_home(tmp_path / "home", f"desk.example:{port}")
    await accepted(home, listen=f"desk.example:{port}")
    service = await Service.open(home)
    try:
        [missing] = await changes(service, 1)
        assert "not an address of this computer" in missing.body["problem"]
        up.set()
        await changes(service, 2)
        assert service.links.listening().url == f"wss://desk.example:{port}/ws"
    finally:
        await service.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
async def test_every_address_is_that_of_both_kinds(service: Service) -> None:
    port = free_port()
    await signing(LocalConsole(service, "operator:anna"), service.home).devices.listen(f"[::]:{port}")
    for host in ("127.0.0.1", "::1"):
        async with asyncio.timeout(PATIENCE_S):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
async def test_every_address_is_not_to_be_had_where_another_program_has_one_of_them(
    service: Service, other: socket.socket
) -> None:
    with pytest.raises(BadInput, match="taken"):
        await signing(LocalConsole(service, "operator:anna"), service.home).devices.listen(
            f"[::]:{other.getsockname()[1]}"
        )
