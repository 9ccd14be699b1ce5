"""The run of the replay's pictures: an agent counts a bay, an operator approves a click, the line drops once.

Its entries have the shape of the real journal's, and are about four minutes long.
"""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from core.aip.messages import ResultStatus
from core.audit.entries import Kind
from core.batch.models import Batch, Cell, CellState, Run, RunState, RunSummary, flatten
from core.canonical_json import digest_of
from core.commands.results import Basis, CommandResult, Evidence, Verdict
from core.errors import ErrorCode, ErrorInfo
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Profile, Reason
from tests.fakes.console import FakeConsole
from tests.fakes.journal import stamp

RUN = "r-0414"
DEVICE = "stock-pc-02"
AGENT = "agent:clerk"
SIZE = (1280, 800)
_ITEMS = (
    ("40-1187", "Hex bolt M8x40", "A-04-2", "860", "860"),
    ("40-1203", "Washer M8 A2", "A-04-2", "1 420", "1 420"),
    ("52-0310", "Gasket 1/2 in", "B-11-1", "152", ""),
    ("52-0316", "Gasket 3/4 in", "B-11-2", "88", "88"),
    ("61-7740", "Ball valve DN15", "C-02-4", "36", "36"),
    ("61-7741", "Ball valve DN20", "C-02-4", "41", "41"),
)
# step, tool, seconds after the start, answer after ms, arguments, what the picture shows, outcome
_STEPS: tuple[tuple[str, str, float, float, dict[str, Any], str, str], ...] = (
    ("tree", "get_ui_tree", 4, 2400, {"depth": 6}, "", "read"),
    ("look", "screenshot", 20, 900, {}, "start", "read"),
    ("field", "click_element", 33, 212, {"x": 872, "y": 536}, "", "act"),
    ("count", "type_text", 50, 1900, {"text": "148"}, "", "act"),
    ("typed", "screenshot", 55, 700, {}, "typed", "read"),
    ("reason", "select_item", 58, 2600, {"item": 7}, "", "bad"),
    ("note", "type_text", 66, 800, {"text": "Cycle count week 47"}, "", "act"),
    ("noted", "screenshot", 72, 600, {}, "noted", "read"),
    ("post", "click_element", 76, 212, {"x": 980, "y": 681}, "", "asked"),
    ("check", "screenshot", 175, 800, {}, "posted", "read"),
    ("after", "screenshot", 249, 900, {}, "posted", "read"),
)
_WAITED = 82.0
_LOST = (186.0, 207.0)


@lru_cache(maxsize=8)
def ledger_png(shows: str) -> bytes:
    """A stock program: `start`, then `typed`, then `noted`, then `posted`."""
    picture = Image.new("RGB", SIZE, (104, 122, 106))
    draw = ImageDraw.Draw(picture)
    small, bold = ImageFont.load_default(14), ImageFont.load_default(15)
    draw.rectangle((0, 0, 1280, 28), fill=(18, 18, 20))
    draw.text((16, 6), "Activities   Stock Ledger", font=small, fill=(235, 235, 235))
    draw.rounded_rectangle((92, 66, 1190, 752), 10, fill=(250, 249, 247))
    draw.rectangle((92, 76, 1190, 108), fill=(232, 228, 222))
    draw.text((500, 82), "Stock Ledger - Adjust item 52-0310", font=bold, fill=(40, 38, 36))
    _table(draw, small, "" if shows == "start" else "148")
    fields = (
        (800, 156, 350, "Item", "52-0310 Gasket 1/2 in"),
        (800, 236, 165, "Bin", "B-11-1"),
        (985, 236, 165, "Book quantity", "152"),
        (800, 316, 165, "Counted", "" if shows == "start" else "148"),
        (985, 316, 165, "Difference", "" if shows == "start" else "-4"),
        (800, 396, 350, "Reason", "Cycle count"),
    )
    for x, y, width, label, value in fields:
        draw.text((x, y - 20), label, font=small, fill=(90, 88, 84))
        draw.rectangle((x, y, x + width, y + 34), fill="white", outline=(190, 186, 180))
        draw.text((x + 10, y + 9), value, font=small, fill=(20, 20, 20))
    draw.text((800, 452), "Note", font=small, fill=(90, 88, 84))
    draw.rectangle((800, 472, 1150, 566), fill="white", outline=(190, 186, 180))
    if shows in ("noted", "posted"):
        draw.text((810, 482), "Cycle count week 47", font=small, fill=(20, 20, 20))
    if shows == "posted":
        draw.rectangle((800, 592, 1150, 636), fill=(206, 232, 214))
        draw.text((816, 606), "Posted as ADJ-20417", font=small, fill=(24, 92, 56))
    draw.rectangle((800, 664, 900, 700), fill="white", outline=(190, 186, 180))
    draw.text((828, 674), "Cancel", font=small, fill=(20, 20, 20))
    draw.rectangle((918, 664, 1150, 700), fill=(46, 104, 196))
    draw.text((986, 674), "Post adjustment", font=small, fill="white")
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def _table(draw: ImageDraw.ImageDraw, font: Any, counted: str) -> None:
    draw.rectangle((116, 156, 764, 716), fill="white", outline=(210, 206, 200))
    for row, item in enumerate((("Item", "Name", "Bin", "Book", "Counted"), *_ITEMS)):
        y = 162 + row * 34
        if row == 3:
            draw.rectangle((117, y - 4, 763, y + 28), fill=(206, 222, 240))
        cells = (*item[:4], counted) if row == 3 else item
        for x, cell in zip((130, 250, 440, 590, 680), cells, strict=True):
            draw.text((x, y + 4), cell, font=font, fill=(110, 106, 100) if row == 0 else (20, 20, 20))


