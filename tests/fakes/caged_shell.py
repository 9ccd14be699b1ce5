"""Goes into a cage, runs a line in the read-only shell, then a second one, and prints both results as JSON.

`python -m tests.fakes.caged_shell GROUP MOST TREE STATE LINE SECONDS`; the second line must still work. With
`-` for the tree the line runs in a bare shell instead, as a control.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.fakes.cage import from_arguments
from tests.fakes.read_shell import attacked, run


async def in_the_sandbox(tree: Path, state: Path, line: str, seconds: float) -> list[dict[str, object]]:
    """Both results."""
    async with attacked(tree, state) as router:
        first = await run(router, line, timeout=seconds)
        second = await run(router, "echo alive")
    return [first.model_dump(mode="json"), second.model_dump(mode="json")]


def main() -> None:
    """See above. It starts nothing before it is in the cage."""
    group, most, tree, state, line, seconds = sys.argv[1:]
    from_arguments(group, most).enter()
    if tree == "-":
        os.execlp("bash", "bash", "-c", line)
    print(json.dumps(asyncio.run(in_the_sandbox(Path(tree), Path(state), line, float(seconds)))))


if __name__ == "__main__":
    main()
