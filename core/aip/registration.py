"""Registers a device on a new connection, whether the device or the console dialled, and serves its link.

device ── register ───────────► console    role, name
device ◄─ heartbeat/ok ──────── console    before anything else; then on_connected(link)
"""

from __future__ import annotations

import asyncio
import hmac
from datetime import UTC, datetime

from websockets.exceptions import ConnectionClosed

from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.frames import acknowledgement, clock_offset_ms, error_frame
from core.aip.limits import LinkLimits
from core.aip.link_events import RefusedAttempt
from core.aip.measured_connection import MeasuredConnection
from core.aip.messages import ClientMessage, read_client_frame
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError
from core.log import Logger
from core.text import escape_hidden, shorten_middle

log = Logger(__name__)

WRONG_NAME = "client_id is not the device this token is for"
CLAIMS = ": it registers as "
"""In a refusal, the text after this is the client's own claim, with hidden characters escaped."""
_LONGEST_CLAIM = 64


async def read_registration(
    connection: MeasuredConnection, expected: str, limits: LinkLimits
) -> ClientMessage:
    """Receive the first frame of a connection, which must be the registration of the device `expected`.

    Raises:
        BadInput: the peer registers with another role or name, or its registration is too large.
        DeviceError: the frame is not a registration, or none came within `limits.register_s`.
        ConnectionClosed: the peer closed the connection first.
    """
    try:
        async with asyncio.timeout(limits.register_s):
            frame = await connection.recv(decode=False)
    except TimeoutError:
        raise DeviceError(
            f"No registration came within {limits.register_s:g} s.", ErrorCode.TIMEOUT
        ) from None
    if len(frame) > limits.register_bytes:
        raise BadInput(f"A registration has at most {limits.register_bytes} bytes.", ErrorCode.TOO_LARGE)
    hello = read_client_frame(frame)
    if hello.type != "register":
        raise DeviceError(f"The first frame must be register, not {hello.type}.", ErrorCode.PROTOCOL_ERROR)
    if hello.client_type == "constellation":
        raise BadInput("The role constellation is not served here.")
    if not hello.client_id:
        raise BadInput("A registration needs a client_id.")
    if not hmac.compare_digest(
        hello.client_id.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    ):
        raise BadInput(f"{WRONG_NAME}{CLAIMS}'{_claimed(hello.client_id)}'.")
    return hello


async def serve(
    link: DeviceLink,
    hello: ClientMessage,
    connection: MeasuredConnection,
    events: LinkEvents,
    limits: LinkLimits,
) -> str:
    """Acknowledge a registration and serve the link to its end; returns why it ended."""
    reason = "the service failed"
    link.clock_offset_ms = clock_offset_ms(hello.timestamp, datetime.now(UTC), 0.0)
    connected = False
    try:
        await connection.send(acknowledgement(sorted(link.features), limits.heartbeat_s))
        connected = True
        events.on_connected(link)
        reason = await link.listen()
    except ConnectionClosed:
        reason = "it closed while it registered"
    except asyncio.CancelledError:
        reason = "the console hangs up"
        raise
    finally:
        link.end(reason)
        if connected:
            events.on_lost(link, reason)
        else:
            events.on_refused(RefusedAttempt(reason, link.peer, link.name))
    return reason


async def reject(connection: MeasuredConnection, error: QuarterdeckError) -> None:
    """Send the reason of the refusal and close the connection normally (code 1000)."""
    try:
        await connection.send(error_frame(error))
        await connection.close(1000)
    except ConnectionClosed:
        return


def _claimed(name: str) -> str:
    return escape_hidden(shorten_middle(name, _LONGEST_CLAIM), keep_lines=False)
