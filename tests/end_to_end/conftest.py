"""What several files of end-to-end tests stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.device import Router
from tests.fakes.read_shell import attacked, build_tree, clear


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a file's device has its root and its state in."""
    return tmp_path_factory.mktemp("attacked")


@pytest.fixture
def tree(place: Path) -> Path:
    """Files that are attacked through the read-only shell; each test finds them as at first."""
    root = place / "root"
    clear(root)
    return build_tree(root)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _device(place: Path) -> AsyncIterator[Router]:
    """One device for all tests of a file: a call leaves nothing in it, and each has a sandbox of its own."""
    root = place / "root"
    root.mkdir()
    async with attacked(root, place / "state") as built:
        yield built


@pytest.fixture
def router(_device: Router, tree: Path) -> Router:
    """A device whose only root is the tree."""
    del tree
    return _device
