"""What keeps a person from reading an argument is a finding, and so is a line that hides a command."""

from __future__ import annotations

import pytest

from core.models.tools import Risk
from core.policy.analysis.call_analysis import findings_in_call
from core.policy.analysis.shell.walk import findings_in_line
from tests.fakes.policy_calls import a_tool

LINES = [
    "ln -s /bin/rm q; q -rf ~",
    "capsh -- -c 'rm -rf ~'",
    "ssh-agent rm -rf x",
    "killall5 -9",
    "dbus-send --system --dest=org.freedesktop.login1 /org/x org.x.PowerOff boolean:true",
    "busctl call org.freedesktop.login1 /org/x org.x PowerOff b true",
    "gdbus call --system --dest org.x --object-path /x --method org.x.PowerOff",
    "tar xPf evil.tar",
    "tar -xPf evil.tar",
    "cpio -i < archive",
    "docker run -v/:/h alpine",
    "docker run --mount type=bind,src=/,dst=/h alpine",
    "docker run --mount=type=bind,source=/,target=/h alpine",
    "docker run --mount src=/,dst=/h alpine",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_hides_a_command_has_a_grave_finding(line: str):
    assert any(finding.risk.rank >= Risk.HIGH.rank for finding in findings_in_line(line, "command"))


@pytest.mark.parametrize(
    "line",
    [
        "busctl list",
        "gdbus introspect -e",
        "ln -s a b",
        "tar cPf x.tar a",
        "tar xf a.tar",
        "docker run -v x:/h a",
    ],
)
def test_a_line_that_only_looks_like_one_has_none(line: str):
    risks = [finding.risk for finding in findings_in_line(line, "command")]
    assert not [risk for risk in risks if risk.rank >= Risk.HIGH.rank]


@pytest.mark.parametrize(
    "parameters",
    [
        {"na\u202eme": "x"},
        {"na\u200bme": 1},
        {"text": "x" + " " * 20_000 + "rm -rf ~"},
        {"text": ["x" + "\u00a0" * 2_000 + "y"]},
        {"text": "e" + "\u0301" * 3_000},
        {"text": "x" * 1_000_000},
    ],
)
def test_what_no_person_reads_is_a_finding(parameters: dict[str, object]):
    assert findings_in_call(a_tool("send", namespace="mail"), parameters)


def test_ordinary_texts_have_no_such_finding():
    text = "Zo\u00eb caf\u0065\u0301 \u0e44\u0e17\u0e22\n" + "    indented\n" * 500
    assert findings_in_call(a_tool("send", namespace="mail"), {"text": text}) == []
