"""Search over the tools of all devices: by names, servers, arguments, descriptions, devices and their tags.

`ToolIndex` holds the words of each definition once, however many devices offer it. `follow` brings it up to
date when tools have changed, so that a search only looks words up. A word finds a tool if a word of the tool
is the same, begins with it or (names only) contains it; a word that finds nothing so is looked for by its
spelling. Fit decides first; health and past results of a device move a tool among those that fit alike.
"""

from __future__ import annotations

import asyncio
import math
import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

from core.aip.messages import ResultStatus
from core.errors import BadInput, ErrorCode
from core.fleet.models import ToolHit
from core.models.devices import Health
from core.models.tools import Tool
from core.tasks import in_turns

# Characters of a query.
LONGEST_QUERY = 500
MOST_HITS = 200
# Of one tool, as its device may send megabytes: characters of a text, arguments, and words of a field.
_MOST_TEXT = 2_000
_MOST_ARGUMENTS = 40
_MOST_WORDS = 300
_SHOWN_TEXT = 300
# Letters from which on a word is looked for at the beginning of others, inside names, and by its spelling.
_SHORTEST_PREFIX = 2
_SHORTEST_PART = 3
_SHORTEST_FUZZY = 4
_MOST_PREFIXED = 300
# Per cent of `rapidfuzz.fuzz.ratio`, and how many words of a query are looked for by their spelling.
_LEAST_RATIO = 78.0
_MOST_FUZZY = 8
_MOST_LIKE = 5
# Definitions that no device offers now are kept, as a device that reconnects offers the same ones again; but
# not if they are more than this, and more than the others.
_MOST_UNUSED = 500

# Words of a question that say nothing of what is asked for.
FILLERS = frozenset(
    "a an and any are can do does for from get has have how i in is it its many me much my of on or show "
    "that the there this to was what when where which who why with".split()
)
_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

NAME, TITLE, SERVER, ARGUMENT, DESCRIPTION = "name", "title", "server", "argument", "description"
# The weight of a word by the field in which it is found; a device's name or tag weighs less than a tool's.
_WEIGHTS = {NAME: 100.0, TITLE: 80.0, SERVER: 70.0, DESCRIPTION: 45.0, ARGUMENT: 40.0}
_NAMES = (NAME, TITLE, SERVER)
_DEVICE_WEIGHT = 60.0
_WHOLE_NAME = 15.0
# The factor for how a word is found. A prefix counts more the longer it is.
_SAME, _STEM, _PREFIX, _INSIDE, _LIKE = 1.0, 0.95, 0.75, 0.6, 0.55
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


_NO_RESULTS = Results()
PastResults = Mapping[tuple[str, str], Results]


@dataclass(slots=True)
class _Definition:
    """The words of one definition by field; `arguments` has them for each argument, by its name.

    `devices` are those that offer it now, in the order in which they were first seen with it.
    """

    tool: str
    words: dict[str, frozenset[str]]
    arguments: tuple[tuple[str, frozenset[str]], ...]
    devices: dict[str, None] = field(default_factory=dict)


