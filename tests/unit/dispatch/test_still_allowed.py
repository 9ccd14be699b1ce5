"""What is checked of a decision just before sending; what an edit and the size of arguments change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.commands.arguments import MOST_TEXT, MOST_TOTAL, PreparedCall, walked
from core.commands.request import CommandRequest
from core.dispatch.approval_stage import adjusted, check_still_allowed
from core.dispatch.argument_checks import Roots, check_roots
from core.dispatch.call_preparer import CallPreparer
from core.dispatch.redaction import Redactor
from core.errors import BadInput, ErrorCode, Refused
from core.models.devices import Device, Health
from core.policy.models import Answer
from core.policy.real_paths import ResolvedPaths
from tests.fakes.arguments import tool_of
from tests.fakes.policy_calls import a_tool, judged, rule

ALLOWED, DENIED = judged(rule("allow")), judged(rule("deny"))
ASKED, ASKED_OF_TWO = judged(rule("ask")), judged(rule("ask", "approvers = 2"))
GRANTED = ALLOWED.model_copy(update={"grant": "g-12345678"})


def approval(expires_in_s: float = 60.0, *approved_by: str) -> Any:
    """As much of an approval as is read here."""
    expires = (datetime.now(UTC) + timedelta(seconds=expires_in_s)).isoformat()
    signed = SimpleNamespace(statement=SimpleNamespace(expires=expires))
    return SimpleNamespace(signed=[signed], approved_by=list(approved_by or ("anna",)))


def test_what_is_as_it_was_is_sent():
    check_still_allowed(ALLOWED, ALLOWED, None, "")
    check_still_allowed(ASKED, ASKED, approval(), "")
    check_still_allowed(ASKED_OF_TWO, ASKED, approval(60.0, "anna", "bert"), "")
    # A grant whose last use this was.
    check_still_allowed(judged(""), GRANTED, None, "")


@pytest.mark.parametrize(
    ("now", "then", "expires_in_s"),
    [
        (DENIED, ALLOWED, None),
        (DENIED, ASKED, 60.0),
        (ASKED, ALLOWED, None),
        (ASKED, GRANTED, None),
        (judged('profile = "lockdown"'), GRANTED, None),
        (ASKED_OF_TWO, ASKED, 60.0),
        (ASKED, ASKED, -1.0),
    ],
    ids=["denies", "denies after all", "asks", "asks under a grant", "locked down", "wants two", "expired"],
)
def test_what_became_stricter_meanwhile_is_not_sent(now: Any, then: Any, expires_in_s: float | None):
    # Made here: the tests are collected long before this one runs.
    given = approval(expires_in_s) if expires_in_s is not None else None
    with pytest.raises(Refused):
        check_still_allowed(now, then, given, "")


def test_a_broken_policy_is_not_sent_under_a_grant():
    with pytest.raises(Refused):
        check_still_allowed(judged(""), GRANTED, None, "policy.toml is broken")


def test_what_an_operator_edited_is_asked_whatever_allows_it():
    edited = CommandRequest("lab-1", "write_file", {}, "agent:x", edited_from="a-1")
    device = Device(name="lab-1", health=Health.ONLINE, since="2026-11-01T00:00:00Z")
    said = adjusted(GRANTED, edited, device)
    assert (said.answer, said.grant) == (Answer.ASK, "")
    assert adjusted(DENIED, edited, device).answer is Answer.DENY


@pytest.mark.parametrize(
    "parameters",
    [{"a": "x" * (MOST_TEXT + 1)}, dict.fromkeys("abc", "x" * (MOST_TOTAL // 3 + 1))],
    ids=["one text", "together"],
)
def test_arguments_beyond_the_limits_are_refused(parameters: dict[str, str]):
    with pytest.raises(BadInput) as refused:
        walked(parameters)
    assert refused.value.code is ErrorCode.TOO_LARGE


def test_a_folder_whose_name_begins_like_an_allowed_one_is_not_allowed():
    roots = Roots([Path("/srv/lab")], ResolvedPaths({path: path for path in ("/srv/lab/x", "/srv/labor/x")}))
    check_roots(a_tool(), walked({"file_path": "/srv/lab/x"}), roots)
    with pytest.raises(BadInput, match="outside the allowed roots"):
        check_roots(a_tool(), walked({"file_path": "/srv/labor/x"}), roots)


def test_arguments_with_a_secret_are_not_kept():
    preparer, tool = CallPreparer(None, Redactor(b"x" * 32)), tool_of()  # type: ignore[arg-type]  # not asked
    for parameters, kept in (({"command": "ls"}, True), ({"command": "ls", "password": "hunter22"}, False)):
        preparer.prepare_at_once(tool, preparer.take(tool, parameters))
        assert isinstance(preparer.take(tool, parameters), PreparedCall) is kept
