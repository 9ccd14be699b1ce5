"""Entries that the dispatcher calls plain are, whatever was ordered: their bodies are not walked again."""

from __future__ import annotations

from typing import Any

import pytest

from core.aip.messages import ResultStatus
from core.audit.encode import encode_parts
from core.audit.entries import Kind, NewEntry, PlainEntry
from core.canonical_json import canonical_bytes, is_plain
from core.dispatch.command_request import CommandRequest
from core.dispatch.entries import result_written
from core.dispatch.models import NOT_WRITTEN, Basis, CommandResult, Verdict
from core.errors import ErrorCode, ErrorInfo
from core.home import Home
from tests.fakes.rig import DEVICE, TEXT, USUAL_TOOLS, open_rig, tool_info

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
async def test_what_is_called_plain_is_and_all_of_it_has_the_bytes_of_rfc_8785(
    home: Home, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.policy.write_text(RULES)
    async with open_rig(home, [*USUAL_TOOLS, ANY], expiry_s=0.2) as rig:
        noted: list[NewEntry] = []
        for name in ("note_all", "append_many"):
            real = getattr(rig.disk, name)
            monkeypatch.setattr(
                rig.disk, name, lambda entries, real=real: (noted.extend(entries), real(entries))[1]
            )
        for parameters in ({"value": value}, {"value": value, "password": "correct horse"}):
            for glimpse in (False, True):
                order = CommandRequest(
                    DEVICE, "measure", parameters, "agent:ä", said="weil ä", glimpse=glimpse
                )
                await rig.dispatcher.dispatch(order)
        await rig.dispatcher.dispatch(
            CommandRequest(
                DEVICE, "write_file", {"file_path": "/tmp/a", "content": "b"}, "cli:anna", unasked=True
            )
        )
        plain = [entry for entry in noted if type(entry) is PlainEntry]
        kinds = {one.kind for one in plain}
        assert {Kind.INTENT_RECORDED, Kind.COMMAND_SENT, Kind.COMMAND_DECIDED} <= kinds
        assert all(is_plain(entry.body) for entry in plain)
        for entry in noted:
            whole = {**entry.model_dump(mode="json"), "seq": 7, "time": TIME}
            assert encode_parts(entry, TIME).with_seq(7) == canonical_bytes(whole)


@pytest.mark.parametrize("value", [*VALUES, float("nan"), (1, 2), {1: 2}, {"a": {"b": [1.0, "ä"]}}, b"x"])
@pytest.mark.parametrize("took", [12.345, 12.0, 0.0])
@pytest.mark.parametrize("error", [None, ErrorInfo.of(ErrorCode.TOOL_FAILED, "Exit code 1.")])
def test_a_result_is_written_as_pydantic_writes_it_and_called_plain_only_where_it_is(
    value: object, took: float, error: ErrorInfo | None
) -> None:
    result = CommandResult(
        call_id="c-1",
        device="lab-1",
        tool_name="measure",
        status=ResultStatus.SUCCESS,
        verdict=Verdict.CONFIRMED,
        basis=Basis.READ_RESPONSE,
        error=error,
        result=value,
        duration_ms=took,
        note="ä",
    )
    usual = result.model_dump(mode="json", exclude=set(NOT_WRITTEN))
    written, plain = result_written(result)
    assert repr(sorted(written.items())) == repr(sorted(usual.items()))
    assert not plain or is_plain(written)
    if error is None and value is None:
        assert plain is (took == 12.345)
