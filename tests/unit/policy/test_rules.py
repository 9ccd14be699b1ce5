"""Rules say what they say of exactly the calls they mean, and in doubt they hold a call back."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from core.models.tools import Effect, Fact, Risk, Source
from core.policy.constraints import Constraint
from core.policy.models import Answer, Moment, Profile
from core.policy.policy_file import parse_policy
from core.policy.rule_index import RuleIndex
from core.policy.rules import TimeWindow
from tests.fakes.policy_calls import MONDAY_NOON, NO_ETC, a_device, a_question, a_tool, judged, rule


@pytest.mark.parametrize(
    "path",
    [
        "/etc/hosts",
        "/etc",
        "/etc/",
        "//etc/hosts",
        "/home/../etc/hosts",
        "/etc/./x/../hosts",
        "/home/anna/../../etc/passwd",
        "../etc/hosts",
        "etc/hosts",
        "~/../../etc/hosts",
        "",
    ],
)
def test_a_folder_that_is_denied_is_denied_however_it_is_written(path: str):
    said = judged(NO_ETC, parameters={"file_path": path, "content": "x"})
    assert said.answer is Answer.DENY
    assert said.rules[0].id == "no-system-files"
    assert said.rules[0].line == 2


@pytest.mark.parametrize("path", ["/etcetera", "/home/etc/x", "/", "/ETC/hosts"])
def test_what_only_looks_like_a_denied_folder_is_not_denied(path: str):
    assert judged(NO_ETC, parameters={"file_path": path, "content": "x"}).answer is Answer.ASK


def test_a_link_into_a_denied_folder_is_denied_where_the_disk_is_ours(tmp_path: Path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "door").symlink_to(tmp_path / "secret")
    policy = NO_ETC.replace('"/etc"', f'"{tmp_path}/secret"').split("[[rule.match]]")[0]
    sent = {"file_path": f"{tmp_path}/door/x", "content": ""}
    assert judged(policy, parameters=sent, real=os.path.realpath).answer is Answer.DENY
    assert judged(policy, parameters=sent).answer is Answer.ASK


def test_a_rules_own_folder_may_be_a_link_that_is_turned_later(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "one")
    file = parse_policy(rule("deny", f'tool = "write_file"\n[rule.parameters.file_path]\nbelow = "{link}"'))
    book = RuleIndex(file.rules)

    def speaks(name: str) -> bool:
        sent = {"file_path": str(tmp_path / name / "x")}
        return bool(book.matching(a_question(sent, real=lambda path: str(Path(path).resolve()))))

    assert speaks("one")
    assert not speaks("two")
    link.unlink()
    link.symlink_to(tmp_path / "two")
    assert speaks("two")


def test_of_a_list_one_element_is_enough_to_deny_and_all_are_needed_to_allow():
    below = Constraint(below="/srv")
    assert below.forbids(["/home/x", "/srv/x"])
    assert not below.permits(["/home/x", "/srv/x"])
    assert below.permits(["/srv/y", "/srv/x"])
    assert not below.permits([])


def test_a_missing_argument_is_never_as_a_rule_wants_it():
    policy = rule("allow", "[rule.parameters.count]\nmax = 5")
    assert judged(policy, parameters={}).answer is Answer.ASK
    assert judged(policy, parameters={"count": 5}).answer is Answer.ALLOW
    assert judged(policy, parameters={"count": 6}).answer is Answer.ASK
    assert judged(policy, parameters={"count": True}).answer is Answer.ASK
    assert judged(policy, parameters={"count": "5"}).answer is Answer.ASK


@pytest.mark.parametrize(
    ("value", "wanted", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (None, None, True),
        (None, 0, False),
        ("1", 1, False),
        ([1], [1.0], True),
    ],
)
def test_equal_means_what_json_means(value: Any, wanted: Any, same: bool):
    assert Constraint(equals=wanted).permits(value) is same


def test_deny_beats_ask_beats_allow_and_allow_beats_the_profile():
    allow, ask, deny = rule("allow", name="a"), rule("ask", name="b"), rule("deny", name="c")
    assert judged(allow).answer is Answer.ALLOW
    assert judged(allow + ask).answer is Answer.ASK
    assert judged(allow + ask + deny).answer is Answer.DENY
    assert [hit.id for hit in judged(allow + ask).rules] == ["b", "a"]


def test_no_rule_opens_what_the_profile_denies_or_what_is_locked_down():
    allow = rule("allow", 'risk = ["low", "medium", "high", "critical"]')
    assert judged('profile = "observe"\n' + allow).answer is Answer.DENY
    assert judged('profile = "lockdown"\n' + allow).answer is Answer.ASK


def test_an_allow_rule_that_names_no_risk_does_not_cover_what_the_arguments_raise():
    allow = rule("allow", 'tool = "shell_execute"')
    assert judged(allow, "shell_execute", {"command": "rm -rf /"}).answer is Answer.ASK
    named = rule("allow", 'tool = "shell_execute"\nrisk = ">=low"')
    assert judged(named, "shell_execute", {"command": "ls"}).answer is Answer.ALLOW


def test_what_the_arguments_would_do_raises_the_risk():
    usual, grave = (
        judged("", "shell_execute", {"command": command}).risk for command in ("uptime", "rm -rf /")
    )
    assert grave.rank > usual.rank


def test_a_tool_of_an_unknown_effect_is_of_high_risk_unless_an_operator_says_less():
    tool = a_tool("peek", namespace="web")
    assert tool.contract.effect.value is Effect.UNKNOWN
    for source, risk in ((Source.DECLARED, Risk.HIGH), (Source.OPERATOR, Risk.LOW)):
        fact = Fact[Risk](value=Risk.LOW, source=source, why="It says so.")
        contract = tool.contract.model_copy(update={"risk": fact})
        lowered = tool.model_copy(update={"contract": contract})
        assert judged("", lowered, {}).risk is risk, source


def test_a_device_that_wants_signatures_wants_them_for_a_hosted_tool_that_only_claims_to_read():
    device = a_device().model_copy(update={"requires_approval": True, "approvers": 2})
    allow = rule("allow", 'risk = ">=low"')
    hosted = judged(allow, a_tool("peek", "data_collection", "web"), {}, device=device)
    assert (hosted.answer, hosted.approvers) == (Answer.ASK, 2)
    assert hosted.device_requires_signature
    own = judged(allow, a_tool("get_system_info", "data_collection"), {"info_type": "cpu"}, device=device)
    assert own.answer is Answer.ALLOW


def test_profile_observe_reads_at_low_risk_only():
    read = a_tool("read_file", "data_collection")
    for path, answer in (("/home/anna/a.txt", Answer.ALLOW), ("/home/anna/.ssh/id_ed25519", Answer.DENY)):
        assert judged('profile = "observe"', read, {"file_path": path}).answer is answer, path


def test_a_rule_that_asks_says_how_many_and_how_long_and_what_evidence():
    said = judged(
        rule("ask", "approvers = 2\nexpires = 90\nevidence = ['before']", "a")
        + rule("ask", "approvers = 3\nevidence = ['after']", "b")
    )
    assert (said.approvers, said.expires_s, said.evidence) == (3, 90, [Moment.BEFORE, Moment.AFTER])


def test_device_tag_actor_effect_and_time_all_have_to_hold():
    policy = rule(
        "deny",
        'device = "db-*"\ntag = "prod"\nactor = "agent:*"\neffect = "change"\n'
        'time = {days = ["mon"], from = "08:00", to = "18:00", zone = "Europe/Berlin"}',
    )
    here = a_device("db-1", "prod")
    held = {"device": here, "actor": "agent:x", "moment": MONDAY_NOON}
    assert judged(policy, **held).answer is Answer.DENY
    for change in (
        {"device": a_device("web-1", "prod")},
        {"device": a_device("db-1", "lab")},
        {"actor": "operator:x"},
        {"moment": datetime.fromisoformat("2026-11-17T12:00:00+01:00")},
        {"moment": datetime.fromisoformat("2026-11-16T18:00:00+01:00")},
        {"tool": a_tool("shell_execute")},
    ):
        assert judged(policy, **{**held, **change}).answer is Answer.ASK


@pytest.mark.parametrize("meant", [True, False])
def test_a_rule_for_production_or_for_the_rest_applies_to_nothing_else(meant: bool):
    text = rule("deny", f"production = {str(meant).lower()}")
    assert judged(text, device=a_device(production=meant)).answer is Answer.DENY
    assert judged(text, device=a_device(production=not meant)).answer is not Answer.DENY


def test_a_window_over_midnight_belongs_to_the_day_it_began_on():
    window = TimeWindow.model_validate({"days": ["fri"], "from": "22:00", "to": "06:00"})
    covered = {
        "2026-11-20T23:00": True,
        "2026-11-21T05:59": True,
        "2026-11-21T06:00": False,
        "2026-11-20T05:00": False,
    }
    assert {one: window.covers(datetime.fromisoformat(one)) for one in covered} == covered


def test_the_profile_is_found_for_each_device(tmp_path: Path):
    file = parse_policy('profile = "trusted"\n[[profiles]]\nprofile = "lockdown"\ntag = "prod"\n')
    assert judged(file).profile is Profile.TRUSTED
    assert judged(file, device=a_device("x", "prod")).profile is Profile.LOCKDOWN


NO_SECRET_FOLDER = 'tool = "write_file"\n[rule.parameters."to.path"]\n'


@pytest.mark.parametrize(
    "condition", ['below = "/etc"', 'pattern = "^/etc/"', 'one_of = ["/etc/x"]', 'equals = "/etc/x"']
)
@pytest.mark.parametrize(
    "parameters",
    [
        {"to": {"path": "/etc/x"}},
        {"to": {"path": "/etc/x"}, "to.path": "/tmp/x"},
        {"to": [{"path": "/tmp/x"}, {"path": "/etc/x"}]},
        {"to": {"path": [["/tmp/x", ["/etc/x"]]]}},
        {"to": {"path": {"name": "/etc/x"}}},
        {"to.path": ["/etc/x"]},
    ],
)
def test_what_is_denied_cannot_be_hidden_in_lists_or_behind_a_dotted_name(
    condition: str, parameters: dict[str, Any]
):
    text = rule("deny", NO_SECRET_FOLDER + condition)
    assert judged(text, parameters=parameters).answer is Answer.DENY


def test_what_is_allowed_has_to_be_allowed_under_every_place_that_the_name_can_mean():
    text = rule("allow", NO_SECRET_FOLDER + 'below = "/tmp"')
    assert judged(text, parameters={"to": {"path": "/tmp/x"}}).answer is Answer.ALLOW
    assert judged(text, parameters={"to": {"path": "/srv/x"}, "to.path": "/tmp/x"}).answer is Answer.ASK


def test_a_condition_is_the_same_after_it_was_written_and_read():
    for one in (Constraint(max=5), Constraint(equals=None), Constraint(below="/tmp", max_length=9)):
        again = Constraint.model_validate(one.model_dump(mode="json"))
        assert (again, again.wants_equal) == (one, one.wants_equal)
    assert Constraint.model_validate(Constraint(max=5).model_dump(mode="json")).permits(3)
    assert Constraint(equals=None).model_dump(mode="json") != Constraint(max=5).model_dump(mode="json")


def test_a_limit_is_shown_with_every_digit():
    assert Constraint(max=1000004).words() == "it ≤ 1000004"
    assert Constraint(min=0.1234567).words() == "0.1234567 ≤ it"


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("C:\\Windows", "\\\\?\\C:\\Windows\\x"),
        ("C:\\Windows", "//?/C:/Windows/x"),
        ("C:\\Windows", "\\\\localhost\\c$\\Windows\\x"),
        ("C:\\Windows", "/windows/x"),
        ("C:\\Windows", "C:\\Windows.\\x"),
        ("C:\\Windows", "C:\\WINDOW~1\\x"),
        ("C:\\Windows", "c:/WINDOWS/x"),
        ("/etc", "C:/../../../../etc/passwd"),
        ("~/.ssh", "/home/anna/.ssh/id_ed25519"),
    ],
)
def test_another_name_of_a_denied_folder_is_denied_and_never_allowed(folder: str, path: str):
    condition = f"tool = \"write_file\"\n[rule.parameters.file_path]\nbelow = '{folder}'"
    assert judged(rule("deny", condition), parameters={"file_path": path}).answer is Answer.DENY
    if path != "c:/WINDOWS/x":
        assert not Constraint(below=folder).permits(path)


def test_a_rule_for_one_system_says_nothing_of_plain_paths_of_another():
    assert not Constraint(below="/etc").forbids("C:\\Users\\anna\\a.txt")
    assert not Constraint(below="C:\\Windows").forbids("/home/anna/a.txt")
    assert not Constraint(below="~/.ssh").forbids("/srv/a.txt")
    assert Constraint(below="C:\\data").permits("C:\\data\\a b\\x.txt")


def test_a_number_written_as_a_text_counts_against_a_call_and_never_for_it():
    limit = Constraint(min=100)
    assert limit.forbids("1000")
    assert limit.forbids(" 1e3 ")
    assert not limit.forbids("99")
    assert not limit.forbids("many")
    assert not limit.permits("1000")


@pytest.mark.parametrize("edge", [2**53, 10**30, 10**400])
def test_bounds_and_values_are_compared_as_exact_integers_of_any_size(edge: int):
    for written in (int, str):
        assert Constraint(min=edge + 1).forbids(written(edge + 1))
        assert not Constraint(min=edge + 1).forbids(written(edge))
        assert Constraint(max=edge).forbids(written(edge))
        assert not Constraint(max=edge).forbids(written(edge + 1))
    assert Constraint(max=edge).permits(edge)
    assert not Constraint(max=edge).permits(edge + 1)
    assert not Constraint(equals=edge).permits(edge + 1)
    assert not Constraint(one_of=[edge, edge + 2]).permits(edge + 1)
    kept = Constraint.model_validate_json(Constraint(equals=edge + 1, min=edge + 1).model_dump_json())
    assert (kept.equals, kept.min) == (edge + 1, edge + 1)
    assert str(edge + 1) in kept.words()
