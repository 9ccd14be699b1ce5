"""What the palette can find, and how well it fits what was typed. Pure data: no widget, nothing is sent.

What is shown of a line (title and detail) is searched, typing errors forgiven. Tools, runs and entries of the
journal are found by the service. Commands act: a word finds them only where one of theirs begins so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rapidfuzz import fuzz

from app.screens.targets import OpenTool, Target

COMMANDS = "Commands"
GROUPS = (COMMANDS, "Call a tool", "Devices", "Approvals", "Batches and runs", "Agents", "Journal")
LEAST_FIT = 78.0
SHORTEST_FUZZY = 4
# Below every word that is in the line itself, above what is only like one.
KNOWN_FIT = 85.0


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the palette. `screen` and `target` are where Enter leads.

    `fits` is a query that this line is known to fit, also where its words are in nothing that is shown.
    `reason` says what led to it where that is not in what it shows: `description: memory`.
    A line with `act` is a command: it is triggered instead of opened. `off` says why that cannot be done now,
    `also` has more words that find it, and `careful` keeps the cursor off it until its title was typed whole.
    Lines of a group with a lower `order` come first, however well others fit.
    """

    key: str
    group: str
    title: str
    detail: str
    icon: str
    screen: str
    target: Target | None = None
    mono: bool = False
    production: bool = False
    risk: str = ""
    state: str = ""  # a word of app.theme.state_looks, painted by `state_of`
    state_of: str = ""  # "plan", "health" or "run"
    note: str = ""
    fits: str = ""
    reason: str = ""
    act: Callable[[], object] | None = None
    off: str = ""
    also: str = ""
    careful: bool = False
    order: int = 0

    @property
    def name(self) -> str:
        """The id or name that is this thing's alone, as it is typed; empty for a command and a tool."""
        shared = self.act is not None or isinstance(self.target, OpenTool)
        return "" if shared else self.key.partition("/")[2].casefold()


@dataclass(frozen=True, slots=True)
class Match:
    """A hit with its score and the letters that matched, as (start, end) in title and in detail."""

    hit: Result
    score: float
    title_marks: tuple[tuple[int, int], ...] = ()
    detail_marks: tuple[tuple[int, int], ...] = ()

    @property
    def reason(self) -> str:
        """What led to the hit where that is not in what it shows."""
        return self.hit.reason


@dataclass
class Spans:
    """Spans collected while the words of a query are matched."""

    title: list[tuple[int, int]] = field(default_factory=list)
    detail: list[tuple[int, int]] = field(default_factory=list)


def find(hits: Iterable[Result], query: str, each: int = 4, group: str = "") -> list[Match]:
    """The best hits of each group in the groups' order; every word of the query must be in the hit.

    What exactly was named comes first, and its group before all others: nothing that is only like it may take
    Enter instead.
    """
    words = query.casefold().split()
    name_of_one = query.strip().casefold()
    found: dict[str, list[Match]] = {}
    for hit in hits:
        if group and hit.group != group:
            continue
        match = match_hit(hit, words)
        if match is not None:
            found.setdefault(hit.group, []).append(match)
    ordered: list[Match] = []
    # Who has typed nothing yet looks for things; commands are offered once they are named.
    groups = GROUPS if words else (*GROUPS[1:], COMMANDS)
    named = {
        name for name in groups if words and any(one.hit.name == name_of_one for one in found.get(name, []))
    }
    for name in sorted(groups, key=lambda name: name not in named):
        best = sorted(found.get(name, []), key=lambda one: (one.hit.name != name_of_one, *_rank(one)))
        # Commands of one beginning are read as a list: all sections of Settings, all screens.
        most = each * (3 if group else 2 if name == COMMANDS and words else 1)
        ordered.extend(best[:most])
    return ordered


def _rank(found: Match) -> tuple[int, float, str]:
    """The best first; commands that fit equally stay in the window's order."""
    return found.hit.order, -found.score, found.hit.title if found.hit.act is None else ""


def match_hit(hit: Result, words: list[str]) -> Match | None:
    """How well a hit fits; None when a word is not in it."""
    if not words:
        return Match(hit, 0.0)
    if hit.act is not None:
        return _match_command(hit, words)
    marks = Spans()
    score = 0.0
    title, detail = hit.title.casefold(), hit.detail.casefold()
    for word in words:
        fit = max(_fit(word, title, marks.title) * 1.2, _fit(word, detail, marks.detail))
        if fit <= 0:
            if words != hit.fits.casefold().split():
                return None
            fit = KNOWN_FIT
        score += fit
    return Match(hit, score / len(words), _merged(marks.title), _merged(marks.detail))


def _match_command(hit: Result, words: list[str]) -> Match | None:
    title, also = hit.title.casefold(), hit.also.casefold()
    marks: list[tuple[int, int]] = []
    score = 0.0
    for word in words:
        if (place := _begins(word, title)) is not None:
            marks.append(place)
            score += 130.0 if place[0] == 0 else 120.0
        elif _begins(word, also) is not None:
            score += 100.0
        else:
            return None
    return Match(hit, score / len(words), _merged(marks))


def _begins(word: str, text: str) -> tuple[int, int] | None:
    """Where a word of `text` begins with `word`."""
    if word not in text:
        return None
    near = re.search(rf"(?<![^\W_]){re.escape(word)}", text)
    return near.span() if near else None


def _fit(word: str, text: str, marks: list[tuple[int, int]]) -> float:
    at = text.find(word)
    if at >= 0:
        marks.append((at, at + len(word)))
        starts_word = at == 0 or not text[at - 1].isalnum()
        return 100.0 + (20.0 if starts_word else 0.0) + (10.0 if at == 0 else 0.0)
    if len(word) < SHORTEST_FUZZY or not text:
        return 0.0
    near = fuzz.partial_ratio_alignment(word, text, score_cutoff=LEAST_FIT)
    if near is None or near.score < LEAST_FIT:
        return 0.0
    marks.append((near.dest_start, near.dest_end))
    return near.score * 0.8


def _merged(marks: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(marks):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
