"""`make bench`: every figure with a peer or a limit of the same run, judged by the table in `goals.py`.

The exit code is 1 if a figure misses its goal or a part crashes.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import psutil
import structlog

from tests.bench.byte_code import use_own_cache, warm_cache
from tests.bench.figures import Figures, Scale
from tests.bench.report import Report, RunPart

PARTS: Mapping[str, str] = {
    "round-trips": "round_trip_bench",
    "output": "output_bench",
    "policy": "policy_bench",
    "batches": "batch_bench",
    "search": "search_bench",
    "journal": "journal_bench",
    "backup": "backup_bench",
    "start": "start_bench",
    "window": "window_bench",
    "replay step": "replay_step_bench",
    "fleet": "fleet_bench",
    "consoles": "console_bench",
    "screenshots": "screenshot_bench",
    "kills": "kill_bench",
    "flips": "flip_bench",
    "mcp": "mcp_bench",
    "gateway": "gateway_bench",
    "limits": "limits_bench",
    "frames": "frames_bench",
    "desktop": "desktop_bench",
}
"""The modules of the parts, by their names."""


def part_runner(name: str) -> RunPart:
    """The `run` of a part, whose module is imported when it runs: what it imports may be what is broken."""

    def run(scale: Scale) -> Figures:
        lines: Figures = import_module(f"tests.bench.{PARTS[name]}").run(scale)
        return lines

    return run


def main(words: Sequence[str] | None = None) -> int:
    """Run the parts that are named, or all, and print; returns the exit code."""
    parser = _parser()
    given = parser.parse_args(words)
    if unknown := [name for name in given.which if name not in PARTS]:
        parser.error(f"There is no part {', '.join(unknown)}. Parts: {', '.join(PARTS)}.")
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    machine = _machine()
    print(machine)
    use_own_cache()
    report = Report()
    report.run(
        {"byte code": warm_cache, **{name: part_runner(name) for name in given.which or PARTS}},
        Scale(smallest=given.smallest, million=given.million, kills=given.kills),
    )
    report.print_end()
    if given.json is not None:
        report.write(given.json, machine)
    if given.compare is not None:
        report.print_comparison(given.compare)
    return report.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("which", nargs="*", metavar="PART", help=f"all, or of: {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=Scale().kills, help="how many cores are killed")
    parser.add_argument(
        "--million", action="store_true", help="also a journal of 1,000,000 entries (minutes)"
    )
    parser.add_argument(
        "--smallest", action="store_true", help="each line once or a few times: shows that the parts run"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures")
    parser.add_argument(
        "--compare", type=Path, metavar="FILE", help="print kept figures and those of this run"
    )
    return parser


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{platform.platform()}, {os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
