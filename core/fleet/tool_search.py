"""Search over the tools of all devices: by names, servers, descriptions, arguments, results, devices, tags.

`ToolIndex` is an inverted index: for each stem of a word, the definitions that have it, with its share of a
BM25 score over the fields of a definition (BM25F: a word in a name counts more than one in a description).
`follow` brings the index up to date when tools have changed, so that a search only looks words up. A word of
a query finds tools by itself or by another one of the thesaurus; the word that is being typed, by its
beginning; a word that finds nothing so, by its spelling. Fit decides first; health and past results of a
device move a tool among those that fit alike.
"""

from __future__ import annotations

import asyncio
import math
import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from core.aip.messages import ResultStatus
from core.errors import BadInput, ErrorCode
from core.fleet.models import ToolHit
from core.fleet.sentence import CUES, ValueKind, read_sentence
from core.fleet.thesaurus import is_change, is_known_word, related_words, without_phrases
from core.fleet.words import FILLERS, MOST_TEXT, is_question, stem, words
from core.models.devices import Health
from core.models.tools import Effect, Tool
from core.schema_forms.fields import schema_fields
from core.tasks import in_turns

# Characters of a query.
LONGEST_QUERY = 500
MOST_HITS = 200
# Of one tool, as its device may send megabytes: arguments, fields of a result, and words of a field.
_MOST_FIELDS = 80
_MOST_WORDS = 300
_SHOWN_TEXT = 300
# Letters from which on a word is looked for at the beginning of words outside names, of devices, and by its
# spelling.
_SHORTEST_PREFIX = 3
_SHORTEST_DEVICE = 3
_SHORTEST_FUZZY = 4
_MOST_PREFIXED = 300
# Per cent of `rapidfuzz.fuzz.ratio`, and how many words of a query are looked for by their spelling.
_LEAST_RATIO = 78.0
_MOST_FUZZY = 8
_MOST_LIKE = 5
# Definitions that no device offers now are kept, as a device that reconnects offers the same ones again; but
# not if they are more than this, and more than the others.
_MOST_UNUSED = 500

NAME, TITLE, SERVER, DESCRIPTION = "name", "title", "server", "description"
# The names and the allowed values of arguments, those of result fields, and the descriptions of both.
ARGUMENT, RESULT, DETAIL = "argument", "result", "detail"


class _Field(NamedTuple):
    """What a word in a field of a definition counts, and BM25's normalisation of the field's length.

    `length` is the usual number of words there, and `discount` how much more of them count less each.
    """

    weight: float
    length: int
    discount: float = 0.5


