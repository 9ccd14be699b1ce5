"""What becomes of an answer: the lost is unknown, the claimed unverified, what is large a blob."""

from __future__ import annotations

import asyncio
import base64

import pytest

from core.aip.messages import Result, ResultStatus
from core.audit.entries import Kind
from core.commands.results import LISTED_PAIRS, Basis, Verdict
from core.dispatch.outcome import make_result
from core.errors import DeviceError, ErrorCode
from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import Rig, open_rig

SMALL_PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000"
        "050001a5f645400000000049454e44ae426082"
    )
).decode()


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
    approval = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
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


async def test_a_skipped_result_is_not_called_done(home: Home):
    async with open_rig(home) as rig:
        rig.tools.answers["screenshot"] = lambda command: Result(status=ResultStatus.SKIPPED, error="skipped")
        assert (await rig.call("screenshot")).status is ResultStatus.SKIPPED
