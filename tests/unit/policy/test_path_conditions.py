"""A condition on a path judges the file, however its path is spelled; what cannot be decided is said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from core.policy.constraints import Constraint, Undecidable
from core.policy.models import Answer
from core.policy.policy_check import check_text
from core.policy.real_paths import real_path
from tests.fakes.policy_calls import NO_ETC, a_tool, judged

FILE = "/srv/w/eq.txt"
SPELLINGS = ["/srv/w/eq.txt", "/srv/w//eq.txt", "/srv/w/./eq.txt", "/srv/x/../w/eq.txt", "//srv/w/eq.txt"]
CONDITIONS: list[dict[str, Any]] = [
    {"equals": FILE},
    {"one_of": ["/srv/other", FILE]},
    {"below": FILE},
    {"below": "/srv/w"},
    {"pattern": "^/srv/w/eq[.]txt$"},
]


def real(path: str) -> str:
    resolved = real_path(path)
    if resolved is None:
        raise Undecidable
    return resolved


def denied(condition: dict[str, Any], path: str, **more: Any) -> bool:
    toml = "\n".join(f"{key} = {value!r}" for key, value in condition.items())
    policy = (
        '[[rule]]\nid = "r"\ndecision = "deny"\ntool = "*"\n[rule.parameters.file_path]\n'
        f"{toml}\n[[rule]]\nid = 'other'\ndecision = 'deny'\n[rule.parameters.file_path]\nequals = '/no/x'\n"
    )
    decision = judged(policy, "read_file", {"file_path": path}, **more)
    return decision.answer is Answer.DENY


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_denied_file_is_denied_by_every_spelling(condition: dict[str, Any], spelling: str):
    assert denied(condition, spelling)
    assert denied(condition, spelling, real=real)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_another_file_is_not_denied(condition: dict[str, Any]):
    for other in ("/srv/v/eq.txt", "/srv/eq.txt", "/srv/w2/eq.txt", "/tmp/eq.txt"):
        assert not denied(condition, other)
        assert not denied(condition, other, real=real)


@pytest.mark.parametrize("kind", ["equals", "one_of", "pattern", "below"])
def test_a_link_and_a_home_lead_to_the_denied_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "kept").write_text("x")
    (tmp_path / "way").symlink_to(tmp_path / "home")
    kept = os.path.realpath(tmp_path / "home" / "kept")
    condition = {kind: {"one_of": [kept], "pattern": f"^{kept}$"}.get(kind, kept)}
    for path in (kept, f"{tmp_path}/way/kept", "~/kept", "~/./kept", "~//kept"):
        assert denied(condition, path, real=real), path
    for path in ("~/other", f"{tmp_path}/way/other"):
        assert not denied(condition, path, real=real), path


def test_a_path_below_the_home_of_this_computer_is_judged_where_it_leads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    sent = {"file_path": "~/notes.txt", "content": "x"}
    assert judged(NO_ETC, parameters=sent, real=real).answer is not Answer.DENY
    assert judged(NO_ETC, parameters={**sent, "file_path": "~/../../etc/x"}, real=real).answer is Answer.DENY
    # Only another device knows where its home is.
    doubted = judged(NO_ETC, parameters=sent)
    assert doubted.answer is Answer.DENY
    assert "file_path is below /etc cannot be decided for a path below ~" in doubted.reasons[0].text
    assert (
        "cannot be decided" not in judged(NO_ETC, parameters={**sent, "file_path": "/etc/x"}).reasons[0].text
    )


def test_a_relative_name_is_in_doubt_where_it_may_be_the_file():
    assert denied({"equals": FILE}, "eq.txt")
    assert denied({"equals": FILE}, "w/../eq.txt")
    assert not denied({"equals": FILE}, "other.txt")


@pytest.mark.parametrize(
    "path", ["/srv/w/../../etc/passwd", "/srv/w/x/../../etc", "/srv/w//a", "~/x", "/srv/w/./a"]
)
def test_a_pattern_permits_a_path_only_by_all_its_names(path: str):
    assert not Constraint(pattern="^/srv/w/[a-z]+$|^/srv/w/[.a-z/]+$").permits(
        path, lambda text: "/etc/passwd"
    )
    assert Constraint(pattern="^/srv/w/[a-z]+$").permits("/srv/w/a", lambda text: "/srv/w/a")
    assert not Constraint(pattern="^/srv/w/").permits("/srv/w/../../etc/passwd")


def test_a_shell_line_is_no_path():
    line = "/usr/bin/curl https://x/../y"
    policy = (
        '[[rule]]\nid = "r"\ndecision = "allow"\ntool = "shell_execute"\nrisk = "<=critical"\n'
        f'[rule.parameters.command]\npattern = "^{line}$"\n'
    )
    tool = a_tool("shell_execute")
    assert judged(policy, tool, {"command": line}).answer is Answer.ALLOW
    # No other spelling of a line is permitted.
    assert judged(policy, tool, {"command": "/usr/bin/x; rm/../curl https://x/y"}).answer is Answer.ASK


@pytest.mark.parametrize(("argument", "advice"), [("file_path", "below takes"), ("command", "program names")])
@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_a_check_warns_of_a_pattern_that_other_spellings_evade(argument: str, advice: str, decision: str):
    text = f'[[rule]]\nid = "r"\ndecision = "{decision}"\n[rule.parameters.{argument}]\npattern = "^aws "\n'
    [warning] = check_text(text).warnings
    assert (warning.line, warning.rule) == (1, "r")
    assert advice in warning.message
    assert check_text(text.replace(argument, "title")).warnings == []
