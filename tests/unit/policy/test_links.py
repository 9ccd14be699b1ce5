"""Where paths lead is read before a decision, and what was not read counts against the call."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from core.errors import ErrorCode, Refused
from core.policy.constraints import LONGEST_PATH, Constraint, Undecidable
from core.policy.models import Answer
from core.policy.policy_file import parse_policy
from core.policy.real_paths import MOST_PATHS, MOST_THREADS, Links, ResolvedPaths, paths_in, real_path
from core.policy.rule_index import RuleIndex
from tests.fakes.patience import PATIENCE_S
from tests.fakes.policy_calls import a_question, judged, rule

ETC = rule("deny", 'tool = "write_file"\n[rule.parameters.file_path]\nbelow = "{}"')
SRV = rule("allow", 'tool = "write_file"\n[rule.parameters.file_path]\nbelow = "/srv"')


def denied(folder: str, path: str) -> bool:
    """Whether a rule against a folder applies to a path of a device whose disk is another one."""
    sent = {"file_path": path, "content": ""}
    return judged(ETC.format(folder), parameters=sent).answer is Answer.DENY


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("/usr/lib", "/lib/x"),
        ("/lib", "/usr/lib/x"),
        ("/usr/bin", "/bin"),
        ("/run", "/var/run/x"),
        ("/run/lock", "/var/lock/x"),
        ("/etc", "/private/etc/hosts"),
        ("/private/tmp", "/tmp/x"),
        ("/Users/anna", "/System/Volumes/Data/Users/anna/x"),
        ("/etc", "/proc/1/root/etc/hosts"),
        ("/etc", "/proc/1/root/../etc/hosts"),
        ("/etc", "/tmp/../proc/1/task/1/root/../etc/hosts"),
        ("/etc", "/proc/77/cwd/hosts"),
        ("/etc", "/proc/self/fd/7"),
        ("/etc", "/dev/fd/7"),
        ("/etc", "/.vol/1234/5678"),
        ("~/closed", "~root/closed/x"),
        ("~/closed", "~/../anna/closed/x"),
        ("/srv", "/" + "a/" * LONGEST_PATH),
    ],
)
def test_what_a_device_may_read_as_a_denied_folder_is_denied(folder: str, path: str):
    assert denied(folder, path)


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("/usr/lib", "/library/x"),
        ("/run", "/var/runner"),
        ("/lib", "/srv/lib/x"),
        ("/etc", "/private/etcetera"),
        ("/etc", "/proc/1/status"),
        ("~/closed", "~/open/x"),
    ],
)
def test_what_only_looks_like_such_a_name_is_not_denied(folder: str, path: str):
    assert not denied(folder, path)


def test_a_second_name_of_a_folder_is_not_below_what_is_allowed_above_it():
    allowed = Constraint(below="/var")
    assert allowed.permits("/var/log/x")
    assert not allowed.permits("/var/run/x")
    assert not allowed.permits("/proc/1/root/var/log/x")


def test_what_was_not_followed_is_denied_and_never_allowed():
    sent = {"file_path": "/srv/a", "content": ""}
    real = ResolvedPaths({"/etc": "/etc"}).real
    assert judged(ETC.format("/etc"), parameters=sent, real=real).answer is Answer.DENY
    assert judged(SRV, parameters=sent, real=real).answer is Answer.ASK
    known = ResolvedPaths({"/etc": "/etc", "/srv": "/srv", "/srv/a": "/srv/a"}).real
    assert judged(ETC.format("/etc"), parameters=sent, real=known).answer is Answer.ASK
    assert judged(SRV, parameters=sent, real=known).answer is Answer.ALLOW


def test_the_folders_above_a_very_long_path_are_never_listed(monkeypatch: pytest.MonkeyPatch):
    listed: list[str] = []
    for module in ("core.policy.constraints", "core.policy.rule_index"):
        monkeypatch.setattr(f"{module}.folders_of", lambda path: listed.append(path) or [path])
    path = "/a" * LONGEST_PATH
    question = a_question({"file_path": path, "content": ""})
    assert RuleIndex(parse_policy(ETC.format("/etc")).rules).matching(question)
    assert all(len(one) <= LONGEST_PATH for one in listed)


PLACES = [
    "/srv",
    "/srv/a",
    "/srv/a/b",
    "/etc",
    "/lib",
    "/usr/lib",
    "/var/run",
    "/run",
    "~/x",
    "~root/x",
    "C:/x",
]
LEADS_TO = some.dictionaries(some.sampled_from(PLACES), some.sampled_from(["/srv", "/srv/a", "/etc", "/run"]))


@given(
    some.lists(
        some.tuples(some.sampled_from(["deny", "ask", "allow"]), some.sampled_from(PLACES)), max_size=6
    ),
    some.sampled_from([*PLACES, "relative", "/srv/../etc/x", "/lib/x", "/proc/1/root/etc", "c:\\x\\y", ""]),
    some.none() | LEADS_TO,
)
def test_the_shelves_leave_out_no_rule_that_speaks(
    rules: list[tuple[str, str]], path: str, leads: dict[str, str] | None
):
    """What is looked up by folder is what each rule says of the call by itself, links followed or not."""
    text = "".join(
        rule(decision, f'tool = "write_file"\n[rule.parameters.file_path]\nbelow = "{folder}"', f"r{number}")
        for number, (decision, folder) in enumerate(rules)
    )
    book = RuleIndex(parse_policy(text).rules)
    question = a_question({"file_path": path}, real=None if leads is None else ResolvedPaths(leads).real)
    speaking = [one for one in book.rules if not one.faults(question)]
    denying = [one for one in speaking if one.decision is Answer.DENY]
    in_order = [one for answer in (Answer.ASK, Answer.ALLOW) for one in speaking if one.decision is answer]
    assert book.matching(question) == (denying[:1] or in_order)


def test_a_path_is_followed_as_far_as_it_exists_and_needs_a_beginning(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "real")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    assert real_path(f"{tmp_path}/way/not/there") == str(tmp_path / "real" / "not" / "there")
    assert real_path(f"{tmp_path}/round/x") is not None
    for nowhere in ("relative", "~no-such-user/x", "/a\0b"):
        assert real_path(nowhere) is None


def test_two_dots_after_a_link_lead_where_the_system_takes_them(tmp_path: Path):
    (tmp_path / "closed").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "way").symlink_to(tmp_path / "closed")
    closed, opened = Constraint(below=f"{tmp_path}/closed"), Constraint(below=f"{tmp_path}/open")

    def real(path: str) -> str:
        return real_path(path) or ""

    # By its letters it stays in `open`; the system goes up from `closed`.
    path = f"{tmp_path}/open/way/../closed/x"
    assert closed.forbids({"any": [path]}, real)
    assert not opened.permits(path, real)
    assert not closed.forbids(f"{tmp_path}/open/way/../elsewhere", real)


def test_paths_are_found_wherever_they_are_in_the_arguments_and_not_without_end():
    sent = {"a": ["/x", {"b": "~/y", "c": ["no", 1, None]}], "d": "C:\\z", "e": "/" * (LONGEST_PATH + 1)}
    assert set(paths_in(sent)) == {"/x", "~/y", "C:\\z"}
    assert len(list(paths_in([f"/{number}" for number in range(MOST_PATHS + 5)]))) == MOST_PATHS


async def test_a_disk_that_does_not_answer_keeps_nothing_else_waiting_and_refuses_the_call():
    answers = threading.Event()
    asked: list[str] = []

    def resolve(path: str) -> str:
        asked.append(path)
        if path == "/share/x":
            answers.wait(PATIENCE_S)
        return path

    links = Links(resolve, within_s=0.05)
    try:
        for _ in range(MOST_THREADS + 3):
            with pytest.raises(Refused) as refusal:
                await links.follow(["/share/x"])
            assert refusal.value.code is ErrorCode.PATH_NOT_ALLOWED
        # Those that hang are never more, however often the disk is asked.
        assert asked == ["/share/x"] * MOST_THREADS
    finally:
        answers.set()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                leads = await links.follow(["/a"])
                break
            except Refused:
                continue
    assert leads.real("/a") == "/a"
    with pytest.raises(Undecidable):
        leads.real("/b")
