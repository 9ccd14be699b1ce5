"""Requests that one act may answer together: alike, or of one step and different in short values only."""

from __future__ import annotations

from typing import Any

import pytest

from core.approvals.models import Approval
from core.approvals.request_groups import (
    LONGEST_IN_TABLE,
    RequestGroups,
    differing,
    group_of,
    likeness_in_step,
    summary_of_all,
)
from core.commitments import SECRET_MARK
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Finding, Profile
from core.statements import make_request


def asked(number: int, parameters: dict[str, Any] | None = None, **changes: Any) -> Approval:
    """A request of a run's step on device `web-NUMBER`."""
    device = changes.pop("device", f"web-{number}")
    tool = changes.pop("tool", "write_file")
    path = f"/srv/{device}/app.conf"
    request = make_request(
        device=device,
        contract="c" * 64,
        tool_key=f"action::{tool}",
        tool_name=tool,
        tool_type="action",
        namespace="builtin",
        parameters={"file_path": path, "content": "on\n"} if parameters is None else parameters,
        call_id=f"call-{number}",
    )
    risk = Risk(changes.pop("risk", "medium"))
    decision = Decision(
        answer=Answer.ASK,
        risk=risk,
        effect=Effect.CHANGE,
        profile=Profile.GUARDED,
        summary=changes.pop("summary", f"Writes 3 bytes to {path}, in place of what may be there"),
        reasons=[],
        findings=changes.pop("findings", []),
        reversible=True,
        undo=changes.pop("undo", f"Can be undone: the device keeps what {path} contains now."),
    )
    values: dict[str, Any] = {
        "id": f"a-{number}",
        "request": request,
        "decision": decision,
        "actor": "operator:anna",
        "run": "r-1",
        "step": "write",
        "asked_at": f"2026-01-01T00:00:{number:02}+00:00",
        "expires_at": "2026-01-01T01:00:00+00:00",
        "remaining_s": 600.0,
    }
    return Approval(**{**values, **changes})


def ids(*approvals: Approval) -> list[list[str]]:
    return [[one.id for one in group.members] for group in RequestGroups().groups(approvals)]


def test_one_step_with_a_value_of_each_device_is_one_group_and_a_table() -> None:
    members = [asked(number) for number in (1, 2, 3)]
    assert ids(*members) == [["a-1", "a-2", "a-3"]]
    table = differing(members)
    assert table.columns == ("file_path",)
    assert table.rows == (
        ("/srv/web-1/app.conf",),
        ("/srv/web-2/app.conf",),
        ("/srv/web-3/app.conf",),
    )
    assert summary_of_all(members) == "Writes 3 bytes to … in place of what may be there"


@pytest.mark.parametrize(
    "changes",
    [
        {"step": "other"},
        {"step": None},
        {"run": "r-2"},
        {"run": None},
        {"production": True},
        {"risk": "high"},
        {"actor": "agent:clerk"},
        {"said": "Trust me."},
        {"approvers": 2},
        {"approved_by": ["bert"]},
        {"edited_from": "a-9"},
        {"tool": "append_file"},
        {"undo": "Cannot be undone by the console."},
        {"findings": [Finding(text="Writes a system file", risk=Risk.MEDIUM, argument="file_path")]},
    ],
)
def test_another_step_or_another_judgement_is_another_card(changes: dict[str, Any]) -> None:
    assert ids(asked(1), asked(2, **changes)) == [["a-1"], ["a-2"]]


