"""The words of a text as the search for tools compares them: small letters, without the endings of English.

`getSystemInfo` and `get_system_info` have the same words, and `files`, `filing` and `filed` the same stem. A
stem need not be a word: it is compared, and never shown.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

# Of one text, as its device may send megabytes: characters, and words.
MOST_TEXT = 2_000
MOST_WORDS = 300
# Words of a sentence that say nothing of what is wanted.
_PRONOUNS = (f"{of}{what}" for of in ("any", "some", "every") for what in ("body", "one", "thing"))
FILLERS = frozenset(_PRONOUNS) | frozenset(
    "a about all am an and any are as at be been being bit but by can could current currently did do does "
    "for from give go going had has have her here how i if in into is it its just let like long many may "
    "me mine moment much my need now of off on onto or our out over please right should so some still "
    "tell than that the their them then there these they this those through to today too under up us very "
    "want was way we were what when where whether which while who whose why will with would you your".split()
)
_QUESTION = frozenset(
    "what which who whose whom when where why how is are am was were does do did has have had can could will "
    "would should may might".split()
)
_REQUEST = frozenset("can could will would".split())
# In "tell me which it was" or "check whether it is", these ask, and so does the word behind them.
_ASKS_TO_KNOW = frozenset("tell show say see check know explain find let want".split())
_WHAT_TO_KNOW = _QUESTION | {"if", "whether"}
_FARTHEST_BEHIND = 4
_WORD = re.compile(r"[^\W_]+")
# "What's" and "isn't" are "what" and "is".
_CONTRACTED = re.compile(r"(?<=\w)(?:n['’]t|['’](?:s|re|ll|ve|d|m))\b", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL = re.compile(r"[aeiouy]")
_SHORTEST_STEM = 3


def words(text: str) -> list[str]:
    """The words of a text in small letters, in order."""
    text = text[:MOST_TEXT]
    if "'" in text or "’" in text:
        text = _CONTRACTED.sub("", text)
    return [word.casefold() for word in islice(_WORD.findall(_HUMP.sub(" ", text)), MOST_WORDS)]


def is_question(text: str) -> bool:
    """Whether a sentence asks something: by its question mark, its first word, or what it wants to be told.

    A request, such as "could you close it?", asks nothing, unless for an answer.
    """
    said = [word for word in words(text) if word != "please"]
    if said[:1] != [] and said[0] in _REQUEST and said[1:2] == ["you"]:
        return _asks_to_know(said[2:])
    return (said[:1] != [] and said[0] in _QUESTION) or text.rstrip().endswith("?") or _asks_to_know(said)


def _asks_to_know(said: list[str]) -> bool:
    start = said[1:] if said[:1] == ["i"] else said
    return (
        start[:1] != []
        and start[0] in _ASKS_TO_KNOW
        and not _WHAT_TO_KNOW.isdisjoint(start[1 : 1 + _FARTHEST_BEHIND])
    )


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a word: `process` of `processes`, `clos` of `close`, `closed` and `closing`.

    These are the first steps of Porter's algorithm, about plurals and verbs. His later steps, which take
    `-ation` and `-ive` away, find more that is meant otherwise than they find that was missed.
    """
    if not word.isascii() or len(word) <= _SHORTEST_STEM or not word.isalpha():
        return word
    word = _without_verb_ending(_singular(word))
    if len(word) > _SHORTEST_STEM and word.endswith("e") and not word.endswith("ee"):
        word = word[:-1]
    if word.endswith("y") and len(word) > _SHORTEST_STEM and word[-2] not in "aeiou":
        word = f"{word[:-1]}i"
    return word


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_verb_ending(word: str) -> str:
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base == word or len(base) < 2 or not _VOWEL.search(base) or word.endswith("eed"):
            continue
        # `stopped` is of `stop`, but `pressed` of `press` and `filled` of `fill`.
        doubled = len(base) > 2 and base[-1] == base[-2] and base[-1] not in "lsz"
        return base[:-1] if doubled else base
    return word