class _Match(NamedTuple):
    """The finds of one word of a query: the score of each definition, and by which terms of theirs.

    `terms` map a term to how well it matches (0 to 1); `name_terms` are those that count in names. `devices`
    are the devices that the word names, each with the reason.
    """

    scores: dict[int, float]
    terms: dict[str, float]
    name_terms: dict[str, float]
    devices: dict[str, str]

    def weight(self, definitions: int) -> float:
        """A word that few definitions have says more: from 0.5 to 1."""
        return 1.0 - 0.5 * math.sqrt(min(1.0, len(self.scores) / max(definitions, 1)))


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
        self._definitions: list[_Definition] = []
        # By tool key and digest of the contract, which covers the definition.
        self._numbers: dict[tuple[str, str], int] = {}
        self._of_device: dict[str, list[int]] = {}
        self._postings: dict[str, dict[str, list[int]]] = {name: {} for name in _WEIGHTS}
        # Names without what separates their words, as in `getsysteminfo`.
        self._whole_names: dict[str, list[int]] = {}
        # Every term, and every term of a name, in alphabetical order; the latter also as lines of one text.
        self._terms: list[str] = []
        self._name_terms: list[str] = []
        self._name_lines = ""
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
                del self._offers[device]
            async for device, offer in in_turns(now.items()):
                known = self._offers.get(device)
                if known is None or known.tags != offer.tags:
                    self._name_device(device, [("device", device), *(("tag", tag) for tag in offer.tags)])
                if known is None or known.tools is not offer.tools:
                    numbers = [self._number(tool) async for tool in in_turns(offer.tools.values())]
                    self._hold(device, numbers)
                self._offers[device] = offer

    def search(
        self, query: str, among: Collection[str] | None, limit: int, results: PastResults
    ) -> list[ToolHit]:
        """The tools that fit a query, best first; `among` limits the devices. An empty query fits every tool.

        A tool fits if it has at least half of the words that say something. Devices that offer the same
        definition share a hit, unless a word of the query names devices.

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
        fits = self._fits(query, matches)
        named = {device for match in matches for device in match.devices}
        best = sorted(fits.items(), key=itemgetter(1), reverse=True)
        # More than the limit, as health and past results may change their order.
        candidates = [
            candidate
            for number, fit in islice(self._on(best, among), limit * 2 + 20)
            for candidate in self._candidates(number, fit, named, among, limit, results)
        ]
        candidates.sort(key=lambda one: (-one.score, *self._order(one)))
        return [self._hit(candidate, matches, among) for candidate in candidates[:limit]]

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
            for word in {text.casefold(), *(part for part in _words(text) if not part.isdigit())}:
                if word not in self._device_words:
                    insort(self._device_terms, word)
                self._device_words[word][device] = f"{kind}: {text}"

    def _number(self, tool: Tool) -> int:
        """The number of a tool's definition, which is read if it is new."""
        key = (tool.tool_key, tool.contract.digest)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._definitions)
            definition = _read(tool)
            self._definitions.append(definition)
            self._whole_names.setdefault("".join(_words(tool.tool_name)), []).append(number)
            for name, words in definition.words.items():
                for word in words:
                    self._post(name, word, number)
        return number

    def _post(self, name: str, word: str, number: int) -> None:
        postings = self._postings[name]
        if word in postings:
            postings[word].append(number)
            return
        if name in _NAMES and not any(word in self._postings[other] for other in _NAMES):
            insort(self._name_terms, word)
            self._name_lines = ""
        if not self._is_term(word):
            insort(self._terms, word)
        postings[word] = [number]

    def _compact(self) -> None:
        """Begin again if most definitions are offered by no device any more."""
        unused = sum(not definition.devices for definition in self._definitions)
        if unused > _MOST_UNUSED and unused * 2 > len(self._definitions):
            self._clear()

    # Looking words up

    def _matches(self, query: str) -> Iterator[_Match]:
        typed = query.split()
        words: dict[str, None] = {}
        for word in [word for word in typed if word.casefold() not in FILLERS] or typed:
            whole = word.casefold() in self._device_words
            words.update(dict.fromkeys([word.casefold()] if whole else _words(word)))
        spelled = 0
        for word in words:
            terms, name_terms = self._terms_for(word)
            devices = self._devices_for(word, exactly=_SAME in terms.values())
            if not (name_terms or devices) and len(word) >= _SHORTEST_FUZZY and spelled < _MOST_FUZZY:
                spelled += 1
                terms = name_terms = self._terms_like(word)
            yield _Match(self._scores(terms, name_terms, devices), terms, name_terms, devices)

    def _is_term(self, word: str) -> bool:
        return any(word in postings for postings in self._postings.values())

    def _terms_for(self, word: str) -> tuple[dict[str, float], dict[str, float]]:
        """The terms that a word matches, and those that it matches in names: also terms that contain it."""
        terms: dict[str, float] = {}
        prefixed = self._terms if len(word) >= _SHORTEST_PREFIX else self._name_terms
        for term in islice(_beginning_with(word, prefixed), _MOST_PREFIXED):
            terms[term] = _PREFIX + 0.2 * len(word) / len(term)
        if (stem := _stem(word)) != word and self._is_term(stem):
            terms[stem] = _STEM
        if self._is_term(word):
            terms[word] = _SAME
        if len(word) >= _SHORTEST_PART and not any(term in self._postings[NAME] for term in terms):
            return terms, {**dict.fromkeys(self._names_containing(word), _INSIDE), **terms}
        return terms, terms

    def _terms_like(self, word: str) -> dict[str, float]:
        # Imported here, as it takes longer than the first hundred searches.
        from rapidfuzz import fuzz, process

        like: dict[str, float] = {}
        for spelling in {word, _stem(word)}:
            for term, ratio, _ in process.extract(
                spelling, self._terms, scorer=fuzz.ratio, score_cutoff=_LEAST_RATIO, limit=_MOST_LIKE
            ):
                like[term] = max(like.get(term, 0.0), _LIKE * ratio / 100)
        return like

    def _names_containing(self, word: str) -> Iterator[str]:
        # One search in one text: a loop over thousands of terms takes a tenth of a millisecond.
        self._name_lines = self._name_lines or "\n".join(("", *self._name_terms, ""))
        lines, at = self._name_lines, self._name_lines.find(word)
        while at >= 0:
            end = lines.find("\n", at)
            yield lines[lines.rfind("\n", 0, at) + 1 : end]
            at = lines.find(word, end)

    def _devices_for(self, word: str, exactly: bool) -> dict[str, str]:
        """The devices that a word names; `exactly` leaves out those whose names only begin with it."""
        devices = dict(self._device_words.get(word, ()))
        if not devices and not exactly and len(word) >= _SHORTEST_PART:
            for term in _beginning_with(word, self._device_terms):
                devices.update(self._device_words[term])
        return devices

    def _scores(
        self, terms: dict[str, float], name_terms: dict[str, float], devices: dict[str, str]
    ) -> dict[int, float]:
        lists = [(_DEVICE_WEIGHT, self._of_device[device]) for device in devices]
        for name, postings in self._postings.items():
            wanted = name_terms if name in _NAMES else terms
            lists += [
                (_WEIGHTS[name] * factor, postings[term])
                for term, factor in wanted.items()
                if term in postings
            ]
        scores: dict[int, float] = {}
        # In ascending order, so that the best score of a definition is written last.
        for score, numbers in sorted(lists, key=lambda pair: pair[0]):
            scores.update(dict.fromkeys(numbers, score))
        return scores

    # Ranking

    def _fits(self, query: str, matches: list[_Match]) -> dict[int, float]:
        """How well each definition fits, up to 100, and more where the query is its name."""
        if not matches:
            return dict.fromkeys(range(len(self._definitions)), 1.0)
        weights = [match.weight(len(self._definitions)) for match in matches]
        whole = sum(weights)
        # Which have enough words is counted before it is added up: most tools have one, and few have half.
        enough = _with_half(matches) if len(matches) > 2 else None
        fits: dict[int, float] = {}
        for (scores, *_), weight in zip(matches, weights, strict=True):
            share = weight / whole
            for number in scores if enough is None else enough & scores.keys():
                fits[number] = fits.get(number, 0.0) + scores[number] * share
        for number in self._whole_names.get("".join(_words(query)), ()):
            fits[number] = max(fits.get(number, 0.0), _WEIGHTS[NAME]) + _WHOLE_NAME
        return fits

    def _on(
        self, best: list[tuple[int, float]], among: Collection[str] | None
    ) -> Iterator[tuple[int, float]]:
        """Those that a permitted device offers."""
        for number, fit in best:
            devices = self._definitions[number].devices
            if devices and (among is None or any(device in among for device in devices)):
                yield number, fit

    def _candidates(
        self,
        number: int,
        fit: float,
        named: set[str],
        among: Collection[str] | None,
        limit: int,
        results: PastResults,
    ) -> Iterator[_Candidate]:
        """A definition on the device that suits best, or on each device that the query names."""
        definition = self._definitions[number]
        allowed: Collection[str] = definition.devices
        if among is not None:
            allowed = [device for device in allowed if device in among]
        if named and (chosen := [device for device in allowed if device in named]):
            for device in chosen[:limit]:
                factor = self._factor(device, definition.tool, results)
                yield _Candidate(round(fit * factor, 1), number, device)
            return
        best = ("", 0.0)
        for device in allowed:
            factor = self._factor(device, definition.tool, results)
            if factor > best[1]:
                best = (device, factor)
            # The first device that is well will do: there may be a thousand.
            if factor >= 1.0:
                break
        yield _Candidate(round(fit * best[1], 1), number, best[0])

    def _factor(self, device: str, tool: str, results: PastResults) -> float:
        """The factor of health, a blocked definition and past results."""
        offer = self._offers[device]
        succeeded, failed = results.get((device, tool), _NO_RESULTS)
        past = 1.0 + _RESULTS_COUNT_FOR * (succeeded - failed) / (succeeded + failed + 2)
        return _HEALTH[offer.health] * past * (_BLOCKED if offer.tools[tool].changed else 1.0)

    def _order(self, candidate: _Candidate) -> tuple[str, str]:
        return self._definitions[candidate.number].tool.casefold(), candidate.device

    def _hit(self, candidate: _Candidate, matches: list[_Match], among: Collection[str] | None) -> ToolHit:
        score, number, device = candidate
        definition, offer = self._definitions[number], self._offers[device]
        tool = offer.tools[definition.tool]
        devices = definition.devices
        # Without validation, which takes a tenth of a search: all of it was validated with the tool.
        return ToolHit(
            device=device,
            tool=tool.tool_name,
            namespace=tool.namespace,
            title=tool.title,
            description=_shortened(tool.description),
            score=score,
            reasons=_reasons(definition, device, matches),
            effect=tool.contract.effect.value,
            risk=tool.contract.risk.value,
            health=offer.health,
            devices=len(devices) if among is None else sum(other in among for other in devices),
            changed=tool.changed,
        )


