"""What an MCP server may say about its tools, and what it cannot do to this device by saying it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic_core import to_json

from core.aip.messages import ToolInfo
from core.aip.pending_requests import MOST_BYTES, weight
from core.device.config import DeviceConfig, Limits
from core.device.guard import Guard
from core.device.mcp import tool_listing
from core.device.mcp.config import ServerConfig
from core.device.mcp.host import McpHost
from core.device.mcp.server import Bounds, HostedServer
from core.device.mcp.server_state import State, Timing
from core.device.mcp.tool_call import call
from core.device.mcp.tool_listing import Listing, read_listing
from core.device.processes.child_process import Children
from core.device.tool import OBSERVES, FailedWithResult, Tool, ToolCall, Unavailable
from core.errors import BadInput, DeviceError
from core.schema_forms.patterns import safe_pattern
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S
from tests.fakes.work import most_calls

# Of the loop: what is not listed again within so many has a rest.
TURNS = 500
_COSTLY = {"type": "string", "pattern": "^(a|a|aa)+$"}
_TEXT = "a" * 60 + "!"
_DEEP = 40


def _doubling() -> dict[str, Any]:
    """A schema of a few lines that asks for 2^40 looks at the same value."""
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(_DEEP)}
    return {"type": "object", "allOf": [{"$ref": "#/$defs/s0"}], "$defs": {**steps, f"s{_DEEP}": {}}}


def _listing(*names: str, **more: Any) -> Listing:
    schema = {"type": "object"}
    return read_listing([{"name": name, "inputSchema": schema, **more} for name in names], False)


class _Offered:
    """Stands where the router does."""

    def __init__(self) -> None:
        self.unavailable: list[Unavailable] = []
        self.hosted: dict[str, Tool] = {}

    def offer(self, tool: Tool) -> bool:
        self.hosted[tool.name] = tool
        return True

    def withdraw(self, namespace: str) -> None:
        self.hosted = {name: tool for name, tool in self.hosted.items() if tool.namespace != namespace}

    def announce(self) -> None:
        return

    def tools(self) -> list[ToolInfo]:
        return [tool.info() for tool in self.hosted.values()]


def _offer(offers: _Offered, off: set[str], **servers: Listing) -> set[str]:
    configs = [ServerConfig(name, "stdio", "server") for name in servers]
    host = McpHost(configs, offers, DeviceConfig(tools_off=frozenset(off)), Children(1000))
    for config in configs:
        host._servers[config.name] = SimpleNamespace(  # type: ignore[assignment]  # no process is needed here
            config=config,
            listing=servers[config.name],
            state=State.READY,
            reason="",
            how_to_fix="",
            restless=False,
        )
    host._publish()
    return set(offers.hosted)


def test_a_tool_that_is_off_stays_off_when_another_server_lists_one_of_the_same_name():
    offers = _Offered()
    assert _offer(offers, {"delete"}, files=_listing("delete", "read"), web=_listing("delete")) == {
        "files_read"
    }
    assert {row.tool for row in offers.unavailable} == {"files_delete", "web_delete"}


def test_a_tool_that_is_off_by_its_long_name_stays_off_while_the_other_server_is_away():
    assert _offer(_Offered(), {"files_delete"}, files=_listing("delete", "read")) == {"files_read"}


def test_to_switch_off_our_own_tool_leaves_a_servers_tool_of_that_name():
    offers = _Offered()
    offers.unavailable = [Unavailable("read_file", "It is switched off here", "")]
    assert _offer(offers, {"read_file"}, files=_listing("read_file")) == {"files_read_file"}


@pytest.mark.parametrize("text", ["x" * 2_000, "line\n" * 100, "é" * 300], ids=["plain", "lines", "accents"])
def test_a_list_for_which_there_is_no_room_hides_the_tools_of_that_server_alone(text: str):
    offers = _Offered()
    many = _listing(*(f"t{number}" for number in range(1_999)), description=text * 2)
    several = _listing(*(f"u{number}" for number in range(200)), description=text)
    shown = _offer(offers, set(), large=many, first=several, small=_listing("search"))
    assert len(shown) == 201
    assert "small_search" in shown
    [row] = offers.unavailable
    assert row.tool == "large"
    assert row.reason.startswith("MCP server: its 1999 tools take ")
    assert "tools_off" in row.how_to_fix
    # A console takes the list of all that is offered as one result.
    assert weight([tool.model_dump() for tool in offers.tools()]) < MOST_BYTES
    assert (
        len(to_json([tool.model_dump() for tool in offers.tools()])) < DeviceConfig().limits.max_output_bytes
    )


def test_a_device_that_sends_little_lists_what_fits_and_cuts_no_list():
    offers = _Offered()
    many = _listing(*(f"t{number}" for number in range(50)), description="x" * 1_000)
    configs = [ServerConfig("web", "stdio", "server")]
    limits = Limits(max_output_bytes=40_000)
    host = McpHost(configs, offers, DeviceConfig(limits=limits), Children(1000))
    host._servers["web"] = SimpleNamespace(  # type: ignore[assignment]  # no process is needed here
        config=configs[0], listing=many, state=State.READY, reason="", how_to_fix="", restless=False
    )
    host._publish()
    assert offers.hosted == {}
    assert [row.tool for row in offers.unavailable] == ["web"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"text": _COSTLY}}, {"text": _TEXT}),
        ({"type": "object", "patternProperties": {_COSTLY["pattern"]: {}}}, {_TEXT: 1}),
        ({"type": "object", "propertyNames": _COSTLY}, {_TEXT: 1}),
        (_doubling(), {}),
    ],
    ids=["pattern", "patternProperties", "propertyNames", "references"],
)
def test_no_schema_of_a_server_keeps_this_device_busy_for_ever(
    schema: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tool_listing, "_MOST_STEPS", tool_listing._MOST_STEPS // 10)

    async def run(call: ToolCall) -> None:
        return

    safe_pattern.cache_clear()
    with most_calls(20_000_000):
        guard = Guard(DeviceConfig())
        tool = Tool("search", "Search", "action", "", schema, {}, OBSERVES, run, namespace="web")
        with contextlib.suppress(BadInput):
            guard.check(tool, value)
        definition = _listing("search", outputSchema=schema).tools[0]
        with contextlib.suppress(DeviceError):
            definition.check_result({"structuredContent": value})


def test_a_hosted_tools_arguments_are_still_held_against_its_schema(tmp_path: Path):
    async def run(call: ToolCall) -> None:
        return

    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    tool = Tool("search", "Search", "action", "", schema, {}, OBSERVES, run, namespace="web")
    guard = Guard(DeviceConfig(roots=(tmp_path,)))
    assert guard.check(tool, {"count": 2}) == {"count": 2}
    with pytest.raises(BadInput, match="count"):
        guard.check(tool, {"count": "many"})
    with pytest.raises(BadInput, match="NUL"):
        guard.check(tool, {"count": 2, "more": "\0"})


@pytest.mark.parametrize(("pause_s", "most"), [(600.0, 2), (0.0, 20)], ids=["a long rest", "no rest"])
async def test_a_server_whose_list_always_changes_is_not_listed_without_a_rest(pause_s: float, most: int):
    listed = 0
    enough = asyncio.Event()

    class Restless:
        async def start(self) -> None:
            return

        async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
            nonlocal listed
            listed += 1
            server._tools_changed()
            if listed == most:
                enough.set()
            return {"tools": [{"name": f"tool{listed}", "inputSchema": {"type": "object"}}]}

    server = HostedServer(
        ServerConfig("web", "stdio", "server"),
        Children(1000),
        Bounds(1_000_000, 10.0),
        Timing(relist_s=(pause_s, 300)),
        lambda: None,
    )
    tasks = TaskGroupOwner("test")
    serving = tasks.spawn("serve", server._serve(Restless()))  # type: ignore[arg-type]  # all that is used
    async with asyncio.timeout(PATIENCE_S):
        await enough.wait()
        for _ in range(TURNS if pause_s else 0):
            await asyncio.sleep(0)
        assert listed == most or not pause_s
        server.stop()
        await serving
    await tasks.close()


async def test_a_list_that_keeps_changing_is_read_more_and_more_seldom_and_that_is_said_until_it_rests():
    lists = iter("abababaa")
    offers = _Offered()
    config = ServerConfig("web", "stdio", "server")
    host = McpHost([config], offers, DeviceConfig(), Children(1000))
    timing = Timing(relist_s=(0.0, 300), steady_s=0.0, ping_s=0.0)
    rests = []
    rows: list[list[Unavailable]] = []

    class Restless:
        async def start(self) -> None:
            return

        async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
            name = next(lists, None)
            rests.append(server._changes)
            rows.append(list(offers.unavailable))
            if name is None:
                server.stop()
                name = "a"
            else:
                server._tools_changed()
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}}]}

    server = HostedServer(config, Children(1000), Bounds(1_000_000, 10.0), timing, host._publish)
    host._servers["web"] = server
    async with asyncio.timeout(PATIENCE_S):
        await server._serve(cast(Any, Restless()))
    assert rests[:7] == [0, 0, 1, 2, 3, 4, 5]
    said = [[row.reason for row in listed if "all the time" in row.reason] for listed in rows]
    assert [bool(words) for words in said[:7]] == [False] * 6 + [True]
    # A list that stays as it is for a while is a usual one again.
    server._settle()
    assert offers.unavailable == []


def test_the_pause_between_two_readings_of_a_changing_list_doubles_up_to_five_minutes():
    server = HostedServer(
        ServerConfig("web", "stdio", "server"),
        Children(1000),
        Bounds(1_000_000, 10.0),
        Timing(),
        lambda: None,
    )
    pauses = []
    for server._changes in range(12):
        pauses.append(server._rest(guessed=False))
    assert pauses == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    server._changes = 30
    assert server._rest(guessed=True) == 300


def test_schemas_that_would_take_minutes_to_read_are_refused_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tool_listing, "MOST_PARTS", tool_listing.MOST_PARTS // 10)
    large = {"type": "object", "properties": {f"p{n}": {} for n in range(350)}}
    listing = read_listing([{"name": f"t{n}", "inputSchema": large} for n in range(100)], False)
    assert 1 < len(listing.tools) < 10
    assert "too large together" in listing.refused[0][1]


async def test_an_answer_that_its_schema_makes_costly_leaves_the_loop_free():
    schema = {"properties": {"rows": {"items": {"allOf": [{"minimum": 0}] * 200}}}}
    definition = _listing("search", outputSchema=schema).tools[0]
    answer = {"content": [], "structuredContent": {"rows": list(range(50_000))}}
    turns = 0
    tasks = TaskGroupOwner("test")
    config = ServerConfig("web", "stdio", "server")
    calling = tasks.spawn(
        "call", _failing(call(cast(Any, _Answers(answer)), config, definition, ToolCall({}), 10**7))
    )
    while not calling.done():
        await asyncio.sleep(0)
        turns += 1
    assert "too much work" in calling.result()
    assert turns > 10


class _Answers:
    """Stands where a session does."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    async def request(self, *_: Any) -> dict[str, Any]:
        return self._answer


