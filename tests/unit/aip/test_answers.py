"""How much a device's answer may be for whoever has to read and keep it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.aip.pending_requests import MOST_ERROR, MOST_FOR_A_BYTE, weight
from core.errors import ErrorCode
from tests.fakes.aip_house import (
    QUICK,
    House,
    answer,
    fails,
    hear,
    look,
    neighbour,
    running_house,
    say,
    soon,
    still_works,
    success,
)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with running_house(replace(QUICK, max_incoming_bytes=32 * 1024 * 1024)) as built:
        yield built


@pytest.mark.parametrize(
    "values",
    [
        lambda: {str(number): 0 for number in range(440_000)},
        lambda: [[[1.5] * 100]] * 3_200,
        lambda: {"k" * 9_000_000: 1},
        lambda: ["x" * 60_000] * 150,
        lambda: [10**4000] * 2_000,
    ],
    ids=["names", "numbers", "one name", "texts", "digits"],
)
async def test_a_result_that_no_entry_of_the_journal_could_hold_is_a_bad_result(
    house: House, values: Callable[[], object]
) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    await answer(socket, await hear(socket), success(result=values()))
    assert "more than 7,340,032 bytes" in await fails(sending, ErrorCode.BAD_RESULT)
    await still_works(house, socket, link)


@pytest.mark.parametrize(
    "part",
    [[], {}, {"a": 1}, [[], {}], 1, "", "\n", "a,b", None],
    ids=["lists", "objects", "members", "both", "numbers", "texts", "escapes", "commas", "nothing"],
)
async def test_an_answer_of_endless_parts_is_refused_before_it_is_read(house: House, part: object) -> None:
    socket, link = await house.joined()
    values = [part] * (8_000_000 // len(orjson.dumps([part])))
    async with neighbour(house):
        sending = house.send(link, look())
        await answer(socket, await hear(socket), success(result=values))
        assert "it holds more than" in await fails(sending, ErrorCode.BAD_RESULT)
    assert (await hear(socket))["type"] == "error"
    await still_works(house, socket, link)


@example(1.5)
@example({"": [1.5, 2.5]})
@example("\x7f" * 50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
        max_leaves=20,
    )
)
def test_a_frame_is_too_short_for_an_answer_of_which_each_byte_weighs_the_most(value: object) -> None:
    wire = orjson.dumps(value)
    assert weight(value) <= len(wire) * MOST_FOR_A_BYTE


@pytest.mark.parametrize("number", [2**53 + 1, -(2**63) - 1, 10**4_299])
async def test_an_integer_of_any_size_goes_out_and_comes_back_exactly(house: House, number: int) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look(number=number))
    asked = await hear(socket)
    assert asked["actions"][0]["parameters"] == {"number": number}
    await answer(socket, asked, success(result={"number": number}))
    assert (await soon(sending))[0].result == {"number": number}


@pytest.mark.parametrize("broken", [rb"a\ud83d", b"a\xff"])
async def test_text_that_is_not_valid_unicode_costs_an_answer_nothing_else(
    house: House, broken: bytes
) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    asked = await hear(socket)
    frame = {
        **{"type": "command_results", "status": "continue", "prev_response_id": asked["response_id"]},
        "action_results": [success(result={"text": "HERE", "also": "NaN", "size": 7})],
    }
    await socket.send(json.dumps(frame).encode().replace(b"HERE", broken), text=True)
    assert (await soon(sending))[0].result == {"text": "a\ufffd", "also": "NaN", "size": 7}


async def test_an_answer_that_no_parser_reads_fails_its_call_at_once(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    asked = await hear(socket)
    deep = "[" * 3_000 + "]" * 3_000
    head = f'{{"type":"command_results","status":"continue","prev_response_id":"{asked["response_id"]}"'
    await socket.send(f'{head},"action_results":[{{"status":"success","result":{deep}}}]}}')
    assert "recursion limit" in await fails(sending, ErrorCode.BAD_RESULT)
    assert (await hear(socket))["type"] == "error"
    await still_works(house, socket, link)


async def test_a_large_answer_of_plain_values_is_taken(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    rows: list[Any] = [{"name": "x", "size": 1, "tags": []}] * 100_000 + ["long " * 20_000] * 20
    await answer(socket, await hear(socket), success(result=rows))
    assert (await soon(sending))[0].result == rows


async def test_an_error_of_megabytes_is_shortened_where_it_comes_in(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    words = "first " + "x" * 10_000_000 + " last"
    await answer(socket, await hear(socket), {**success(), "status": "failure", "error": words})
    said = (await soon(sending))[0].error or ""
    assert said.startswith("first ")
    assert said.endswith(" last")
    assert len(said) == MOST_ERROR

    sending = house.send(link, look())
    asked = await hear(socket)
    await say(socket, type="error", status="error", prev_response_id=asked["response_id"], error=words)
    assert len(await fails(sending, ErrorCode.BAD_RESULT)) < MOST_ERROR + 200
