"""What the palette can find, and how well it fits what was typed. Pure data: no widget, nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rapidfuzz import fuzz

from app.screens.base import Target

GROUPS = ("Call a tool", "Devices", "Approvals", "Batches and runs", "Journal", "Screens")
LEAST_FIT = 78.0
SHORTEST_FUZZY = 4
# Below every word that is in the line itself, above what is only like one.
KNOWN_FIT = 85.0


@dataclass(frozen=True, slots=True)
class Hit:
    """One line of the palette. `screen` and `target` are where Enter leads.

    `fits` is a query that this line is known to fit, also where its words are in nothing that is shown.
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
    state: str = ""  # a word of app.look.states, painted by `state_of`
    state_of: str = ""  # "plan", "health" or "run"
    note: str = ""
    fits: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A hit with its score and the letters that matched, as (start, end) in title and in detail."""

    hit: Hit
    score: float
    title_marks: tuple[tuple[int, int], ...] = ()
    detail_marks: tuple[tuple[int, int], ...] = ()


@dataclass
class Marks:
    """Spans collected while the words of a query are matched."""

    title: list[tuple[int, int]] = field(default_factory=list)
    detail: list[tuple[int, int]] = field(default_factory=list)


def find(hits: Iterable[Hit], query: str, each: int = 4, group: str = "") -> list[Found]:
    """The best hits of each group in the groups' order; every word of the query must be in the hit."""
    words = query.casefold().split()
    found: dict[str, list[Found]] = {}
    for hit in hits:
        if group and hit.group != group:
            continue
        match = match_hit(hit, words)
        if match is not None:
            found.setdefault(hit.group, []).append(match)
    ordered: list[Found] = []
    for name in GROUPS:
        best = sorted(found.get(name, []), key=lambda one: (-one.score, one.hit.title))
        ordered.extend(best[: each * 3 if group else each])
    return ordered


def match_hit(hit: Hit, words: list[str]) -> Found | None:
    """How well a hit fits; None when a word is not in it."""
    if not words:
        return Found(hit, 0.0)
    marks = Marks()
    score = 0.0
    title, detail = hit.title.casefold(), hit.detail.casefold()
    for word in words:
        fit = max(_fit(word, title, marks.title) * 1.2, _fit(word, detail, marks.detail))
        if fit <= 0:
            if words != hit.fits.casefold().split():
                return None
            fit = KNOWN_FIT
        score += fit
    return Found(hit, score / len(words), _merged(marks.title), _merged(marks.detail))


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
