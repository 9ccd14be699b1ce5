"""A home that belongs to another user is refused before anything is written into it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import ErrorCode, ServiceError
from core.home import Home
from core.service import exit_codes
from core.service.control import ensure_service
from tests.fakes.program import ROOT, environment, run

pytestmark = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can be in the way of another user"
)
OTHER = 65534


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty folder of another user."""
    path = tmp_path / "theirs"
    path.mkdir(mode=0o755)
    os.chown(path, OTHER, OTHER)
    return Home(path)


@pytest.mark.parametrize("words", [("devices",), ("service", "start"), ("agents", "list"), ("audit", "find")])
def test_a_command_is_refused_and_writes_nothing(home: Home, words: tuple[str, ...]):
    ended = run(home, *words)
    assert ended.code == exit_codes.HOME_OWNED, ended
    assert f"belongs to user {OTHER}, not to you" in ended.err
    assert list(home.path.iterdir()) == []


def test_a_service_is_refused_and_writes_nothing(home: Home):
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "core.service", "--home", str(home.path)],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == exit_codes.HOME_OWNED, ended
    assert "Traceback" not in ended.stderr
    assert list(home.path.iterdir()) == []


def test_a_window_and_a_gateway_find_no_service_there_and_write_nothing(home: Home):
    with pytest.raises(ServiceError) as caught:
        asyncio.run(ensure_service(home, "window", "window:root"))
    assert caught.value.code is ErrorCode.HOME_UNSAFE
    assert list(home.path.iterdir()) == []


def test_the_window_itself_writes_nothing(home: Home):
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "app", "--home", str(home.path)],
        env={**environment(), "QT_QPA_PLATFORM": "offscreen"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == exit_codes.HOME_OWNED, ended
    assert f"belongs to user {OTHER}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(home.path.iterdir()) == []
