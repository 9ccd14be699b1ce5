"""All goals of the bench, one table: what is to be reached, by the name of the figure that shows it.

`DESIGN` are the numbers that the program is to reach; those whose part is empty have nothing yet that
measures them, and are printed as such. `LIMITS` are the bounds that parts hold their own work to.
Differences and ratios are to a peer of the same run. Absolute numbers are of two quiet cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.bench.figures import Figure, rounded

FORMATS = ("png", "jpeg", "webp")
SCREENS = ("fleet", "runs")
PROGRAMS = ("our Qt program", "Mousepad", "gnome-calculator", "Chromium")
WORST_FRAMES = ("numbers", "lists", "objects", "texts", "digits", "names")
FRAMES = (
    "devices painted as a table",
    "devices change at once, longest turn, a table",
    "devices painted as tiles",
    "devices change at once, longest turn, tiles",
    "a form, longest turn, as many fields as a form shows",
    "a form, longest turn, as many parts as a schema may have",
)


class Measure(StrEnum):
    """What of a figure a goal bounds."""

    VALUE = "value"
    BEYOND = "beyond"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for the figure of that name; `part` measures it, `setting` says under which conditions."""

    part: str
    name: str
    limit: float
    unit: str
    measure: Measure = Measure.VALUE
    is_least: bool = False
    setting: str = ""

    def is_met(self, figure: Figure) -> bool:
        """Whether the figure keeps the bound."""
        value = self._bounded(figure)
        return value >= self.limit if self.is_least else value <= self.limit

    def _bounded(self, figure: Figure) -> float:
        match self.measure:
            case Measure.VALUE:
                return figure.value
            case Measure.BEYOND:
                return figure.beyond
            case Measure.RATIO:
                return figure.ratio

    def words(self) -> str:
        """`at most the peer + 0.250 ms`."""
        bound = f"{rounded(self.limit)} {self.unit}".rstrip()
        words = {
            Measure.VALUE: bound,
            Measure.BEYOND: f"the peer + {bound}",
            Measure.RATIO: f"{self.limit:g} times the peer",
        }[self.measure]
        setting = f", {self.setting}" if self.setting else ""
        return f"at {'least' if self.is_least else 'most'} {words}{setting}"


def at_most(part: str, name: str, limit: float, unit: str, setting: str = "") -> Goal:
    """The value itself is bounded."""
    return Goal(part, name, limit, unit, setting=setting)


def at_least(part: str, name: str, limit: float, unit: str, setting: str = "") -> Goal:
    """The value itself is bounded from below."""
    return Goal(part, name, limit, unit, is_least=True, setting=setting)


def beyond(part: str, name: str, limit: float, unit: str, setting: str = "") -> Goal:
    """What the value adds to its peer is bounded."""
    return Goal(part, name, limit, unit, Measure.BEYOND, setting=setting)


def times(part: str, name: str, limit: float, setting: str = "") -> Goal:
    """The value is at most so many times its peer."""
    return Goal(part, name, limit, "", Measure.RATIO, setting=setting)


def share(part: str, name: str, limit: float, setting: str = "") -> Goal:
    """The value is at least that share of its peer."""
    return Goal(part, name, limit, "", Measure.RATIO, is_least=True, setting=setting)


_FLEET = "1,000 devices"
_MANY = "10,000 devices"
_REFERENCE = "at the reference machine's speed"
_HUB = "a hub against a desk"

