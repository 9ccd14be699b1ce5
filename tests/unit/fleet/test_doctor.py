"""Why a device cannot be dialled: each way of failing, against a far end that really fails so."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from core import __version__
from core.aip.tls import load_or_make_identity, server_context
from core.fleet.doctor import Doctor
from core.fleet.known_devices import KnownDevice, KnownDevices
from core.fleet.models import Check, CheckState, Listening
from core.fleet.rejected_connections import RejectedConnections
from core.models.devices import Device, Health, Unavailable
from tests.fakes.aip_house import hear, running_house, say, soon
from tests.fakes.known_devices import pair, pair_listening
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import closed_port

ORDER = ["dns", "reach", "tls", "token", "protocol"]
REGISTER: dict[str, Any] = {"type": "register", "client_type": "device", "client_id": "lab-1", "status": "ok"}


class Desk:
    """A doctor with one device."""

    def __init__(self, folder: Path, listening: Listening | None = None, within_s: float = 20) -> None:
        self.registry = KnownDevices(folder / "devices.json", folder / "dial")
        self.refusals = RejectedConnections(lambda entry: None, lambda name: True, lambda name, count: None)
        heard_at = listening or Listening(address="127.0.0.1:5000", url="ws://127.0.0.1:5000/ws")
        self.doctor = Doctor(self.registry, self.refusals, lambda: heard_at, within_s)

    async def dialled(self, url: str, fingerprint: str = "") -> list[Check]:
        pair_listening(self.registry, KnownDevice(name="lab-1"), url, "token", fingerprint)
        return await self.examined()

    async def examined(self, **known: Any) -> list[Check]:
        device = Device(name="lab-1", health=Health.OFFLINE, since="2026-01-01T00:00:00Z", **known)
        async with asyncio.timeout(PATIENCE_S):
            return await self.doctor.examine(device, None)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def hasty(tmp_path: Path) -> Desk:
    """One for a far end whose silence the test waits out."""
    return Desk(tmp_path, within_s=0.5)


def fails_at(checks: list[Check], name: str, words: str) -> Check:
    assert [check.name for check in checks] == ORDER
    at = ORDER.index(name)
    assert {check.state for check in checks[:at]} <= {CheckState.PASSED}
    assert checks[at].state is CheckState.FAILED, checks
    assert {check.state for check in checks[at + 1 :]} <= {CheckState.SKIPPED}
    assert words in checks[at].found
    assert checks[at].next
    return checks[at]


@asynccontextmanager
async def far_end(
    story: Callable[[ServerConnection], Awaitable[None]], secure: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[int]:
    async with serve(story, "127.0.0.1", 0, ssl=secure, **options) as server:
        yield server.sockets[0].getsockname()[1]


async def registers(connection: ServerConnection) -> None:
    await connection.send(json.dumps(REGISTER))
    await connection.wait_closed()


@asynccontextmanager
async def silent_socket() -> AsyncIterator[int]:
    """Takes connections and never says a word."""
    open_ones: list[asyncio.StreamWriter] = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.append(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in open_ones:
            writer.close()
        await server.wait_closed()


async def test_all_is_well_with_a_device_that_is_just_not_connected(desk, tmp_path):
    identity = load_or_make_identity(tmp_path / "tls")
    async with far_end(registers, server_context(identity)) as port:
        checks = await desk.dialled(f"wss://127.0.0.1:{port}/ws", identity.fingerprint)
    assert [check.state for check in checks] == [CheckState.PASSED] * 5
    assert identity.fingerprint in checks[2].found
    assert "stock" in checks[4].found


async def test_a_name_that_nobody_knows(desk):
    fails_at(
        await desk.dialled("wss://no-such-host.invalid:5001/ws", "ab" * 32), "dns", "no-such-host.invalid"
    )


async def test_a_port_where_nothing_listens(desk):
    with closed_port() as port:
        fails_at(await desk.dialled(f"ws://127.0.0.1:{port}/ws"), "reach", "nothing listens")


async def test_a_host_that_swallows_connections(hasty, monkeypatch):
    async def never(*args: Any, **options: Any) -> None:
        await asyncio.Event().wait()

    # No address of a test machine can be counted on to swallow connections; this is the machine's edge.
    monkeypatch.setattr("core.fleet.doctor.first_connection", never)
    check = fails_at(await hasty.dialled("ws://127.0.0.1:5001/ws"), "reach", "Nothing answered within 0.5 s")
    assert "firewall" in check.next


async def test_a_host_without_a_route(desk, monkeypatch):
    async def unroutable(*args: Any, **options: Any) -> None:
        raise OSError(113, "No route to host")

    monkeypatch.setattr("core.fleet.doctor.first_connection", unroutable)
    fails_at(await desk.dialled("ws://127.0.0.1:5001/ws"), "reach", "no route")


async def test_a_far_end_that_ends_the_handshake(desk):
    async with far_end(registers) as port:
        fails_at(
            await desk.dialled(f"wss://127.0.0.1:{port}/ws", "ab" * 32), "tls", "ended the TLS handshake"
        )


async def test_a_far_end_that_answers_without_tls(desk):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        fails_at(
            await desk.dialled(f"wss://127.0.0.1:{port}/ws", "ab" * 32), "tls", "The TLS handshake with "
        )


async def test_a_far_end_that_never_ends_the_handshake(hasty):
    async with silent_socket() as port:
        fails_at(await hasty.dialled(f"wss://127.0.0.1:{port}/ws", "ab" * 32), "tls", "within 0.5 s")


async def test_another_certificate_is_told_with_both_fingerprints_and_gets_no_token(desk, tmp_path):
    asked: list[object] = []
    identity = load_or_make_identity(tmp_path / "tls")

    async with far_end(
        registers, server_context(identity), process_request=lambda *r: asked.append(r)
    ) as port:
        checks = await desk.dialled(f"wss://127.0.0.1:{port}/ws", "ab" * 32)
    check = fails_at(checks, "tls", identity.fingerprint)
    assert "ab" * 32 in check.found
    assert asked == []


@pytest.mark.parametrize(
    ("status", "words"), [(403, "token"), (401, "token"), (409, "Another console"), (404, "404")]
)
async def test_an_upgrade_that_is_refused(desk, status, words):
    def refuse(connection: ServerConnection, request: object) -> object:
        return connection.respond(status, "no\n")

    async with far_end(registers, process_request=refuse) as port:
        fails_at(await desk.dialled(f"ws://127.0.0.1:{port}/ws"), "token", words)


async def test_a_port_that_takes_the_connection_and_says_nothing(hasty):
    async with silent_socket() as port:
        fails_at(await hasty.dialled(f"ws://127.0.0.1:{port}/ws"), "token", "within 0.5 s")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("hello", "not AIP"),
        (json.dumps({**REGISTER, "type": "heartbeat"}), "heartbeat"),
        (json.dumps({**REGISTER, "client_id": "lab-9"}), "lab-9"),
    ],
)
async def test_a_first_frame_that_is_not_this_devices_registration(desk, first, words):
    async def says(connection: ServerConnection) -> None:
        await connection.send(first)
        await connection.wait_closed()

    async with far_end(says) as port:
        fails_at(await desk.dialled(f"ws://127.0.0.1:{port}/ws"), "protocol", words)


async def test_a_device_that_never_says_who_it_is(hasty):
    async def waits(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with far_end(waits) as port:
        fails_at(await hasty.dialled(f"ws://127.0.0.1:{port}/ws"), "protocol", "within 0.5 s")


async def test_a_device_that_hangs_up_first(desk):
    async def leaves(connection: ServerConnection) -> None:
        await connection.close()

    async with far_end(leaves) as port:
        fails_at(await desk.dialled(f"ws://127.0.0.1:{port}/ws"), "protocol", "closed")


async def test_a_token_that_was_lost_on_this_side(desk, tmp_path):
    pair_listening(desk.registry, KnownDevice(name="lab-1"), "ws://127.0.0.1:1/ws", "token", "")
    (tmp_path / "dial" / "lab-1.token").unlink()
    [check] = await desk.examined()
    assert (check.name, check.state) == ("token", CheckState.FAILED)


class TestThatDialIn:
    async def test_a_console_that_does_not_listen(self, tmp_path):
        desk = Desk(tmp_path, Listening(address="127.0.0.1:5000", problem="it is taken"))
        pair(desk.registry, KnownDevice(name="lab-1"))
        checks = await desk.examined()
        assert (checks[0].name, checks[0].state) == ("listening", CheckState.FAILED)
        assert "it is taken" in checks[0].found

    @pytest.mark.parametrize(
        ("reason", "name"),
        [
            ("the token was revoked", "token"),
            ("client_id 'lab-1' is already registered", "duplicate"),
            ("its TLS handshake failed: SSLV3_ALERT", "tls"),
            ("client_id is not the device this token is for", "name"),
            (
                "client_id is not the device this token is for: it registers as 'already registered'",
                "name",
            ),
            ("The first frame must be register, not heartbeat", "protocol"),
        ],
    )
    async def test_the_last_refusal_says_which_check_failed(self, desk, reason, name):
        pair(desk.registry, KnownDevice(name="lab-1"))
        desk.refusals.add("10.0.0.7:5", "lab-1", reason)
        desk.refusals.flush()
        failed = {check.name: check for check in await desk.examined() if check.state is CheckState.FAILED}
        assert reason in failed[name].found
        assert "10.0.0.7" in failed[name].found
        assert failed[name].next

    @pytest.mark.parametrize("heard", [None, "2999-01-01T00:00:00.000000Z"])
    async def test_what_was_refused_before_it_was_paired_anew_or_heard_is_over(self, desk, heard):
        if heard:
            pair(desk.registry, KnownDevice(name="lab-1"))
        desk.refusals.add("10.0.0.7:5", "lab-1", "the token was revoked")
        desk.refusals.add("10.0.0.8:5", "", "the token is not known")
        desk.refusals.flush()
        if not heard:
            pair(desk.registry, KnownDevice(name="lab-1"))
        checks = await desk.examined(last_heard=heard)
        assert [one.state for one in checks if one.name in ("refused", "token")] == [CheckState.PASSED]

    async def test_an_attempt_that_names_no_device_is_not_held_against_one_whose_token_was_accepted(
        self, desk
    ):
        pair(desk.registry, KnownDevice(name="lab-1"))
        heard = desk.registry.find("lab-1").paired_at
        desk.refusals.add("127.0.0.1:5", "", "the token is not known")
        desk.refusals.flush()
        checks = {
            check.name: check for check in await desk.examined(last_heard=heard, reason="it was killed")
        }
        assert "token" not in checks
        assert checks["refused"].state is CheckState.PASSED
        assert "another program" in checks["refused"].found
        assert "127.0.0.1" in checks["refused"].found
        assert "it was killed" in checks["heard"].found
        assert not any("Pair" in check.next for check in checks.values())

    async def test_an_attempt_that_names_no_device_is_told_of_one_that_was_never_heard(self, desk):
        pair(desk.registry, KnownDevice(name="lab-1"))
        desk.refusals.add("10.0.0.7:5", "", "the token is not known")
        desk.refusals.flush()
        checks = {check.name: check for check in await desk.examined()}
        assert checks["token"].state is CheckState.FAILED
        assert "perhaps of this one" in checks["token"].found

    async def test_its_own_attempt_counts_however_many_others_came_after_it(self, desk):
        pair(desk.registry, KnownDevice(name="lab-1"))
        heard = desk.registry.find("lab-1").paired_at
        desk.refusals.add("10.0.0.7:5", "lab-1", "client_id 'lab-1' is already registered")
        desk.refusals.add("127.0.0.1:5", "", "the token is not known")
        desk.refusals.flush()
        checks = {check.name: check for check in await desk.examined(last_heard=heard)}
        assert "token" not in checks
        assert checks["duplicate"].state is CheckState.FAILED

    async def test_when_it_was_last_heard_and_how_its_clock_stands(self, desk):
        pair(desk.registry, KnownDevice(name="lab-1"))
        checks = {
            check.name: check
            for check in await desk.examined(
                last_heard="2026-01-02T03:04:05.000000Z",
                reason="the connection broke",
                clock_offset_ms=-90_000.0,
            )
        }
        assert "2026-01-02 03:04:05" in checks["heard"].found
        assert "the connection broke" in checks["heard"].found
        assert checks["clock"].state is CheckState.FAILED
        assert "90.0 s behind" in checks["clock"].found


@pytest.mark.parametrize(
    ("ours", "state", "words"),
    [
        ({"version": __version__, "features": []}, CheckState.PASSED, f"this console {__version__}"),
        ({"version": "99.0.0", "features": []}, CheckState.FAILED, "Its client is 99.0.0"),
        ({"features": []}, CheckState.FAILED, "Its client is unknown"),
        ({"version": "\x1b[2J" + "9" * 9_000, "features": []}, CheckState.FAILED, "[U+001B][2J99"),
    ],
)
async def test_a_client_of_another_version_is_told_from_one_that_speaks_wrongly(
    desk: Desk, ours: dict[str, Any], state: CheckState, words: str
) -> None:
    pair(desk.registry, KnownDevice(name="d1"))
    async with running_house() as house:
        socket = await house.dial()
        await say(socket, type="register", status="ok", client_id="d1", metadata={"quarterdeck": ours})
        await hear(socket)
        link = await soon(house.connected.get())
        device = Device(name="d1", health=Health.ONLINE, since="2026-01-01T00:00:00Z")
        checks = {one.name: one for one in await desk.doctor.examine(device, link)}
        await socket.close()
    assert checks["protocol"].state is CheckState.PASSED
    assert all(one.found.isprintable() and len(one.found) < 500 for one in checks.values())
    assert checks["version"].state is state
    assert words in checks["version"].found
    assert bool(checks["version"].next) is (state is CheckState.FAILED)


@pytest.mark.parametrize("reason", ["It is starting", "It ended\x1b[2K; it is started again", "x" * 200])
async def test_a_hosted_server_that_is_not_ready_is_told_of_a_connected_device(desk: Desk, reason: str):
    pair(desk.registry, KnownDevice(name="d1"))
    rows = [Unavailable(tool=f"server-{number}", reason=f"MCP server: {reason}") for number in range(9)]
    async with running_house() as house:
        socket = await house.dial()
        await say(socket, type="register", status="ok", client_id="d1", metadata={"quarterdeck": {}})
        await hear(socket)
        link = await soon(house.connected.get())
        device = Device(
            name="d1", health=Health.ONLINE, since="2026-01-01T00:00:00Z", unavailable=rows, tool_count=3
        )
        checks = {one.name: one for one in await desk.doctor.examine(device, link)}
        await socket.close()
    assert checks["tools"].state is CheckState.FAILED
    assert "server-0: MCP server: " in checks["tools"].found
    assert checks["tools"].found.isprintable()
    assert len(checks["tools"].found) < 500
    assert checks["tools"].next
