"""Who comes in at the control socket, what an agent may not ask there, and frames that are none."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_core import from_json, to_json
from websockets.asyncio.client import unix_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from core.approvals.models import Operator
from core.errors import BadInput, ErrorCode, Refused, ServiceError
from core.home import Home
from core.policy.models import Profile
from core.service.console import API_VERSION
from core.service.rpc import protocol, transport
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from core.service.rpc.transport import Endpoint, port_file
from core.statements import SignedStatement, Statement
from tests.fakes.control_socket import AGENT_TOKEN, FakeHost, attaching, raw, serving


def signed() -> SignedStatement:
    statement = Statement(
        verdict="approve",
        approval="a",
        request_digest="d",
        contract="c",
        device="d",
        call_id="i",
        approver="x",
        expires="",
    )
    return SignedStatement(statement=statement, signature="00")


async def test_the_number_of_the_sockets_folder_may_be_that_of_another_file_by_then(
    home: Home, host: FakeHost, monkeypatch: pytest.MonkeyPatch
):
    """The socket is bound by it, as the path itself may be too long for an address."""
    opened = Endpoint.open
    taken: list[int] = []

    def then_taken(*arguments: Any) -> Endpoint:
        endpoint = opened(*arguments)
        taken.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(8))
        return endpoint

    monkeypatch.setattr(Endpoint, "open", then_taken)
    try:
        async with serving(home, host), attaching(home) as attach:
            await attach("window", "operator:anna")
            assert len(host.actors) == 1
        assert not home.socket.exists()
    finally:
        for number in taken:
            os.close(number)


class TestAgents:
    @pytest.mark.parametrize(
        ("client", "actor"), [("agent", "agent:x"), ("agent", "operator:anna"), ("window", "agent:x")]
    )
    async def test_an_agent_is_refused_whatever_decides_or_widens(self, attach, host, client, actor):
        console = await attach(client, actor)
        attempts = [
            console.approvals.decide(signed()),
            console.approvals.register_operator(Operator(name="x", public_key="00", has_passphrase=False)),
            console.policy.set_profile(Profile.TRUSTED),
            console.service.resume(),
            console.devices.review_tool("this-computer", "ns::echo", "c"),
            console.service.shut_down(cancel_work=True),
        ]
        for attempt in attempts:
            with pytest.raises(Refused) as refused:
                await attempt
            assert refused.value.code is ErrorCode.DENIED_BY_POLICY
        assert not host.asked

    @pytest.mark.parametrize(
        ("client", "actor"), [("agent", "agent:x"), ("agent", "operator:anna"), ("window", "agent:x")]
    )
    @pytest.mark.parametrize("token", ["", "x.other", "x.token ", "\u0000"])
    async def test_an_agent_without_its_token_is_not_let_in(self, attach, host, client, actor, token):
        with pytest.raises(Refused) as refused:
            await attach(client, actor, token=token)
        assert refused.value.code is ErrorCode.AGENT_UNKNOWN
        assert not host.actors

    def test_an_agent_is_one_under_whatever_name_it_comes(self):
        def known_as(client: protocol.Client, actor: str) -> str:
            return protocol.Hello(api_version=1, client=client, actor=actor).known_as("ben")

        assert known_as("agent", "operator:anna") == "agent:anna"
        assert known_as("window", "agent:x") == "agent:x"

    def test_a_person_is_known_by_their_user_whatever_name_they_come_under(self):
        for client, known_as in (("window", "window:ben"), ("test", "window:ben"), ("cli", "cli:ben")):
            hello = protocol.Hello(api_version=1, client=client, actor="operator:anna")
            assert hello.known_as("ben") == known_as

    async def test_an_agent_cannot_get_round_it_with_odd_frames(self, home, server, host):
        connection = await raw(home, client="agent", actor="agent:x", token=AGENT_TOKEN)
        await connection.recv()
        for name in ("resume ", "RESUME", "__class__", "host", "_decision", ["resume"], None, "close"):
            await connection.send(to_json({"id": 1, "method": name, "params": {}}), text=True)
            answer = from_json(await connection.recv())
            assert answer["error"]["code"] == "invalid_arguments", name
        # A second hello changes nobody.
        await connection.send(to_json({"hello": {"client": "window", "actor": "operator:a"}}), text=True)
        assert "error" in from_json(await connection.recv())
        await connection.send(to_json({"id": 2, "method": "resume", "params": {}}), text=True)
        assert from_json(await connection.recv())["error"]["code"] == "denied_by_policy"
        await connection.close()
        assert not host.asked

    @pytest.mark.parametrize("actor", ["service", "policy", "device:x", "operator:", "operator:a b", "root"])
    async def test_nobody_can_speak_as_the_service_itself(self, home, server, actor):
        with pytest.raises(BadInput, match="actor"):
            await RemoteConsole.connect(home, "cli", actor)

    async def test_the_service_is_told_who_speaks(self, attach, host):
        await attach("cli", "cli:root")
        assert host.actors == ["cli:root"]


class TestFrames:
    @pytest.mark.parametrize(
        "frame",
        [
            "",
            "nonsense",
            "[]",
            "{}",
            '{"id": 1}',
            '{"id": "1", "method": "state"}',
            '{"id": -1, "method": "state"}',
            '{"id": 9007199254740992, "method": "state"}',
            '{"id": true, "method": "state"}',
            '{"method": "state"}',
            '{"id": 1, "method": "state", "params": []}',
            '{"id": 1, "method": "state", "params": {"x": 1}}',
            '{"id": 1, "method": "entry", "params": {}}',
            '{"id": 1, "method": "entry", "params": {"seq": "x"}}',
            '{"subscribe": "x"}',
            '{"forget": null}',
            "[" * 100_000,
            b"\x00\x01",
        ],
        ids=lambda frame: repr(frame)[:40],
    )
    async def test_a_malformed_frame_is_answered_and_the_connection_survives(self, home, server, frame):
        connection = await raw(home)
        await connection.recv()
        await connection.send(frame)
        assert from_json(await connection.recv())["error"]["code"] == "invalid_arguments"
        await connection.send('{"id": 7, "method": "verify"}')
        assert from_json(await connection.recv())["result"]["ok"] is True
        await connection.close()

    async def test_another_version_is_told_which_and_what_to_do(self, home, server, monkeypatch):
        monkeypatch.setattr("core.service.rpc.client.API_VERSION", 99)
        with pytest.raises(ServiceError, match=rf"version {API_VERSION} .* version 99") as mismatch:
            await RemoteConsole.connect(home, "cli", "cli:x")
        assert mismatch.value.code is ErrorCode.HOME_BUSY

    async def test_whoever_does_not_say_hello_first_is_turned_away(self, home, server):
        connection = await unix_connect(str(home.socket), compression=None, max_size=protocol.MAX_FRAME)
        await connection.send('{"id": 1, "method": "state"}')
        assert "hello" in from_json(await connection.recv())["error"]["message"]
        with pytest.raises(ConnectionClosed):
            await connection.recv()


class TestWhoComesIn:
    async def test_the_socket_is_for_its_owner_alone(self, home, server):
        assert stat.S_IMODE(home.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(home.socket.parent.stat().st_mode) == 0o700

    async def test_another_user_is_refused_even_when_the_file_lets_them_in(self, home, server, monkeypatch):
        class Forged:
            def getsockopt(self, *_: int) -> bytes:
                return struct.pack("3i", 4242, os.getuid() + 1, 0)

        real = transport.peer_uid
        monkeypatch.setattr(transport, "peer_uid", lambda _: real(Forged()))
        # Both ends look: the client before it says anything, the service before it lets a client in.
        with pytest.raises(ServiceError, match="belongs to user") as refused:
            await RemoteConsole.connect(home, "cli", "cli:x")
        assert refused.value.code is ErrorCode.HOME_UNSAFE
        with pytest.raises(InvalidStatus) as turned_away:
            await raw(home)
        assert turned_away.value.response.status_code == 403
        assert server.clients == 0

    async def test_a_browser_is_refused(self, home, server):
        with pytest.raises(InvalidStatus) as refused:
            await unix_connect(str(home.socket), origin="https://example.org", compression=None)
        assert refused.value.response.status_code == 403

    async def test_nobody_home_is_said_so(self, home):
        with pytest.raises(ServiceError) as nobody:
            await RemoteConsole.connect(home, "cli", "cli:x")
        assert nobody.value.code is ErrorCode.SERVICE_UNAVAILABLE

    async def test_a_stale_socket_file_is_replaced(self, home, server, host):
        await server.close()
        home.socket.touch()
        again = ControlServer(host, home)
        await again.open()
        console = await RemoteConsole.connect(home, "cli", "cli:x")
        assert (await console.journal.verify()).ok
        await console.close()
        await again.close()
        assert not home.socket.exists()

    async def test_a_home_with_a_long_name_works(self, tmp_path, host):
        home = Home(tmp_path / ("long" * 40)).create()
        server = ControlServer(host, home)
        await server.open()
        console = await RemoteConsole.connect(home, "cli", "cli:x")
        assert (await console.journal.verify()).ok
        await console.close()
        await server.close()


class TestLoopback:
    @pytest.fixture
    async def port_server(self, home: Home, host: FakeHost) -> AsyncIterator[ControlServer]:
        server = ControlServer(host, home, unix=False)
        await server.open()
        yield server
        await server.close()

    async def test_without_unix_sockets_a_port_and_a_token_do(self, home, port_server):
        assert stat.S_IMODE(port_file(home).stat().st_mode) == 0o600
        console = await RemoteConsole.connect(home, "cli", "cli:x")
        assert (await console.journal.verify()).ok
        await console.close()

    async def test_a_wrong_token_is_refused(self, home, port_server):
        where = from_json(port_file(home).read_bytes())
        for token in ("", where["token"][:-1], where["token"] + "x", where["token"].swapcase()):
            port_file(home).write_bytes(to_json({**where, "token": token}))
            with pytest.raises(ServiceError, match="401"):
                await RemoteConsole.connect(home, "cli", "cli:x")
        assert port_server.clients == 0
