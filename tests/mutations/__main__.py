"""`python -m tests.mutations [WORD…]`: put faults into a copy of the tree, and run the tests for each.

A fault that no test notices has survived: either it changes nothing that matters, then it is no fault, or a
test is missing. With words, only faults whose file or description has all of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.mutations.faults import Fault, all_faults
from tests.mutations.trial import FAILED, HANGS, PASSED, Copy


def main() -> int:
    """Try the faults; 0 if none has survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", help="only faults whose file or description has all of these")
    parser.add_argument("--list", action="store_true", help="print the faults and run nothing")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="N", help="begin with fault N")
    given = parser.parse_args()
    faults = [
        (number, fault)
        for number, fault in enumerate(all_faults(), 1)
        if number >= given.first and all(word in f"{fault.file} {fault.breaks}" for word in given.words)
    ]
    if given.list:
        for number, fault in faults:
            print(f"{number:3} {fault.file}: {fault.breaks}")
        return 0
    with tempfile.TemporaryDirectory(prefix="quarterdeck-mutations-") as folder:
        return _try_all(faults, Copy(Path(folder) / "tree"), Path(folder) / "output")


def _try_all(faults: list[tuple[int, Fault]], copy: Copy, output: Path) -> int:
    files = sorted({file for _, fault in faults for file in fault.tests})
    if copy.run(files, output) != PASSED:
        print(output.read_text()[-5_000:])
        print("These tests fail without any fault; nothing was tried.")
        return 2
    survived = 0
    for number, fault in faults:
        with copy.with_fault(fault):
            code = copy.run(fault.tests, output)
        words = {PASSED: "SURVIVED", FAILED: "killed", HANGS: "killed (hangs)"}
        survived += code == PASSED
        how = words.get(code, f"killed (code {code}: {output.read_text()[-300:]!r})")
        print(f"{number:3} {how:8} {fault.file}: {fault.breaks}", flush=True)
    print(f"{len(faults) - survived} of {len(faults)} killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