def test_the_same_finding_about_another_value_is_alike_and_another_finding_is_not() -> None:
    def deletes(number: int, words: str = "Deletes {} and everything in it") -> Approval:
        line = f"rm -rf '/srv/web-{number}/cache'"
        found = words.format(f"/srv/web-{number}/cache")
        finding = Finding(text=found, risk=Risk.HIGH, argument="command", start=0, end=len(line))
        return asked(number, {"command": line}, findings=[finding], undo="", risk="high")

    assert ids(deletes(1), deletes(2)) == [["a-1", "a-2"]]
    assert ids(deletes(1), deletes(2, "Writes to {} and everything in it")) == [["a-1"], ["a-2"]]


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ("x" * (LONGEST_IN_TABLE + 1), "y" * (LONGEST_IN_TABLE + 1)),
        ("\n" * (LONGEST_IN_TABLE - 2), "\t" * (LONGEST_IN_TABLE - 2)),
        ({SECRET_MARK: "a" * 64}, {SECRET_MARK: "b" * 64}),
        (True, False),
        ("short", None),
        ("short", ["short"]),
        ([["short"]], "short"),
        (["a"], ["a", "b"]),
        ({"a": "b"}, {"c": "b"}),
    ],
)
def test_what_is_not_read_in_a_line_of_a_table_has_a_card_of_its_own(value: Any, other: Any) -> None:
    assert ids(asked(1, {"v": value}, undo=""), asked(2, {"v": other}, undo="")) == [["a-1"], ["a-2"]]
    assert likeness_in_step(asked(1, {"v": value}, undo="")) == likeness_in_step(
        asked(2, {"v": value}, undo="")
    )


def test_the_table_has_each_value_whole_and_unmistakable() -> None:
    members = [
        asked(1, {"v": "1", "w": {"deep": ["a", "x "]}, "same": "s"}, undo=""),
        asked(2, {"v": "true", "w": {"deep": ["a", ""]}, "same": "s"}, undo=""),
        asked(3, {"v": "a\u200bb", "w": {"deep": ["a", "-x"]}, "same": "s"}, undo=""),
    ]
    table = differing(members)
    assert table.columns == ("v", "w.deep[1]")
    assert table.rows == (('"1"', '"x "'), ('"true"', '""'), ('"a[U+200B]b"', '"-x"'))
    lines = differing([asked(1, {"v": "by a\n"}), asked(2, {"v": "by a\\n"})])
    assert lines.rows == (('"by a\\n"',), ("by a\\n",))
    assert differing([asked(1, {"v": 1}), asked(2, {"v": 2})]).rows == (("1",), ("2",))


def test_requests_with_the_same_arguments_have_no_table() -> None:
    members = [asked(number, {"command": "uptime"}, undo="") for number in (1, 2)]
    assert ids(*members) == [["a-1", "a-2"]]
    assert differing(members).columns == ()


def test_the_undo_of_a_run_is_one_card_that_names_its_files() -> None:
    def undo(number: int, step: str) -> Approval:
        path, mark = f"/srv/web-{number}/app.conf", f"mark{number:020}"
        words = f"Puts {path} back as it was before change {mark}"
        more: dict[str, Any] = {"tool": "restore_file", "step": step, "summary": words, "undo": "Can."}
        return asked(number, {"undo_id": mark}, **more)

    members = [undo(1, "write"), undo(2, "write-2"), undo(3, "write")]
    assert ids(*members) == [["a-1", "a-2", "a-3"]]
    table = differing(members)
    assert table.columns == ("effect", "undo_id")
    assert [row[0].split()[1] for row in table.rows] == [f"/srv/web-{n}/app.conf" for n in (1, 2, 3)]
    assert summary_of_all(members) == "Puts … back as it was before change …"


def test_what_differs_on_one_device_does_not_join_the_same_of_another_run() -> None:
    again = asked(4, {"command": "rm a"}, device="web-1", run="r-2", undo="")
    step = [asked(number, {"command": f"rm {number}"}, device="web-1", undo="") for number in (1, 2)]
    assert ids(*step, again) == [["a-1", "a-2"], ["a-4"]]


def test_critical_requests_on_one_device_stay_apart_whatever_they_differ_in() -> None:
    risky = [asked(number, {"v": str(number)}, device="web-1", risk="critical", undo="") for number in (1, 2)]
    assert ids(*risky) == [["a-1"], ["a-2"]]


def test_a_group_of_one_request_leads_with_it_and_leaves_production_out() -> None:
    waiting = [asked(1), asked(2, production=True), asked(3), asked(4, step="other")]
    assert [one.id for one in group_of(waiting[2], waiting).members] == ["a-3", "a-1"]
    assert [one.id for one in group_of(waiting[1], waiting).members] == ["a-2"]


def test_sentences_of_another_length_keep_their_common_start() -> None:
    members = [asked(1, summary="Runs “df”"), asked(2, summary="Runs “df -h”")]
    assert summary_of_all(members) == "Runs …"
