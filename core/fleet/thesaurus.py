"""The thesaurus of the search for tools: for a word, others that may stand for it in a tool's definition.

`resources/thesaurus.toml` has the words. They are those of the field: no tool is named there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from core.fleet.words import stem, words

FILE = Path(__file__).resolve().parents[2] / "resources" / "thesaurus.toml"
# What a find by another word counts, against one by the word itself.
SAME = 0.8
USED_FOR = 0.45


@cache
def _written() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def related_words() -> Mapping[str, Mapping[str, float]]:
    """By the stem of a word: the stems of other words, with what a find by them counts."""
    written = _written()
    related: dict[str, dict[str, float]] = {}
    for group in written["groups"]:
        stems = [stem(word) for word in group.split()]
        for word in stems:
            related.setdefault(word, {}).update({other: SAME for other in stems if other != word})
    for means, uses in written["used_for"].items():
        wanted = {stem(word) for word in uses.split()}
        # What is used for deleting is used for erasing, too. Of other words, too many would be found so.
        others = {other for word in wanted & _changes() for other in related.get(word, ())} & _changes()
        for words_for, factor in ((wanted, USED_FOR), (others - wanted, USED_FOR * SAME)):
            for word in words_for:
                related.setdefault(word, {}).setdefault(stem(means), factor)
    return related


def is_change(word: str) -> bool:
    """Whether a word says that something is to be changed, as *delete* does."""
    return stem(word) in _changes()


@cache
def _changes() -> frozenset[str]:
    return frozenset(stem(word) for word in _written()["changes"].split())


def without_phrases(text: str) -> str:
    """A text with a word in place of each phrase that means something else than its words."""
    phrases, pattern = _phrases()
    return pattern.sub(lambda found: phrases[" ".join(found.group().casefold().split())], text)


@cache
def _phrases() -> tuple[dict[str, str], re.Pattern[str]]:
    phrases: dict[str, str] = _written()["phrases"]
    # The longest first, as a phrase may begin with another.
    forms = sorted(phrases, key=len, reverse=True)
    any_phrase = "|".join(re.escape(form).replace(r"\ ", r"\s+") for form in forms)
    return phrases, re.compile(rf"\b(?:{any_phrase})\b", re.IGNORECASE)


def is_known_word(word: str) -> bool:
    """Whether a word is one of the field's: a name, such as that of a program, is not."""
    return stem(word) in _known_stems()


@cache
def _known_stems() -> frozenset[str]:
    written = _written()
    texts = [*written["groups"], *written["used_for"], *written["used_for"].values(), *written["phrases"]]
    return frozenset(stem(word) for text in texts for word in words(text))
