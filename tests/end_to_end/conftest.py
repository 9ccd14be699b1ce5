"""What several files of end-to-end tests stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.device import Router
from tests.fakes.read_shell import attacked, build_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files that are attacked through the read-only shell."""
    return build_tree(tmp_path / "root")


@pytest.fixture
async def router(tree: Path, tmp_path: Path) -> AsyncIterator[Router]:
    """A device whose only root is the tree."""
    async with attacked(tree, tmp_path / "state") as built:
        yield built
