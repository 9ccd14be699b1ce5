"""Compile sources and tests once, before several test processes do the same at the same time.

In a fresh clone each of four workers would compile all of the program and rewrite the assertions of all
tests, seven seconds of a processor each.
"""

from __future__ import annotations

import compileall
import multiprocessing
import sys
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc_fp, get_cache_dir

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "core", "tests/bench", "tests/fakes", "tests/golden", "tests/golden_pictures")
PROCESSES = 2


def compile_all(config: pytest.Config) -> None:
    """Write what is missing or older than its source; nothing where Python writes no compiled files."""
    if sys.dont_write_bytecode:
        return
    tests = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("tests/**/conftest.py")]
    # A forked child inherits the configuration, and starts no interpreter.
    fork = multiprocessing.get_context("fork")
    shares = [
        fork.Process(target=_compile_share, args=(config, tests[part::PROCESSES], FOLDERS[part::PROCESSES]))
        for part in range(PROCESSES)
    ]
    for share in shares:
        share.start()
    for share in shares:
        share.join()


def _compile_share(config: pytest.Config, tests: list[Path], folders: list[str]) -> None:
    for folder in folders:
        compileall.compile_dir(ROOT / folder, quiet=1)
    for path in tests:
        rewrite_test(path, config)


def rewrite_test(path: Path, config: pytest.Config) -> bool:
    """Rewrite a test file's assertions as pytest does at its import; False where that was done before."""
    compiled = get_cache_dir(path) / (path.name.removesuffix(".py") + PYC_TAIL)
    if _read_pyc(path, compiled) is not None:
        return False
    source_hash, code = _rewrite_test(path, config)
    compiled.parent.mkdir(parents=True, exist_ok=True)
    partial = compiled.with_suffix(".part")
    with partial.open("wb") as file:
        _write_pyc_fp(file, source_hash, code)
    partial.replace(compiled)
    return True
