"""What batches cost before and between calls: an expression, and the plan of a large run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from core.batch.batch_file import read_batch
from core.batch.expressions import (
    Context,
    Declarations,
    DeviceFacts,
    Scope,
    StepFacts,
    compile_expression,
)
from core.batch.planner import Planner
from core.commands.request import NO_SECRETS, Secrets
from core.commitments import NO_PLACES, Places
from core.models.devices import Device, Health
from core.models.tools import Tool
from core.policy.analysis.call_analysis import analyze_call
from core.policy.engine import PolicyEngine, PolicyQuery
from core.policy.grant_book import GrantBook
from core.policy.models import Decision
from core.policy.policy_file import parse_policy
from core.policy.real_paths import NOT_FOLLOWED, ResolvedPaths
from tests.bench.figures import Figure, Figures, Peer, Scale
from tests.fakes.policy_calls import a_tool

ROWS, DEVICES, STEPS = 5_000, 1_000, 10
CONDITION = "steps.disk.result.filesystems[0].use_percent > inputs.threshold"


def run(scale: Scale) -> Figures:
    """Measure expressions and a plan, in time of the processor."""
    return [*_expressions(scale), _plan(scale.of(DEVICES, 5))]


def _expressions(scale: Scale) -> Figures:
    count = scale.of(ROWS, 50)
    scope = Scope(Declarations({}, {"disk": {}}), ("disk",))
    rows = [{"pid": number, "name": f"process {number}", "memory_bytes": number} for number in range(count)]
    result = {"filesystems": [{"use_percent": 91.0, "mount_point": "/"}] * 4, "rows": rows}
    context = Context({"threshold": 80}, {"disk": StepFacts("done", result=result)}, DeviceFacts())
    condition = compile_expression(CONDITION.replace("inputs.threshold", "80"), scope)
    last = f"process {count - 1}"
    search = compile_expression(f"steps.disk.result.rows.exists(r, r.name == '{last}')", scope)
    one_us = _best(lambda: condition.evaluate(context), scale.of(2_000, 10)) * 1e6
    rows_ms = _best(lambda: search.evaluate(context), 5) * 1e3
    python_ms = _best(lambda: any(row["name"] == last for row in rows), 5) * 1e3
    return [
        Figure("one expression", one_us, "µs"),
        Figure(
            "one expression over all rows",
            rows_ms,
            "ms",
            Peer("any() in Python", python_ms),
            f"{count:,} rows",
        ),
    ]


def _best(work: Callable[[], Any], times: int) -> float:
    """Seconds of CPU for one call, the best of five rounds."""
    rounds = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(times):
            work()
        rounds.append((time.process_time() - started) / times)
    return min(rounds)


class _Judge:
    """Decides as the service does, on devices that all offer the same tools."""

    def __init__(self) -> None:
        self._engine, self._grants = PolicyEngine(parse_policy("")), GrantBook()
        self._tools = {"get_system_info": a_tool("get_system_info", "data_collection")}
        # As in the dispatcher, a call's arguments are analysed once for all devices.
        self._analysis = analyze_call(self._tools["get_system_info"], {"info_type": "memory"})

    def tool(self, device: str, name: str) -> Tool | None:
        return self._tools.get(name)

    def explain(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "",
        leads: ResolvedPaths = NOT_FOLLOWED,
        secrets: Secrets = NO_SECRETS,
        unquoted: Places = NO_PLACES,
    ) -> Decision:
        query = PolicyQuery(
            device=_device(device),
            tool=self._tools[tool],
            parameters=parameters,
            redacted=parameters,
            actor=actor,
            analysis=self._analysis,
        )
        return self._engine.decide(query, self._grants)


def _device(name: str) -> Device:
    return Device(name=name, health=Health.ONLINE, since="", tags=["lab"])


def _plan(count: int) -> Figure:
    steps = "".join(
        f"  - id: s{number}\n    tool: get_system_info\n    with: {{info_type: memory}}\n"
        f"    when: ${{{{ inputs.limit > {number} && 'lab' in device.tags }}}}\n"
        for number in range(STEPS)
    )
    batch = read_batch(
        f"name: x\ninputs: {{limit: {{type: integer, default: 99}}}}\nsteps:\n{steps}", "b.yaml"
    )
    judge = _Judge()
    names = [f"lab-{number}" for number in range(count)]
    devices = [_device(name) for name in names]
    planner = Planner(batch, {}, judge, judge, "operator:ada")
    started = time.process_time()
    plan = planner.plan(devices, {})
    took_s = time.process_time() - started
    assert {cell.outcome for cell in plan.cells} == {"runs"}
    started = time.process_time()
    for name in names:
        for _ in range(STEPS):
            judge.explain(name, "get_system_info", {"info_type": "memory"})
    alone = Peer("the decisions alone", (time.process_time() - started) * 1000)
    return Figure("plan with conditions", took_s * 1000, "ms", alone, f"{count:,} devices × {STEPS} steps")
