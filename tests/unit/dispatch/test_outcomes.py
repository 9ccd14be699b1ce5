"""What is concluded from answers as stock clients give them: success that is none, nulls, silence, skips."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.aip.messages import Result, ResultStatus
from core.audit.entries import Kind
from core.batch.live_run import cell_state_of
from core.batch.models import CellState
from core.cli.results import result_text
from core.commands.results import Basis, CommandResult, Verdict
from core.dispatch.outcome import GUARD_CODES, NO_VALUE, STOCK_NULLS, TARGET_CODES, failure_in
from core.dispatch.result_sanitizer import LARGE_TEXT
from core.errors import DeviceError, ErrorCode
from core.home import Home
from core.next_steps import ADVICE
from tests.fakes.rig import DEVICE, USUAL_TOOLS, Rig, open_rig, tool_info

# The shapes in which stock tools say that they failed, while the frame says `success`.
FAILED: list[tuple[Any, str]] = [
    (
        {"success": False, "exit_code": 2, "stdout": "", "stderr": "ls: cannot access '/x': No such file\n"},
        "Exit code 2: ls: cannot access '/x': No such file",
    ),
    ({"success": True, "exit_code": 1}, "Exit code 1."),
    ({"returncode": -9, "stderr": ""}, "Exit code -9."),
    (
        {"success": False, "error": "Authentication failed. Invalid or missing API key."},
        "The tool says it did not succeed: Authentication failed. Invalid or missing API key.",
    ),
    ({"success": False}, "The tool says it did not succeed."),
    ({"success": False, "message": "busy"}, "The tool says it did not succeed: busy"),
    ({"error": "no such window"}, "no such window"),
    ({"error": {"code": -32602, "message": "bad argument\nsecond line"}}, "bad argument"),
    ({"result": {"success": False, "error": "locked"}}, "The tool says it did not succeed: locked"),
    (
        {"result": {"exit_code": 127, "stderr": "sh: 1: foo: not found"}},
        "Exit code 127: sh: 1: foo: not found",
    ),
    ({"structuredContent": {"error": "gone"}, "content": []}, "gone"),
    (
        {"isError": True, "content": [{"type": "text", "text": "deliberate"}]},
        "The tool reports an error: deliberate",
    ),
    # As our own hosting of MCP servers passes them on.
    (
        {"content": [], "structured": {"success": False, "exit_code": 2, "stderr": "ls: no such file"}},
        "Exit code 2: ls: no such file",
    ),
    (
        {"content": [], "structured": {"result": {"error": "No presentation is loaded"}}},
        "No presentation is loaded",
    ),
    (
        {"content": [], "structured": {"result": '{"success": false, "error": "no such arm"}'}},
        "The tool says it did not succeed: no such arm",
    ),
    (
        {"content": [{"type": "text", "text": ' {"success": false,\n"error": "locked"}'}]},
        "The tool says it did not succeed: locked",
    ),
    (
        {"content": [{"type": "text", "text": "ran:"}, {"type": "text", "text": '{"exit_code": 3}'}]},
        "Exit code 3.",
    ),
    ({"content": [{"type": "text", "text": '{"error": "gone"}'}], "structured": {}}, "gone"),
    ('{"success": false}', "The tool says it did not succeed."),
    ({"result": '{"error": {"message": "not there"}}'}, "not there"),
    ({"exit_code": 2.0}, "Exit code 2."),
    ({"exit_code": 3221225477}, "Exit code 3221225477."),
]
# What looks like a failure and is none: the answer to a question, a log file, a warning.
FINE: list[Any] = [
    {"exit_code": 0, "stderr": "warning: old option", "error": "ignored"},
    {"exit_code": False},
    {"success": True, "error": "3 warnings"},
    {"error": ""},
    {"error": None},
    {"error": 0},
    {"error": []},
    {"ok": False},
    {"status": "failed", "job": 7},
    {"success": "false"},
    {"disk": {"error": "unreadable"}},
    {"result": {"deeper": {"error": "unreadable"}}},
    [{"error": "in a list of things looked at"}],
    {"structured": {"result": [{"error": "in a list of things looked at"}]}, "content": []},
    {"content": [{"type": "text", "text": '{"name": "a"}'}, {"type": "text", "text": '{"error": "unread"}'}]},
    # The text of a file that was read, beside the structured part that says so.
    {"content": [{"type": "text", "text": '{"error": "x"}'}], "structured": {"content": '{"error": "x"}'}},
    {"content": [{"type": "text", "text": '{"error": "x"'}]},
    {"content": [{"type": "text", "text": '{"stdout": "said: success: false"}'}]},
    {"content": [{"type": "image", "data": "{"}, None, {"type": "text"}], "structured": None},
    "[" * 10_000,
    '{"error": ' * 10_000,
    "Error: the first line of a log file",
    0,
    False,
    "",
]


@pytest.mark.parametrize(("payload", "words"), FAILED)
async def test_a_failure_in_the_payload_is_a_failure_with_the_tools_own_words(
    home: Home, payload: Any, words: str
):
    async with open_rig(home) as rig:
        result = await _answered(rig, payload)
        assert result.status is ResultStatus.FAILURE
        assert result.error is not None
        assert (result.error.code, result.error.message) == (ErrorCode.TOOL_FAILED, words)
        assert result.basis is Basis.DEVICE_REPORTED_FAILURE
        assert result.result == payload
        assert cell_state_of(result).value == "failed"


async def test_a_failure_is_read_before_secrets_are_masked_and_large_texts_are_stored_apart(home: Home):
    async with open_rig(home) as rig:
        words = json.dumps({"success": False, "error": "no", "log": "x" * (LARGE_TEXT + 1)})
        result = await _answered(rig, {"content": [{"type": "text", "text": words}]})
        assert result.evidence
        assert result.error is not None
        assert result.error.message == "The tool says it did not succeed: no"
        token = "ghp_" + "a1B2" * 9
        result = await _answered(rig, {"structured": {"error": f"{token} is not valid"}})
        assert result.error is not None
        assert result.error.code is ErrorCode.TOOL_FAILED
        assert token not in result.model_dump_json()


@pytest.mark.parametrize("payload", FINE)
def test_what_only_looks_like_a_failure_is_none(payload: Any):
    assert failure_in(payload) is None


async def test_falsy_values_of_our_own_devices_stay_what_they_are(home: Home):
    async with open_rig(home) as rig:
        for value in ("", 0, False, [], {}):
            result = await _answered(rig, value)
            assert (result.status, result.note) == (ResultStatus.SUCCESS, "")
            assert result.result == value
            assert type(result.result) is type(value)


async def test_a_read_that_brings_null_says_that_no_value_came_back(home: Home):
    async with open_rig(home) as rig:
        result = await _answered(rig, None)
        assert (result.status, result.verdict) == (ResultStatus.SUCCESS, Verdict.CONFIRMED)
        assert result.note == NO_VALUE
        assert NO_VALUE in "\n".join(map(str, result_text(result)))
        recorded = [entry for entry in await rig.entries() if entry.kind is Kind.RESULT_RECORDED]
        assert recorded[-1].body["result"]["note"] == NO_VALUE


async def test_of_a_stock_client_it_is_said_that_null_may_have_been_something_falsy(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        target = rig.fleet.target
        stock = target(DEVICE).device.model_copy(update={"direction": "in", "features": []})

        def stock_target(device: str) -> Any:
            found = target(device)
            return type(found)(stock, found.tools, found.channel, found.roots)

        rig.fleet.target = stock_target  # type: ignore[method-assign]
        assert (await _answered(rig, None)).note == f"{NO_VALUE} {STOCK_NULLS}"
        # Stock agents list nearly all their tools as actions, those that count and ask among them.
        rig.tools.answers["write_file"] = lambda command: Result(status=ResultStatus.SUCCESS)
        acted = await rig.call("write_file", file_path="/tmp/x", content="")
        assert (acted.verdict, acted.note) == (Verdict.UNVERIFIED, f"{NO_VALUE} {STOCK_NULLS}")


async def test_an_action_that_brings_nothing_is_not_remarked_upon(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        rig.tools.answers["write_file"] = lambda command: Result(status=ResultStatus.SUCCESS)
        result = await rig.call("write_file", file_path="/tmp/x", content="")
        assert (result.verdict, result.note) == (Verdict.UNVERIFIED, "")


async def test_a_tool_cannot_speak_with_the_voice_of_the_guard(home: Home):
    async with open_rig(home) as rig:
        for words in ("invalid_arguments: no", "cancelled: by me", "denied_by_device: no"):
            result = await _answered(rig, {"error": words})
            assert result.error is not None
            assert result.error.code is ErrorCode.TOOL_FAILED
            assert result.verdict is Verdict.UNVERIFIED


async def test_a_status_that_says_nothing_leaves_a_change_unknown(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        for tool, arguments in (
            ("write_file", {"file_path": "/tmp/x", "content": ""}),
            ("get_system_info", {"info_type": "memory"}),
        ):
            rig.tools.answers[tool] = lambda command: Result(status=ResultStatus.NONE, error="who knows")
            result = await rig.call(tool, **arguments)
            assert (result.verdict, result.basis) == (Verdict.UNKNOWN, Basis.UNUSABLE_ANSWER)
            assert result.error is not None
            assert "who knows" in result.error.message


@pytest.mark.parametrize(
    ("said", "basis", "of_a_read"),
    [
        (
            "outcome_unknown: may still do so",
            Basis.DEVICE_DOES_NOT_KNOW,
            (Verdict.UNVERIFIED, ErrorCode.TIMEOUT),
        ),
        (
            "bad_result: ran, but the answer is too large",
            Basis.UNUSABLE_ANSWER,
            (Verdict.UNKNOWN, ErrorCode.BAD_RESULT),
        ),
    ],
)
async def test_a_change_that_may_have_happened_by_the_devices_own_word_is_unknown_and_never_failed(
    home: Home, said: str, basis: Basis, of_a_read: tuple[Verdict, ErrorCode]
):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        for tool in ("write_file", "get_system_info"):
            rig.tools.answers[tool] = lambda command: Result(
                status=ResultStatus.FAILURE, error=said, result={"seen": 1}, call_id=command.call_id
            )
        wrote = await rig.call("write_file", file_path="/tmp/x", content="")
        assert (wrote.status, wrote.verdict, wrote.basis) == (ResultStatus.NONE, Verdict.UNKNOWN, basis)
        assert wrote.result == {"seen": 1}
        assert wrote.error is not None
        assert f"{wrote.error.code.value}: {wrote.error.message}" == said
        assert cell_state_of(wrote) is CellState.UNKNOWN
        read = await rig.call("get_system_info", info_type="memory")
        assert read.error is not None
        assert (read.status, read.verdict, read.error.code) == (ResultStatus.FAILURE, *of_a_read)
        assert cell_state_of(read) is CellState.FAILED


@pytest.mark.parametrize("said", ["timeout: is not waited for any more", "cancelled: was stopped"])
async def test_what_a_device_took_for_a_look_and_broke_off_may_have_happened(home: Home, said: str):
    """Its client breaks off looks at no harm; only its server's hint says that this was one."""
    home.policy.write_text('[[rule]]\nid = "r"\ndecision = "allow"\ntool = "peek"\nrisk = ">=low"\n')
    peek = tool_info("peek", "data_collection", namespace="stranger", annotations={"readOnlyHint": True})
    async with open_rig(home, [*USUAL_TOOLS, peek]) as rig:
        for tool in ("peek", "get_system_info"):
            rig.tools.answers[tool] = lambda command: Result(status=ResultStatus.FAILURE, error=said)
        result = await rig.call("peek")
        assert (result.status, result.verdict) == (ResultStatus.NONE, Verdict.UNKNOWN)
        assert result.error is not None
        assert result.error.code is ErrorCode.OUTCOME_UNKNOWN
        known = await rig.call("get_system_info", info_type="memory")
        assert known.error is not None
        assert known.verdict is not Verdict.UNKNOWN