def add_bay_count(console: FakeConsole, began: datetime) -> None:
    """Write the run into a fake's journal and put it among its runs."""
    writer = _Writer(console, began)
    writer.write(0, Kind.RUN_STARTED, AGENT, body={"name": "Cycle count, bay B", "devices": [DEVICE]})
    events: list[tuple[float, Any]] = [
        (_LOST[0], lambda: writer.line(_LOST[0], Kind.DEVICE_LOST, {"reason": "heartbeats stopped"})),
        (_LOST[1], lambda: writer.line(_LOST[1], Kind.DEVICE_CONNECTED, {})),
    ]
    cells: list[Cell] = []
    for number, step in enumerate(_STEPS):
        events.append((step[2], lambda number=number, step=step: cells.append(writer.command(number, *step))))
    for _, act in sorted(events, key=lambda event: event[0]):
        act()
    writer.write(256, Kind.RUN_FINISHED, "service", body={"state": "done"})
    batch = Batch.model_validate(
        {
            "name": "Cycle count, bay B",
            "targets": f"name:{DEVICE}",
            "on_failure": "continue",
            "steps": [{"id": step[0], "tool": step[1], "with": step[4]} for step in _STEPS],
        }
    )
    summary = RunSummary(
        id=RUN,
        name=batch.name,
        kind="batch",
        actor=AGENT,
        state=RunState.DONE,
        devices=[DEVICE],
        devices_hash=digest_of([DEVICE]),
        steps=[step.id for step in flatten(batch.steps)],
        tools=[step.tool for step in flatten(batch.steps)],
        counts={CellState.DONE: len(cells) - 1, CellState.FAILED: 1},
        started_at=stamp(began),
        ended_at=stamp(began + timedelta(seconds=256)),
    )
    console.work.add(Run(summary=summary, batch=batch, cells=cells))


