"""Each part of the bench in its smallest run: it runs, and gives a figure for each of its goals."""

from __future__ import annotations

import math

import pytest

from tests.bench.__main__ import PARTS, part_runner
from tests.bench.figures import Figure, Scale
from tests.bench.goals import GOALS, PROGRAMS

NOT_IN_THE_SMALLEST_RUN = {
    # Programs that may not be installed.
    f"{program}: press by name until it is sent"
    for program in PROGRAMS[1:]
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_gives_a_figure_for_each_of_its_goals(part: str) -> None:
    lines = part_runner(part)(Scale(smallest=True, million=True))

    assert lines
    assert len({line.name for line in lines}) == len(lines)
    assert all(line.name and line.words() for line in lines)
    figures = {line.name: line for line in lines if isinstance(line, Figure)}
    assert all(math.isfinite(figure.value) and figure.unit for figure in figures.values())
    goals = [goal for goal in GOALS if goal.part == part and goal.name not in NOT_IN_THE_SMALLEST_RUN]
    assert [goal.name for goal in goals if goal.name not in figures] == []
    for goal in goals:
        assert goal.unit in (figures[goal.name].unit, "")
        assert goal.is_met(figures[goal.name]) in (True, False)