async def test_a_skipped_command_is_skipped_with_the_devices_reason(home: Home):
    async with open_rig(home) as rig:
        early = "Skipped due to previous failure (early_exit=True)."
        rig.tools.answers["screenshot"] = lambda command: Result(status=ResultStatus.SKIPPED, error=early)
        result = await rig.call("screenshot")
        assert result.status is ResultStatus.SKIPPED
        assert result.verdict is Verdict.UNVERIFIED
        assert result.error is not None
        assert result.error.message == early


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"deep": [float("-inf")]}, {"a": {1, 2}}])
async def test_an_answer_that_is_no_json_is_unusable_and_a_change_by_it_unknown(home: Home, value: Any):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        read = await _answered(rig, value)
        assert (read.verdict, read.basis) == (Verdict.UNKNOWN, Basis.UNUSABLE_ANSWER)
        assert read.error is not None
        assert read.error.code is ErrorCode.BAD_RESULT
        rig.tools.answers["write_file"] = lambda command: value
        wrote = await rig.call("write_file", file_path="/tmp/x", content="")
        assert (wrote.status, wrote.verdict) == (ResultStatus.NONE, Verdict.UNKNOWN)


async def test_silence_ends_at_our_own_deadline_as_unknown_and_never_blocks_what_follows(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:

        async def never(command: Any, deadline_s: float) -> Result:
            raise DeviceError("bench did not answer within 60 s", ErrorCode.OUTCOME_UNKNOWN)

        answering, rig.tools.run = rig.tools.run, never  # type: ignore[method-assign]
        wrote = await rig.call("write_file", file_path="/tmp/x", content="")
        assert wrote.error is not None
        assert (wrote.verdict, wrote.error.code) == (Verdict.UNKNOWN, ErrorCode.OUTCOME_UNKNOWN)
        read = await rig.call("get_system_info", info_type="memory")
        assert read.error is not None
        assert (read.verdict, read.error.code) == (Verdict.UNKNOWN, ErrorCode.TIMEOUT)
        rig.tools.run = answering  # type: ignore[method-assign]
        assert (await rig.call("get_system_info", info_type="memory")).error is None


@pytest.mark.parametrize("code", [ErrorCode.TIMEOUT, ErrorCode.TOOL_FAILED, ErrorCode.INTERNAL])
async def test_a_change_without_an_answer_is_never_free_to_be_tried_again(home: Home, code: ErrorCode):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:

        def lost(command: Any) -> None:
            raise DeviceError("It went wrong on the way.", code)

        for tool in ("write_file", "get_system_info"):
            rig.tools.answers[tool] = lost
        wrote = await rig.call("write_file", file_path="/tmp/x", content="")
        assert wrote.error is not None
        assert (wrote.status, wrote.error.code) == (ResultStatus.NONE, ErrorCode.OUTCOME_UNKNOWN)
        read = await rig.call("get_system_info", info_type="memory")
        assert read.error is not None
        assert read.error.code is code


@pytest.mark.parametrize("code", sorted(GUARD_CODES))
async def test_what_the_guard_of_a_device_refused_did_not_run(home: Home, code: ErrorCode):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        rig.tools.answers["write_file"] = lambda command: Result(
            status=ResultStatus.FAILURE, error=f"{code.value}: not here"
        )
        wrote = await rig.call("write_file", file_path="/tmp/x", content="")
        assert (wrote.verdict, wrote.basis) == (Verdict.REFUSED, Basis.DEVICE_REFUSED)
        assert wrote.error is not None
        assert wrote.error.code is code


@pytest.mark.parametrize("code", sorted(TARGET_CODES))
async def test_what_was_not_pressed_is_refused_with_a_next_step_that_fits(home: Home, code: ErrorCode):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        rig.tools.answers["write_file"] = lambda command: Result(
            status=ResultStatus.FAILURE, error=f"{code.value}: not now"
        )
        pressed = await rig.call("write_file", file_path="/tmp/x", content="")
        assert (pressed.verdict, pressed.basis) == (Verdict.REFUSED, Basis.DEVICE_REFUSED)
        assert pressed.error is not None
        assert (pressed.error.code, pressed.error.message) == (code, "not now")
        assert pressed.error.next not in ("", ADVICE[ErrorCode.TOOL_FAILED].person)


async def _answered(rig: Rig, value: Any) -> CommandResult:
    rig.tools.answers["get_system_info"] = lambda command: value
    return await rig.call("get_system_info", info_type="memory")
