"""`python -m tests.mutations [WORD…]`: put faults into the code, one at a time, and run the tests for each.

A fault that no test notices has survived: either it changes nothing that matters, then it is no fault, or a
test is missing. With words, only faults whose file or description has all of them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

import pytest

from tests.mutations.faults import Fault, all_faults
from tests.mutations.trial import Fate, Outcome, Trials


def main() -> int:
    """Try the faults; 0 if each was killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", help="only faults whose file or description has all of these")
    parser.add_argument("--list", action="store_true", help="print the faults and run nothing")
    given = parser.parse_args()
    faults = [
        fault for fault in all_faults() if all(word in f"{fault.file} {fault.breaks}" for word in given.words)
    ]
    if given.list:
        for fault in faults:
            print(f"{fault.file}: {fault.breaks}")
        return 0
    # What the tests print is of no interest here.
    out = os.fdopen(os.dup(1), "w")
    fates: Counter[Fate] = Counter()

    def tell(fault: Fault, outcome: Outcome) -> None:
        fates[outcome.fate] += 1
        by = f" [{outcome.test.rpartition('/')[2]}]" if outcome.test else ""
        print(f"{outcome.fate} {fault.file}: {fault.breaks}{by}", file=out, flush=True)

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    files = sorted({file for fault in faults for file in fault.tests})
    # `make test` alone is to notice each of them.
    code = pytest.main(
        ["-p", "no:cacheprovider", "--tb=no", "-m", "not slow", *files], plugins=[Trials(faults, tell)]
    )
    print(", ".join(f"{count} {fate}" for fate, count in fates.items()), file=out, flush=True)
    return 0 if code == 0 and set(fates) <= {Fate.KILLED, Fate.HANGS} else 1


if __name__ == "__main__":
    sys.exit(main())