_FIELDS = {
    NAME: _Field(3.0, 3),
    TITLE: _Field(2.5, 4),
    SERVER: _Field(1.5, 1),
    DESCRIPTION: _Field(1.5, 25),
    ARGUMENT: _Field(1.0, 10),
    # More fields of a result do not make it say less of each.
    RESULT: _Field(0.6, 20, 0.0),
    DETAIL: _Field(0.3, 50),
}
# BM25's constant that says how soon more of the same word counts no more.
_SATURATION = 1.2
# The share of a word that is found in a name alone, by which scores are made per cent.
_WHOLE_SHARE = 3.0 / (3.0 + _SATURATION)
# What the whole name adds to the score of a tool.
_WHOLE_NAME = 0.15
# The factor for how a word is found; the thesaurus has its own. A prefix counts more the longer it is.
_SAME, _PREFIX, _AFTER_WHOLE, _LIKE, _DEVICE = 1.0, 0.75, 0.4, 0.55, 0.6
# What a word counts that is not typed but stands for a value, such as "path" for /etc/hosts.
_CUE = 0.3
# A question wants to know something, and is answered by a tool that looks. A wish for a change is fulfilled
# by one that changes something, and says so in its name, description or arguments: results tell what came
# of it.
_SUITS = 1.4
# In prose, `list_windows` is not about lists and windows: it refers to another tool or argument.
_IDENTIFIER = re.compile(r"\b[a-zA-Z0-9]+(?:_[a-zA-Z0-9]+)+\b")
_HEALTH = {
    Health.ONLINE: 1.0,
    Health.BUSY: 1.0,
    Health.STALE: 0.9,
    Health.RECONNECTING: 0.75,
    Health.OFFLINE: 0.6,
}
_BLOCKED = 0.7
_RESULTS_COUNT_FOR = 0.08


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a device offers, by name, and what a search needs to know of the device."""

    device: str
    tags: Sequence[str]
    health: Health
    tools: Mapping[str, Tool]


class Results(NamedTuple):
    """How many calls of a tool on a device succeeded, and how many failed."""

    succeeded: int = 0
    failed: int = 0

    def after(self, status: ResultStatus) -> Results:
        """The numbers after one more call with this status."""
        succeeded = status is ResultStatus.SUCCESS
        return Results(self.succeeded + succeeded, self.failed + (not succeeded))


PastResults = Mapping[tuple[str, str], Results]


@cache
def _hits() -> TypeAdapter[list[ToolHit]]:
    return TypeAdapter(list[ToolHit])


class _Place(NamedTuple):
    """The field of a definition in which a stem counts most, and the word that stands there."""

    weight: float
    where: str
    word: str


@dataclass(slots=True)
class _Definition:
    """One definition that is in the index; `places` are its stems.

    `devices` are those that offer it now, in the order in which they were first seen with it.
    """

    tool: str
    observes: bool
    places: dict[str, _Place]
    devices: dict[str, None] = field(default_factory=dict)


class _Words:
    """The words of one definition, as they are read: by stem, how often in which field, and where first."""

    def __init__(self, tool: Tool) -> None:
        self.stems: dict[str, str] = {}
        self.places: dict[str, _Place] = {}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in _FIELDS}
        self._add(NAME, NAME, " ".join(filter(None, (tool.tool_name, tool.own_name))))
        self._add(TITLE, TITLE, tool.title or "")
        self._add(SERVER, SERVER, tool.namespace or "")
        self._add(DESCRIPTION, DESCRIPTION, _without_identifiers(tool.description))
        for name, schema in ((ARGUMENT, tool.input_schema), (RESULT, tool.output_schema)):
            for part in schema_fields(schema, _MOST_FIELDS):
                where = f"{name} {part.name}"
                self._add(name, where, " ".join((part.name, *map(str, part.values))))
                self._add(DETAIL, where, _without_identifiers(part.description))

    def _add(self, name: str, where: str, text: str) -> None:
        weight, counts = _FIELDS[name].weight, self._counts[name]
        found: dict[str, None] = {}
        for word in words(text):
            term = self.stems.setdefault(word, stem(word))
            if term not in found and (term not in self.places or self.places[term].weight < weight):
                self.places[term] = _Place(weight, where, word)
            found[term] = None
        if len(counts) < _MOST_WORDS:
            counts.update(found.keys())

    def shares(self) -> Iterator[tuple[str, float]]:
        """The share of BM25 of each stem, from 0 to 1, before it is weighed by how rare the stem is."""
        sums: dict[str, float] = defaultdict(float)
        for name, counts in self._counts.items():
            weight, usual, discount = _FIELDS[name]
            length = 1.0 - discount + discount * counts.total() / usual
            for term, count in counts.items():
                sums[term] += weight * count / length
        return ((term, value / (value + _SATURATION)) for term, value in sums.items())


def _without_identifiers(text: str) -> str:
    return _IDENTIFIER.sub(" ", text[:MOST_TEXT])


class _Asked(NamedTuple):
    """A word of a query, what it counts, and whether it is still being typed."""

    word: str
    weight: float = 1.0
    typing: bool = False


class _Match(NamedTuple):
    """A word of a query and its finds: the stems by which it finds, with how well they match (0 to 1).

    `word` is empty if it is not typed but stands for a value, and `own` is its own stem if that finds.
    `rarity` is what the word counts. `devices` are the devices that it names, each with the reason. `finds`
    is about how many definitions it finds.
    """

    word: str
    own: str | None
    terms: dict[str, float]
    rarity: float
    devices: dict[str, str]
    finds: int


class _Candidate(NamedTuple):
    score: float
    number: int
    device: str


class ToolIndex:
    """The words of all tools that devices offer, and the search in them."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._clear()

    def _clear(self) -> None:
        self._offers: dict[str, Offer] = {}
        # By device: the factor of its health, looked up once, as the hash of an enum is written in Python.
        self._well: dict[str, float] = {}
        self._definitions: list[_Definition] = []
        # By tool key and digest of the contract, which covers the definition.
        self._numbers: dict[tuple[str, str], int] = {}
        self._of_device: dict[str, list[int]] = {}
        # By a stem: the definitions that have it, with its share of BM25 in each.
        self._postings: dict[str, dict[int, float]] = {}
        # Names without what separates their words, as in `getsysteminfo`.
        self._whole_names: dict[str, list[int]] = {}
        # The words as they are written, with their stems, and in alphabetical order; those of names as well.
        self._stems: dict[str, str] = {}
        self._terms: list[str] = []
        self._name_terms: list[str] = []
        # By a word of a device's name or tags: the devices, each with the reason in words.
        self._device_words: dict[str, dict[str, str]] = defaultdict(dict)
        self._device_terms: list[str] = []

    async def follow(self, offers: Iterable[Offer]) -> None:
        """Bring the index up to date. Only what changed is read, and other tasks run meanwhile."""
        now = {offer.device: offer for offer in offers}
        async with self._lock:
            self._compact()
            for device in [device for device in self._offers if device not in now]:
                self._name_device(device, [])
                self._hold(device, [])
                del self._offers[device], self._well[device]
            async for device, offer in in_turns(now.items()):
                known = self._offers.get(device)
                if known is None or known.tags != offer.tags:
                    self._name_device(device, [("device", device), *(("tag", tag) for tag in offer.tags)])
                if known is None or known.tools is not offer.tools:
                    numbers = [self._number(tool) async for tool in in_turns(offer.tools.values())]
                    self._hold(device, numbers)
                self._offers[device] = offer
                self._well[device] = _HEALTH[offer.health]

    def search(
        self, query: str, among: Collection[str] | None, limit: int, results: PastResults
    ) -> list[ToolHit]:
        """The tools that fit a query, best first; `among` limits the devices. An empty query fits every tool.

        The last word may be one that is still being typed, unless a blank follows. Devices that offer the
        same definition share a hit, unless a word of the query names devices.

        Raises:
            BadInput: the query is too long.
        """
        if len(query) > LONGEST_QUERY:
            raise BadInput(
                f"A search for tools has at most {LONGEST_QUERY} characters; this one has {len(query):,}.",
                ErrorCode.TOO_LARGE,
            )
        limit = min(max(limit, 1), MOST_HITS)
        matches = list(self._matches(query))
        asks = is_question(query)
        change = None if asks else _wished_change(matches)
        fits, most = self._fits(query, matches, limit)
        named = {device for match in matches for device in match.devices}
        best = sorted(fits, key=fits.__getitem__, reverse=True)
        candidates: list[_Candidate] = []
        for number in islice(self._on(best, among), _most_ranked(limit)):
            fit = fits[number] / most * 100 * self._suits(number, asks, change)
            candidates += self._candidates(number, fit, named, among, limit, results)
        candidates.sort(key=lambda one: (-one.score, *self._order(one)))
        # Together, which takes half the time of one after the other.
        return _hits().validate_python(
            [self._hit(candidate, matches, change, among) for candidate in candidates[:limit]]
        )

    # Reading tools

    def _hold(self, device: str, numbers: list[int]) -> None:
        """Note which definitions a device offers."""
        for number in set(self._of_device.get(device, ())).difference(numbers):
            self._definitions[number].devices.pop(device, None)
        for number in numbers:
            self._definitions[number].devices[device] = None
        self._of_device[device] = numbers

    def _name_device(self, device: str, texts: list[tuple[str, str]]) -> None:
        """Replace the words by which a device is found."""
        for devices in self._device_words.values():
            devices.pop(device, None)
        for kind, text in reversed(texts):
            for word in {text.casefold(), *(part for part in words(text) if not part.isdigit())}:
                if word not in self._device_words:
                    insort(self._device_terms, word)
                self._device_words[word][device] = f"{kind}: {text}"

    def _number(self, tool: Tool) -> int:
        """The number of a tool's definition, which is read if it is new."""
        key = (tool.tool_key, tool.contract.digest)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._definitions)
            read = _Words(tool)
            observes = tool.contract.effect.value is Effect.OBSERVE
            self._definitions.append(_Definition(tool.tool_name, observes, read.places))
            self._whole_names.setdefault("".join(words(tool.tool_name)), []).append(number)
            for word, term in read.stems.items():
                if word not in self._stems:
                    self._stems[word] = term
                    insort(self._terms, word)
            for word in words(tool.tool_name):
                place = bisect_left(self._name_terms, word)
                if self._name_terms[place : place + 1] != [word]:
                    self._name_terms.insert(place, word)
            for term, share in read.shares():
                self._postings.setdefault(term, {})[number] = share
        return number

    def _compact(self) -> None:
        """Begin again if most definitions are offered by no device any more."""
        unused = sum(not definition.devices for definition in self._definitions)
        if unused > _MOST_UNUSED and unused * 2 > len(self._definitions):
            self._clear()

    # Looking words up

    def _matches(self, query: str) -> Iterator[_Match]:
        spelled = 0
        for word, weight, typing in self._asked(query):
            terms = self._terms_for(word, typing)
            devices = self._devices_for(word, exactly=_SAME in terms.values())
            # A word that the thesaurus knows is spelled as it should be.
            strange = not (terms or devices or is_known_word(word)) and len(word) >= _SHORTEST_FUZZY
            if strange and spelled < _MOST_FUZZY:
                spelled += 1
                terms = self._terms_like(word)
            yield self._match(word if weight == 1.0 else "", weight, terms, devices)

    def _asked(self, query: str) -> list[_Asked]:
        """The words of a query that say something, and words that stand for the kinds of its values."""
        sentence = read_sentence(query)
        kinds = {value.kind for value in sentence.values}
        # A number is a value, but also a part of names.
        numbers = " ".join(sentence.of(ValueKind.NUMBER))
        told = [*self._split(without_phrases(sentence.rest)), *words(numbers)]
        said = [word for word in told if word not in FILLERS]
        if not said:
            said = [word for text in sentence.of(ValueKind.QUOTED) for word in words(text)] or told
        typing = said[-1] if said and query[-1:].isalnum() and query.casefold().endswith(said[-1]) else None
        asked = {word: _Asked(word, typing=word == typing) for word in said}
        for kind in sorted(kinds):
            for word in CUES[kind]:
                asked.setdefault(word, _Asked(word, _CUE))
        return list(asked.values())

    def _split(self, text: str) -> list[str]:
        """The words of a text, in which the name of a device is one word."""
        parts = text.casefold().split()
        if not any(part in self._device_words for part in parts):
            return words(text)
        pairs = zip(text.split(), parts, strict=True)
        return [
            word
            for part, folded in pairs
            for word in ([folded] if folded in self._device_words else words(part))
        ]

    def _terms_for(self, word: str, typing: bool) -> dict[str, float]:
        """The stems by which a word finds: its own, those of other words for it, and what it begins."""
        own = stem(word)
        related = related_words().get(own, {})
        terms = {other: factor for other, factor in related.items() if other in self._postings}
        is_whole = own in self._postings
        if typing:
            prefixed = self._terms if len(word) >= _SHORTEST_PREFIX else self._name_terms
            factor = _AFTER_WHOLE if is_whole or terms else 1.0
            for written in islice(_beginning_with(word, prefixed), _MOST_PREFIXED):
                begun = (_PREFIX + 0.2 * len(word) / len(written)) * factor
                term = self._stems[written]
                terms[term] = max(terms.get(term, 0.0), begun)
        if is_whole:
            terms[own] = _SAME
        return terms

    def _terms_like(self, word: str) -> dict[str, float]:
        # Imported here, as it takes longer than the first hundred searches.
        from rapidfuzz import fuzz, process

        like: dict[str, float] = {}
        # The stem of a longer word may be as short as any other: `eat` is no misspelt `at`.
        for spelling in {spelling for spelling in (word, stem(word)) if len(spelling) >= _SHORTEST_FUZZY}:
            for written, ratio, _ in process.extract(
                spelling, self._terms, scorer=fuzz.ratio, score_cutoff=_LEAST_RATIO, limit=_MOST_LIKE
            ):
                term = self._stems[written]
                like[term] = max(like.get(term, 0.0), _LIKE * ratio / 100)
        return like

    def _devices_for(self, word: str, exactly: bool) -> dict[str, str]:
        """The devices that a word names; `exactly` leaves out those whose names only begin with it."""
        devices = dict(self._device_words.get(word, ()))
        if not devices and not exactly and len(word) >= _SHORTEST_DEVICE:
            for term in _beginning_with(word, self._device_terms):
                devices.update(self._device_words[term])
        return devices

    def _match(self, word: str, weight: float, terms: dict[str, float], devices: dict[str, str]) -> _Match:
        counts = [len(self._postings[term]) for term in terms]
        # How rare a word is, is how rare the most frequent of the stems is by which it finds.
        rarity = _rarity(max(counts, default=0), len(self._definitions)) * weight
        finds = sum(counts) + sum(len(self._of_device[device]) for device in devices)
        own = next((term for term, factor in terms.items() if factor == _SAME), None)
        # In ascending order, so that what counts most is written last.
        ascending = dict(sorted(terms.items(), key=itemgetter(1)))
        return _Match(word, own, ascending, rarity, devices, finds)

    def _scores(self, match: _Match) -> dict[int, float]:
        """The score of each definition that a word finds: by the stem with which it fits best."""
        scores: dict[int, float] = {}
        for term, factor in match.terms.items():
            full = factor * match.rarity
            if not scores:
                scores = {number: full * share for number, share in self._postings[term].items()}
                continue
            for number, share in self._postings[term].items():
                if full * share > scores.get(number, 0.0):
                    scores[number] = full * share
        for device in match.devices:
            named = _DEVICE * match.rarity
            scores.update({number: max(scores.get(number, 0.0), named) for number in self._of_device[device]})
        return scores

    def _add_to(self, fits: dict[int, float], match: _Match) -> None:
        """Add the scores of a word to those definitions that others have found; find no further ones."""
        if len(match.terms) == 1 and not match.devices:
            # The usual word, which has no best stem to be found.
            [(term, factor)] = match.terms.items()
            full, shares = factor * match.rarity, self._postings[term]
            for number in fits.keys() & shares.keys():
                fits[number] += full * shares[number]
            return
        scores: dict[int, float] = {}
        for term, factor in match.terms.items():
            full, shares = factor * match.rarity, self._postings[term]
            for number in fits.keys() & shares.keys():
                if (score := full * shares[number]) > scores.get(number, 0.0):
                    scores[number] = score
        named = _DEVICE * match.rarity
        for device in match.devices:
            for number in self._of_device[device]:
                if number in fits and named > scores.get(number, 0.0):
                    scores[number] = named
        for number, score in scores.items():
            fits[number] += score

    # Ranking

    def _fits(self, query: str, matches: list[_Match], limit: int) -> tuple[dict[int, float], float]:
        """How well each definition fits, and how well one would that has every word in its name alone."""
        if not matches:
            return dict.fromkeys(range(len(self._definitions)), 0.01), 1.0
        fits: dict[int, float] = {}
        # The rarest word first: where it has found enough, a frequent one only tells these apart.
        for match in sorted(matches, key=lambda match: match.finds):
            if not fits:
                fits = self._scores(match)
                continue
            if len(fits) >= _most_ranked(limit) and match.finds > len(fits):
                self._add_to(fits, match)
                continue
            for number, score in self._scores(match).items():
                fits[number] = fits.get(number, 0.0) + score
        most = _WHOLE_SHARE * sum(match.rarity for match in matches)
        for number in self._whole_names.get("".join(words(query)), ()):
            fits[number] = max(fits.get(number, 0.0), most) + most * _WHOLE_NAME
        return fits, most

    def _suits(self, number: int, asks: bool, change: _Match | None) -> float:
        """The factor for how a tool suits a question, or a change that is wished."""
        definition = self._definitions[number]
        if asks:
            return _SUITS if definition.observes else 1.0
        return 1.0 if change is None or _makes(definition, change) else 1.0 / _SUITS

    def _on(self, best: list[int], among: Collection[str] | None) -> Iterator[int]:
        """Those that a permitted device offers."""
        for number in best:
            devices = self._definitions[number].devices
            if devices and (among is None or any(device in among for device in devices)):
                yield number

    def _candidates(
        self,
        number: int,
        fit: float,
        named: set[str],
        among: Collection[str] | None,
        limit: int,
        results: PastResults,
    ) -> list[_Candidate]:
        """A definition on the device that suits best, or on each device that the query names."""
        definition = self._definitions[number]
        allowed: Collection[str] = definition.devices
        if among is not None:
            allowed = [device for device in allowed if device in among]
        if named and (chosen := [device for device in allowed if device in named]):
            factors = [(device, self._factor(device, definition.tool, results)) for device in chosen[:limit]]
            return [_Candidate(round(fit * factor, 1), number, device) for device, factor in factors]
        best = ("", 0.0)
        for device in allowed:
            factor = self._factor(device, definition.tool, results)
            if factor > best[1]:
                best = (device, factor)
            # The first device that is well will do: there may be a thousand.
            if factor >= 1.0:
                break
        return [_Candidate(round(fit * best[1], 1), number, best[0])]

    def _factor(self, device: str, tool: str, results: PastResults) -> float:
        """The factor of health, a blocked definition and past results."""
        factor = self._well[device] * (_BLOCKED if self._offers[device].tools[tool].changed else 1.0)
        if results and (past := results.get((device, tool))) is not None:
            succeeded, failed = past
            factor *= 1.0 + _RESULTS_COUNT_FOR * (succeeded - failed) / (succeeded + failed + 2)
        return factor

    def _order(self, candidate: _Candidate) -> tuple[str, str]:
        return self._definitions[candidate.number].tool.casefold(), candidate.device

    def _hit(
        self,
        candidate: _Candidate,
        matches: list[_Match],
        change: _Match | None,
        among: Collection[str] | None,
    ) -> dict[str, Any]:
        """The fields of a hit."""
        score, number, device = candidate
        definition, offer = self._definitions[number], self._offers[device]
        tool = offer.tools[definition.tool]
        devices = definition.devices
        reasons, missed = _told(definition, device, matches, change)
        return {
            "device": device,
            "tool": tool.tool_name,
            "namespace": tool.namespace,
            "title": tool.title,
            "description": _shortened(tool.description),
            "score": score,
            "reasons": reasons,
            "missed": missed,
            "effect": tool.contract.effect.value,
            "risk": tool.contract.risk.value,
            "health": offer.health,
            "devices": len(devices) if among is None else sum(other in among for other in devices),
            "changed": tool.changed,
        }


