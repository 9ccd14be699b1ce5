"""The hours of a rule are those of its zone, or of the machine, whatever the environment says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from core.errors import BadInput
from core.policy import rules
from core.policy.loosening import loosenings
from core.policy.models import Answer
from core.policy.policy_file import parse_policy
from tests.fakes.policy_calls import judged

NIGHT = '[[rule]]\nid = "night"\ndecision = "deny"\ntime = {{from = "18:00", to = "04:00"{zone}}}\n'
# 23:27 UTC, 00:27 in Berlin, 05:12 in Kathmandu.
MOMENT = datetime.fromisoformat("2026-11-26T23:27:00+00:00")
SCRIPT = """
import json, sys
from datetime import datetime
from core.policy.rules import MatchContext, TimeWindow
from core.policy.rules import machine_zone
window = TimeWindow.model_validate(json.loads(sys.argv[1]))
moment = datetime.fromisoformat(sys.argv[2])
print(json.dumps([window.covers(moment), str(window.local(moment)), machine_zone()[1]]))
"""


def in_process(window: dict[str, str], tmp_path: Path, **environment: str) -> object:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(window), MOMENT.isoformat()],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("zone", ["", "Europe/Berlin", "UTC"])
def test_who_sets_the_environment_does_not_move_the_hours_of_a_rule(zone: str, tmp_path: Path):
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(Path("/usr/share/zoneinfo/Asia/Kathmandu").read_bytes())
    window = {"from": "18:00", "to": "04:00", "zone": zone}
    plain = in_process(window, tmp_path)
    for name in ("UTC", "Asia/Kathmandu", "XYZ-9", ":/etc/hostname", ""):
        assert in_process(window, tmp_path, TZ=name, PYTHONTZPATH=str(tmp_path)) == plain


def test_the_zone_of_a_rule_decides_and_is_named():
    for zone, name, denied in (
        ("Europe/Berlin", "Fri 00:27 in Europe/Berlin", True),
        ("UTC", "Thu 23:27 in UTC", True),
        ("Asia/Kathmandu", "", False),
    ):
        decision = judged(NIGHT.format(zone=f', zone = "{zone}"'), moment=MOMENT)
        assert (decision.answer is Answer.DENY) is denied
        assert name in decision.reasons[0].text


def test_without_a_zone_the_hours_are_those_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    local = tmp_path / "localtime"
    local.symlink_to("/usr/share/zoneinfo/Asia/Kathmandu")
    monkeypatch.setattr(rules, "MACHINE", local)
    assert judged(NIGHT.format(zone=""), moment=MOMENT).answer is not Answer.DENY
    local.unlink()
    local.symlink_to("/usr/share/zoneinfo/America/St_Johns")
    decision = judged(NIGHT.format(zone=""), moment=MOMENT)
    assert "Thu 19:57 in America/St_Johns" in decision.reasons[0].text
    local.unlink()
    assert "Thu 23:27 in UTC" in judged(NIGHT.format(zone=""), moment=MOMENT).reasons[0].text


def test_what_is_signed_names_the_hours_and_their_zone():
    allow = NIGHT.replace("deny", "allow").format(zone=', zone = "Europe/Berlin"')
    assert loosenings(parse_policy(""), parse_policy(allow)) == [
        "Rule night allows, from 18:00 to 04:00 in Europe/Berlin."
    ]


@pytest.mark.parametrize("zone", ["Europe/Berlinn", "../../etc/hostname", "/etc/localtime", "Europe", "x/.."])
def test_a_zone_that_is_none_makes_the_file_broken(zone: str):
    with pytest.raises(BadInput, match="zone"):
        parse_policy(NIGHT.format(zone=f', zone = "{zone}"'))
