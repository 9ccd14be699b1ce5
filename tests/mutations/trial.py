"""Runs tests with one fault at a time, each in a fork of a process that has loaded all of them already.

The fault is put into the loaded code of the fork: the file with the fault is compiled, and each function of
it gets its new code, wherever a reference to the function is kept; plain data of the module that is other
then replaces the old. So a fault costs no more than the tests that look for it, and no file changes.
Processes that tests start load the files, and know of no fault.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

import pytest

from tests.mutations.faults import Fault

ROOT = Path(__file__).parents[2]
# A fault that makes a test hang is noticed; a busy machine may need long for a test that does not.
MOST_S = 900.0
# What a module may keep beside functions and classes that a fault changes.
_DATA = (bool, int, float, str, bytes, tuple, list, dict, set, frozenset)


class Fate(StrEnum):
    """What became of a fault."""

    KILLED = "killed"
    HANGS = "killed (hangs)"
    SURVIVED = "SURVIVED"
    UNCLEAR = "UNCLEAR"
    """The test that noticed fails without the fault, too."""


class Outcome(NamedTuple):
    """The fate of a fault, and the test that failed; empty when none did."""

    fate: Fate
    test: str = ""


class Trials:
    """A plugin of pytest that tries faults in the place of running the collected tests."""

    def __init__(self, faults: Sequence[Fault], tell: Callable[[Fault, Outcome], None]) -> None:
        """`tell` is called with each fault once it has been tried."""
        self._faults, self._tell = faults, tell
        self._failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first test that fails."""
        if report.failed and not self._failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each fault; True, as nothing is left to be run."""
        by_file: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            by_file.setdefault(item.path.relative_to(ROOT).as_posix(), []).append(item)
        for fault in self._faults:
            items = [item for file in dict.fromkeys(fault.tests) for item in by_file[file]]
            self._tell(fault, self._tried(fault, items))
        return True

    def _tried(self, fault: Fault, items: Sequence[pytest.Item]) -> Outcome:
        outcome = self._in_fork(fault, items)
        if outcome.fate is Fate.KILLED:
            sound = self._in_fork(None, [item for item in items if item.nodeid == outcome.test])
            if sound.fate is not Fate.SURVIVED:
                return Outcome(Fate.UNCLEAR, outcome.test)
        return outcome

    def _in_fork(self, fault: Fault | None, items: Sequence[pytest.Item]) -> Outcome:
        """Run tests up to the first failure."""
        told, tells = os.pipe()
        child = os.fork()
        if child == 0:
            self._be_fork(fault, items, tells)
        os.close(tells)
        try:
            if not select.select([told], [], [], MOST_S)[0]:
                return Outcome(Fate.HANGS)
            word, _, test = os.read(told, 4096).decode().partition(" ")
        finally:
            os.close(told)
            # Processes that a test was not done with, too.
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if word == "error":
            raise RuntimeError(f"{fault and fault.file}: {test}")
        return Outcome(Fate.KILLED, test) if word == "failed" else Outcome(Fate.SURVIVED)

    def _be_fork(self, fault: Fault | None, items: Sequence[pytest.Item], tells: int) -> None:
        """Never returns; writes `passed`, `failed TEST` or `error WORDS`."""
        words = "error it ended without a word"
        try:
            os.setpgid(0, 0)
            if fault is not None:
                put_in(fault)
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._failed:
                    break
            words = f"failed {self._failed}" if self._failed else "passed"
        except BaseException as error:  # noqa: BLE001  # told to the parent, never raised in its name
            words = f"error {error!r}"
        finally:
            os.write(tells, words.encode()[:4000])
            time.sleep(MOST_S)
            os._exit(0)


def put_in(fault: Fault) -> None:
    """Give the loaded code of this process a fault.

    Raises:
        ValueError: nothing that is loaded differs then.
    """
    path = ROOT / fault.file
    module = sys.modules[fault.file.removesuffix(".py").replace("/", ".")]
    text = path.read_text()
    old = {code.co_qualname: code for code in codes_in(compile(text, str(path), "exec"))}
    broken = compile(text.replace(fault.old, fault.new), str(path), "exec")
    changed = {
        code.co_qualname: code
        for code in codes_in(broken)
        if code.co_qualname not in old or _differ(code, old[code.co_qualname])
    }
    count = _replace_functions(str(path), changed) + _replace_data(module, broken)
    if not count:
        raise ValueError(f"nothing of {fault.file} that is loaded changes")


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of each function and class in a module's, at any depth."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


def _differ(code: CodeType, old: CodeType) -> bool:
    inner = [one for one in code.co_consts if not isinstance(one, CodeType)]
    old_inner = [one for one in old.co_consts if not isinstance(one, CodeType)]
    nested = list(codes_in(code)), list(codes_in(old))
    return (
        code.co_code != old.co_code
        or inner != old_inner
        or code.co_names != old.co_names
        or len(nested[0]) != len(nested[1])
        or any(_differ(one, other) for one, other in zip(*nested, strict=True))
    )


def _replace_functions(file: str, changed: dict[str, CodeType]) -> int:
    count = 0
    gc.unfreeze()
    for function in gc.get_objects():
        if type(function) is not FunctionType or function.__code__.co_filename != file:
            continue
        code = changed.get(function.__code__.co_qualname)
        if code is not None and code.co_freevars == function.__code__.co_freevars:
            function.__code__ = code
            count += 1
    return count


def _replace_data(module: ModuleType, broken: CodeType) -> int:
    fresh = ModuleType(module.__name__)
    fresh.__dict__.update(__file__=module.__file__, __package__=module.__package__, __spec__=module.__spec__)
    exec(broken, fresh.__dict__)
    count = 0
    for name, value in vars(fresh).items():
        known = vars(module).get(name)
        if (
            name.startswith("__")
            or type(value) not in _DATA
            or type(value) is not type(known)
            or value == known
        ):
            continue
        setattr(module, name, value)
        count += 1
    return count