async def test_an_answer_with_a_number_that_json_cannot_say_is_kept_and_not_called_a_fault():
    schema = {"properties": {"share": {"type": "number", "multipleOf": 0.5}}}
    definition = _listing("search", outputSchema=schema).tools[0]
    session = cast(Any, _Answers({"content": [], "structuredContent": {"share": math.nan, "rest": 1}}))
    config = ServerConfig("web", "stdio", "server")
    result = await call(session, config, definition, ToolCall({}), 10**7)
    assert result["structured"] == {"share": "NaN", "rest": 1}
    assert "NaN at structured['share']" in result["note"]


async def test_a_failed_tool_says_what_json_cannot_say_of_its_answer():
    definition = _listing("search").tools[0]
    words = [{"type": "text", "text": "the disk is full"}]
    session = cast(
        Any, _Answers({"isError": True, "content": words, "structuredContent": {"free": math.inf}})
    )
    config = ServerConfig("web", "stdio", "server")
    with pytest.raises(FailedWithResult, match="the disk is full") as failed:
        await call(session, config, definition, ToolCall({}), 10**7)
    assert failed.value.result["structured"] == {"free": "Infinity"}
    assert "structured['free']" in failed.value.result["note"]


async def _failing(calling: Coroutine[Any, Any, Any]) -> str:
    with pytest.raises(DeviceError) as failed:
        await calling
    return failed.value.message
