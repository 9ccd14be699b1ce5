"""The requests of the Approvals pictures: shell, file and click, a group, several approvers, critical."""

from __future__ import annotations

from typing import Any

from core.approvals.models import Approval, Operator
from core.approvals.preview_models import Preview, Region
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Finding, Profile, Reason
from core.statements import make_request
from tests.fakes.bay_count import ledger_png
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import ago, make_devices
from tests.fakes.pictures import desktop_png

SHELL, FILE, CLICK, GROUP, SEVERAL, CRITICAL = (
    "a-shell", "a-file", "a-click", "a-group-1", "a-several", "a-critical",
)  # fmt: skip
LINES = [
    'cd /srv/artifacts && CACHE="${CACHE_ROOT:-/srv/artifacts/cache}"',
    "find \"$CACHE\" -type d -name 'build-*' -mtime +14 -exec rm -rf {} +",
    "sudo systemctl restart artifact-indexer",
    "df -h /srv/artifacts | tail -n 1",
]
_HEAD = "# scan station 4\n" + "".join(f"option_{n} = {n}\n" for n in range(1, 11))
_TAIL = "".join(f"line_{n} = {n}\n" for n in range(1, 25))
_END = "".join(f"end_{n} = {n}\n" for n in range(1, 10))
_OLD = (
    f'{_HEAD}[scanner]\ndevice = "usb:04a9:190f"\nresolution = 300\nduplex = true\npage_size = "A4"\n'
    f'{_TAIL}[upload]\ntarget = "/srv/outbox"\nretry = 5\non_error = "hold"\n{_END}'
)
_NEW = _OLD.replace("resolution = 300", "resolution = 600").replace(
    'target = "/srv/outbox"\n', 'target = "/srv/outbox/hi-res"\nkeep_days = 30\n'
)


def approvals_story(operators: list[Operator]) -> FakeConsole:
    """A console with eleven requests in seven cards, and two operators."""
    console = FakeConsole(make_devices(), operators, first_seq=17_905)
    for name, device in list(console.fleet.items()):
        if device.health.value != "offline":
            blob = console.fake_journal.add_blob(desktop_png(name, device.platform))
            console.change_device(name, picture=blob, picture_at=ago(4))
    _shell(console)
    _file(console)
    _click(console)
    for number in range(1, 6):
        _motd(console, number)
    _several(console)
    _simple(console)
    for took in (18.0, 4.0, 0.6, 31.0, 12.0, 22.0, 18.0):
        console.answered("harbour", took, took != 31.0)
    return console


def add_critical(console: FakeConsole) -> Approval:
    """A request of critical risk, above all others."""
    line = "psql -c 'DROP DATABASE stock' && rm -rf /var/lib/postgresql/16/stock"
    return _ask(
        console, CRITICAL, "db-primary", "shell_execute", {"command": line, "timeout": 60},
        risk=Risk.CRITICAL, summary="Deletes a database and its folder", left=512.0,
        findings=[
            _find(line, "DROP DATABASE stock", Risk.CRITICAL, "Deletes the database stock"),
            _find(line, "rm -rf /var/lib/postgresql/16/stock", Risk.CRITICAL,
                  "Deletes recursively below /var/lib"),
        ],
        undo="Cannot be undone: no copy of either is kept.",
    )  # fmt: skip


def _find(
    text: str, part: str, risk: Risk, words: str, detail: str = "", argument: str = "command"
) -> Finding:
    start = text.index(part)
    return Finding(
        text=words, risk=risk, detail=detail, argument=argument, start=start, end=start + len(part)
    )


def _ask(
    console: FakeConsole, key: str, device: str, tool_name: str, parameters: dict[str, Any], **more: Any
) -> Approval:
    tool = console.tool_named(device, tool_name)
    risk = more.get("risk", Risk.MEDIUM)
    decision = Decision(
        answer=Answer.ASK, risk=risk, effect=Effect.CHANGE, profile=Profile.GUARDED,
        summary=more["summary"],
        reasons=more.get("reasons", [
            Reason(text=f"Profile guarded: {risk.value} risk asks", origin="built-in profile"),
        ]),
        findings=more.get("findings", []), reversible=more.get("reversible", False),
        undo=more.get("undo", ""), approvers=more.get("approvers", 1),
    )  # fmt: skip
    left = more.get("left", 480.0)
    approval = Approval(
        id=key,
        request=make_request(
            device=device, contract=tool.contract.digest, tool_key=tool.tool_key,
            tool_name=tool.tool_name, tool_type=tool.tool_type, namespace=tool.namespace,
            parameters=parameters, call_id=f"c-{key}",
        ),
        decision=decision, actor=more.get("actor", "agent:night-shift"), run=more.get("run"),
        step=more.get("step"), production=console.fleet[device].production,
        asked_at=ago(700 - left), expires_at=ago(-left), remaining_s=left, said=more.get("said", ""),
        approvers=decision.approvers, approved_by=more.get("approved_by", []),
    )  # fmt: skip
    console.request(approval)
    return approval


