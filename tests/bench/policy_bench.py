"""What deciding costs: one command judged under no rules, a thousand, and ten thousand, beside the limit."""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

from core.models.devices import Device, Health
from core.models.tools import Tool
from core.policy.engine import PolicyEngine, PolicyQuery
from core.policy.grant_book import GrantBook
from core.policy.policy_file import parse_policy
from tests.bench.journal_bench import Figures
from tests.fakes.policy_calls import a_tool

LIMIT_MS = 0.9
SIZES = (0, 1_000, 10_000)
ROUNDS = 3_000
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("write_file", {"file_path": "/home/anna/notes/a.txt", "content": "x" * 200}),
    ("shell_execute", {"command": "systemctl status nginx | grep active"}),
    ("read_file", {"file_path": "/srv/app/log/current"}),
    ("get_system_info", {"info_type": "memory"}),
    ("click_element", {"process_name": "gedit", "name": "Save", "role": "push button"}),
)


def run() -> Figures:
    """Judge; raises when a thousand rules cost more than the limit."""
    figures: Figures = []
    for size in SIZES:
        started = time.perf_counter()
        file = parse_policy(_policy(size))
        judge = PolicyEngine(file)
        loaded = time.perf_counter() - started
        gc.collect()
        firsts, times = _judged(judge)
        median, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
        figures.append(
            (
                f"{size:,} rules: one decision, median / p99 (limit {LIMIT_MS} ms)",
                f"{median * 1000:.3f} / {p99 * 1000:.3f} ms",
            )
        )
        worst = f"{max(firsts) * 1000:.1f} ms; file read in {loaded * 1000:,.0f} ms"
        figures.append((f"{size:,} rules: slowest first call of a tool", worst))
        if size == 1_000 and median * 1000 > LIMIT_MS:
            raise AssertionError(f"a decision with 1,000 rules takes {median * 1000:.2f} ms")
    return figures


def _judged(judge: PolicyEngine) -> tuple[list[float], list[float]]:
    grants = GrantBook()
    device = Device(name="lab-7", health=Health.ONLINE, since="", tags=["lab", "desk"])
    asked = [_asked(device, a_tool(tool, _kind(tool)), sent) for tool, sent in CALLS]
    firsts = [_timed(one, judge, grants) for one in asked]
    times = [_timed(asked[number % len(asked)], judge, grants) for number in range(ROUNDS)]
    return firsts, times


def _kind(tool: str) -> Any:
    return "data_collection" if tool in ("read_file", "get_system_info") else "action"


def _asked(device: Device, tool: Tool, sent: dict[str, Any]) -> PolicyQuery:
    return PolicyQuery(device=device, tool=tool, parameters=sent, redacted=sent, actor="agent:night")


def _timed(asked: PolicyQuery, judge: PolicyEngine, grants: GrantBook) -> float:
    started = time.perf_counter()
    judge.decide(asked, grants)
    return time.perf_counter() - started


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


if __name__ == "__main__":
    for name, figure in run():
        print(f"{name:62} {figure}")
