"""The requests for approval of the working day: those of its runs, and some that stand alone."""

from __future__ import annotations

from typing import Any

from core.approvals.models import Approval
from core.audit.entries import Kind
from core.policy.models import Answer, Reason
from core.statements import make_request
from tests.fakes.console import FakeConsole
from tests.fakes.decisions import decide_call
from tests.fakes.fleet_data import ago
from tests.fakes.journal import at

LINES = [
    'cd /srv/artifacts && CACHE="${CACHE_ROOT:-/srv/artifacts/cache}"',
    "find \"$CACHE\" -type d -name 'build-*' -mtime +14 -exec rm -rf {} +",
    "sudo systemctl restart artifact-indexer",
    "df -h /srv/artifacts | tail -n 1",
]


def add_request(
    console: FakeConsole,
    device: str,
    tool_name: str,
    parameters: dict[str, Any],
    call_id: str,
    actor: str,
    run: str | None,
    step: str | None,
    seconds_ago: float,
) -> Approval:
    tool = console.tool_named(device, tool_name)
    known = console.fleet[device]
    decision = decide_call(tool, parameters, console.policy_status.profile, known)
    reasons = [*decision.reasons]
    if decision.answer is not Answer.ASK:
        reasons.insert(
            0, Reason(text="Rule look-first: a person looks at this.", origin="policy.toml line 42")
        )
    decision = decision.model_copy(update={"answer": Answer.ASK, "reasons": reasons})
    request = make_request(
        device=device,
        contract=tool.contract.digest,
        tool_key=tool.tool_key,
        tool_name=tool.tool_name,
        tool_type=tool.tool_type,
        namespace=tool.namespace,
        parameters=parameters,
        call_id=call_id,
    )
    left = max(30.0, 700 - seconds_ago)
    said = (
        "Old build folders fill the disk. I remove those older than two weeks."
        if actor.startswith("agent")
        else ""
    )
    approval = Approval(
        id=f"a-{call_id}",
        request=request,
        decision=decision,
        actor=actor,
        run=run,
        step=step,
        production=known.production,
        asked_at=ago(seconds_ago),
        expires_at=ago(-left),
        remaining_s=left,
        said=said,
    )
    console.request(approval)
    console.fake_journal.write(
        Kind.APPROVAL_REQUESTED,
        actor,
        at(seconds_ago),
        run=run,
        step=step,
        device=device,
        tool=tool_name,
        call_id=call_id,
        body=request.model_dump(mode="json"),
    )
    return approval


def add_lone_requests(console: FakeConsole) -> None:
    shell = {"command": "\n".join(LINES), "timeout": 120, "working_directory": "/srv/artifacts"}
    add_request(
        console,
        "build-lnx-03",
        "shell_execute",
        shell,
        "c-0415-long",
        "agent:night-shift",
        "r-0415",
        "clean",
        310,
    )
    motd = {"file_path": "/etc/motd", "content": "Keep the cache below 90 %.\n", "mode": "overwrite"}
    for number in range(1, 6):
        add_request(
            console,
            f"lab-lnx-0{number}",
            "write_file",
            motd,
            f"c-0412-{number}",
            "operator:harbour",
            None,
            None,
            24,
        )
    click = {"control_id": "post-adjustment", "button": "left"}
    add_request(console, "stock-pc-02", "click_element", click, "c-0419-1", "agent:clerk", None, None, 100)
