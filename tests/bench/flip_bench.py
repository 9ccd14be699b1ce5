"""One byte of a killed home's journal files changed, two thousand times: who notices, and what it took."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.bench.journal_bench import Figures
from tests.fakes.flips import SHARES, KilledHome

POSITIONS = 2000


def run(positions: int = POSITIONS) -> Figures:
    """Change bytes one after the other; raises when one passes unseen that means something."""
    seed = random.randrange(1 << 32)
    seen: Counter[str] = Counter()
    unnoticed = []
    with tempfile.TemporaryDirectory(prefix="flips-") as folder:
        home = KilledHome(Path(folder))
        started = time.perf_counter()
        for flip in home.flips(positions, seed):
            seen["all"] += 1
            seen["verification"] += flip.problem is not None
            seen["start"] += flip.refused
            seen["unused"] += not flip.used
            unnoticed += [flip] if flip.unnoticed else []
        took = time.perf_counter() - started
    figures: Figures = [
        (f"bytes changed in {len(SHARES)} places of a killed home (seed {seed})", f"{seen['all']:,}"),
        ("of these noticed by verification", f"{seen['verification']:,}"),
        ("of these refused by the next start", f"{seen['start']:,}"),
        ("of these without a meaning in SQLite's format", f"{seen['unused']:,}"),
        ("of these unnoticed although they mean something (limit: 0)", f"{len(unnoticed)}"),
        ("for one change, its verification and a start", f"{took / seen['all'] * 1000:.1f} ms"),
    ]
    if unnoticed:
        raise AssertionError(f"changed bytes passed unseen: {unnoticed}")
    return figures


if __name__ == "__main__":
    for name, figure in run():
        print(f"{name:70} {figure}")
