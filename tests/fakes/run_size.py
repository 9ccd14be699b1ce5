"""How many cases of a large space a run tries: some in `make test`, all with HYPOTHESIS_PROFILE=full.

A full run takes the number of examples that a property was written with, and every place of a file or frame
that a test alters. The quick run, the default, has the same kinds of case, fewer of each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypeVar

import hypothesis

T = TypeVar("T")

QUICK_EXAMPLES = 30
FULL_EXAMPLES = 100
"""Of a property that names no number of its own."""

PROFILE: Literal["quick", "full"] = "full" if os.environ.get("HYPOTHESIS_PROFILE") == "full" else "quick"


def load_profile() -> None:
    """Make the run's profile the default of every property. To be called before tests are imported."""
    # A busy machine makes an example slow, not wrong.
    hypothesis.settings.register_profile("quick", deadline=None, max_examples=QUICK_EXAMPLES)
    hypothesis.settings.register_profile("full", deadline=None, max_examples=FULL_EXAMPLES)
    hypothesis.settings.load_profile(PROFILE)


def examples(full: int, quick: int = QUICK_EXAMPLES) -> int:
    """The number of examples of a property that needs `full` of them to be sure."""
    return full if PROFILE == "full" else min(quick, full)


def spread(cases: Sequence[T], quick: int) -> Sequence[T]:
    """The cases to try: all in a full run; in a quick one `quick`, evenly spread, first and last included."""
    if PROFILE == "full" or len(cases) <= quick:
        return cases
    return [cases[number * (len(cases) - 1) // (quick - 1)] for number in range(quick)]
