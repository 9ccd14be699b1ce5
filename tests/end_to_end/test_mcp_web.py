"""What servers over HTTP say by their status, what is made of it, and that nothing is run twice."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import ResultStatus
from core.device.mcp.server_state import State
from core.errors import ErrorCode
from core.tasks import TaskGroupOwner
from tests.fakes.mcp_hosted import QUICK, Hosted, code, hosted
from tests.fakes.mcp_web import Reply, Web, as_json, refusal, web_server

SELDOM = replace(QUICK, ping_s=1000)
FORGOTTEN = [
    pytest.param((404, {}, b""), id="404"),
    pytest.param(refusal(-32001, "Session not found", 404), id="404 of the TypeScript SDK"),
    pytest.param(refusal(-32000, "Bad Request: No valid session ID provided", 400), id="400 of its examples"),
    pytest.param(as_json({"error": {"code": -32000, "message": "No session"}}, 400), id="400 without an id"),
]


def forgets(web: Web, reply: Reply) -> None:
    """Have a server do as one that was started again: it knows no session of before."""
    web.session = "second"

    def answers(message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        known = message["method"] == "initialize" or headers.get("mcp-session-id") == web.session
        return None if known else reply

    web.answers = answers


@pytest.mark.parametrize("reply", FORGOTTEN)
async def test_a_call_in_a_session_that_the_server_has_forgotten_is_run_once_in_a_new_one(
    tmp_path: Path, reply: Reply
):
    async with web_server() as web, hosted(tmp_path, web.entry, SELDOM) as built:
        forgets(web, reply)
        for number in range(3):
            assert (await built.call("act", number=number)).status is ResultStatus.SUCCESS
        assert [one["number"] for one in web.done] == [0, 1, 2]
        assert web.heard.count("initialize") == 2


async def test_all_calls_at_once_in_a_forgotten_session_are_run_once_each(tmp_path: Path):
    tasks = TaskGroupOwner("test")
    async with web_server() as web, hosted(tmp_path, web.entry, SELDOM) as built:
        forgets(web, (404, {}, b""))
        running = [
            tasks.spawn(f"say {number}", built.call("say", call_id=f"c{number}", number=number))
            for number in range(8)
        ]
        assert {(await one).status for one in running} == {ResultStatus.SUCCESS}
        assert sorted(one["number"] for one in web.done) == list(range(8))
        assert web.heard.count("initialize") == 2
    await tasks.close()


async def test_a_tool_that_is_defined_otherwise_in_the_new_session_is_not_called(tmp_path: Path):
    async with web_server() as web, hosted(tmp_path, web.entry, SELDOM) as built:
        forgets(web, (404, {}, b""))
        web.description = "Does something else now."
        refused = await built.call("act")
        assert code(refused) is ErrorCode.CONTRACT_CHANGED
        assert "defines it in another way" in (refused.error or "")
        assert web.done == []
        assert (await built.call("act")).status is ResultStatus.SUCCESS


async def test_a_server_that_forgets_every_session_is_not_asked_for_ever(tmp_path: Path):
    async with web_server() as web, hosted(tmp_path, web.entry, SELDOM) as built:
        web.answers = lambda message, headers: (404, {}, b"") if message["method"] == "tools/call" else None
        refused = await built.call("act")
        assert code(refused) is ErrorCode.TOOL_FAILED
        assert "404 Not Found" in (refused.error or "")
        assert web.heard.count("tools/call") == 2


async def test_an_action_while_nobody_listens_is_known_not_to_have_been_sent(tmp_path: Path):
    web = Web()
    async with web_server(web):
        pass
    timing = replace(SELDOM, give_up_after=1000, call_waits_s=0.1)
    async with hosted(tmp_path, web.entry, timing, wait=False) as built:
        async with web_server(web):
            await built.until(lambda: bool(built.names("web")))
        failed = await built.call("act")
        assert code(failed) is ErrorCode.TOOL_FAILED
        assert "nothing was sent" in (failed.error or "")
        assert "cannot be reached" in (failed.error or "")
    assert web.done == []


FAILED, UNKNOWN = ErrorCode.TOOL_FAILED, ErrorCode.OUTCOME_UNKNOWN


async def test_an_answer_over_http_that_is_too_large_says_so_and_one_that_is_none_too(tmp_path: Path):
    # Room for the server's list of tools, which would be hidden as too large with the call's answer.
    async with web_server() as web, hosted(tmp_path, web.entry, SELDOM, max_output_bytes=65_536) as built:
        large = as_json({"jsonrpc": "2.0", "id": 1, "result": {"content": ["x" * 2**21]}})
        for reply, words in (
            (large, "larger than"),
            ((200, {"content-type": "application/json"}, b"{"), "it is not a message of MCP"),
        ):
            acted, _, said = await refused_with(built, web, reply)
            assert acted is ErrorCode.BAD_RESULT
            assert words in said
            assert "validation" not in said


async def test_an_error_page_without_end_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("core.device.mcp.http_transport._ERROR_S", 0.05)
    async with web_server() as web, hosted(tmp_path, web.entry, SELDOM) as built:
        endless = {"content-type": "text/plain", "content-length": "9"}
        web.answers = lambda message, headers: (
            (503, endless, b"wait") if message["method"] == "tools/call" else None
        )
        failed = await built.call("say")
        assert "503 Service Unavailable" in (failed.error or "")


async def refused_with(built: Hosted, web: Web, reply: Reply) -> tuple[ErrorCode, ErrorCode, str]:
    """What becomes of an action and of a read whose calls get this reply."""

    def answers(message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        if message["method"] != "tools/call":
            return None
        status, head, body = reply
        return status, head, body.replace(b'"id": null', f'"id": {message["id"]}'.encode())

    web.answers = answers
    acted, read = await built.call("act"), await built.call("say")
    return code(acted), code(read), acted.error or ""


async def test_a_status_says_in_words_what_happened_and_whether_it_can_have_run(tmp_path: Path):
    plain = {"content-type": "text/plain"}
    data = {"code": -32042, "message": "Log in", "data": {"url": "https://log.in/x"}}
    async with web_server() as web, hosted(tmp_path, web.entry, SELDOM) as built:
        for reply, acted, words in (
            ((429, plain, b"slow\n down"), FAILED, "429 Too Many Requests: slow down"),
            ((401, {}, b""), FAILED, "401 Unauthorized"),
            ((403, {"content-type": "text/html"}, b"<html>"), FAILED, "403 Forbidden"),
            ((502, plain, b"no upstream"), UNKNOWN, "502 Bad Gateway: no upstream"),
            ((202, {}, b""), UNKNOWN, "202 Accepted"),
            # What the server itself says is an answer, by whatever status and code.
            (refusal(-32603, "the disk is full", 500), FAILED, "act: the disk is full"),
            (refusal(-32602, "no such city", 400), FAILED, "act: no such city"),
            (refusal(-32602, "no such session: 7", 400), FAILED, "act: no such session: 7"),
            (refusal(-32601, "no such tool", 404), FAILED, "act: no such tool"),
            (refusal(-32603, "the disk is full"), FAILED, "act: the disk is full"),
            (refusal(-32600, "not so"), FAILED, "act: not so"),
            (refusal(-32000, "not now"), FAILED, "act: not now"),
            (refusal(-32000, ""), FAILED, "did not say why"),
            (refusal(0, "", error=data), FAILED, 'Log in {"url":"https://log.in/x"}'),
        ):
            got_acted, got_read, said = await refused_with(built, web, reply)
            # What the server calls a mere look may have happened just as well.
            assert (got_acted, got_read) == (acted, acted), words
            assert words in said
        web.answers = lambda message, headers: None
        assert (await built.call("act")).status is ResultStatus.SUCCESS
        assert web.heard.count("initialize") == 1


@pytest.mark.parametrize(
    ("reply", "reason", "to_do"),
    [
        ((401, {}, b"who?"), "It answers 401 Unauthorized: who?", "Authorization"),
        ((404, {"content-type": "text/html"}, b"<html>"), "It answers 404 Not Found", "SSE"),
        ((405, {}, b""), "It answers 405 Method Not Allowed", "SSE"),
        ((503, {}, b""), "It answers 503 Service Unavailable", "runs there"),
        ((200, {"content-type": "application/json"}, b"{"), "is not a message of MCP", "runs there"),
        (as_json({"jsonrpc": "2.0", "id": 1, "result": {}}), "capabilities: Field required", "runs there"),
    ],
)
async def test_a_server_that_does_not_let_us_in_is_told_with_its_status_and_what_to_do(
    tmp_path: Path, reply: Reply, reason: str, to_do: str
):
    timing = replace(SELDOM, give_up_after=1)
    web = Web(answers=lambda message, headers: reply)
    async with web_server(web), hosted(tmp_path, web.entry, timing) as built:
        assert built.state("web") is State.FAILED
        [row] = [row for row in built.router.unavailable if row.tool == "web"]
        assert reason in row.reason
        assert to_do in row.how_to_fix
        assert "pydantic" not in row.reason


async def test_a_server_that_was_away_for_long_is_there_soon_after_it_comes_back(tmp_path: Path):
    # For a server that is started here, giving up would be for five minutes.
    timing = replace(QUICK, give_up_after=2, after_giving_up_s=300)
    async with AsyncExitStack() as stack:
        alive = await stack.enter_async_context(AsyncExitStack())
        web = await alive.enter_async_context(web_server())
        built = await stack.enter_async_context(hosted(tmp_path, web.entry, timing))
        for _time in range(2):
            # Nothing is called: that it has gone is seen all the same.
            await alive.aclose()
            await built.until(lambda: built.state("web") is State.FAILED)
            [row] = [row for row in built.router.unavailable if row.tool == "web"]
            assert "It cannot be reached" in row.reason
            await alive.enter_async_context(web_server(web))
            await built.until(lambda: built.state("web") is State.READY)
            assert "web" not in [row.tool for row in built.router.unavailable]
            assert built.names("web") == {"say", "act"}


async def test_a_server_that_does_one_thing_at_a_time_is_not_taken_for_dead_while_it_does(tmp_path: Path):
    timing = replace(SELDOM, ping_answer_s=0.01)
    tasks = TaskGroupOwner("test")
    async with web_server() as web, hosted(tmp_path, web.entry, timing) as built:
        web.gate.clear()
        running = tasks.spawn("act", built.call("act"))
        await web.hears("tools/call")
        # Looked at because of another call, it has no time to answer either.
        web.answers = lambda message, headers: (
            refusal(0, "no", id=message["id"]) if _is_read(message) else None
        )
        assert code(await built.call("say")) is ErrorCode.TOOL_FAILED
        await web.hears("notifications/cancelled")
        web.gate.set()
        assert (await running).status is ResultStatus.SUCCESS
        assert [state.restarts for state in built.host.states()] == [0]
    await tasks.close()


BEGUN = {"content-type": "application/json", "content-length": "99", "connection": "close"}


@pytest.mark.parametrize(
    ("reply", "word"),
    [((0, {}, b""), ErrorCode.OUTCOME_UNKNOWN), ((200, BEGUN, b'{"jsonrpc"'), ErrorCode.BAD_RESULT)],
    ids=["no answer", "half an answer"],
)
async def test_a_connection_that_breaks_costs_its_own_call_and_no_other(
    tmp_path: Path, reply: Reply, word: ErrorCode
):
    tasks = TaskGroupOwner("test")
    async with web_server() as web, hosted(tmp_path, web.entry, SELDOM) as built:
        web.gate.clear()
        running = tasks.spawn("say", built.call("say"))
        await web.hears("tools/call")
        web.answers = lambda message, headers: (
            reply if message["method"] == "tools/call" and not _is_read(message) else None
        )
        assert code(await built.call("act")) is word
        web.gate.set()
        assert (await running).status is ResultStatus.SUCCESS
        assert [state.restarts for state in built.host.states()] == [0]
    await tasks.close()


def _is_read(message: dict[str, Any]) -> bool:
    return bool(message["method"] == "tools/call" and message["params"]["name"] == "say")


async def test_a_server_that_knows_no_ping_is_there_all_the_same(tmp_path: Path):
    web = Web(
        answers=lambda message, headers: (
            refusal(-32600, "no ping", id=message["id"]) if message["method"] == "ping" else None
        )
    )
    async with web_server(web), hosted(tmp_path, web.entry, replace(QUICK, ping_s=0.001)) as built:
        await web.hears("ping", 3)
        assert [state.restarts for state in built.host.states()] == [0]


async def test_tools_that_come_while_the_news_are_cut_off_are_found_however_often_they_are_cut(
    tmp_path: Path,
):
    web = Web(tells=True)
    async with web_server(web), hosted(tmp_path, web.entry, replace(SELDOM, relist_s=(0, 0))) as built:
        for number in range(4):
            await web.hears("GET", number + 1)
            web.names.append(f"new_{number}")
            web.cut()
            await built.until(lambda: built.names("web") == set(web.names))
        assert [state.restarts for state in built.host.states()] == [0]


@pytest.mark.parametrize("way", ["json", "events"])
async def test_half_a_character_in_an_answer_over_http_costs_nothing_but_itself(tmp_path: Path, way: str):
    texts = rb'[{"type":"text","text":"a\ud83d b \ud83d\ude00 \\ud83d"}]' + b', "_meta": {"raw": "\xff"}'

    def answers(message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        if message["method"] != "tools/call":
            return None
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":%b}}' % (message["id"], texts)
        if way == "json":
            return 200, {"content-type": "application/json"}, body
        return 200, {"content-type": "text/event-stream"}, b"event: message\ndata: %b\n\n" % body

    async with web_server(Web(answers=answers)) as web, hosted(tmp_path, web.entry, SELDOM) as built:
        answered = await built.call("act")
        assert answered.status is ResultStatus.SUCCESS, answered.error
        [block] = answered.result["content"]
        assert block["text"] == "a\ufffd b \U0001f600 \\ud83d"
        assert answered.result["meta"] == {"raw": "\ufffd"}


async def test_too_much_nesting_over_http_is_named_as_such(tmp_path: Path):
    deep = b"[" * 3_000 + b"]" * 3_000

    def answers(message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        if message["method"] != "tools/call":
            return None
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":%b}}'
        return 200, {"content-type": "application/json"}, body % (message["id"], deep)

    async with web_server(Web(answers=answers)) as web, hosted(tmp_path, web.entry, SELDOM) as built:
        answered = await built.call("act")
        assert code(answered) is ErrorCode.BAD_RESULT
        assert "is nested deeper than 200 levels" in (answered.error or "")
