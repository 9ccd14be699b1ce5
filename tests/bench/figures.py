"""What a part of the bench gives: figures with their peers, and notes; and how much a part measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. `smallest` runs every line of a part once or a few times, and says little.

    `million` adds a journal of 1,000,000 entries (minutes); `kills` is the number of killed cores.
    """

    smallest: bool = False
    million: bool = False
    kills: int = 300

    def of(self, full: int, smallest: int) -> int:
        """A number of rounds, devices or entries: `full`, or `smallest` in the smallest run."""
        return smallest if self.smallest else full


@dataclass(frozen=True, slots=True)
class Peer:
    """What a figure is compared with, taken in the same run; `value` has the figure's unit."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. Its name is the same in every run: goals and earlier runs are found by it."""

    name: str
    value: float
    unit: str
    peer: Peer | None = None
    remark: str = ""

    @property
    def beyond(self) -> float:
        """The difference to the peer, in the figure's unit."""
        assert self.peer is not None, f"{self.name!r} has no peer"
        return self.value - self.peer.value

    @property
    def ratio(self) -> float:
        """How many times the peer's value this one is."""
        assert self.peer is not None, f"{self.name!r} has no peer"
        return self.value / self.peer.value if self.peer.value else float("inf")

    def words(self) -> str:
        """`0.74 ms; bare link 0.25 ms, + 0.49 ms, 2.96 times`."""
        words = f"{rounded(self.value)} {self.unit}"
        if self.peer is not None:
            sign = "-" if self.beyond < 0 else "+"
            words += (
                f"; {self.peer.name} {rounded(self.peer.value)} {self.unit}, "
                f"{sign} {rounded(abs(self.beyond))} {self.unit}, {rounded(self.ratio)} times"
            )
        return words + (f"; {self.remark}" if self.remark else "")


@dataclass(frozen=True, slots=True)
class Note:
    """A line without a number to judge, such as what was left out and why."""

    name: str
    text: str

    def words(self) -> str:
        """The text."""
        return self.text


Figures = list[Figure | Note]


def rounded(value: float) -> str:
    """A value with three digits that count, and no more than its size needs."""
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3}f}"


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]