def _most_ranked(limit: int) -> int:
    """How many of the best are ranked by health and past results, too: these may change their order."""
    return limit + 20


def _rarity(having: int, count: int) -> float:
    """The inverse document frequency of BM25, plus one: among few tools, a frequent word still says much.

    A word that nothing has is as rare as one that a tenth has.
    """
    known = having or count / 10
    return 1.0 + math.log(1.0 + (count - known + 0.5) / (known + 0.5))


def _beginning_with(word: str, terms: list[str]) -> Iterator[str]:
    for place in range(bisect_left(terms, word), len(terms)):
        if not terms[place].startswith(word):
            return
        yield terms[place]


def _told(
    definition: _Definition, device: str, matches: list[_Match], change: _Match | None
) -> tuple[list[str], list[str]]:
    """Where each word of the query was found, such as `description: memory`, and the words that were not.

    Both are in the order of the words. A change that a tool does not make is not found.
    """
    reasons: dict[str, list[str]] = {}
    missed = []
    for match in matches:
        place = _place(definition, match)
        if place is not None:
            reasons.setdefault(place.where, []).append(place.word)
        elif device in match.devices:
            reasons.setdefault(match.devices[device], [])
        if match.word and device not in match.devices:
            has = place is not None if match is not change else _makes(definition, match)
            if not has:
                missed.append(match.word)
    shown = [
        f"{where}: {', '.join(dict.fromkeys(terms))}" if terms else where for where, terms in reasons.items()
    ]
    return shown, missed


def _wished_change(matches: list[_Match]) -> _Match | None:
    """The first word, where it says that something is to be changed."""
    first = next((match for match in matches if match.word), None)
    return first if first is not None and is_change(first.word) else None


def _makes(definition: _Definition, change: _Match) -> bool:
    """Whether a tool makes a change by what it says of itself, and not of its results alone."""
    if definition.observes:
        return False
    place = _place(definition, change)
    return place is not None and place.weight >= _FIELDS[ARGUMENT].weight


def _place(definition: _Definition, match: _Match) -> _Place | None:
    """The place where a match counts most, if it finds this definition; the word itself before others."""
    places, terms = definition.places, match.terms
    if (own := match.own) in places:
        return places[own]
    # A word that is being typed may have hundreds of terms.
    found = places.keys() & terms.keys()
    if not found:
        return None
    return places[max(found, key=lambda term: (places[term].weight * terms[term], terms[term], term))]


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…"
