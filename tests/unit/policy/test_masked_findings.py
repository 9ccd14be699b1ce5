"""Judged is what is sent, secrets too; no finding and no summary repeats a secret."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.commitments import Opening
from core.models.tools import Risk
from core.policy.analysis.call_analysis import CallAnalysis, analyze_call
from core.policy.analysis.masking import Marks
from tests.fakes.policy_calls import a_tool

SALT = "ab" * 32


def analysis(tool: str, parameters: dict[str, Any], *openings: tuple[Any, ...]) -> CallAnalysis:
    marks = Marks(tuple(Opening(path=path, salt=SALT, span=span) for path, span in openings))
    return analyze_call(a_tool(tool), parameters, marks=marks)


def in_line(before: str, secret: str, after: str, tool: str = "shell_execute") -> CallAnalysis:
    span = (len(before), len(before) + len(secret))
    return analysis(tool, {"command": before + secret + after}, (("command",), span))


def test_a_line_with_a_secret_is_judged_and_shown_around_it():
    found = in_line("curl -H 'X-Token: ", "tr0ub4dor", "' http://h/; rm -rf /srv/data")
    assert found.summary.startswith("Deletes /srv/data and everything in it")
    assert "curl -H 'X-Token: •••' http://h/" in found.summary
    assert "tr0ub4dor" not in repr(found)


def test_offsets_count_characters_of_the_text_that_is_shown():
    shown = "echo '•••'; rm -rf /srv/data"
    found = in_line("echo '", "a much longer secret", "'; rm -rf /srv/data")
    deletes = [finding for finding in found.findings if finding.text.startswith("Deletes")]
    assert deletes
    for finding in deletes:
        assert shown[finding.start : finding.end].startswith("rm")


def test_a_command_that_a_secret_brings_is_judged_and_stays_unread():
    found = in_line("true; ", "rm -rf /srv/top-secret", "")
    assert max(found.findings, key=lambda finding: finding.risk.rank).risk is Risk.HIGH
    assert "top-secret" not in repr(found)


@pytest.mark.parametrize(
    ("path", "words", "risk"),
    [
        ("/etc/cron.d/nightly", "Writes under /etc", Risk.HIGH),
        ("/home/u/.ssh/authorized_keys", "Touches keys or passwords of a person", Risk.HIGH),
        ("/home/u/.bashrc", "Touches settings that decide what runs", Risk.HIGH),
        ("/srv/plain", "", Risk.LOW),
    ],
)
def test_a_path_that_is_a_secret_has_the_risk_of_the_path(path: str, words: str, risk: Risk):
    plain = analysis("write_file", {"file_path": path, "content": "x"})
    secret = analysis("write_file", {"file_path": path, "content": "x"}, (("file_path",), None))
    assert max((finding.risk.rank for finding in secret.findings), default=Risk.LOW.rank) == max(
        (finding.risk.rank for finding in plain.findings), default=Risk.LOW.rank
    )
    assert {finding.risk for finding in secret.findings} <= {Risk.MEDIUM, risk}
    assert not words or words in [finding.text for finding in secret.findings]
    assert path not in repr(secret)
    assert "•••" in secret.summary


def test_a_secret_content_has_no_size_and_a_secret_text_is_not_quoted():
    written = analysis("write_file", {"file_path": "/srv/a", "content": "hunter22"}, (("content",), None))
    assert "Writes a secret to /srv/a" in written.summary
    typed = analysis("type_text", {"text": "hunter22"}, (("text",), None))
    assert "Types a secret" in typed.summary


# The first letters are in no word that the findings use of themselves, such as "argument".
SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=5, max_size=21).map(
    "zq9".__add__
)
LINES = [
    "curl https://{}.example/x",
    "rm -rf /srv/{}",
    "mail -s {} a@b.example",
    "sudo {} now",
    "kill {}",
    "cat /home/u/.ssh/{}",
    "psql -c 'drop table {}'",
    "echo {} > /etc/{}",
    "bash -c 'rm {}'",
    "python3 -c '{}'",
    "export LD_PRELOAD={}",
    "ssh {} reboot",
    "scp a {}:b",
    "x={} ; $x",
    "chmod 777 {}",
    "systemctl stop {}",
]
VALUES = [
    "{}",
    "https://user:{}@h.example/{}",
    "/etc/{}",
    "../{}",
    "drop table {}",
    "{}@example.com",
    "~{}/x",
    "/home/{}/.ssh/id_rsa",
]
NAMES = ["file_path", "url", "to", "query", "process_name", "host", "text", "body", "limit"]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LINES), SECRETS)
def test_no_finding_in_a_line_repeats_its_secret(line: str, secret: str):
    text, spans = "", []
    for number, part in enumerate(line.split("{}")):
        if number:
            spans.append((len(text), len(text) + len(secret)))
            text += secret
        text += part
    openings = [(("command",), span) for span in spans]
    for tool in ("shell_execute", "run_command"):
        assert secret.casefold() not in repr(analysis(tool, {"command": text}, *openings)).casefold()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(VALUES), st.sampled_from(NAMES), SECRETS, st.booleans())
def test_no_finding_in_a_value_repeats_its_secret(form: str, name: str, secret: str, inside: bool):
    value = form.replace("{}", secret)
    parameters: dict[str, Any] = {name: [value] if inside else value, "other": "plain"}
    path = (name, 0) if inside else (name,)
    for tool in ("write_file", "send_message", "close_application", "launch_application"):
        shown = repr(analysis(tool, parameters, (path, None))).casefold()
        assert secret.casefold() not in shown
        assert "example.com" not in shown