def _with_half(matches: list[_Match]) -> set[int]:
    """The definitions that at least half of the words find."""
    found = Counter(chain.from_iterable(match.scores for match in matches))
    return {number for number, count in found.items() if count >= len(matches) / 2}


def _read(tool: Tool) -> _Definition:
    arguments = tuple(_arguments(tool))
    names = " ".join(filter(None, (tool.tool_name, tool.own_name)))
    texts = {
        NAME: names,
        TITLE: tool.title or "",
        SERVER: tool.namespace or "",
        DESCRIPTION: tool.description,
    }
    words = {name: frozenset(_words(text)) for name, text in texts.items()}
    words[ARGUMENT] = frozenset(islice((word for _, has in arguments for word in has), _MOST_WORDS))
    return _Definition(tool.tool_name, words, arguments)


def _arguments(tool: Tool) -> Iterator[tuple[str, frozenset[str]]]:
    """The words of each argument: of its name, its description, and the values that it may have."""
    properties = tool.input_schema.get("properties")
    for name, schema in islice(properties.items() if isinstance(properties, dict) else (), _MOST_ARGUMENTS):
        texts = [str(name)]
        if isinstance(schema, dict):
            allowed = schema.get("enum")
            texts.append(str(schema.get("description") or ""))
            texts += map(str, allowed[:_MOST_ARGUMENTS] if isinstance(allowed, list) else ())
        yield str(name), frozenset(_words(" ".join(texts)))


