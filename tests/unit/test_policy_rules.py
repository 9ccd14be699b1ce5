"""Rules say what they say of exactly the calls they mean, and in doubt they hold a call back."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadInput
from core.fleet.models import Risk
from core.policy.constraints import Constraint
from core.policy.examples import run_examples
from core.policy.models import Answer, Moment, Profile
from core.policy.policy import Policy, checked_policy
from core.policy.policy_file import parse_policy
from core.policy.rule_book import RuleBook
from core.policy.rules import Rule, TimeWindow
from tests.fakes.pace import within
from tests.fakes.policy_calls import MONDAY_NOON, a_device, a_question, a_tool, judged

NO_ETC = """
[[rule]]
id = "no-system-files"
decision = "deny"
tool = "write_file"
reason = "System files are managed elsewhere."
[rule.parameters.file_path]
below = "/etc"
[[rule.match]]
parameters = {file_path = "/etc/hosts"}
[[rule.not_match]]
parameters = {file_path = "/etcetera"}
"""


def rule(decision: str, more: str = "", name: str = "r") -> str:
    return f'[[rule]]\nid = "{name}"\ndecision = "{decision}"\n{more}\n'


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
    assert judged(policy, parameters=sent, shares_disk=True).answer is Answer.DENY
    assert judged(policy, parameters=sent, shares_disk=False).answer is Answer.ASK


def test_a_rules_own_folder_may_be_a_link_that_is_turned_later(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "one")
    file = parse_policy(rule("deny", f'tool = "write_file"\n[rule.parameters.file_path]\nbelow = "{link}"'))
    book = RuleBook(file.rules)

    def speaks(name: str) -> bool:
        sent = {"file_path": str(tmp_path / name / "x")}
        return bool(book.speaking(a_question(sent, real=lambda path: str(Path(path).resolve()))))

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
        'time = {days = ["mon"], from = "08:00", to = "18:00"}',
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


def test_a_window_over_midnight_belongs_to_the_day_it_began_on():
    window = TimeWindow.model_validate({"days": ["fri"], "from": "22:00", "to": "06:00"})
    covered = {
        "2026-11-20T23:00": True,
        "2026-11-21T05:59": True,
        "2026-11-21T06:00": False,
        "2026-11-20T05:00": False,
    }
    assert {one: window.covers(datetime.fromisoformat(one)) for one in covered} == covered


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (rule("maybe"), "rule r: decision"),
        (rule("deny", "colour = 'red'"), "rule r: colour: there is no such key"),
        (rule("deny") + rule("ask"), "two rules have the id r"),
        (rule("deny", "[rule.parameters.x]"), "needs one of equals"),
        (rule("deny", "[rule.parameters.x]\npattern = '('"), "pattern"),
        (rule("deny", "[rule.parameters.x]\npattern = '(a)\\1'"), "pattern"),
        (rule("deny", "[rule.parameters.x]\nbelow = 'etc'"), "absolute"),
        (rule("deny", "approvers = 2"), "rules that ask"),
        (rule("allow", "approvers = 2"), "rules that ask"),
        (rule("ask", "approvers = 0"), "approvers"),
        (rule("deny", 'time = {from = "8"}'), "08:30"),
        (rule("deny", "[[rule.match]]\nparamters = {}"), "paramters"),
        ("profil = 'guarded'", "profil"),
        ("[[rule]\n", "not TOML"),
        ("line_numbers = [1]", "line_numbers"),
    ],
)
def test_a_file_with_a_fault_is_refused_and_says_where(text: str, says: str):
    with pytest.raises(BadInput) as caught:
        parse_policy(text)
    assert says in caught.value.message


def test_a_fault_names_the_line_of_its_rule():
    with pytest.raises(BadInput, match=r"line 5: rule second: decision"):
        parse_policy(
            'profile = "guarded"\n' + rule("deny", name="first").strip() + "\n" + rule("x", name="second")
        )


def test_an_example_that_does_not_hold_breaks_the_file(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_text(NO_ETC)
    checked_policy(path)
    path.write_text(NO_ETC.replace('"/etcetera"', '"/etc/cron.d/x"'))
    with pytest.raises(BadInput, match=r"line 2: rule no-system-files, not_match 1: it matches"):
        checked_policy(path)
    path.write_text(NO_ETC.replace('"/etc/hosts"', '"/home/hosts"'))
    with pytest.raises(BadInput, match=r"match 1: it does not match: file_path"):
        checked_policy(path)


def test_examples_are_about_what_they_name():
    policy = parse_policy(
        rule(
            "ask",
            'device = "db-*"\nactor = "agent:*"\n'
            '[[rule.match]]\ndevice = "db-7"\n[[rule.not_match]]\nactor = "operator:x"',
        )
    )
    assert [one.ok for one in run_examples(policy)] == [True, True]


def test_while_the_file_is_broken_everything_asks_and_what_was_denied_stays_denied(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_text(NO_ETC + rule("allow", 'tool = "write_file"', "free"))
    policy = Policy(path).load()
    path.write_text("[[rule]\n")
    for opened in (policy, Policy(path)):
        opened.load()
        assert opened.problem
        denied = judged(
            opened.file, parameters={"file_path": "/etc/x", "content": ""}, problem=opened.problem
        )
        asked = judged(opened.file, problem=opened.problem)
        assert (denied.answer, asked.answer) == (Answer.DENY, Answer.ASK)
        reads = judged(
            opened.file, a_tool("read_file", "data_collection"), {"file_path": "/x"}, problem="broken"
        )
        assert reads.answer is Answer.ASK


def test_a_policy_that_was_taken_away_denies_nothing_any_more(tmp_path: Path):
    path = tmp_path / "policy.toml"
    path.write_text(NO_ETC)
    Policy(path).load()
    path.unlink()
    Policy(path).load()
    path.write_text("[[rule]\n")
    after = Policy(path).load()
    assert after.file.rules == []


def test_a_catastrophic_pattern_is_decided_in_bounded_time_and_in_doubt_against_the_call():
    held = Constraint(pattern="^(a+)+$")
    text = "a" * 20_000 + "b"
    for one in within(2.0):
        with one:
            assert held.permits(text) is False
            held.forbids(text)


def test_near_misses_name_the_one_thing_that_did_not_hold():
    policy = parse_policy(NO_ETC + rule("allow", 'actor = "agent:*"\ntool = "write_file"', "agents"))
    book = RuleBook(policy.rules, policy.line_numbers)
    near = book.near(a_question({"file_path": "/home/x"}))
    assert [(one.id, one.fault) for one in near] == [
        ("no-system-files", "file_path does not fit, the rule wants that it is below /etc"),
        ("agents", "the asker is operator:anna"),
    ]


def test_ten_thousand_rules_are_asked_in_less_than_a_millisecond():
    rows = []
    for number in range(2_500):
        rows.append(
            rule(
                "deny",
                f'tool = "write_file"\n[rule.parameters.file_path]\nbelow = "/srv/{number}"',
                f"a{number}",
            )
        )
        rows.append(rule("ask", f'device = "db-{number}-*"', f"b{number}"))
        rows.append(rule("allow", f'tool = "tool-{number}"', f"c{number}"))
        rows.append(
            rule("deny", f'[rule.parameters.command]\npattern = "curl .*host{number}[.]"', f"d{number}")
        )
    policy = parse_policy("\n".join(rows))
    book = RuleBook(policy.rules, policy.line_numbers)
    for question in (
        a_question({"file_path": "/home/anna/notes/a.txt", "content": "x"}),
        a_question(
            {"command": "curl https://host9999.example/x"}, tool=a_tool("shell_execute"), risk=Risk.HIGH
        ),
    ):
        book.speaking(question)
        for one in within(0.001):
            with one:
                one.seconds = min(_timed(lambda asked=question: book.speaking(asked)) for _ in range(20))


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


PATHS = st.sampled_from(["/etc/x", "/etc", "/srv/a/b", "../x", "/srv/../etc", "~/x", "", "/a b"])
VALUES = st.one_of(
    PATHS,
    st.integers(-2, 3),
    st.booleans(),
    st.none(),
    st.floats(-2, 3),
    st.lists(PATHS, max_size=3),
    st.text("ab/.", max_size=4),
)
CONDITIONS = st.one_of(
    st.builds(lambda value: {"equals": value}, VALUES),
    st.builds(
        lambda values: {"one_of": values},
        st.lists(st.one_of(PATHS, st.integers(-2, 3), st.booleans()), min_size=1, max_size=3),
    ),
    st.sampled_from([{"below": "/etc"}, {"below": "/srv"}, {"below": "~/x"}, {"below": "/"}]),
    st.sampled_from([{"pattern": "a.b"}, {"pattern": "^/srv"}, {"pattern": "(?i)ETC"}, {"pattern": "x|y"}]),
    st.sampled_from([{"min": 0}, {"max": 1, "min": -1}, {"max_length": 2}, {"min_length": 1}]),
)
RULES = st.builds(
    lambda decision, device, tool, conditions: {
        "decision": decision,
        "device": device,
        "tool": tool,
        "parameters": conditions,
        "risk": [*Risk],
    },
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(["*", "lab-*", "lab-1", "db-1"]),
    st.sampled_from(["*", "write_file", "write_*", "other"]),
    st.dictionaries(st.sampled_from(["x", "y", "z.w"]), CONDITIONS, max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(RULES, max_size=12),
    st.dictionaries(
        st.sampled_from(["x", "y", "z"]), st.one_of(VALUES, st.fixed_dictionaries({"w": VALUES})), max_size=3
    ),
    st.booleans(),
)
def test_looking_rules_up_finds_what_trying_each_one_finds(
    rows: list[Any], sent: dict[str, Any], shares: bool
):
    rules = [Rule.model_validate({**row, "id": f"r{number}"}) for number, row in enumerate(rows)]
    question = a_question(sent, real=(lambda path: path.replace("/srv/a", "/etc")) if shares else None)
    fit = [
        one
        for one in rules
        if not one.static_fault(question.device, question.tool) and not one.faults(question)
    ]
    denying = [one for one in fit if one.decision is Answer.DENY][:1]
    wanted = denying or [one for word in (Answer.ASK, Answer.ALLOW) for one in fit if one.decision is word]
    assert [one.id for one in RuleBook(rules).speaking(question)] == [one.id for one in wanted]


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


@pytest.mark.parametrize("empty", [{"one_of": None}, {"pattern": None}, {"max": float("nan")}, {}])
def test_a_condition_that_says_nothing_is_a_fault(empty: dict[str, Any]):
    with pytest.raises(ValueError, match=r"needs one of|are numbers"):
        Constraint.model_validate(empty)


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
