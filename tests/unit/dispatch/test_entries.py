"""The entries of any command are RFC 8785, whatever values it carries."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from core.aip.messages import Result
from core.audit.encode import encode_parts
from core.audit.entries import Kind, NewEntry
from core.canonical_json import canonical_bytes, decoded
from core.commands.request import CommandRequest, Purpose
from core.commands.results import NOT_WRITTEN
from core.home import Home
from core.policy.models import Answer, Decision
from tests.fakes.rig import DEVICE, TEXT, USUAL_TOOLS, open_rig, tool_info

COMMANDS = 40
TIME = "2026-11-01T10:20:30.000001Z"
ANY = tool_info("measure", "data_collection", {"value": {}, "password": TEXT})
RULES = """
[[rule]]
id = "look-first"
decision = "allow"
tool = "measure"
risk = ">=low"
reason = "Zählt nur"

[[rule]]
id = "soon"
decision = "ask"
tool = "write_file"
expires = 300
"""

VALUES: list[Any] = [
    1, 1.5, 1.0, 1e300, -0.0, 2**53 - 1, "", "ä\u2028", None, True, [], {}, [1.0], {"é": 1},
    {"a": [{"b": 2.0}]}, "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
async def test_every_entry_has_the_bytes_of_rfc_8785(
    home: Home, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.policy.write_text(RULES)
    async with open_rig(home, [*USUAL_TOOLS, ANY], expiry_s=0.2) as rig:
        noted: list[NewEntry] = []
        for name in ("note_all", "append_many", "note_late", "noted", "noted_late"):
            real = getattr(rig.disk, name)
            monkeypatch.setattr(
                rig.disk, name, lambda entries, real=real: (noted.extend(entries), real(entries))[1]
            )
        for parameters in ({"value": value}, {"value": value, "password": "correct horse"}):
            for purpose in (Purpose.COMMAND, Purpose.LIVE_VIEW):
                order = CommandRequest(
                    DEVICE, "measure", parameters, "agent:ä", said="weil ä", purpose=purpose
                )
                await rig.dispatcher.dispatch(order)
        await rig.dispatcher.dispatch(
            CommandRequest(
                DEVICE,
                "write_file",
                {"file_path": "/tmp/a", "content": "b"},
                "cli:anna",
                purpose=Purpose.PREVIEW,
            )
        )
        kinds = {entry.kind for entry in noted}
        assert {Kind.INTENT_RECORDED, Kind.COMMAND_SENT, Kind.COMMAND_DECIDED, Kind.COMMAND_REFUSED} <= kinds
        for entry in noted:
            whole = {**to_jsonable_python(entry.values(), fallback=decoded), "seq": 7, "time": TIME}
            assert encode_parts(entry, TIME).with_seq(7) == canonical_bytes(whole)


async def test_each_decision_is_written_as_it_was_made_however_many_came_before(home: Home) -> None:
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home, USUAL_TOOLS) as rig:
        made: list[Decision] = []
        for number in [*range(COMMANDS), 0, 1, 0]:
            parameters = {"file_path": f"/tmp/{number}", "content": "b"}
            await rig.dispatcher.dispatch(
                CommandRequest(DEVICE, "write_file", parameters, "operator:anna", on_decided=made.append)
            )
        entries = await rig.entries(f"kind:{Kind.COMMAND_DECIDED}")
    written = [entry.body["decision"] for entry in entries]
    assert written == [decision.model_dump(mode="json") for decision in made]
    assert len({decision["summary"] for decision in written}) == COMMANDS


def test_a_changed_copy_of_a_decision_is_encoded_as_it_is(home: Home) -> None:
    asks = Decision(answer="ask", risk="low", effect="observe", profile="guarded", summary="s", reasons=[])
    before = asks.encoded
    allows = asks.model_copy(update={"answer": Answer.ALLOW})
    assert decoded(before) == asks.model_dump(mode="json")
    assert decoded(allows.encoded) == allows.model_dump(mode="json")
    assert decoded(copy.copy(asks).encoded)["answer"] == "ask"
    assert (asks.encoded is before, asks == Decision(**asks.model_dump())) == (True, True)
    assert "encoded" not in asks.model_dump_json()


async def test_a_result_is_written_as_its_model_is_dumped(home: Home) -> None:
    async with open_rig(home, USUAL_TOOLS) as rig:
        rig.tools.answers["screenshot"] = lambda command: {"text": "x" * 100_000, "took": 1.5, "é": [1]}
        rig.tools.answers["get_system_info"] = lambda command: Result(status="failure", error="no")
        results = [await rig.call("screenshot"), await rig.call("read_file", file_path="/tmp/x")]
        results.append(await rig.call("get_system_info", info_type="cpu"))
        entries = await rig.entries(f"kind:{Kind.RESULT_RECORDED} tool:screenshot,read_file,get_system_info")
    assert [entry.body["result"] for entry in entries] == [
        result.model_dump(mode="json", exclude=set(NOT_WRITTEN)) for result in results
    ]
    assert results[0].evidence
    assert results[2].error