def _words(text: str) -> list[str]:
    """The words of a text in small letters; `getSystemInfo` and `get_system_info` have the same."""
    return [word.casefold() for word in islice(_WORD.findall(_HUMP.sub(" ", text[:_MOST_TEXT])), _MOST_WORDS)]


def _stem(word: str) -> str:
    """A word without its plural's ending: `processes` finds `process`, `files` finds `file`."""
    if len(word) > _SHORTEST_FUZZY and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if len(word) >= _SHORTEST_FUZZY and word.endswith("s") and word[-2] != "s" else word


def _beginning_with(word: str, terms: list[str]) -> Iterator[str]:
    for place in range(bisect_left(terms, word), len(terms)):
        if not terms[place].startswith(word):
            return
        yield terms[place]


def _reasons(definition: _Definition, device: str, matches: list[_Match]) -> list[str]:
    """Where each word of the query was found, such as `description: memory`, in the order of the words."""
    reasons: dict[str, list[str]] = {}
    for match in matches:
        where, term = _place(definition, match)
        if term:
            reasons.setdefault(where, []).append(term)
        elif device in match.devices:
            reasons.setdefault(match.devices[device], [])
    return [f"{where}: {', '.join(terms)}" if terms else where for where, terms in reasons.items()]


def _place(definition: _Definition, match: _Match) -> tuple[str, str]:
    """The field that counts most among those with a term of this match, and the term; empty without one."""
    for name in _WEIGHTS:
        terms = match.name_terms if name in _NAMES else match.terms
        words = definition.words[name]
        if not terms.keys().isdisjoint(words):
            term = max(terms.keys() & words, key=lambda one: (terms[one], one))
            if name == ARGUMENT:
                return f"argument {next(name for name, words in definition.arguments if term in words)}", term
            return name, term
    return "", ""


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…"