DESIGN: tuple[Goal, ...] = (
    beyond("round-trips", "one observation, dispatched and journalled", 0.25, "ms"),
    beyond("round-trips", "one action, dispatched and journalled", 0.5, "ms"),
    beyond("round-trips", "one call as a run, against the same in the service", 0.3, "ms"),
    at_most("round-trips", "one call as a run, over the socket", 2.5, "ms"),
    at_most("policy", "one decision, 1,000 rules", 0.05, "ms"),
    at_least("fleet", "one observation on each device", 3_500, "results/s", _FLEET),
    *(
        at_least(
            "fleet", f"one observation on each device, the window on {screen}", 3_500, "results/s", _FLEET
        )
        for screen in SCREENS
    ),
    share("fleet", "one observation on each device, against a bare server", 0.25, _FLEET),
    at_most("fleet", "CPU of the service for each observation", 300, "µs", _FLEET),
    *(beyond("fleet", f"longest stall of the window on {screen}", 30, "ms", _FLEET) for screen in SCREENS),
    at_least("", "one observation on each device", 1_000, "results/s", _MANY),
    at_most("", "memory of the service for each device", 50, "KiB", _MANY),
    times("", "arrival of 10,000 devices, against ten times that of 1,000", 1.0),
    times("consoles", "CPU of the service for a command, consoles attached", 1.2, "20 consoles"),
    at_least("journal", "durable, groups of 100 from 8 callers", 20_000, "entries/s"),
    at_least("journal", "verification, the indexes too", 200_000, "entries/s"),
    at_most("journal", "first rows of a full journal", 300, "ms", "1,000,000 entries"),
    at_most("journal", "slowest filtered query over a full journal", 100, "ms", "1,000,000 entries"),
    at_most(
        "replay step", "step between commands with pictures", 16, "ms", "1920×1080, on the window's thread"
    ),
    at_most("", "check of the state after an action, which holds at once", 40, "ms"),
    at_most("", "approved click by name, until it is sent", 150, "ms"),
    at_most("", "export made", 3, "s", "1,000 entries with 50 pictures"),
    at_most("", "export opens", 1, "s", "1,000 entries with 50 pictures"),
    at_most("", "export checks itself", 3, "s", "1,000 entries with 50 pictures"),
    *(share("screenshots", f"{form} through the console, checked and stored", 0.5) for form in FORMATS),
    # 0.65 s, where an empty Qt window takes 0.10 s.
    beyond("window", "warm start to a usable window", 0.55, "s"),
    at_most("window", "idle CPU, window", 0.5, "%"),
    at_most("window", "idle CPU, service", 0.5, "%"),
    at_most("window", "idle memory, window and service", 150, "MB"),
    # 0.30 s, where an empty typer program takes 0.20 s.
    beyond("start", "quarterdeck devices, CPU", 0.10, "s"),
    # 0.30 s, where an empty typer program takes 0.20 s.
    beyond("start", "completion of a device at a TAB", 0.10, "s"),
    at_most("start", "gateway, CPU until it answers", 0.6, "s"),
    beyond("gateway", "a call through the HTTP gateway", 3, "ms"),
    beyond("gateway", "a call through the stdio gateway", 3, "ms"),
    at_least("search", "the right tool first", 24, "of 30 wishes"),
    at_least("search", "the right tool among the first three", 28, "of 30 wishes"),
    at_least("search", "plans of do that run as they are", 20, "of 30 wishes"),
    share("", "one observation on each of 1,000 devices, hub against desk", 0.8, _HUB),
    beyond("", "one observation, hub against desk", 2.5, "ms", _HUB),
    beyond("", "one action, hub against desk", 1.5, "ms", _HUB),
    at_most("", "leader killed, until another one leads", 3, "s"),
    at_most("", "leader killed, until 200 devices are back", 5, "s"),
    at_most("", "make test", 300, "s", "two cores"),
)

LIMITS: tuple[Goal, ...] = (
    at_most("batches", "one expression", 50, "µs"),
    at_most("batches", "one expression over all rows", 10, "ms", "5,000 rows"),
    at_most("batches", "plan with conditions", 1_000, "ms", "1,000 devices × 10 steps"),
    at_most("search", "one search, p95", 1.5, "ms", "2,000 tools"),
    at_most("kills", "commands missing in the journal", 0, "commands"),
    at_most("kills", "commands without a result after recovery", 0, "commands"),
    at_most("kills", "journals that do not verify", 0, "journals"),
    at_most("flips", "changed bytes unnoticed although they mean something", 0, "bytes"),
    beyond("gateway", "a read by run_commands", 1.5, "ms"),
    at_most("gateway", "tokens of the tool list", 1_200, "tokens"),
    *(times("limits", f"worst frame that is read, {kind}", 4) for kind in WORST_FRAMES),
    times("limits", "pictures of 1920×1080 compared", 4),
    times("limits", "timeline of a long run", 6, "20,000 entries"),
    times("limits", "a long batch read", 1, "a mebibyte"),
    times("limits", "small objects validated", 4),
    at_most("limits", "500 rules tried over a journal, each command", 300, "µs", _REFERENCE),
    at_most("limits", "stop all", 100, "ms", _REFERENCE),
    times("limits", "requests answered by one call", 0.7, "1,000 requests"),
    *(times("frames", name, 12) for name in FRAMES),
    *(at_most("desktop", f"{program}: press by name until it is sent", 150, "ms") for program in PROGRAMS),
)

GOALS: tuple[Goal, ...] = (*DESIGN, *LIMITS)
