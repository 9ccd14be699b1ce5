"""The nine stages: the refused is never sent, the sent is in the journal first, the lost is unknown."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.aip.messages import Result, ResultStatus
from core.audit.entries import Kind, NewEntry
from core.dispatch.dispatcher import DEFAULT_TIMEOUT
from core.dispatch.models import LISTED_PAIRS, Basis, Verdict
from core.dispatch.order import Order
from core.dispatch.outcome import make_result
from core.errors import DeviceError, ErrorCode, JournalUnavailable
from core.fleet.models import Health
from core.home import Home
from core.policy.models import Profile
from core.policy.operator_keys import statement_for
from tests.fakes.pace import slowness
from tests.fakes.rig import DEVICE, TEXT, USUAL_TOOLS, Rig, open_rig, tool_info

SMALL_PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000"
        "050001a5f645400000000049454e44ae426082"
    )
).decode()


async def refused(rig: Rig, tool: str, parameters: dict[str, object]) -> ErrorCode:
    """Dispatch, and hold it to the promise of every refusal: nothing seen, journalled, a next step given."""
    seen = len(rig.tools.seen)
    result = await rig.dispatcher.dispatch(Order(DEVICE, tool, parameters, "operator:anna"))
    assert result.error
    assert result.error.next
    assert result.verdict is Verdict.REFUSED
    assert result.status is ResultStatus.FAILURE
    assert len(rig.tools.seen) == seen
    entries = [one for one in await rig.entries() if one.call_id == result.call_id]
    assert entries[-1].kind is Kind.COMMAND_REFUSED
    assert entries[-1].body["result"]["error"]["code"] == result.error.code
    assert not {Kind.INTENT_RECORDED, Kind.COMMAND_SENT} & {one.kind for one in entries}
    return result.error.code


def deep(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("tool", "parameters", "code"),
    [
        ("no_such_tool", {}, ErrorCode.UNKNOWN_TOOL),
        ("get_system_info", {}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": "memory", "extra": 1}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": 5}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": None}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": "me\x00mory"}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": float("nan")}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": 2**60}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": "\ud800"}, ErrorCode.INVALID_ARGUMENTS),
        ("read_file", {"file_path": "/tmp/a\nb"}, ErrorCode.INVALID_ARGUMENTS),
        ("read_file", {"file_path": ""}, ErrorCode.INVALID_ARGUMENTS),
        ("read_file", {"file_path": "/" + "a" * 5000}, ErrorCode.TOO_LARGE),
        ("write_file", {"file_path": "/tmp/x", "content": "x" * (50 << 20)}, ErrorCode.TOO_LARGE),
        ("get_system_info", {"info_type": deep(100)}, ErrorCode.TOO_LARGE),
        ("get_system_info", {"info_type": [0] * 200_000}, ErrorCode.TOO_LARGE),
    ],
)
async def test_bad_arguments_are_refused_with_a_clear_error_and_never_sent(
    home: Home, tool: str, parameters: dict[str, object], code: ErrorCode
):
    async with open_rig(home) as rig:
        assert await refused(rig, tool, parameters) is code


async def test_hardening_reaches_into_lists_and_objects(home: Home):
    nested = tool_info("nested", "action", {"rows": {"type": "array"}})
    async with open_rig(home, [nested]) as rig:
        for rows in ([{"name": ["a\x00b"]}], [{"file_path": "/tmp/\x1b[31m"}], [{"a\x00": 1}]):
            assert await refused(rig, "nested", {"rows": rows}) is ErrorCode.INVALID_ARGUMENTS


async def test_a_path_outside_the_roots_is_refused_also_through_a_symlink(home: Home, tmp_path: Path):
    root = tmp_path / "allowed"
    root.mkdir()
    (root / "way out").symlink_to("/etc")
    async with open_rig(home) as rig:
        await rig.connect(roots=[root])
        for path in ("/etc/passwd", f"{root}/../secret", f"{root}/way out/passwd", "~root/x", "relative"):
            assert await refused(rig, "read_file", {"file_path": path}) is ErrorCode.PATH_NOT_ALLOWED
        allowed = await rig.call("read_file", file_path=f"{root}/inside")
        assert allowed.status is ResultStatus.SUCCESS


async def test_an_unknown_device_and_a_device_that_is_away_are_told_apart(home: Home):
    async with open_rig(home) as rig:
        nobody = await rig.dispatcher.dispatch(Order("nobody", "screenshot", {}, "operator:anna"))
        assert nobody.error
        assert nobody.error.code is ErrorCode.UNKNOWN_DEVICE
        rig.fleet.lost(DEVICE, None, "unplugged", Health.OFFLINE)
        assert await refused(rig, "screenshot", {}) is ErrorCode.DEVICE_OFFLINE


@pytest.mark.parametrize(
    ("profile", "tool", "parameters", "expected"),
    [
        (Profile.OBSERVE, "screenshot", {}, "allow"),
        (Profile.OBSERVE, "write_file", {"file_path": "/tmp/x", "content": ""}, "deny"),
        (Profile.OBSERVE, "shell_execute", {"command": "true"}, "deny"),
        (Profile.GUARDED, "screenshot", {}, "allow"),
        (Profile.GUARDED, "write_file", {"file_path": "/tmp/x", "content": ""}, "ask"),
        (Profile.GUARDED, "shell_execute", {"command": "true"}, "ask"),
        (Profile.TRUSTED, "write_file", {"file_path": "/tmp/x", "content": ""}, "allow"),
        (Profile.TRUSTED, "shell_execute", {"command": "true"}, "ask"),
        (Profile.LOCKDOWN, "screenshot", {}, "ask"),
    ],
)
async def test_each_profile_lets_through_exactly_what_it_says(
    home: Home, profile: Profile, tool: str, parameters: dict[str, str], expected: str
):
    home.policy.write_text(f'profile = "{profile.value}"\n')
    async with open_rig(home) as rig:
        decision = rig.dispatcher.explain(DEVICE, tool, parameters)
        assert decision.answer.value == expected
        if expected == "deny":
            assert await refused(rig, tool, parameters) is ErrorCode.DENIED_BY_POLICY
        elif expected == "allow":
            result = await rig.call(tool, **parameters)
            assert result.status is ResultStatus.SUCCESS
            assert result.decision == decision


@pytest.mark.parametrize(
    "broken",
    [
        "profile = ",
        'profile = "open"',
        'profle = "trusted"',
        '[[profiles]]\nprofile = "trusted"\nx = 1',
        "\xff",
    ],
)
async def test_with_a_broken_policy_everything_asks(home: Home, broken: str):
    home.policy.write_bytes(broken.encode("latin-1"))
    async with open_rig(home) as rig:
        decision = rig.dispatcher.explain(DEVICE, "screenshot", {})
        assert decision.answer.value == "ask"
        assert "policy.toml" in decision.reasons[0].origin


async def test_a_device_cannot_talk_its_own_tool_into_low_risk(home: Home):
    claims = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    meta = {"quarterdeck": {"effect": "observe", "risk": "low", "reversible": True}}
    liars = [
        tool_info("wipe", "data_collection", namespace="stranger", annotations=claims, meta=meta),
        tool_info("screenshot", "data_collection", namespace="stranger", annotations=claims, meta=meta),
        tool_info("get_system_info", "action", annotations=claims, meta=meta),
    ]
    async with open_rig(home, liars) as rig:
        for tool in ("wipe", "screenshot", "get_system_info"):
            decision = rig.dispatcher.explain(DEVICE, tool, {})
            assert (decision.answer.value, decision.risk.value, decision.effect.value) == (
                "ask",
                "high",
                "unknown",
            )


async def test_a_device_may_raise_the_risk_of_its_tools(home: Home):
    worse = tool_info("screenshot", "data_collection", annotations={"destructiveHint": True})
    async with open_rig(home, [worse]) as rig:
        assert rig.dispatcher.explain(DEVICE, "screenshot", {}).answer.value == "ask"


async def test_a_tool_whose_definition_changed_is_blocked_until_it_is_reviewed(home: Home):
    async with open_rig(home) as rig:
        assert (await rig.call("screenshot")).status is ResultStatus.SUCCESS
        rig.tools.infos = [
            info.model_copy(update={"description": "now also deletes"})
            if info.tool_name == "screenshot"
            else info
            for info in USUAL_TOOLS
        ]
        await rig.connect()
        assert await refused(rig, "screenshot", {}) is ErrorCode.CONTRACT_CHANGED
        assert Kind.CONTRACT_CHANGED in [one.kind for one in await rig.entries()]
        [tool] = [one for one in rig.fleet.tools(DEVICE) if one.changed]
        await rig.fleet.review(DEVICE, tool.tool_key, tool.contract.digest, "operator:anna")
        assert (await rig.call("screenshot")).status is ResultStatus.SUCCESS


async def test_an_action_is_durable_in_the_journal_before_the_device_sees_it(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        found: list[tuple[str, str]] = []

        def look(command):
            with sqlite3.connect(f"file:{home.path / 'journal.db'}?mode=ro", uri=True) as database:
                rows = [json.loads(row[0]) for row in database.execute("select entry from entries")]
            found.extend(
                (row["kind"], row["call_id"]) for row in rows if row.get("call_id") == command.call_id
            )
            return {"ok": True}

        rig.tools.answers["write_file"] = look
        result = await rig.call("write_file", file_path="/tmp/x", content="")
        assert (Kind.INTENT_RECORDED.value, result.call_id) in found


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [("write_file", {"file_path": "/tmp/x", "content": "x"}), ("screenshot", {})],
)
async def test_while_the_journal_cannot_be_written_nothing_is_sent(
    home: Home, tool: str, parameters: dict[str, str]
):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        rig.disk.broken = True
        result = await rig.call(tool, **parameters)
        assert result.error
        assert result.error.code is ErrorCode.JOURNAL_UNAVAILABLE
        assert rig.tools.seen == []
        rig.disk.broken = False
        assert (await rig.call(tool, **parameters)).status is ResultStatus.SUCCESS


async def test_an_outcome_that_could_not_be_written_is_written_when_the_journal_is_back(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:

        def fill_the_disk(command):
            rig.disk.broken = True
            return {"ok": True}

        rig.tools.answers["write_file"] = fill_the_disk
        result = await rig.call("write_file", file_path="/tmp/x", content="")
        assert result.status is ResultStatus.SUCCESS
        rig.disk.broken = False
        written = asyncio.Event()
        rig.journal.subscribe(
            lambda entries: written.set() if entries[0].kind is Kind.RESULT_RECORDED else None
        )
        await asyncio.wait_for(written.wait(), 10)
        kinds = [one.kind for one in await rig.entries() if one.call_id == result.call_id]
        assert kinds[-1] is Kind.RESULT_RECORDED


async def test_a_change_whose_answer_was_lost_is_unknown_and_is_not_sent_twice(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:

        def cut(command):
            raise DeviceError("The link was lost.", ErrorCode.OUTCOME_UNKNOWN)

        rig.tools.answers["write_file"] = cut
        result = await rig.call("write_file", file_path="/tmp/x", content="")
        assert result.verdict is Verdict.UNKNOWN
        assert result.status is ResultStatus.NONE
        assert result.error
        assert result.error.code is ErrorCode.OUTCOME_UNKNOWN
        assert len(rig.tools.seen) == 1


async def test_a_read_whose_answer_was_lost_may_be_asked_again(home: Home):
    async with open_rig(home) as rig:

        def cut(command):
            raise DeviceError("No answer in time.", ErrorCode.OUTCOME_UNKNOWN)

        rig.tools.answers["screenshot"] = cut
        result = await rig.call("screenshot")
        assert result.error
        assert result.error.code is ErrorCode.TIMEOUT


@pytest.mark.parametrize(
    "payload",
    [
        {"exit_code": 1, "stderr": "no such file"},
        {"success": False, "error": "wrong key"},
        {"error": "it did not work"},
    ],
)
async def test_a_failure_inside_a_successful_answer_is_a_failure(home: Home, payload: dict[str, object]):
    async with open_rig(home) as rig:
        rig.tools.answers["get_system_info"] = lambda command: payload
        result = await rig.call("get_system_info", info_type="memory")
        assert result.status is ResultStatus.FAILURE
        assert result.error
        assert result.error.code is ErrorCode.TOOL_FAILED
        assert result.result == payload


async def test_what_a_device_claims_of_a_change_is_unverified_and_what_it_reads_is_confirmed(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        read = await rig.call("get_system_info", info_type="memory")
        assert (read.verdict, read.basis) == (Verdict.CONFIRMED, Basis.READ_RESPONSE)
        wrote = await rig.call("write_file", file_path="/tmp/x", content="")
        assert (wrote.verdict, wrote.basis) == (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)


async def test_only_listed_pairs_of_verdict_and_basis_can_be_made(home: Home):
    async with open_rig(home) as rig:
        request = (await _prepared(rig)).request
        for verdict in Verdict:
            for basis in Basis:
                listed = (verdict, basis) in LISTED_PAIRS
                try:
                    make_result(
                        request,
                        None,
                        status=ResultStatus.SUCCESS,
                        verdict=verdict,
                        basis=basis,
                        duration_ms=0,
                    )
                except AssertionError:
                    assert not listed
                else:
                    assert listed
        assert (Verdict.CONFIRMED, Basis.DEVICE_CLAIM) not in LISTED_PAIRS


async def _prepared(rig: Rig):
    task = rig.start("shell_execute", command="true")
    approval = await asyncio.wait_for(rig.asked.get(), 20)
    rig.approvals.withdraw("enough")
    await task
    return approval


@pytest.mark.parametrize(
    "image",
    [
        {"data_base64": base64.b64encode(b"not a picture at all").decode(), "media_type": "image/png"},
        {"data_base64": "%%%", "media_type": "image/png"},
        {"data_base64": 5},
        {"data_base64": SMALL_PNG[:-40]},
        {"data_base64": base64.b64encode(b"<svg onload='x'/>").decode(), "media_type": "image/svg+xml"},
    ],
)
async def test_a_screenshot_that_is_not_an_image_is_a_bad_result_and_its_bytes_are_kept(
    home: Home, image: dict[str, object]
):
    async with open_rig(home) as rig:
        rig.tools.answers["screenshot"] = lambda command: {"image": image, "width": 1, "height": 1}
        result = await rig.call("screenshot")
        assert result.error
        assert result.error.code is ErrorCode.BAD_RESULT
        assert result.verdict is Verdict.UNKNOWN
        [kept] = result.evidence
        assert len(await rig.journal.get_blob(kept.blob)) == kept.size


async def test_a_picture_becomes_a_blob_and_never_stands_in_the_journal_itself(home: Home):
    async with open_rig(home) as rig:
        rig.tools.answers["screenshot"] = lambda command: {"image": {"data_base64": SMALL_PNG}}
        result = await rig.call("screenshot")
        assert result.error is None
        [picture] = result.evidence
        assert result.result["image"]["blob"] == picture.blob
        assert await rig.journal.get_blob(picture.blob) == base64.b64decode(SMALL_PNG)
        [entry] = [one for one in await rig.entries() if one.kind is Kind.RESULT_RECORDED and one.blobs]
        assert entry.blobs == [picture.blob]
        assert SMALL_PNG not in entry.model_dump_json()


async def test_a_large_text_is_kept_whole_as_a_blob_with_its_head_in_the_result(home: Home):
    async with open_rig(home) as rig:
        text = "line\n" * 100_000
        rig.tools.answers["read_file"] = lambda command: {"content": text}
        result = await rig.call("read_file", file_path="/tmp/x")
        content = result.result["content"]
        assert (await rig.journal.get_blob(content["blob"])).decode() == text
        assert content["head"] == text[: len(content["head"])]


async def test_secrets_reach_neither_the_card_nor_any_file_of_the_home(home: Home):
    secret = "correct horse battery staple"
    login = tool_info(
        "login",
        "action",
        {
            "user": TEXT,
            "word": {"type": "string", "format": "password"},
            "more": {"type": "object", "properties": {"x": {"type": "string", "writeOnly": True}}},
            "api_key": TEXT,
        },
    )
    async with open_rig(home, [login]) as rig:
        task = rig.start("login", user="anna", word=secret, more={"x": secret}, api_key=secret)
        approval = await asyncio.wait_for(rig.asked.get(), 20)
        assert secret not in approval.model_dump_json()
        assert approval.request.parameters["user"] == "anna"
        await rig.approvals.decide(_signed(rig, approval))
        assert (await task).status is ResultStatus.SUCCESS
        assert rig.tools.seen[0].parameters["word"] == secret
        broken = await rig.call("login", word=5, api_key=secret)
        assert secret not in broken.model_dump_json()
        await rig.entries()
    for path in home.path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def _signed(rig: Rig, approval):
    from core.policy.operator_keys import statement_for

    return rig.key.sign(statement_for(approval, "approve", "anna", ""))


async def test_stopping_withdraws_what_waits_and_lets_nothing_leave_until_resumed(home: Home):
    async with open_rig(home) as rig:
        waiting = rig.start("shell_execute", command="true")
        await asyncio.wait_for(rig.asked.get(), 20)
        rig.dispatcher.stop("Stopped by anna.")
        rig.approvals.withdraw("Stopped by anna.")
        assert (await waiting).error.code is ErrorCode.STOPPED
        assert await refused(rig, "screenshot", {}) is ErrorCode.STOPPED
        rig.dispatcher.resume()
        assert (await rig.call("screenshot")).status is ResultStatus.SUCCESS


async def test_a_command_waits_as_long_as_its_own_timeout_and_a_little_more(home: Home):
    async with open_rig(home) as rig:
        deadline = rig.dispatcher._deadline
        assert deadline(Order(DEVICE, "t", {}, "a")) == DEFAULT_TIMEOUT
        assert deadline(Order(DEVICE, "t", {"timeout": 300}, "a")) > 300
        assert deadline(Order(DEVICE, "t", {"timeout": True}, "a")) == DEFAULT_TIMEOUT
        assert deadline(Order(DEVICE, "t", {}, "a", timeout=5)) == 5
        assert deadline(Order(DEVICE, "t", {"timeout": 1e12}, "a")) <= 86_400


async def test_a_skipped_result_is_not_called_done(home: Home):
    async with open_rig(home) as rig:
        rig.tools.answers["screenshot"] = lambda command: Result(status=ResultStatus.SKIPPED, error="skipped")
        assert (await rig.call("screenshot")).status is ResultStatus.SKIPPED


async def test_what_could_not_leave_for_the_disk_is_never_written_as_sent(home: Home):
    async with open_rig(home) as rig:
        note_all = rig.disk.note_all

        def full(entries: list[NewEntry]) -> None:
            if any(one.kind is Kind.COMMAND_SENT for one in entries):
                raise JournalUnavailable("The disk is full.")
            note_all(entries)

        rig.disk.note_all = full
        result = await rig.call("get_system_info", info_type="cpu")
        assert result.basis is Basis.NOTHING_SENT
        kinds = [one.kind for one in await rig.entries(f"call:{result.call_id}")]
        assert Kind.COMMAND_SENT not in kinds
        assert Kind.RESULT_RECORDED in kinds
        assert not rig.tools.seen


async def test_a_signature_that_ran_out_before_the_last_approver_came_sends_nothing(home: Home):
    home.policy.write_text('[[rule]]\nid = "two"\ndecision = "ask"\napprovers = 2\n')
    async with open_rig(home) as rig:
        other = rig.add_operator("bert")
        order = Order(DEVICE, "write_file", {"file_path": "/tmp/x", "content": "y"}, "agent:claude")
        call = rig.tasks.spawn("call write_file", rig.dispatcher.dispatch(order))
        waiting = await asyncio.wait_for(rig.asked.get(), 10)
        short = statement_for(waiting, "approve", "anna", valid_s=0.5 * slowness())
        await rig.approvals.decide(rig.key.sign(short))
        # Nothing but the time itself is waited for.
        await asyncio.sleep(
            (datetime.fromisoformat(short.expires) - datetime.now(UTC)).total_seconds() + 0.01
        )
        await rig.approvals.decide(other.sign(statement_for(waiting, "approve", "bert")))
        result = await call
        assert result.basis is Basis.NOTHING_SENT
        assert result.error is not None
        assert result.error.code is ErrorCode.APPROVAL_INVALID
        assert not rig.tools.seen


async def test_a_tools_name_of_any_length_is_refused_in_few_words(home: Home):
    async with open_rig(home) as rig:
        result = await rig.call("x" * 100_000)
        assert result.error is not None
        assert result.error.code is ErrorCode.UNKNOWN_TOOL
        assert len(result.error.message) < 400