def _shell(console: FakeConsole) -> None:
    line = "\n".join(LINES)
    _ask(
        console, SHELL, "build-lnx-03", "shell_execute",
        {"command": line, "timeout": 120, "working_directory": "/srv/artifacts"},
        risk=Risk.HIGH, summary="Deletes folders recursively and restarts a service, as root", left=271.0,
        run="r-0415", step="clean",
        reasons=[
            Reason(text="Profile guarded: high risk asks", origin="tag prod, policy.toml line 8"),
            Reason(text="Rule shell-on-production", origin="“A person looks at every shell line.” line 42"),
            Reason(text="Grant g-0117 nearly matched", origin="command is not as granted"),
        ],
        findings=[
            _find(line, '"$CACHE"', Risk.HIGH, "Uses a variable as the path to search",
                  "CACHE_ROOT is not known here"),
            _find(line, "rm -rf {} +", Risk.HIGH, "Deletes recursively, without asking", "of build-*"),
            _find(line, "sudo", Risk.HIGH, "Runs as root", "sudo"),
            _find(line, "restart artifact-indexer", Risk.MEDIUM, "Restarts the service artifact-indexer",
                  "systemctl"),
        ],
        said="Old builds fill the disk. I remove those older than two weeks; it is routine and safe.",
        undo="Cannot be undone: rm deletes for good. The restart can be repeated; the device keeps no copy "
             "of the folders.",
    )  # fmt: skip


def _file(console: FakeConsole) -> None:
    path = "/etc/scan-station/scanner.toml"
    console.files["scan-pc-04", path] = _OLD
    _ask(
        console, FILE, "scan-pc-04", "write_file",
        {"file_path": path, "content": _NEW, "mode": "overwrite"},
        summary="Overwrites scanner.toml", left=468.0, actor="agent:clerk", run="r-0416", step="write",
        findings=[Finding(text="Overwrites a file that exists", risk=Risk.MEDIUM,
                          detail="owner scan, mode 0644 kept")],
        said="Raising the resolution so that small dimensions on drawings can be read.", reversible=True,
        undo="Can be undone: the device keeps the old content for seven days; Undo writes it back if nobody "
             "changed the file since.",
    )  # fmt: skip


def _click(console: FakeConsole) -> None:
    blob = console.fake_journal.add_blob(ledger_png("noted"))
    console.previews[CLICK] = Preview(
        kind="screen", picture=blob, target=Region(x=918, y=664, width=232, height=36), point=(1080, 684),
        label="push button “Post adjustment”, left click", taken_at=ago(14), age_s=14.0, compared=True,
    )  # fmt: skip
    _ask(
        console, CLICK, "stock-pc-02", "click_element", {"control_id": "post-adjustment", "button": "left"},
        summary="Clicks the button “Post adjustment” in Stock Ledger", left=500.0, actor="agent:clerk",
        run="r-0417", step="post",
        findings=[Finding(text="The name says that it posts something", risk=Risk.MEDIUM, detail="post")],
        said="Counted 148 instead of 152. I filled the form; posting books the difference of −4.",
    )  # fmt: skip


def _motd(console: FakeConsole, number: int) -> None:
    _ask(
        console, f"a-group-{number}", f"lab-lnx-0{number}", "write_file",
        {"file_path": "/etc/motd", "content": "Keep the cache below 90 %.\n", "mode": "create"},
        summary="Creates motd", left=576.0 - number / 10, actor="operator:harbour", run="r-0412", step="motd",
        findings=[Finding(text="Writes below /etc", risk=Risk.MEDIUM, argument="file_path", start=0, end=9)],
        reversible=True, undo="Can be undone: the file is taken away again.",
    )  # fmt: skip


def _several(console: FakeConsole) -> None:
    line = "systemctl stop postgresql"
    _ask(
        console, SEVERAL, "db-replica-2", "shell_execute", {"command": line, "timeout": 60},
        risk=Risk.HIGH, summary="Stops a database server", left=662.0, approvers=2, approved_by=["harbour"],
        findings=[_find(line, "stop postgresql", Risk.HIGH, "Stops the service postgresql", "systemctl")],
        reasons=[Reason(text="Rule two-for-databases: two operators", origin="policy.toml line 57")],
        undo="Cannot be undone: but the service can be started again.",
    )  # fmt: skip


def _simple(console: FakeConsole) -> None:
    line = "rm -rf /srv/artifacts/cache/tmp"
    _ask(
        console, "a-lab", "lab-lnx-04", "shell_execute", {"command": line, "timeout": 120}, risk=Risk.HIGH,
        summary="Deletes recursively below /srv/artifacts/cache", left=528.0, run="r-0418", step="clean",
        actor="operator:harbour",
        findings=[_find(line, line, Risk.HIGH, "Deletes recursively below /srv/artifacts/cache")],
        undo="Cannot be undone: what a shell line changes is not recorded.",
    )  # fmt: skip
