"""`make bench`: every figure beside a peer or a limit of the same run.

`python -m tests.bench [PART …] [--kills N] [--million]`: all parts, or those named (`--help` lists them).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable

import psutil
import structlog

from tests.bench import (
    batch_bench,
    desktop_bench,
    fleet_bench,
    flip_bench,
    frames_bench,
    gateway_bench,
    journal_bench,
    kill_bench,
    limits_bench,
    mcp_bench,
    output_bench,
    policy_bench,
    round_trip_bench,
    screenshot_bench,
    search_bench,
    window_bench,
)
from tests.bench.journal_bench import Figures


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "which",
        nargs="*",
        help="round-trips, output, policy, search, batches, journal, window, fleet, screenshots, kills, "
        "flips, mcp, gateway, limits, frames, desktop",
    )
    parser.add_argument("--kills", type=int, default=kill_bench.KILLS)
    parser.add_argument(
        "--million", action="store_true", help="also a journal of 1,000,000 entries (minutes)"
    )
    given = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    benches: dict[str, Callable[[], Figures]] = {
        "round-trips": round_trip_bench.run,
        "output": output_bench.run,
        "policy": policy_bench.run,
        "batches": batch_bench.run,
        "search": search_bench.run,
        "journal": lambda: journal_bench.run(given.million),
        "window": window_bench.run,
        "fleet": fleet_bench.run,
        "screenshots": screenshot_bench.run,
        "kills": lambda: kill_bench.run(given.kills),
        "flips": flip_bench.run,
        "mcp": mcp_bench.run,
        "gateway": gateway_bench.run,
        "limits": limits_bench.run,
        "frames": frames_bench.run,
        "desktop": desktop_bench.run,
    }
    unknown = [name for name in given.which if name not in benches]
    if unknown:
        parser.error(f"no such bench: {', '.join(unknown)}")
    memory = psutil.virtual_memory().total / 2**30
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}"
    )
    failed = [
        name
        for name, bench in benches.items()
        if (not given.which or name in given.which) and not _print(name, bench)
    ]
    if failed:
        print(f"\nbeyond a limit: {', '.join(failed)}", flush=True)
    return bool(failed)


def _print(name: str, bench: Callable[[], Figures]) -> bool:
    """Run one part and print its figures; False if one was beyond its limit, and the next part follows."""
    print(f"\n{name} (load {os.getloadavg()[0]:.1f} at the start)", flush=True)
    try:
        for words, figure in bench():
            print(f"  {words:62} {figure}", flush=True)
    except AssertionError as error:
        print(f"  FAILED: {error}", flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
