"""Far ends and addresses that would lead a dialler elsewhere, or end it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from core.aip.connector import Connector, ConnectorState, DialAddress, dial
from core.aip.device_link import LinkEvents
from core.aip.limits import LinkLimits
from core.errors import BadInput, DeviceError
from core.fleet import doctor
from core.fleet.known_devices import KnownDevice
from tests.fakes.aip_house import soon

LIMITS = LinkLimits(register_s=2.0, close_s=0.5)


class Redirecting:
    """Sends whoever comes to `/ws` on to `/elsewhere`."""

    def __init__(self) -> None:
        self.url = ""
        self.paths: list[str] = []

    def admit(self, connection: ServerConnection, request: Request) -> Response:
        self.paths.append(request.path)
        if request.path == "/ws":
            return Response(HTTPStatus.FOUND, "Found", Headers({"Location": "/elsewhere"}), b"")
        return connection.respond(HTTPStatus.NOT_FOUND, "no")


@asynccontextmanager
async def redirecting() -> AsyncIterator[Redirecting]:
    built = Redirecting()

    async def never(connection: ServerConnection) -> None:
        raise AssertionError("nobody is let in")

    async with serve(never, "127.0.0.1", 0, process_request=built.admit) as server:
        built.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        yield built


async def test_a_redirect_is_not_followed() -> None:
    async with redirecting() as house:
        with pytest.raises(DeviceError, match="302"):
            await soon(dial(DialAddress("d1", house.url, "secret"), limits=LIMITS))
        assert house.paths == ["/ws"]


async def test_the_doctor_does_not_follow_a_redirect_either() -> None:
    async with redirecting() as house:
        probe = doctor.Probe(KnownDevice(name="d1", direction="out", url=house.url), "secret")
        with pytest.raises(doctor.CheckFailed, match="302"):
            await soon(doctor.knock(probe))
        assert house.paths == ["/ws"]


async def test_a_name_that_cannot_be_looked_up_is_told_and_tried_again() -> None:
    states: list[str] = []

    def told(news: object) -> None:
        states.append(getattr(news, "state", ""))
        if states.count(ConnectorState.WAITING) == 2:
            dialler.stop()

    address = DialAddress("d1", "wss://no..such:5001/ws", "secret", "0" * 64)
    dialler = Connector(address, LinkEvents(), told, limits=LIMITS, back_off=(0.01, 0.01))
    await soon(dialler.run())
    assert states.count(ConnectorState.WAITING) == 2


@pytest.mark.parametrize(
    "url", ["wss://lab:5001/ws#there", "wss://anna:word@lab:5001/ws", "ws://127.0.0.1:1/ws#there"]
)
def test_an_address_that_no_link_can_use_is_refused_when_it_is_given(url: str) -> None:
    with pytest.raises(BadInput):
        DialAddress("d1", url, "secret", "0" * 64).check()


async def test_the_scheme_s_letters_do_not_matter_to_the_pin() -> None:
    with pytest.raises(DeviceError, match="cannot be reached"):
        await soon(dial(DialAddress("d1", "WSS://127.0.0.1:1/ws", "secret", "0" * 64), limits=LIMITS))
