"""An invented policy, the calls that it is tried on, and grants in every state."""

from __future__ import annotations

from typing import Any

from core.canonical_json import sha256_hex
from core.models.tools import Risk
from core.policy.constraints import Constraint
from core.policy.grants import Grant, GrantTerms, scope_words
from tests.fakes.fleet_data import ago

RULES = """# What may run without asking, and what never may.
profile = "guarded"

[[profiles]]
tag = "prod"
profile = "guarded"

[[rule]]
id = "no-deleting-by-line"
decision = "deny"
tool = "shell_execute"
reason = "Files are deleted by hand, never by a shell line"
# Other spellings of a line run the same program.
program = "rm"
  [[rule.match]]
  parameters = { command = "true; sudo rm -rf /srv/spool" }
  [[rule.not_match]]
  parameters = { command = "ls /srv/spool" }

[[rule]]
id = "two-for-production"
decision = "ask"
production = true
risk = ">=high"
approvers = 2
evidence = ["before", "after"]
reason = "High risk on production needs two operators"

[[rule]]
id = "spool-files"
decision = "allow"
device = ["scan-pc-*", "stock-pc-02"]
tool = "write_file"
reason = "The spool is rebuilt every night"
  [rule.parameters.file_path]
  below = "/srv/spool"
  [[rule.match]]
  device = "scan-pc-04"
  parameters = { file_path = "/srv/spool/label.txt" }
  [[rule.not_match]]
  device = "scan-pc-04"
  parameters = { file_path = "/srv/spool/../../etc/passwd" }

[[rule]]
id = "lab-by-day"
decision = "allow"
tag = "lab"
tool = ["shell_execute", "launch_app"]
risk = "<=medium"
time = { days = ["mon", "tue", "wed", "thu", "fri"], from = "07:00", to = "19:00" }
reason = "The lab is attended by day"

[[rule]]
id = "lab-reading"
decision = "allow"
tag = "lab"
tool = "shell_execute"
risk = "<=high"
reason = "Harmless reading"
  [rule.parameters.command]
  one_of = ["uptime", "df -h", "systemctl status"]
"""

# device, tool, arguments, what was said then, what a person answered, how many of the kind
PAST: list[tuple[str, str, dict[str, Any], str, str, int]] = [
    (
        "scan-pc-04",
        "write_file",
        {"file_path": "/srv/spool/label.txt", "content": "x"},
        "ask",
        "approved",
        24,
    ),
    ("scan-pc-05", "write_file", {"file_path": "/srv/spool/old.txt", "content": ""}, "ask", "denied", 3),
    ("stock-pc-02", "write_file", {"file_path": "/etc/motd", "content": "hello"}, "ask", "approved", 2),
    ("build-lnx-03", "shell_execute", {"command": "rm -rf $CACHE/*"}, "ask", "denied", 1),
    ("lab-lnx-01", "shell_execute", {"command": "rm -r /tmp/build"}, "ask", "approved", 2),
    ("lab-lnx-02", "shell_execute", {"command": "systemctl status"}, "ask", "approved", 11),
    ("db-primary", "shell_execute", {"command": "sudo systemctl restart postgres"}, "ask", "approved", 4),
    ("edge-gw-11", "screenshot", {}, "allow", "", 160),
    ("lab-lnx-04", "get_system_info", {}, "allow", "", 231),
]


def _grant(number: int, tool: str, *, device: str, actor: str, given: float, **more: Any) -> Grant:
    terms = GrantTerms(
        id=f"g-{number:04}-c0ffee",
        approval=f"a-{number:04}",
        author="harbour",
        devices=[device],
        tool_key=f"action::{tool}",
        contract=sha256_hex(tool.encode()),
        actors=[actor],
        arguments=more.pop("arguments", {}),
        risk=more.pop("risk", Risk.MEDIUM),
        run=more.pop("run", None),
        uses=more.pop("uses", None),
        expires=more.pop("expires", ago(-9 * 3600)),
    )
    return Grant(terms=terms, given_at=ago(given), words=scope_words(terms), **more)


def make_grants() -> list[Grant]:
    """Five grants in every state: in use, nearly used up, of one run, ended, revoked."""
    spool = {"file_path": Constraint(below="/srv/spool"), "content": "any"}
    line: dict[str, Any] = {"command": Constraint(equals="systemctl status printer")}
    agent, clerk = "agent:night-shift", "agent:clerk"
    return [
        _grant(31, "write_file", device="stock-pc-02", actor=clerk, given=5400, used=14,
               arguments=spool, last_used_at=ago(240)),
        _grant(30, "shell_execute", device="label-win-02", actor=agent, given=9000, used=4,
               arguments=line, uses=5, last_used_at=ago(1900)),
        _grant(27, "launch_app", device="scan-pc-*", actor=clerk, given=20_000, run="r-0417",
               arguments={"name": Constraint(one_of=["scan", "viewer"])}),
        _grant(22, "shell_execute", device="lab-lnx-01", actor=agent, given=90_000, used=3, over=True,
               arguments=line, uses=3, last_used_at=ago(70_000)),
        _grant(19, "write_file", device="db-primary", actor=agent, given=180_000, over=True,
               arguments=spool, risk=Risk.HIGH, expires=ago(100_000), revoked_at=ago(150_000),
               revoked_by="operator:harbour", used=1, last_used_at=ago(170_000)),
    ]  # fmt: skip
