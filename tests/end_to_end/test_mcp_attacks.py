"""What a hostile MCP server tries: another's name, our memory, our secrets, a life after our own."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.aip.messages import ResultStatus
from core.device.mcp import stdio_transport
from core.device.mcp.server_state import State
from core.errors import ErrorCode
from tests.fakes.ended import all_ended
from tests.fakes.mcp_hosted import QUICK, TOKEN, code, hosted
from tests.fakes.mcp_server import rogue
from tests.fakes.patience import PATIENCE_S
from tests.fakes.work import most_calls_a_turn


async def test_a_server_cannot_take_the_place_of_a_built_in_tool(tmp_path: Path):
    names = ["read_file", "get_system_info", "quarterdeck.cancel"]
    async with hosted(tmp_path, rogue(tools=names)) as built:
        assert built.tool("read_file").namespace == "builtin"
        listed = {info.tool_name for info in built.router.tools() if info.namespace == "rogue"}
        assert listed == {f"rogue_{name}" for name in names}
        own = await built.call("get_system_info", info_type="os")
        assert "content" not in own.result
        foreign = await built.call("rogue_read_file")
        assert foreign.result["content"][0]["text"] == "nothing"
        assert foreign.namespace == "rogue"


async def test_a_tool_that_claims_to_be_read_only_is_still_a_strangers_to_the_console(tmp_path: Path):
    from core.fleet.contracts import judge
    from core.models.tools import Effect, Risk

    async with hosted(tmp_path, rogue(tools=["say_typed"])) as built:
        info = built.tool("say_typed")
        assert info.annotations == {"readOnlyHint": True, "somebodyElses": [1, None]}
        contract = judge(info)
        assert contract.effect.value is Effect.UNKNOWN
        assert contract.risk.value is Risk.HIGH


async def test_two_thousand_tools_are_the_most(tmp_path: Path):
    async with hosted(tmp_path, rogue(tools=[], count=2150)) as built:
        assert len(built.names("rogue")) == 2000
        assert any("more than this device takes" in row.reason for row in built.router.unavailable)


@pytest.mark.parametrize("id_last", [False, True])
async def test_an_answer_larger_than_memory_allows_fails_alone(tmp_path: Path, id_last: bool):
    async with hosted(tmp_path, rogue(tools=["huge", "say"]), max_output_bytes=1024 * 1024) as built:
        before = psutil.Process().memory_info().rss
        result = await built.call("huge", size=48 * 1024 * 1024, id_last=id_last)
        assert code(result) is ErrorCode.BAD_RESULT
        assert "bytes" in (result.error or "")
        assert psutil.Process().memory_info().rss - before < 24 * 1024 * 1024
        assert (await built.call("say", answer={"content": []})).status is ResultStatus.SUCCESS
        cut = await built.call("huge", size=2 * 1024 * 1024)
        assert cut.result["truncated"] is True
        assert len(json.dumps(cut.result)) <= 1024 * 1024


async def test_noise_breaks_nothing_and_shows_no_secret(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    async with hosted(tmp_path, rogue(tools=["noise", "refuse"], env={"TOKEN": TOKEN})) as built:
        result = await built.call("noise", lines=500)
        assert result.result["content"][0]["text"] == "said it all"
        refused = await built.call("refuse")
        assert code(refused) is ErrorCode.TOOL_FAILED
        assert "refused with ***" in (refused.error or "")
    said = capfd.readouterr()
    assert TOKEN not in said.out + said.err
    assert len(said.out + said.err) < 60_000


@pytest.mark.parametrize(
    ("to", "line", "most"),
    [
        pytest.param(1, "x\n", 60_000, id="no message"),
        pytest.param(1, "\n", 60_000, id="nothing"),
        pytest.param(1, '{"jsonrpc":"2.0","method":"notifications/message"}\n', 60_000, id="notification"),
        pytest.param(2, "x\n", 60_000, id="standard error"),
        # Each letter is looked at for what is hidden in it.
        pytest.param(2, "y" * 60_000 + "\n", 600_000, id="long lines"),
    ],
)
async def test_a_server_that_talks_without_end_leaves_the_loop_free(
    tmp_path: Path, to: int, line: str, most: int
):
    async with hosted(tmp_path, rogue(tools=["babble"])) as built:
        assert (await built.call("babble", to=to, line=line)).status is ResultStatus.SUCCESS
        # A turn takes what one read of a pipe brings, whatever the server goes on to write.
        with most_calls_a_turn(most):
            for _turn in range(30):
                await asyncio.sleep(0.005)


@pytest.mark.parametrize("to", [1, 2])
async def test_the_loop_is_free_also_where_reading_lines_takes_longer_than_they_may_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: int
):
    # To a machine so busy no rate of lines is ever too high.
    monkeypatch.setattr(stdio_transport, "_LINES_PER_S", 1e12)
    async with hosted(tmp_path, rogue(tools=["babble"])) as built:
        assert (await built.call("babble", to=to, line="x\n")).status is ResultStatus.SUCCESS
        with most_calls_a_turn(60_000):
            for _turn in range(30):
                await asyncio.sleep(0.005)


async def test_what_stands_before_a_servers_first_message_is_passed_over_or_named(tmp_path: Path):
    starting = "\ufeff\nnpm notice\n[1]\n\x1b[32mListening\x1b[0m\n\ufeff"
    async with hosted(tmp_path, rogue(tools=["say"], begin=starting)) as built:
        assert built.names("rogue") == {"say"}
    timing = replace(QUICK, give_up_after=1)
    async with hosted(
        tmp_path, rogue(begin="Loading the model…\nHere you are\n", dead=True), timing
    ) as built:
        [state] = built.host.states()
        assert state.state is State.FAILED
        assert (
            "It ended; it writes to its standard output other text than messages of MCP: Loading"
            in state.reason
        )


NO_JSON = ['"\\ud800"', "[" * 5000 + "]" * 5000, "{"]
NO_NUMBERS = [
    ('{"content":[],"structuredContent":{"rows":[0,NaN]}}', "NaN at structured['rows'][1]"),
    ('{"content":[],"structuredContent":1e999}', "a number beyond all bounds at structured"),
    (
        '{"content":[{"type":"text","text":"x","annotations":{"priority":-Infinity}}]}',
        "a number beyond all bounds at content[0]['annotations']['priority']",
    ),
]


async def test_an_answer_that_is_no_json_ends_its_call_at_once(tmp_path: Path):
    async with hosted(tmp_path, rogue(tools=["broken", "say"])) as built:
        for result in NO_JSON:
            failed = await built.call("broken", result=result)
            assert code(failed) is ErrorCode.BAD_RESULT, result
            said = await built.call("say", answer={"content": []})
            assert said.status is ResultStatus.SUCCESS, result


async def test_a_number_that_json_cannot_say_is_named_and_arrives_as_text_never_as_null(tmp_path: Path):
    async with hosted(tmp_path, rogue(tools=["broken"])) as built:
        for result, said in NO_NUMBERS:
            told = await built.call("broken", result=result)
            assert told.error is None, result
            assert said in told.result["note"]
            named = json.loads(
                result, parse_constant=str, parse_float=lambda number: {"1e999": "Infinity"}[number]
            )
            assert told.result["content"] == named["content"]
            assert told.result.get("structured") == named.get("structuredContent")
        told = await built.call("broken", result='{"content":[],"structuredContent":["NaN",-0.0,1e308]}')
        assert json.loads(told.model_dump_json())["result"]["structured"] == ["NaN", -0.0, 1e308]


async def test_a_server_that_asks_something_of_us_is_refused(tmp_path: Path):
    async with hosted(tmp_path, rogue(tools=["ask_back"])) as built:
        for method in ("sampling/createMessage", "roots/list", "elicitation/create"):
            result = await built.call("ask_back", method=method)
            answer = json.loads(result.result["content"][0]["text"])
            assert answer["id"] == 77
            assert "error" in answer, method


async def test_a_server_sees_no_more_of_our_environment_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("QUARTERDECK_SECRET", TOKEN)
    async with hosted(tmp_path, rogue(tools=["environment"], env={"ONLY": "this one"})) as built:
        seen = (await built.call("environment")).result["structured"]
        assert seen["ONLY"] == "this one"
        assert TOKEN not in seen.values()
        assert "PATH" in seen


async def test_at_the_end_every_process_of_a_server_is_gone_however_stubborn(tmp_path: Path):
    async with hosted(tmp_path, rogue("family", tools=["child"]) | rogue("deaf", tools=["deaf"])) as built:
        family = (await built.call("child")).result["structured"]
        deaf = (await built.call("deaf")).result["structured"]
        numbers = [family["pid"], family["own"], deaf["own"]]
        assert all(psutil.pid_exists(number) for number in numbers)
    left = [psutil.Process(number) for number in numbers if psutil.pid_exists(number)]
    await all_ended(left, PATIENCE_S)
