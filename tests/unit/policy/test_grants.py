"""A grant covers what was shown when it was signed, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from core.audit.entries import Entry, Kind
from core.errors import Refused
from core.models.tools import Risk
from core.policy.constraints import Constraint
from core.policy.engine import PolicyQuery
from core.policy.grant_book import GrantBook
from core.policy.grants import Grant, GrantTerms, SignedGrant, exact_arguments, scope_words, usual_limits
from core.policy.models import Answer
from core.policy.policy_store import Policy
from core.policy.rules import MatchContext
from tests.fakes.policy_calls import a_device, a_question, a_tool, judged

SENT = {"file_path": "/home/anna/a.txt", "content": "x"}


STAND_IN = {"$secret": "ab" * 32}


def terms(**changes: Any) -> GrantTerms:
    fields: dict[str, Any] = {
        "id": "g-12345678",
        "approval": "a-1",
        "author": "anna",
        "devices": ["lab-1"],
        "tool_key": "action::write_file",
        "contract": a_tool().contract.digest,
        "actors": ["agent:claude"],
        "arguments": exact_arguments(SENT),
        "risk": Risk.MEDIUM,
        "expires": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }
    return GrantTerms.model_validate({**fields, **changes})


def book(*held: GrantTerms) -> GrantBook:
    made = GrantBook()
    for one in held:
        made.check_new(one)
        made.add(one)
    return made


def asked(parameters: dict[str, Any] = SENT, **more: Any) -> MatchContext:
    return a_question(parameters, actor=more.pop("actor", "agent:claude"), **more)


def covering(held: GrantBook, question: MatchContext, run: str | None) -> Grant | None:
    """Of a call without secrets."""
    return held.covering(question, run, question.parameters)


@pytest.mark.parametrize("risk", [Risk.HIGH, Risk.CRITICAL])
def test_at_high_risk_a_grant_has_a_number_of_uses_or_ends_with_its_run(risk: Risk):
    with pytest.raises(Refused, match="how often"):
        book(terms(risk=risk))
    assert book(terms(risk=risk, uses=1), terms(risk=risk, run="r-1", id="g-87654321")).all()
    assert book(terms()).all()


def test_what_an_operator_leaves_open_is_narrow_and_narrower_at_high_risk():
    for risk in Risk:
        few = (1, timedelta(minutes=15)) if risk.rank >= Risk.HIGH.rank else (5, timedelta(hours=1))
        assert usual_limits(risk) == few


def test_the_very_same_call_is_covered():
    assert covering(book(terms()), asked(), None) is not None


@pytest.mark.parametrize(
    "question",
    [
        asked({**SENT, "content": "y"}),
        asked({**SENT, "mode": "overwrite"}),
        asked({"file_path": SENT["file_path"]}),
        asked({**SENT, "file_path": "/home/anna/A.txt"}),
        asked(actor="agent:other"),
        asked(actor="operator:anna"),
        asked(device=a_device("lab-2")),
        asked(tool=a_tool("restore_file")),
        asked(tool=a_tool(namespace="stranger")),
        asked(risk=Risk.HIGH),
    ],
)
def test_one_thing_changed_asks_again(question: MatchContext):
    assert covering(book(terms()), question, None) is None


def test_a_condition_widens_one_argument_and_no_other():
    held = book(terms(arguments={**exact_arguments(SENT), "content": Constraint(max_length=10)}))
    assert covering(held, asked({**SENT, "content": "short"}), None) is not None
    assert covering(held, asked({**SENT, "content": "x" * 11}), None) is None
    assert covering(held, asked({**SENT, "file_path": "/etc/x"}), None) is None


def test_a_relative_path_is_not_below_a_granted_folder():
    held = book(terms(arguments={"file_path": Constraint(below="/home/anna"), "content": "any"}))
    assert covering(held, asked({**SENT, "file_path": "/home/anna/deep/b.txt"}), None) is not None
    for path in ("b.txt", "/home/anna/../bob/x", "/home/annabel/x", "~/x"):
        assert covering(held, asked({**SENT, "file_path": path}), None) is None


def test_a_grant_for_a_run_ends_with_its_run():
    held = book(terms(run="r-1"))
    assert covering(held, asked(), "r-1") is not None
    assert covering(held, asked(), "r-2") is None
    assert covering(held, asked(), None) is None


def test_a_grant_for_a_run_that_has_ended_is_over_and_no_other():
    held = book(
        terms(id="g-bound-1234", run="r-1"), terms(id="g-other-1234", run="r-2"), terms(id="g-free-12345")
    )
    assert held.runs == {"r-1", "r-2"}
    held.end_run("r-1")
    assert {one.terms.id: one.over for one in held.all()} == {
        "g-bound-1234": True,
        "g-other-1234": False,
        "g-free-12345": False,
    }
    assert held.runs == {"r-2"}
    assert held.use("g-bound-1234") is False


def test_uses_are_counted_and_end_it():
    held = book(terms(uses=2))
    assert [held.use("g-12345678") for _ in range(3)] == [True, True, False]
    assert covering(held, asked(), None) is None
    assert held.get("g-12345678").last_used_at is not None


def test_of_several_the_first_to_end_is_used_whatever_its_time_zone():
    now = datetime.now(UTC)
    east = (now + timedelta(hours=2)).astimezone(timezone(timedelta(hours=14))).isoformat()
    soon, late = terms(id="g-soon-12345", expires=east), terms(expires=(now + timedelta(hours=3)).isoformat())
    assert soon.expires > late.expires
    used = covering(book(soon, late.model_copy(update={"actors": ["agent:*"]})), asked(), None)
    assert used is not None
    assert used.terms.id == "g-soon-12345"


def test_what_is_revoked_or_over_covers_nothing():
    held = book(terms())
    held.revoke("g-12345678", "operator:anna")
    assert covering(held, asked(), None) is None
    assert not held.use("g-12345678")
    with pytest.raises(Refused, match="ends within 90 days"):
        book(terms(expires=(datetime.now(UTC) - timedelta(seconds=1)).isoformat()))
    with pytest.raises(Refused, match="ends within 90 days"):
        book(terms(expires=(datetime.now(UTC) + timedelta(days=91)).isoformat()))
    with pytest.raises(Refused, match="ends within 90 days"):
        book(terms(expires="never"))


@pytest.mark.parametrize(
    "condition",
    [
        Constraint(equals={"$secret": "short"}),
        Constraint(equals={"$secret": STAND_IN["$secret"], "more": 1}),
        Constraint(equals={"deep": [{"$secret": "in clear"}]}),
    ],
)
def test_what_stands_for_a_secret_in_a_grant_is_a_commitment(condition: Constraint):
    with pytest.raises(Refused, match="secret"):
        book(terms(arguments={"password": condition}))


def test_a_secret_is_granted_by_its_commitment_and_the_words_say_so():
    said = "\n".join(scope_words(terms(arguments=exact_arguments({"password": STAND_IN}))))
    assert "password is the same secret as now (commitment abababab…)" in said


def test_a_grant_inside_a_wider_one_is_refused():
    wide = terms(
        id="g-wide0000",
        devices=["lab-*"],
        actors=["agent:*"],
        arguments={"file_path": Constraint(below="/home/anna"), "content": "any"},
        expires=(datetime.now(UTC) + timedelta(hours=2)).isoformat(),
    )
    with pytest.raises(Refused, match="covers this already"):
        book(wide, terms())
    assert len(book(terms(), wide).all()) == 2
    assert len(book(wide, terms(risk=Risk.HIGH, uses=5)).all()) == 2
    assert len(book(wide, terms(actors=["operator:bob"])).all()) == 2


def test_the_scope_is_shown_whole():
    lines = scope_words(terms(devices=["lab-*"], uses=3, run="r-9", arguments={"content": "any"}))
    text = "\n".join(lines)
    for part in (
        "action::write_file",
        "lab-*",
        "a pattern",
        "agent:claude",
        "content may be anything",
        "3 times",
        "r-9",
    ):
        assert part in text


def test_after_a_restart_grants_are_what_the_journal_says():
    signed = SignedGrant(terms=terms(uses=2), signature="0" * 128)
    rows = [
        (Kind.GRANT_GIVEN, {"grant": "g-12345678", "signed": signed.model_dump(mode="json")}),
        (Kind.GRANT_USED, {"grant": "g-12345678"}),
    ]
    entries = [
        Entry(seq=number, time=f"2026-11-20T10:00:0{number}Z", kind=kind, actor="operator:anna", body=body)
        for number, (kind, body) in enumerate(rows, 1)
    ]
    held = GrantBook()
    held.restore(entries)
    assert held.get("g-12345678").used == 1
    assert covering(held, asked(), None) is not None
    revoked = Entry(
        seq=3,
        time="2026-11-20T10:00:03Z",
        kind=Kind.GRANT_REVOKED,
        actor="operator:anna",
        body={"grant": "g-12345678"},
    )
    held.restore([revoked])
    assert covering(held, asked(), None) is None


def test_a_grant_lets_through_what_the_profile_asks_and_nothing_stronger():
    grants = book(terms())
    held = {"parameters": SENT, "actor": "agent:claude", "grants": grants}
    said = judged("", **held)
    assert (said.answer, said.grant) == (Answer.ALLOW, "g-12345678")
    assert judged('[[rule]]\nid = "r"\ndecision = "ask"', **held).answer is Answer.ASK
    assert judged('[[rule]]\nid = "r"\ndecision = "deny"', **held).answer is Answer.DENY
    assert judged('profile = "lockdown"', **held).answer is Answer.ASK
    assert judged('profile = "observe"', **held).answer is Answer.DENY
    assert judged("", **held, problem="broken").answer is Answer.ASK


def test_what_the_file_turns_into_asking_names_no_grant(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_text('[[contract]]\ntool = "write_file"\nrisk = "low"\nwhy = "A toy."\n')
    policy = Policy(path, grants=book(terms())).restore("")
    query = PolicyQuery(a_device(), a_tool(), SENT, SENT, "agent:claude")
    said = policy.decide(query)
    assert (said.answer, said.grant) == (Answer.ASK, "")
    policy.accept(path.read_text())
    assert policy.decide(query).answer is Answer.ALLOW


def test_a_near_grant_says_what_it_lacks():
    question = asked({**SENT, "content": "y"})
    near = book(terms()).near(question, None, question.parameters)
    assert [(one.id, one.fault) for one in near] == [("g-12345678", "content is not as granted")]
