"""Which tests are slow by measurement: they take half a second of a processor or more.

`python -m tests.slow_tests` plays the tests of `tests/unit` and `tests/gui` and writes the list anew.
`tests/conftest.py` marks what is in it `slow`. Their processes count, too. Measure on a quiet machine, and
look at the difference: what is listed is not in `make test`. What notices a hand-made fault is not listed, so
that `make test` notices all of them. End-to-end tests are slow by where they stand, unless they are a story.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutations.faults import all_faults

LIST = Path(__file__).parent / "slow_tests.txt"
FOLDER = "QUARTERDECK_TESTS_CPU"
LEAST_S = 0.5


def listed() -> frozenset[str]:
    """The node ids of the tests that are slow by measurement."""
    return frozenset(LIST.read_text("utf-8").splitlines())


def _cpu_s() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """As a plugin: write down what each test took, a file for each process of tests."""
    before = _cpu_s()
    result = yield
    file = Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl"
    with file.open("a", encoding="utf-8") as written:
        written.write(json.dumps([item.nodeid, _cpu_s() - before]) + "\n")
    return result


def write(folder: Path) -> None:
    """Write the list by what was measured into a folder."""
    took = [
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open(encoding="utf-8")
    ]
    guards = {file for fault in all_faults() for file in fault.tests}
    slow = sorted(
        {name for name, seconds in took if seconds >= LEAST_S and name.partition("::")[0] not in guards}
    )
    LIST.write_text("".join(f"{name}\n" for name in slow), "utf-8")
    kept = sum(seconds for name, seconds in took if name not in set(slow))
    print(f"{len(slow)} of {len(took)} tests are slow; the others take {kept:.0f} s of a processor.")


def main() -> int:
    """Measure, and write the list."""
    with tempfile.TemporaryDirectory(prefix="slow-tests-") as folder:
        command = [sys.executable, "-m", "pytest", "-p", "tests.slow_tests", "tests/unit", "tests/gui"]
        environment = {**os.environ, FOLDER: folder}
        code = subprocess.run(
            [*command, "-n", "2", "--dist", "loadfile"], env=environment, check=False
        ).returncode
        if code == 0:
            write(Path(folder))
    return code


if __name__ == "__main__":
    sys.exit(main())
