"""Tests that are compiled before the workers start are those that pytest would have compiled itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fakes.compiled import compile_all, rewrite_test


def test_a_rewritten_test_is_the_one_that_pytest_loads(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "test_sample.py"
    path.write_text("def test_it():\n    number = 2\n    assert number == 3\n")
    assert rewrite_test(path, pytestconfig)
    [compiled] = (tmp_path / "__pycache__").iterdir()
    written = compiled.stat().st_mtime_ns
    hook = pytestconfig.pluginmanager.rewrite_hook
    assert hook is not None
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr("_pytest.assertion.rewrite._rewrite_test", None)
    loaded = _load(path, hook)
    with pytest.raises(AssertionError, match="assert 2 == 3"):
        loaded["test_it"]()
    assert [(file, file.stat().st_mtime_ns) for file in compiled.parent.iterdir()] == [(compiled, written)]


def test_a_test_that_was_not_changed_is_not_rewritten_again(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    path = tmp_path / "test_sample.py"
    path.write_text("assert True\n")
    assert [rewrite_test(path, pytestconfig) for _ in range(2)] == [True, False]
    path.write_text("assert 1\n")
    assert [rewrite_test(path, pytestconfig) for _ in range(2)] == [True, False]


def test_nothing_is_written_where_python_writes_no_compiled_files(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr("tests.fakes.compiled.multiprocessing", None)
    compile_all(pytestconfig)


def _load(path: Path, hook: object) -> dict[str, object]:
    """Import a test file as pytest does."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("sample", path, loader=hook)  # type: ignore[arg-type]
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)
