"""What is answered before the SDK is imported is what the SDK answers, and nothing else is answered so."""

from __future__ import annotations

import io
import json
from typing import Any

import anyio
import pytest
from mcp import types
from mcp.shared.message import SessionMessage
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from core.gateway.greeting import HANDSHAKE_VERSIONS, Opening, greet
from core.gateway.server import make_server
from tests.fakes.patience import PATIENCE_S

Message = dict[str, Any]
INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST: Message = {"jsonrpc": "2.0", "id": "two", "method": "tools/list"}


def initialize(version: str = "2025-06-18", **other: Any) -> Message:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params | other}


def greeted(*messages: Message | bytes) -> tuple[Opening, list[Message], bytes]:
    """The opening, the answers, and what was left unread."""
    lines = [sent if isinstance(sent, bytes) else json.dumps(sent).encode() + b"\n" for sent in messages]
    reads, writes = io.BytesIO(b"".join(lines)), io.BytesIO()
    opening = greet(reads, writes)  # type: ignore[arg-type]  # reads whole lines, as a raw file does
    return opening, [json.loads(line) for line in writes.getvalue().splitlines()], reads.read()


async def answers_of_the_sdk(*messages: Message) -> list[Message]:
    def no_session(context: Any) -> Any:
        raise AssertionError("no agent is asked")

    server = make_server(no_session)
    to_server, reads = anyio.create_memory_object_stream[SessionMessage | Exception](9)
    writes, from_server = anyio.create_memory_object_stream[SessionMessage](9)
    for message in messages:
        to_server.send_nowait(SessionMessage(types.jsonrpc_message_adapter.validate_python(message)))
    answers = []
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group, from_server, to_server:
            group.start_soon(server.run, reads, writes, server.create_initialization_options())
            for _ in [message for message in messages if "id" in message]:
                answer = (await from_server.receive()).message
                answers.append(answer.model_dump(mode="json", by_alias=True, exclude_unset=True))
            group.cancel_scope.cancel()
    return answers


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, "1999-01-01"])
async def test_a_client_hears_the_same_as_from_the_sdk(version: str) -> None:
    messages = [initialize(version), INITIALIZED, LIST]
    opening, answers, unread = greeted(*messages, b"the rest")
    assert answers == await answers_of_the_sdk(*messages)
    assert answers[1]["result"]["tools"]
    assert [json.loads(line) for line in opening.lines] == messages[:2]
    assert (opening.answered, unread) == (1, b"the rest")


def test_the_versions_of_the_handshake_are_the_sdks() -> None:
    assert HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\n",
        b"no JSON\n",
        b"[" * 200_000 + b"\n",
        b'[{"jsonrpc": "2.0", "id": 1, "method": "initialize"}]\n',
        LIST,
        INITIALIZED,
        {**initialize(), "id": True},
        {**initialize(), "id": None},
        {**initialize(), "jsonrpc": "1.0"},
        initialize(clientInfo={"name": "x"}),
        initialize(capabilities=[]),
        initialize(protocolVersion=3),
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}},
    ],
)
def test_an_unusual_beginning_is_the_sdks_from_the_first_message_on(first: Message | bytes) -> None:
    opening, answers, unread = greeted(first, *([LIST] if first else []))
    assert (opening.answered, answers) == (None, [])
    assert len(opening.lines) == (1 if first else 0)
    assert bool(unread) is bool(first)


@pytest.mark.parametrize(
    "later",
    [
        [LIST],
        [INITIALIZED, INITIALIZED],
        [INITIALIZED, {**LIST, "params": {"cursor": "1"}}],
        [
            INITIALIZED,
            {**LIST, "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}},
        ],
        [INITIALIZED, {**LIST, "method": "tools/call", "params": {"name": "list_devices"}}],
        [INITIALIZED, b"no JSON\n"],
        [{**LIST, "method": "ping"}],
        [],
    ],
)
def test_what_does_not_ask_for_the_list_of_tools_is_left_to_the_sdk(later: list[Message | bytes]) -> None:
    opening, answers, _ = greeted(initialize(), *later)
    assert [answer["id"] for answer in answers] == [1]
    assert opening.answered == 1
    assert len(opening.lines) == 1 + len(later)
