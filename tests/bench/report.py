"""Runs the parts of the bench, judges each line by its goal, prints them, and keeps them as JSON."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, Figures, Note, Scale, rounded
from tests.bench.goals import GOALS, Goal

RunPart = Callable[[Scale], Figures]
_NAME_WIDTH = 66


@dataclass(frozen=True, slots=True)
class Judged:
    """A figure, and the goal for it, if there is one."""

    part: str
    figure: Figure
    goal: Goal | None

    @property
    def met(self) -> bool | None:
        """Whether the figure reaches its goal; None without a goal."""
        return None if self.goal is None else self.goal.is_met(self.figure)

    def words(self) -> str:
        """The figure, its peer, and the goal."""
        if self.goal is None:
            return self.figure.words()
        return f"{self.figure.words()} ({'' if self.met else 'MISSED, '}goal: {self.goal.words()})"

    def as_json(self) -> dict[str, Any]:
        """The line as it is kept."""
        peer = self.figure.peer
        return {
            "part": self.part,
            "name": self.figure.name,
            "value": self.figure.value,
            "unit": self.figure.unit,
            "peer": None if peer is None else {"name": peer.name, "value": peer.value},
            "goal": None if self.goal is None else self.goal.words(),
            "met": self.met,
        }


@dataclass(slots=True)
class Report:
    """The figures of one run, the parts that ran, and those that crashed."""

    goals: Sequence[Goal] = GOALS
    figures: list[Judged] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)

    @property
    def missed(self) -> list[Judged]:
        """The figures that do not reach their goal."""
        return [line for line in self.figures if line.met is False]

    @property
    def exit_code(self) -> int:
        """1 if a goal was missed or a part crashed."""
        return int(bool(self.missed or self.crashed))

    def run(self, parts: Mapping[str, RunPart], scale: Scale) -> None:
        """Run parts one after the other and print their lines. A part that crashes does not stop the next."""
        for name, run_part in parts.items():
            print(f"\n{name} (load {os.getloadavg()[0]:.1f} at the start)", flush=True)
            self.ran.append(name)
            try:
                self._take(name, run_part(scale))
            # Whatever goes wrong in a part, the others are still to be measured.
            except (Exception, SystemExit) as error:  # noqa: BLE001
                self.crashed.append(name)
                traceback.print_exc()
                print(f"  CRASHED: {type(error).__name__}: {error}", flush=True)

    def _take(self, part: str, lines: Figures) -> None:
        goals = {goal.name: goal for goal in self.goals if goal.part == part}
        for line in lines:
            if isinstance(line, Note):
                _print_line(line.name, line.words())
            else:
                judged = Judged(part, line, goals.get(line.name))
                # Judged before it is kept: without the peer that its goal needs, that fails.
                _print_line(line.name, judged.words())
                self.figures.append(judged)

    def unmeasured(self) -> list[Goal]:
        """Goals that no part measures, and those of parts that ran for which there was no figure."""
        names = {(line.part, line.figure.name) for line in self.figures}
        return [
            goal
            for goal in self.goals
            if not goal.part or (goal.part in self.ran and (goal.part, goal.name) not in names)
        ]

    def print_end(self) -> None:
        """Print what was not measured, what missed its goal, and what crashed."""
        _print_block(
            "not measured",
            (
                (goal.name, f"not measured {'in this run' if goal.part else 'yet'} (goal: {goal.words()})")
                for goal in self.unmeasured()
            ),
        )
        _print_block("MISSED", ((line.figure.name, line.words()) for line in self.missed))
        _print_block("CRASHED", ((name, "see above") for name in self.crashed))

    def write(self, path: Path, machine: str) -> None:
        """Keep the figures as JSON."""
        kept = {
            "machine": machine,
            "crashed": self.crashed,
            "figures": [line.as_json() for line in self.figures],
        }
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def print_comparison(self, before: Path) -> None:
        """Print each figure before and now, from what `write` kept before."""
        kept = json.loads(before.read_text(encoding="utf-8"))
        old = {(row["part"], row["name"]): row for row in kept["figures"]}
        _print_block(
            f"before and now; before: {kept['machine']}",
            (
                (line.figure.name, _before_and_now(old[line.part, line.figure.name], line.as_json()))
                for line in self.figures
                if (line.part, line.figure.name) in old
            ),
        )


def _before_and_now(before: dict[str, Any], now: dict[str, Any]) -> str:
    words = f"{rounded(before['value'])} → {rounded(now['value'])} {now['unit']}"
    if before["value"]:
        words += f" ({100 * (now['value'] / before['value'] - 1):+.0f} %)"
    if before["peer"] and now["peer"]:
        words += f"; its peer {rounded(before['peer']['value'])} → {rounded(now['peer']['value'])}"
    if before["met"] != now["met"]:
        verdicts = {True: "met", False: "MISSED", None: "no goal"}
        words += f"; {verdicts[before['met']]} → {verdicts[now['met']]}"
    return words


def _print_block(title: str, lines: Iterable[tuple[str, str]]) -> None:
    rows = list(lines)
    if rows:
        print(f"\n{title}")
        for name, words in rows:
            _print_line(name, words)


def _print_line(name: str, words: str) -> None:
    print(f"  {name:{_NAME_WIDTH}} {words}", flush=True)