class _Writer:
    """Writes the entries of the run, in order."""

    def __init__(self, console: FakeConsole, began: datetime) -> None:
        self._console, self._began = console, began

    def write(self, at: float, kind: Kind, actor: str, **fields: Any) -> None:
        self._console.fake_journal.write(kind, actor, self._began + timedelta(seconds=at), run=RUN, **fields)

    def line(self, at: float, kind: Kind, body: dict[str, Any]) -> None:
        self.write(at, kind, f"device:{DEVICE}", device=DEVICE, body=body)

    def command(
        self,
        number: int,
        step: str,
        tool: str,
        at: float,
        took_ms: float,
        arguments: dict[str, Any],
        shows: str,
        outcome: str,
    ) -> Cell:
        """One command with all its stages."""
        call_id = f"c-0414-{number:02d}"
        place = {"step": step, "device": DEVICE, "call_id": call_id, "tool": tool}
        reads, asked = outcome == "read", outcome == "asked"
        tool_type = "data_collection" if reads else "action"
        prepared = {
            "digest": digest_of([call_id, tool, arguments]),
            "contract": digest_of([tool]),
            "tool_key": f"ui::{tool}",
            "tool_type": tool_type,
            "namespace": "ui",
            "parameters": arguments,
            "said": "Posting books the difference of −4." if asked else "",
        }
        self.write(at, Kind.COMMAND_PREPARED, AGENT, body=prepared, **place)
        decision = _decision(tool, reads, asked)
        self.write(
            at, Kind.COMMAND_DECIDED, "policy", body={"decision": decision.model_dump(mode="json")}, **place
        )
        if asked:
            body = {"approval": "a-0414", "digest": prepared["digest"]}
            self.write(at, Kind.APPROVAL_REQUESTED, AGENT, body=body, **place)
            at += _WAITED
            self.write(at, Kind.APPROVAL_GIVEN, "operator:harbour", body={"approval": "a-0414"}, **place)
        self.write(at, Kind.COMMAND_SENT, "service", body={"digest": prepared["digest"]}, **place)
        result = self._result(call_id, tool, took_ms, shows, outcome)
        self.write(
            at + took_ms / 1000,
            Kind.RESULT_RECORDED,
            f"device:{DEVICE}",
            status=result.status.value,
            verdict=result.verdict.value,
            duration_ms=took_ms,
            body={"result": result.model_dump(mode="json", exclude={"decision"})},
            blobs=[one.blob for one in result.evidence],
            **place,
        )
        return Cell(
            run=RUN,
            device=DEVICE,
            step=step,
            tool=tool,
            state=CellState.FAILED if outcome == "bad" else CellState.DONE,
            call_id=call_id,
            started_at=stamp(self._began + timedelta(seconds=at)),
            ended_at=stamp(self._began + timedelta(seconds=at + took_ms / 1000)),
            result=result,
        )

    def _result(self, call_id: str, tool: str, took_ms: float, shows: str, outcome: str) -> CommandResult:
        evidence = []
        answer: Any = {"clicked": True}
        if shows:
            data = ledger_png(shows)
            blob = self._console.fake_journal.add_blob(data)
            width, height = SIZE
            evidence = [
                Evidence(
                    blob=blob,
                    media_type="image/png",
                    size=len(data),
                    what="screenshot",
                    width=width,
                    height=height,
                )
            ]
            answer = {"width": width, "height": height, "scale": 1.0, "monitor": 1}
        bad = outcome == "bad"
        return CommandResult(
            call_id=call_id,
            device=DEVICE,
            tool_name=tool,
            status=ResultStatus.FAILURE if bad else ResultStatus.SUCCESS,
            verdict=Verdict.CONFIRMED if outcome == "read" else Verdict.UNVERIFIED,
            basis=Basis.READ_RESPONSE
            if outcome == "read"
            else Basis.DEVICE_REPORTED_FAILURE
            if bad
            else Basis.DEVICE_CLAIM,
            error=ErrorInfo.of(ErrorCode.TOOL_FAILED, "bad argument: item must be a name") if bad else None,
            result=None if bad else answer,
            namespace="ui",
            duration_ms=took_ms,
            evidence=evidence,
        )


def _decision(tool: str, reads: bool, asked: bool) -> Decision:
    risk = Risk.MEDIUM if asked else Risk.LOW
    why = "medium risk asks" if asked else "low risk runs"
    return Decision(
        answer=Answer.ASK if asked else Answer.ALLOW,
        risk=risk,
        effect=Effect.OBSERVE if reads else Effect.CHANGE,
        profile=Profile.GUARDED,
        summary="Presses “Post adjustment” in Stock Ledger." if asked else f"Runs {tool}.",
        reasons=[Reason(text=f"Profile guarded: {why}.", origin="profile guarded")],
    )
