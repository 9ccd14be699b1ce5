"""The parts of hosting that need no process: names, lines, listings and results."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.commands.live_secrets import Redaction
from core.device.mcp.results import error_text, result_of
from core.device.mcp.server_log import ServerLog
from core.device.mcp.stdio_transport import LineSplitter, OversizedLine
from core.device.mcp.tool_listing import MOST_DESCRIPTION, MOST_TOOLS, fetch, read_listing
from core.dispatch.result_sanitizer import take_evidence
from core.errors import DeviceError, ErrorCode
from tests.fakes.work import most_calls

MEBIBYTE = 1024 * 1024


@given(st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line)), st.integers(1, 9))
def test_lines_come_out_whole_however_they_were_cut(lines: list[bytes], step: int):
    stream = b"".join(line + b"\n" for line in lines)
    cutter = LineSplitter(20)
    found = [
        line for start in range(0, len(stream), step) for line in cutter.feed(stream[start : start + step])
    ]
    assert [line if isinstance(line, bytes) else line.size for line in found] == [
        line if len(line) <= 20 else len(line) for line in lines
    ]


@pytest.mark.parametrize(
    "line",
    [b'{"jsonrpc":"2.0","id":41,"result":{"x":"%s"}}', b'{"result":{"x":"%s"},"jsonrpc":"2.0","id":41}'],
)
def test_a_line_that_is_too_long_is_not_kept_but_its_request_is_known(line: bytes):
    cutter = LineSplitter(1000)
    whole = line.replace(b"%s", b"y" * MEBIBYTE) + b"\n{}\n"
    found = [
        one for start in range(0, len(whole), 65_536) for one in cutter.feed(whole[start : start + 65_536])
    ]
    assert found == [OversizedLine(len(whole) - 4, 41), b"{}"]


def test_an_id_inside_a_long_answer_is_not_taken_for_the_answers_own():
    cutter = LineSplitter(100)
    [line] = cutter.feed(b'{"result":{"x":[{"id":3,"y":"' + b"z" * 9000 + b'"}]}}\n')
    assert line == OversizedLine(9037 - 1, None) or (
        isinstance(line, OversizedLine) and line.request_id is None
    )


def test_a_servers_words_are_logged_short_seldom_and_without_secrets():
    said: list[tuple[str, str]] = []
    now = [0.0]
    log = ServerLog(
        lambda where, text: said.append((where, text)),
        lambda text: text.replace("SECRET", "***"),
        most_lines=2,
        clock=lambda: now[0],
    )
    for text in ("SECRET\x1b[31m", "x" * 10_000, "third", "fourth"):
        log.log("stderr", text)
    assert said[0] == ("stderr", "*** [31m")
    assert len(said[1][1]) == 501
    assert len(said) == 2
    now[0] = 11.0
    log.log("stderr", "fifth")
    assert said[2:] == [("stderr", "(2 more lines were not logged)"), ("stderr", "fifth")]


def tool(**said: Any) -> dict[str, Any]:
    return {"name": "t", "inputSchema": {"type": "object"}, **said}


@pytest.mark.parametrize(
    ("annotations", "kind"),
    [
        ({"readOnlyHint": True}, "data_collection"),
        ({"readOnlyHint": True, "destructiveHint": True}, "data_collection"),
        ({"readOnlyHint": "true"}, "action"),
        ({"readOnlyHint": 1}, "action"),
        ({"readOnlyHint": False}, "action"),
        ({}, "action"),
        (None, "action"),
    ],
)
def test_only_a_tool_that_says_it_reads_is_no_action(annotations: Any, kind: str):
    [definition] = read_listing([tool(annotations=annotations)], False).tools
    assert definition.tool_type == kind
    assert definition.info("t", "s").annotations == annotations


@pytest.mark.parametrize(
    "said",
    [
        {"inputSchema": {"type": "no such type"}},
        {"inputSchema": {"properties": {"a": {"$ref": "https://elsewhere.example/schema"}}}},
        {"inputSchema": {"properties": {"a": {"items": [{"$ref": "file:///etc/passwd"}]}}}},
        {"inputSchema": []},
        {"inputSchema": None},
        {"outputSchema": {"type": 3}},
        {"description": "w" * MEBIBYTE},
        {"execution": {"taskSupport": "required"}},
    ],
)
def test_a_tool_that_cannot_be_used_safely_is_refused_with_a_reason_and_costs_no_other(said: dict[str, Any]):
    listing = read_listing([tool(**said), tool(name="good")], False)
    assert [definition.name for definition in listing.tools] == ["good"]
    [(name, reason)] = listing.refused
    assert name == "t"
    assert reason


def test_a_deep_schema_is_refused_and_does_not_end_the_client():
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        schema = {"properties": {"a": schema}}
    listing = read_listing([tool(inputSchema={"properties": {"a": {"allOf": [schema]}}})], False)
    assert listing.tools == ()


def test_names_that_are_no_names_and_doubles_are_refused():
    said = [tool(name="a b"), tool(name=""), tool(name="x" * 200), tool(name=5), "tool", tool(), tool()]
    listing = read_listing(said, False)
    assert [definition.name for definition in listing.tools] == ["t"]
    assert len(listing.refused) == 6


def test_a_description_is_bounded_and_says_so():
    [definition] = read_listing([tool(description="w" * 100_000)], False).tools
    assert len(definition.description) < MOST_DESCRIPTION + 50
    assert "cut" in definition.description


async def test_a_listing_without_end_is_ended():
    asked = 0

    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"tools": [tool(name=f"t{asked}_{index}") for index in range(100)], "nextCursor": str(asked)}

    tools, overflow = await fetch(ask)
    assert overflow
    assert len(tools) == MOST_TOOLS
    assert "more than this device takes" in read_listing(tools, overflow).refused[-1][1]


async def test_a_cursor_that_comes_again_ends_the_listing():
    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [], "nextCursor": "again"}

    assert await fetch(ask) == ([], False)


@pytest.mark.parametrize("cursor", ["", "stuck"])
async def test_a_list_that_repeats_is_offered_once_and_named_once(cursor: str):
    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [tool(name="a"), tool(name="b")], "nextCursor": cursor}

    found, overflow = await fetch(ask)
    listing = read_listing(found, overflow)
    assert [definition.name for definition in listing.tools] == ["a", "b"]
    repeats = (("…", "Its list of tools repeats; each tool is offered once"),)
    assert listing.refused == (repeats if cursor else ())


def test_two_tools_of_one_name_that_differ_are_still_refused():
    listing = read_listing([tool(name="a"), tool(name="a", description="another")], False)
    assert [name for name, reason in listing.refused if "two tools of this name" in reason] == ["a"]


@pytest.mark.parametrize("value", ["", 0, False, [], {}, None, 0.0])
def test_a_falsy_structured_value_is_not_its_absence(value: Any):
    result = result_of({"content": [], "structuredContent": value}, MEBIBYTE)
    assert result == {"content": [], "structured": value}
    assert type(result["structured"]) is type(value)
    assert "structured" not in result_of({"content": []}, MEBIBYTE)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ({"structuredContent": "?"}, "structured,"),
        ({"structuredContent": {"rows": [1, {"a": "?"}]}}, "structured['rows'][1]['a'],"),
        (
            {"content": [{"type": "text", "text": "NaN"}, {"type": "odd", "depth": "?"}]},
            "content[1]['depth'],",
        ),
        (
            {"content": [{"type": "image", "mimeType": "image/png", "data": "", "_meta": {"a": "?"}}]},
            "content[0]['_meta']['a'],",
        ),
        ({"content": [{"type": "text", "text": "x" * MEBIBYTE, "size": "?"}]}, "content[0]['size'],"),
    ],
)
def test_a_number_that_json_cannot_say_is_a_text_and_its_place_is_named(
    answer: dict[str, Any], place: str, number: float
):
    result = result_of(_with(number, answer), MEBIBYTE)
    assert f" at {place}" in result["note"]
    assert ("NaN at" in result["note"]) is math.isnan(number)
    word = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    said = result_of(_with(word, answer), MEBIBYTE)
    assert {key: value for key, value in result.items() if key != "note"} == said


def _with(number: float | str, value: Any) -> Any:
    """The value with the number where a question mark stands."""
    if isinstance(value, dict):
        return {key: _with(number, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with(number, item) for item in value]
    return number if value == "?" else value


def test_a_place_with_a_long_name_is_shortened_and_cannot_hide_anything():
    said = result_of({"structuredContent": {"k\u202e" * 100_000: math.nan}}, MEBIBYTE)["note"]
    assert len(said) < 500
    assert "\u202e" not in said


def test_finding_the_place_takes_no_longer_for_long_names():
    answer = {"structuredContent": {"k" * 100_000: {"NaN" * 100_000: [0] * 100_000 + [math.nan]}}}
    with most_calls(2_000_000):
        said = result_of(answer, MEBIBYTE * 4)["note"]
    assert "[100000]" in said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"content": [], "structuredContent": {"code": "RATE_LIMITED", "retry_after": 30}}, "RATE_LIMITED"),
        ({"structuredContent": ["no", "such", "file"]}, '["no","such","file"]'),
        ({"content": [{"type": "text", "text": "words"}], "structuredContent": {"code": 1}}, "words"),
        ({"content": [], "structuredContent": {}}, "it did not say why"),
        ({"content": [], "structuredContent": {"rate": math.nan}}, "NaN"),
    ],
)
def test_what_a_failed_tool_says_in_structure_only_is_quoted(answer: dict[str, Any], said: str):
    assert said in error_text(answer)
    assert len(error_text({"structuredContent": ["x" * MEBIBYTE]})) < 5_000


def test_a_picture_for_which_there_is_no_room_names_the_limit():
    picture = {"type": "image", "mimeType": "image/png", "data": "A" * MEBIBYTE}
    result = result_of({"content": [picture]}, MEBIBYTE // 2)
    [block] = result["content"]
    assert result["truncated"]
    assert block["omitted"] > MEBIBYTE
    assert f"It takes {block['omitted']:,} bytes" in block["note"]
    assert "on this device" in block["note"]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_tool_whose_schema_has_a_number_that_json_cannot_say_is_refused(number: float):
    odd = tool(inputSchema={"type": "object", "properties": {"a": {"default": number}}})
    listing = read_listing([odd, tool(name="good")], False)
    assert [definition.name for definition in listing.tools] == ["good"]
    assert "at ['inputSchema']['properties']['a']['default']" in listing.refused[0][1]


def test_an_empty_text_is_not_the_absence_of_content():
    assert result_of({"content": [{"type": "text", "text": ""}]}, MEBIBYTE)["content"] == [
        {"type": "text", "text": ""}
    ]
    assert result_of({"content": []}, MEBIBYTE)["content"] == []
    assert result_of({"content": None, "structuredContent": 0}, MEBIBYTE) == {"content": [], "structured": 0}


@pytest.mark.parametrize("meta", [{}, {"wrapped": False, "left": None}])
def test_what_a_server_says_beside_its_answer_is_kept(meta: dict[str, Any]):
    assert result_of({"content": [], "_meta": meta}, MEBIBYTE) == {"content": [], "meta": meta}
    assert result_of({"content": [], "_meta": {**meta, "long": "x" * 9999}}, 9999) == {
        "content": [],
        "truncated": True,
    }
    odd = result_of({"content": [], "_meta": {"a": math.nan}}, MEBIBYTE)
    assert odd["meta"] == {"a": "NaN"}
    assert "NaN at meta['a']" in odd["note"]


def test_a_kind_of_content_that_nobody_knows_yet_is_kept():
    block = {"type": "hologram", "depth": 3, "_meta": {"a": None}}
    assert result_of({"content": [block]}, MEBIBYTE)["content"] == [
        {"type": "hologram", "depth": 3, "meta": {"a": None}}
    ]


@pytest.mark.parametrize(
    "content",
    [
        "text",
        [None],
        [{"text": "no type"}],
        [{"type": "image", "mimeType": "image/png"}],
        [{"type": "image", "data": "not base64!", "mimeType": "image/png"}],
        [{"type": "resource"}],
        [{"type": "resource", "resource": {"uri": "x", "blob": 7}}],
    ],
)
def test_content_that_is_none_is_a_bad_result(content: Any):
    with pytest.raises(DeviceError) as caught:
        result_of({"content": content}, MEBIBYTE)
    assert caught.value.code is ErrorCode.BAD_RESULT


def test_what_has_no_room_is_named_and_the_rest_is_kept():
    picture = base64.b64encode(b"p" * 300_000).decode()
    content = [
        {"type": "text", "text": "first"},
        {"type": "image", "data": picture, "mimeType": "image/png"},
        {"type": "text", "text": "last"},
    ]
    result = result_of({"content": content}, 100_000)
    assert result["truncated"] is True
    assert result["content"][0]["text"] == "first"
    assert result["content"][1]["type"] == "image"
    assert result["content"][1]["omitted"] > 300_000
    assert result["content"][2]["text"] == "last"


def test_a_long_text_is_cut_and_says_so():
    result = result_of({"content": [{"type": "text", "text": 'ä"' * 200_000}]}, 100_000)
    [block] = result["content"]
    assert block["truncated"] is True
    assert 10_000 < len(block["text"]) < 100_000


def test_structured_content_without_room_is_a_failure_and_not_half_a_value():
    with pytest.raises(DeviceError) as caught:
        result_of({"content": [], "structuredContent": {"a": "x" * 200_000}}, 100_000)
    # Not `too_large`, by which a device says that it has not even begun.
    assert caught.value.code is ErrorCode.BAD_RESULT


@pytest.mark.parametrize("media_type", ["image/gif", "image/svg+xml", "IMAGE/X"])
def test_an_image_that_no_console_shows_travels_as_plain_bytes(media_type: str):
    block = {"type": "image", "data": "R0lG", "mimeType": media_type}
    assert result_of({"content": [block]}, MEBIBYTE)["content"] == [
        {
            "type": "image",
            "media_type": "application/octet-stream",
            "image_type": media_type,
            "data_bytes": b"GIF",
        }
    ]


@pytest.mark.parametrize("block", [{"type": "audio", "data": "UklG", "mimeType": "audio/wav"}])
async def test_what_is_no_picture_is_evidence_with_its_own_media_type_and_keeps_what_stood_beside_it(
    block: dict[str, Any],
):
    kept: dict[str, bytes] = {}

    class Blobs:
        async def put_blob(self, data: bytes) -> str:
            kept["a" * 64] = data
            return "a" * 64

    result = result_of({"content": [{**block, "annotations": {"audience": ["user"]}}]}, MEBIBYTE)
    clean, [evidence] = await take_evidence(result, Blobs(), Redaction())
    assert (evidence.media_type, kept["a" * 64]) == ("audio/wav", b"RIF")
    assert clean["content"] == [
        {
            "type": "audio",
            "annotations": {"audience": ["user"]},
            "blob": "a" * 64,
            "media_type": "audio/wav",
            "size": 3,
        }
    ]
