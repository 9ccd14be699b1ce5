"""Integers of any size and text that is not valid Unicode, from the terminal to a hosted server and back.

The command line, the service, the device client's process, its hosted server and the gateway are real.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.audit.entries import Kind
from core.dispatch.outcome import BROKEN_TEXT
from core.errors import ErrorCode
from core.home import Home
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.desk import choose_channel
from tests.fakes.gateway import asked, in_process
from tests.fakes.mcp_server import rogue
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import Ended, run
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import accepted, anna

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE, ECHO, BROKEN = "this-computer", "rogue_say", "rogue_broken"
ALLOWS = '[[rule]]\nid = "all"\ndecision = "allow"\ntool = "rogue_*"\nrisk = "<=critical"\n'
INTEGERS = [2**53 + 1, 1234567890123456789, -(2**63) - 1, 2**64 - 1, 123456789012345678901234567890]
TOO_LONG = "9" * 4_301


@dataclass
class Place:
    home: Home
    console: Console
    token: str

    async def says(self, *words: str) -> Ended:
        return await asyncio.to_thread(run, self.home, *words)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    home = Home(tmp_path_factory.mktemp("exact") / "home").create()
    await accepted(home, ALLOWS)
    choose_channel(home, "process")
    state = home.path / HERE
    state.mkdir(exist_ok=True)
    (state / "mcp.json").write_text(json.dumps({"mcpServers": rogue(tools=["say", "broken"])}))
    (state / "device.toml").write_text('mcp_servers = "mcp.json"\n')
    async with service_process(home) as process:
        console = await process.console()
        await until_online(console)
        async with asyncio.timeout(PATIENCE_S):
            events = console.events()
            while ECHO not in {tool.tool_name for tool in await console.devices.tools(HERE)}:
                await anext(events)
        yield Place(home, console, await add_agent(console, anna(home), "claude"))


def answer(value: Any) -> dict[str, Any]:
    return {"content": [], "structuredContent": {"id": value}}


@pytest.mark.parametrize("number", INTEGERS)
async def test_an_integer_of_any_size_goes_out_and_comes_back_exactly(
    place: Place, tmp_path: Path, number: int
):
    called = await place.says("call", HERE, ECHO, f"answer:={json.dumps(answer(number))}", "--json")
    assert (called.code, called.json["result"]["structured"]) == (0, {"id": number})
    record = await place.console.journal.command(called.json["call_id"])
    sent, came = (
        entry.body for entry in record.entries if entry.kind in (Kind.COMMAND_PREPARED, Kind.RESULT_RECORDED)
    )
    assert sent["parameters"]["answer"] == answer(number)
    assert came["result"]["result"]["structured"] == {"id": number}
    for way in ("json", "csv"):
        file = tmp_path / way
        exported = await place.says(
            "runs", "export", called.json["run"], "--format", way, "--output", str(file)
        )
        assert exported.code == 0, exported
        assert f'"id": {number}' in file.read_text().replace('""', '"')
    async with in_process(place.home, place.token) as client:
        command = {"tool": ECHO, "arguments": {"answer": answer(number)}}
        done = await asked(client, "run_commands", devices=HERE, commands=[command])
    assert done["results"][0]["result"]["structured"] == {"id": number}
    assert (await place.says("audit", "verify")).code == 0


@pytest.mark.parametrize("number", INTEGERS)
async def test_a_later_step_gets_the_integer_of_an_earlier_one(place: Place, tmp_path: Path, number: int):
    file = tmp_path / "big.yaml"
    file.write_text(
        "name: big\ntargets: 'name:this-computer'\ninputs:\n  id: {type: integer}\nsteps:\n"
        f"- {{id: a, tool: {ECHO}, with: {{answer: {json.dumps(answer(number))}}}}}\n"
        f"- id: b\n  tool: {ECHO}\n  with:\n    answer:\n      content: []\n      structuredContent:\n"
        "        whole: '${{ steps.a.result.structured.id }}'\n"
        "        text: '${{ string(steps.a.result.structured.id) }}'\n"
        "        inside: 'id=${{ steps.a.result.structured.id }}'\n"
        "        given: '${{ inputs.id }}'\n"
        "        same: '${{ steps.a.result.structured.id == inputs.id }}'\n"
    )
    ran = await place.says("run", str(file), "--input", f"id={number}", "--json")
    assert ran.code == 0, ran
    [_, second] = (await place.console.runs.cells(ran.json["run"]["id"])).cells
    assert second.result is not None
    assert second.result.result["structured"] == {
        "whole": number, "text": str(number), "inside": f"id={number}", "given": number, "same": True
    }  # fmt: skip


async def test_an_integer_longer_than_any_parser_reads_is_refused_in_words(place: Place):
    called = await place.says("call", HERE, ECHO, f"answer:={TOO_LONG}", "--json")
    assert (called.code, called.json["error"]["code"]) == (2, "invalid_arguments")
    assert "more than 4,300 digits" in called.json["error"]["message"]
    raw = f'{{"content":[],"structuredContent":{{"id":{TOO_LONG}}}}}'
    came = await place.says("call", HERE, BROKEN, f"result={raw}", "--json")
    assert came.json["error"]["code"] == ErrorCode.BAD_RESULT
    assert "has a number of more than 4,300 digits" in came.json["error"]["message"]


async def test_half_a_character_in_an_answer_costs_nothing_but_itself(place: Place):
    text = r'[{"type":"text","text":"a\ud83d b \ud83d\ude00"}]'
    raw = f'{{"content":{text},"structuredContent":{{"\\udfff":"\\\\ud83d"}}}}'
    called = await place.says("call", HERE, BROKEN, f"result={raw}", "--json")
    assert called.code == 0, called
    result = called.json["result"]
    assert result["content"] == [{"type": "text", "text": "a\ufffd b \U0001f600"}]
    assert result["structured"] == {"\ufffd": "\\ud83d"}
    assert called.json["note"] == BROKEN_TEXT
    assert called.json["verdict"] == "unverified"


async def test_too_much_nesting_is_named_as_such(place: Place):
    raw = '{"content":[],"structuredContent":' + "[" * 3_000 + "]" * 3_000 + "}"
    called = await place.says("call", HERE, BROKEN, f"result={raw}", "--json")
    assert "is nested deeper than 200 levels" in called.json["error"]["message"]


@pytest.mark.parametrize(
    "word", [b"answer=\xff", b'answer:="\xff"', b'answer:={"\\ud83d": 1}', b'answer:="\\ud83d"']
)
async def test_an_argument_that_is_no_text_is_refused_in_plain_words(place: Place, word: bytes):
    called = await place.says("call", HERE, ECHO, word.decode("utf-8", "surrogateescape"), "--json")
    assert (called.code, called.json["error"]["code"]) == (2, "invalid_arguments"), called
    for jargon in ("UnicodeEncodeError", "codec", "surrogates"):
        assert jargon not in called.json["error"]["message"]
