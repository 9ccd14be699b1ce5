"""What no entry can hold: that it came is journalled all the same, and it ends only its own command."""

from __future__ import annotations

from core.audit.encode import MAX_ENTRY_BYTES
from core.audit.entries import Kind, NewEntry
from core.dispatch.late import PendingWrites
from core.dispatch.models import Basis, Verdict
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.rig import DEVICE, open_rig

RECORDED = Kind.RESULT_RECORDED
# Names of members are kept as they are, whereas long texts go into blobs.
HUGE = {"k" * (MAX_ENTRY_BYTES + 1): 1}


async def test_an_answer_that_no_entry_can_hold_is_a_bad_result_and_journalled(home: Home) -> None:
    async with open_rig(home) as rig:
        rig.tools.answers["get_system_info"] = lambda command: HUGE
        result = await rig.call("get_system_info", info_type="memory")
        assert result.error is not None
        assert result.error.code is ErrorCode.BAD_RESULT
        assert (result.verdict, result.basis) == (Verdict.UNKNOWN, Basis.UNUSABLE_ANSWER)
        assert result.result is None
        [entry] = [one for one in await rig.entries(f"call:{result.call_id}") if one.kind is RECORDED]
        assert entry.body["result"]["error"]["code"] == "bad_result"
        rig.tools.answers["get_system_info"] = lambda command: {"free": 1}
        assert (await rig.call("get_system_info", info_type="memory")).error is None


async def test_it_keeps_back_no_other_entry_that_waits_for_the_disk(home: Home) -> None:
    async with open_rig(home) as rig:
        late = PendingWrites(rig.journal, rig.tasks)
        more = {"device": DEVICE, "call_id": "c-1", "actor": "service", "kind": RECORDED}
        late.add(
            [NewEntry(**more, body={"n": 1}), NewEntry(**more, body=HUGE), NewEntry(**more, body={"n": 2})]
        )
        assert await late.flush()
        bodies = [one.body for one in await rig.entries("call:c-1")]
        assert [bodies[0], bodies[2]] == [{"n": 1}, {"n": 2}]
        assert "allowed" in bodies[1]["not_kept"]
