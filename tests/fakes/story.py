"""A working day in the fake: runs in every state, requests in the queue, entries with pictures.

`story()` is what the screens' pictures are made of; its numbers are those of the look's first pictures.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from core.aip.messages import ResultStatus
from core.approvals.models import Operator
from core.audit.entries import Kind
from core.batch.models import Batch, Cell, CellState, Run, RunState, RunSummary, flatten
from core.canonical_json import digest_of
from core.commands.results import Basis, CommandResult, Evidence, Verdict
from core.errors import ErrorCode, ErrorInfo
from tests.fakes.bay_count import add_bay_count
from tests.fakes.console import FakeConsole
from tests.fakes.decisions import decide_step
from tests.fakes.fleet_data import ago, make_devices
from tests.fakes.journal import at, stamp
from tests.fakes.pictures import desktop_png
from tests.fakes.policy_data import make_grants
from tests.fakes.runs import summarise
from tests.fakes.story_requests import LINES, add_lone_requests, add_request

LAST_ENTRY = 18_204
CLEAN = Batch.model_validate(
    {
        "name": "Free disk space",
        "targets": "tag:lab,build,edge os:linux",
        "steps": [
            {"id": "disk", "tool": "get_system_info", "with": {"info_type": "disk"}},
            {"id": "keep", "tool": "artifact.list", "with": {"prefix": "build-"}},
            {
                "id": "clean",
                "tool": "shell_execute",
                "with": {"command": "rm -rf ~/.cache/thumbs", "timeout": 120},
            },
            {"id": "shot", "tool": "screenshot"},
            {"id": "mem", "tool": "get_system_info", "with": {"info_type": "memory"}},
            {"id": "mark", "tool": "write_file", "with": {"file_path": "~/cleaned.txt", "content": "done\n"}},
        ],
    }
)
CLEAN_ON = [
    "lab-lnx-01",
    "lab-lnx-02",
    "lab-lnx-03",
    "lab-lnx-04",
    "lab-lnx-05",
    "build-lnx-03",
    "edge-gw-11",
]
# One letter a step: c confirmed, u unverified, r running, w waits, q queued, s skipped, n no effect,
# f failed, x refused, t no such tool, - not started, ? unknown
_CLEAN_CELLS = ["ccuccu", "ccrqqq", "ccrqqq", "ccwqqq", "ccsccn", "cf----", "ctx---"]
_OTHERS: list[tuple[str, str, str, list[str], str, float]] = [
    ("r-0417", "Recount, bay B", "scan-pc-05", ["a", "b", "c"], "ccw", 1),
    ("r-0416", "Sharper scans", "scan-pc-04", ["read", "write", "check"], "cwq", 2),
    ("r-0415", "Keep /srv below 90 %", "build-lnx-03", ["disk", "list", "clean", "check"], "ccwq", 6),
    ("r-0413", "Restart label print", "label-win-02", ["shot", "close", "start"], "wqq", 8),
    ("r-0411", "Rotate gateway logs", "edge-gw-11", ["disk", "rotate", "check"], "cuf", 209),
    ("r-0410", "Label queue reset", "label-win-02", ["stop", "clear", "start", "check"], "cc?-", 223),
    ("r-0409", "screenshot", "lab-lnx-01", ["call"], "c", 241),
    ("r-0408", "Night sweep", "this-computer", ["disk", "mem", "shot"], "ccc", 521),
]
_STATES: dict[str, CellState] = {
    "c": CellState.DONE,
    "u": CellState.DONE,
    "n": CellState.DONE,
    "r": CellState.RUNNING,
    "w": CellState.WAITING,
    "q": CellState.QUEUED,
    "s": CellState.SKIPPED,
    "f": CellState.FAILED,
    "x": CellState.REFUSED,
    "t": CellState.NO_SUCH_TOOL,
    "-": CellState.NOT_STARTED,
    "?": CellState.UNKNOWN,
}
_ENDS: dict[str, tuple[ResultStatus, Verdict, Basis]] = {
    "c": (ResultStatus.SUCCESS, Verdict.CONFIRMED, Basis.READ_RESPONSE),
    "u": (ResultStatus.SUCCESS, Verdict.UNVERIFIED, Basis.DEVICE_CLAIM),
    "n": (ResultStatus.SUCCESS, Verdict.NO_EFFECT, Basis.POSTCONDITION),
    "f": (ResultStatus.FAILURE, Verdict.UNVERIFIED, Basis.DEVICE_REPORTED_FAILURE),
    "x": (ResultStatus.NONE, Verdict.REFUSED, Basis.NOTHING_SENT),
    "?": (ResultStatus.NONE, Verdict.UNKNOWN, Basis.NO_ANSWER),
}


def story(operators: list[Operator] | None = None) -> FakeConsole:
    """The console of the pictures: 24 devices, 10 runs, requests of three risks, 300 entries."""
    known = operators or [Operator(name="harbour", public_key="a1" * 30 + "0000b7e4", has_passphrase=True)]
    console = FakeConsole(make_devices(), known, first_seq=LAST_ENTRY - 299)
    console.saved = {
        "free-disk-space": CLEAN,
        "check-limits": CLEAN.model_copy(update={"name": "Check limits"}),
    }
    _old_entries(console)
    for row in reversed(_OTHERS):
        if row[0] == "r-0413":
            add_bay_count(console, at(15 * 60))
        _other_run(console, *row)
    _clean_run(console)
    add_lone_requests(console)
    console.given = make_grants()
    _pictures(console)
    _fill_journal(console)
    console.fake_journal.status = console.fake_journal.status.model_copy(
        update={"verified_at": stamp(at(900)), "verified_ok": True, "verified_entries": LAST_ENTRY - 12}
    )
    return console


def _old_entries(console: FakeConsole) -> None:
    journal = console.fake_journal
    journal.write(Kind.SERVICE_STARTED, "service", at(32_000))
    for device in console.fleet.values():
        journal.write(Kind.DEVICE_CONNECTED, f"device:{device.name}", at(31_900), device=device.name)


def _clean_run(console: FakeConsole) -> None:
    _make_run(console, "r-0418", CLEAN, CLEAN_ON, _CLEAN_CELLS, minutes_ago=2, actor="operator:harbour")


def _other_run(
    console: FakeConsole, run: str, name: str, device: str, steps: list[str], cells: str, minutes: float
) -> None:
    tools = ["screenshot", "get_system_info", "shell_execute", "write_file"]
    batch = Batch.model_validate(
        {
            "name": name,
            "targets": f"name:{device}",
            "steps": [
                {
                    "id": step,
                    "tool": "shell_execute" if sign in "wu?f" else tools[place % 2],
                    "with": {"command": LINES[1]} if sign in "wu?f" else {},
                }
                for place, (step, sign) in enumerate(zip(steps, cells, strict=True))
            ],
        }
    )
    agent = "agent:night-shift" if "w" in cells and device != "label-win-02" else "operator:harbour"
    kind: Any = "call" if len(steps) == 1 else "batch"
    _make_run(console, run, batch, [device], [cells], minutes, agent, kind)


def _make_run(
    console: FakeConsole,
    run_id: str,
    batch: Batch,
    devices: list[str],
    rows: list[str],
    minutes_ago: float,
    actor: str,
    kind: Any = "batch",
) -> None:
    start = minutes_ago * 60 + 40
    steps = flatten(batch.steps)
    console.fake_journal.write(Kind.RUN_STARTED, actor, at(start), run=run_id, body={"devices": devices})
    cells = []
    for device, signs in zip(devices, rows, strict=True):
        for place, (step, sign) in enumerate(zip(steps, signs, strict=True)):
            began = start - 2 - place * 6
            call_id = f"c-{run_id[2:]}-{devices.index(device)}{place}"
            cells.append(_cell(console, run_id, device, step, sign, call_id, began, actor))
    summary = RunSummary(
        id=run_id,
        name=batch.name,
        kind=kind,
        actor=actor,
        state=RunState.RUNNING,
        devices=devices,
        devices_hash=digest_of(devices),
        steps=[step.id for step in steps],
        tools=[step.tool for step in steps],
        counts={},
        started_at=ago(start),
    )
    run = Run(summary=summary, batch=batch, cells=cells)
    console.work.add(run.model_copy(update={"summary": summarise(run)}))


def _cell(
    console: FakeConsole, run: str, device: str, step: Any, sign: str, call_id: str, began: float, actor: str
) -> Cell:
    state = _STATES[sign]
    cell = Cell(run=run, device=device, step=step.id, tool=step.tool, state=state)
    if sign in "qs-t":
        note = {"t": "the device has no such tool", "-": "an earlier step failed", "s": "nothing to do"}.get(
            sign, ""
        )
        return cell.model_copy(update={"note": note})
    cell = cell.model_copy(update={"call_id": call_id, "started_at": ago(began)})
    if sign == "w":
        approval = add_request(
            console, device, step.tool, step.parameters, call_id, actor, run, step.id, began
        )
        return cell.model_copy(update={"approval": approval.id})
    if sign == "r":
        console.fake_journal.write(
            Kind.COMMAND_SENT,
            "service",
            at(began),
            run=run,
            step=step.id,
            device=device,
            tool=step.tool,
            call_id=call_id,
        )
        return cell
    return cell.model_copy(
        update={
            "ended_at": ago(began - 1),
            "result": _result(console, run, device, step, sign, call_id, began),
        }
    )


def _result(
    console: FakeConsole, run: str, device: str, step: Any, sign: str, call_id: str, began: float
) -> CommandResult:
    status, verdict, basis = _ENDS[sign]
    evidence = []
    answer: Any = {"info_type": "disk", "filesystems": [{"mount_point": "/", "use_percent": 91.4}]}
    if step.tool == "screenshot":
        data = desktop_png(device, console.fleet[device].platform, lines=6 + int(began) % 14)
        blob = console.fake_journal.add_blob(data)
        evidence = [
            Evidence(
                blob=blob, media_type="image/png", size=len(data), what="screenshot", width=1280, height=800
            )
        ]
        answer = {"width": 1280, "height": 800, "scale": 1.0, "monitor": 1}
    elif step.tool == "shell_execute":
        answer = {"stdout": "removed 'build-old/2031/objs'\n" * 8, "stderr": "", "exit_code": 0}
    errors = {
        "f": ErrorInfo.of(ErrorCode.TOOL_FAILED, "rm: cannot remove 'lock': Device or resource busy"),
        "x": ErrorInfo.of(ErrorCode.DENIED_BY_POLICY, "Rule no-system-files says deny."),
        "?": ErrorInfo.of(ErrorCode.OUTCOME_UNKNOWN, "The device was lost while the command ran."),
    }
    result = CommandResult(
        call_id=call_id,
        device=device,
        tool_name=step.tool,
        status=status,
        verdict=verdict,
        basis=basis,
        error=errors.get(sign),
        result=None if sign in "x?" else answer,
        duration_ms=180.0 + began % 400,
        evidence=evidence,
        decision=decide_step(console.tools_of[device], step, console.fleet[device]),
    )
    console.fake_journal.write(
        Kind.COMMAND_REFUSED if sign == "x" else Kind.RESULT_RECORDED,
        f"device:{device}",
        at(began - 1),
        run=run,
        step=step.id,
        device=device,
        tool=step.tool,
        call_id=call_id,
        status=status.value,
        verdict=verdict.value,
        duration_ms=result.duration_ms,
        body={"result": result.model_dump(mode="json", exclude={"decision"})},
        blobs=[one.blob for one in evidence],
    )
    return result


def _pictures(console: FakeConsole) -> None:
    for name, device in list(console.fleet.items()):
        if device.health.value == "offline":
            continue
        blob = console.fake_journal.add_blob(desktop_png(name, device.platform))
        # What was not heard for a while has shown nothing since.
        heard = device.last_heard if device.health.value in ("stale", "reconnecting") else ago(4)
        console.change_device(name, picture=blob, picture_at=heard)


def _fill_journal(console: FakeConsole) -> None:
    journal = console.fake_journal
    names = [name for name, device in console.fleet.items() if device.health.value != "offline"]
    # The rest of the three hundred: observations in the last minutes, as any fleet has them.
    missing = LAST_ENTRY - journal.status.entries
    for number in range(missing):
        name = names[number % len(names)]
        when = at(30) + timedelta(milliseconds=number * 90)
        journal.write(
            Kind.RESULT_RECORDED,
            f"device:{name}",
            when,
            device=name,
            tool="get_system_info",
            call_id=f"c-read-{number:04d}",
            status="success",
            verdict="confirmed",
            duration_ms=120.0 + number % 80,
            body={"result": {"result": {"info_type": "memory", "use_percent": 40 + number % 30}}},
        )
