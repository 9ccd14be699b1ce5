"""What was meant by a name that does not exist."""

from __future__ import annotations

import pytest

from core.similar import did_you_mean, meant_or_known, most_like
from tests.fakes.work import most_calls

NAMES = ["lab-1", "lab-2", "Server", "db"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("lba-1", "lab-1"), ("LAB-2", "lab-2"), ("sever", "Server"), ("nothing", ""), ("", "")],
)
def test_the_name_most_like_the_typed_one_comes_first(typed: str, meant: str) -> None:
    assert next(iter(most_like(typed, NAMES)), "") == meant


def test_the_sentence_says_what_was_meant_and_what_there_is() -> None:
    assert did_you_mean("lab-3", NAMES) == "Did you mean lab-2 or lab-1?"
    assert meant_or_known("sever", NAMES, "Devices") == (
        "Did you mean Server? Devices: Server, db, lab-1, lab-2"
    )
    assert meant_or_known("x", [], "Devices") == "Devices: none"
    many = meant_or_known("x", [f"d{number:04}" for number in range(1_000)], "Devices")
    assert many.endswith("d0011 and 988 more")


def test_long_names_and_many_names_cost_little() -> None:
    """An agent chooses the name, a device the names that it is compared with."""
    assert most_like("a" * 201, ["a" * 201]) == []
    assert most_like("a", ["a" * 100_000, "ab"]) == ["ab"]
    names = [f"{number}" for number in range(100_000)]
    with most_calls(2_000_000):
        most_like("x" * 200, ("y" * 200 for _ in names))
