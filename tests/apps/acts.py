"""What became of each act on a program: right, refused in words, or something else; over all workers."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

LEAST_RIGHT = 0.97


class Outcome(StrEnum):
    """What an act ended as, judged outside the product."""

    RIGHT = "right"
    REFUSED = "refused"
    SOMETHING_ELSE = "something else"


@dataclass(frozen=True, slots=True)
class Act:
    """One call of a tool that acts, and what became of it."""

    program: str
    test: str
    call: str
    outcome: Outcome
    words: str = ""


class ActRecord:
    """The acts of one process of tests, appended to a file of its own in a folder that all of them share."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._path = folder / f"{worker}.jsonl"

    def write(self, act: Act) -> None:
        """Append one act."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(act)) + "\n")


def recorded(folder: Path) -> list[Act]:
    """The acts of all processes."""
    return [
        Act(**{**row, "outcome": Outcome(row["outcome"])})
        for path in sorted(folder.glob("*.jsonl"))
        for row in map(json.loads, path.read_text("utf-8").splitlines())
    ]


def summary(acts: list[Act]) -> Iterator[str]:
    """The counts by program, and each act that was not right with its words."""
    counts: defaultdict[str, Counter[Outcome]] = defaultdict(Counter)
    for act in acts:
        counts[act.program][act.outcome] += 1
    total = Counter(act.outcome for act in acts)
    yield f"{'program':<24}{'acts':>6}" + "".join(f"{outcome:>16}" for outcome in Outcome)
    for program, row in (*sorted(counts.items()), ("all", total)):
        yield f"{program:<24}{row.total():>6}" + "".join(f"{row[outcome]:>16}" for outcome in Outcome)
    yield f"{share_right(acts):.1%} right; at least {LEAST_RIGHT:.0%} have to be."
    for act in acts:
        if act.outcome is not Outcome.RIGHT:
            yield f"{act.outcome}: {act.test}: {act.call}: {act.words}"


def share_right(acts: list[Act]) -> float:
    """The share of acts that were right; 1 without any act."""
    return sum(act.outcome is Outcome.RIGHT for act in acts) / len(acts) if acts else 1.0


def is_good(acts: list[Act]) -> bool:
    """Whether enough acts were right, and none that ended did something else."""
    return share_right(acts) >= LEAST_RIGHT and all(act.outcome is not Outcome.SOMETHING_ELSE for act in acts)
