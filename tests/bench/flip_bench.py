"""One byte of a killed home's journal files changed, two thousand times: who notices, and what it took."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.bench.figures import Figure, Figures, Note, Scale
from tests.fakes.flips import SHARES, KilledHome

POSITIONS = 2000


def run(scale: Scale) -> Figures:
    """Change bytes one after the other."""
    seed = random.randrange(1 << 32)
    seen: Counter[str] = Counter()
    unnoticed = []
    with tempfile.TemporaryDirectory(prefix="flips-") as folder:
        home = KilledHome(Path(folder))
        started = time.perf_counter()
        for flip in home.flips(scale.of(POSITIONS, 20), seed):
            seen["all"] += 1
            seen["verification"] += flip.problem is not None
            seen["start"] += flip.refused
            seen["unused"] += not flip.used
            unnoticed += [flip] if flip.unnoticed else []
        took_s = time.perf_counter() - started
    return [
        Note("seed of the changed bytes", f"{seed}, in {len(SHARES)} places of a killed home"),
        Figure("bytes changed", seen["all"], "bytes"),
        Figure("of these noticed by verification", seen["verification"], "bytes"),
        Figure("of these refused by the next start", seen["start"], "bytes"),
        Figure("of these without a meaning in SQLite's format", seen["unused"], "bytes"),
        Figure(
            "changed bytes unnoticed although they mean something",
            len(unnoticed),
            "bytes",
            remark=str(unnoticed) if unnoticed else "",
        ),
        Figure("one change, its verification and a start", took_s / seen["all"] * 1000, "ms"),
    ]
