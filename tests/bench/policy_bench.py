"""What deciding costs: one command judged under no rules, a thousand, and ten thousand.

The analysis of the arguments is handed in, as the dispatcher does: it makes one for all devices of a call.
What a decision takes without it is a line of its own.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

from core.models.devices import Device, Health
from core.models.tools import Tool
from core.policy.analysis.call_analysis import analyze_call
from core.policy.engine import PolicyEngine, PolicyQuery
from core.policy.grant_book import GrantBook
from core.policy.policy_file import parse_policy
from tests.bench.figures import Figure, Figures, Peer, Scale, p95
from tests.fakes.policy_calls import a_tool

SIZES = (0, 1_000, 10_000)
ROUNDS = 3_000
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("write_file", {"file_path": "/home/anna/notes/a.txt", "content": "x" * 200}),
    ("shell_execute", {"command": "systemctl status nginx | grep active"}),
    ("read_file", {"file_path": "/srv/app/log/current"}),
    ("get_system_info", {"info_type": "memory"}),
    ("click_element", {"process_name": "gedit", "name": "Save", "role": "push button"}),
)


def run(scale: Scale) -> Figures:
    """Judge the calls in turn."""
    lines: Figures = []
    rounds = scale.of(ROUNDS, 20)
    # An empty policy is the peer of each decision with rules.
    bare_ms = 0.0
    for size in SIZES[: scale.of(len(SIZES), 2)]:
        started = time.perf_counter()
        engine = PolicyEngine(parse_policy(_policy(size)))
        loaded_ms = (time.perf_counter() - started) * 1000
        gc.collect()
        firsts, times = _judged(engine, rounds, analysed=True)
        _, alone = _judged(engine, rounds, analysed=False)
        median = statistics.median(times)
        bare_ms = bare_ms or median
        lines += [
            Figure(
                f"one decision, {size:,} rules",
                median,
                "ms",
                Peer("without rules", bare_ms),
                f"p95 {p95(times):.3f} ms",
            ),
            Figure(
                f"the same, its arguments analysed for it, {size:,} rules", statistics.median(alone), "ms"
            ),
            Figure(f"slowest first call of a tool, {size:,} rules", max(firsts), "ms"),
            Figure(f"policy file read, {size:,} rules", loaded_ms, "ms"),
        ]
    return lines


def _judged(engine: PolicyEngine, rounds: int, analysed: bool) -> tuple[list[float], list[float]]:
    """The milliseconds of the first decision of each call, and of each later one."""
    grants = GrantBook()
    device = Device(name="lab-7", health=Health.ONLINE, since="", tags=["lab", "desk"])
    queries = [_query(device, a_tool(tool, _kind(tool)), sent, analysed) for tool, sent in CALLS]
    firsts = [_timed(query, engine, grants) for query in queries]
    times = [_timed(queries[number % len(queries)], engine, grants) for number in range(rounds)]
    return firsts, times


def _kind(tool: str) -> Any:
    return "data_collection" if tool in ("read_file", "get_system_info") else "action"


def _query(device: Device, tool: Tool, sent: dict[str, Any], analysed: bool) -> PolicyQuery:
    return PolicyQuery(
        device=device,
        tool=tool,
        parameters=sent,
        redacted=sent,
        actor="agent:night",
        analysis=analyze_call(tool, sent) if analysed else None,
    )


def _timed(query: PolicyQuery, engine: PolicyEngine, grants: GrantBook) -> float:
    started = time.perf_counter()
    engine.decide(query, grants)
    return (time.perf_counter() - started) * 1000


def _policy(size: int) -> str:
    """Rules of every kind that a large file has: by tool, by folder, by pattern, by device, for any tool."""
    rows = []
    for number in range(size):
        match number % 5:
            case 0:
                rows.append(
                    _rule(number, "deny", 'tool = "write_file"', f'file_path = {{below = "/srv/{number}"}}')
                )
            case 1:
                rows.append(_rule(number, "ask", f'device = "db-{number}-*"\napprovers = 2', ""))
            case 2:
                rows.append(_rule(number, "allow", f'tool = "tool-{number}"', ""))
            case 3:
                pattern = f'command = {{pattern = "curl .*host{number}[.]"}}'
                rows.append(_rule(number, "deny", 'tool = "shell_*"', pattern))
            case _:
                rows.append(
                    _rule(number, "ask", 'actor = "agent:*"', f'info_type = {{equals = "kind-{number}"}}')
                )
    return "\n".join(rows)


def _rule(number: int, decision: str, conditions: str, parameters: str) -> str:
    inside = f"[rule.parameters]\n{parameters}\n" if parameters else ""
    return f'[[rule]]\nid = "r{number}"\ndecision = "{decision}"\n{conditions}\n{inside}'
