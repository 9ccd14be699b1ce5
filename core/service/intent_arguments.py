"""Takes the arguments of a call out of a sentence: "save 'hello' to ~/a.txt" has a text and a path.

A value goes to the argument that takes such values, by its name and schema: a path to a path, a chord of keys
to a key, a number to the argument whose words stand beside it. A name such as `firefox` is a word that is
known neither to the tool nor to the thesaurus. Nothing is guessed beyond that: what is not said is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core.fleet.sentence import Value, ValueKind, read_sentence
from core.fleet.thesaurus import is_known_word, related_words, without_phrases
from core.fleet.words import FILLERS, stem, words
from core.models.tools import Effect, Tool
from core.policy.analysis.arguments import PATH_NAME, described_kind, snake
from core.schema_forms.fields import SchemaField, schema_fields
from core.service.call_needs import lacking, needs_of

_URL_NAME = re.compile(r"(?:^|_)(?:url|urls|uri|href|link|address)(?:$|_)")
_KEY_NAME = re.compile(r"(?:^|_)(?:key|keys|shortcut|hotkey|chord)(?:$|_)")
_GLOB_NAME = re.compile(r"(?:^|_)(?:glob|pattern|wildcard)(?:$|_)")
_COMMAND_NAME = re.compile(r"^(?:command|cmd|line|command_line|script)$")
_TEXT_NAME = re.compile(r"(?:^|_)(?:text|content|contents|message|body|value|query|prompt|comment)$")
_PROGRAM_NAME = re.compile(r"^(?:app|application|program|process|service|unit)(?:_name)?$")
_LABEL_NAME = re.compile(r"^(?:name|title|label)$")
# Ids and refs come from another call's result, and are in no sentence.
_REFERENCE = re.compile(r"(?:^|_)(?:id|ids|uuid|ref|token|hash|observation|cursor)$")
_REST_NAME = re.compile(r"^(?:args|arguments|files|paths|urls)$")
# Before the name of a program in which something is: "the windows of firefox".
_ABOUT = frozenset("of from in by named called inside within".split())
_ARTICLES = frozenset("the a an this that my your".split())
_NAME = re.compile(r"[^\W\d_][\w.+-]*")


@dataclass(frozen=True, slots=True)
class Taken:
    """The arguments that a sentence has for a tool, and its values that none of them took."""

    arguments: dict[str, Any]
    unused: tuple[str, ...]


def is_free_text(name: str) -> bool:
    """Whether an argument takes any text, by its name: it says nothing of what that text is."""
    return bool(_TEXT_NAME.search(snake(name)))


def is_line(name: str) -> bool:
    """Whether an argument takes a line for a shell, by its name."""
    return bool(_COMMAND_NAME.match(snake(name)))


def arguments_in(text: str, tool: Tool) -> Taken:
    """The arguments of a call of this tool that a sentence has."""
    return _Taking(text, tool).taken()


class _Taking:
    """One sentence and one tool, and what has been taken so far."""

    def __init__(self, text: str, tool: Tool) -> None:
        self._sentence = read_sentence(text)
        self._tool = tool
        self._arguments: dict[str, Any] = {}
        self._used: set[Value] = set()
        properties = tool.input_schema.get("properties")
        self._schemas: dict[str, Any] = {
            str(name): schema
            for name, schema in (properties.items() if isinstance(properties, dict) else ())
            if isinstance(schema, dict)
        }
        self._fields = {
            field.name: field for field in schema_fields(tool.input_schema) if field.path in self._schemas
        }
        needed = {name for need in needs_of(tool) for name in need}
        # What a call needs takes its values first.
        self._order = sorted(self._fields, key=lambda name: name not in needed)
        self._needed = needed
        self._own = {stem(word) for word in words(f"{tool.tool_name} {tool.title or ''}")}
        self._acts = tool.contract.effect.value is not Effect.OBSERVE

    def taken(self) -> Taken:
        """Take what there is, the plainest first."""
        for name in self._order:
            self._take_choice(name)
        self._take_point()
        for name in self._order:
            self._take_by_form(name)
        self._take_numbers()
        self._take_command()
        self._take_texts()
        self._take_names()
        self._take_rest()
        unused = [value for value in self._sentence.values if value not in self._used]
        return Taken(self._arguments, tuple(value.text for value in unused))

    # Values from a list, and switches

    def _take_choice(self, name: str) -> None:
        field = self._fields[name]
        said = self._said()
        if field.kind == "boolean":
            own = {stem(word) for word in words(name)}
            if own <= said.keys() and self._schemas[name].get("default") is not True:
                self._arguments[name] = True
            return
        values = [value for value in field.values if isinstance(value, str)]
        if not values or len(values) == 1:
            return
        exact = [
            value for value in values if words(value) and {stem(word) for word in words(value)} <= said.keys()
        ]
        if exact:
            self._arguments[name] = min(
                exact, key=lambda value: said[stem(words(value)[0])] if words(value) else 0
            )
        elif (name in self._needed or self._acts) and (best := self._nearest(name, values)):
            # Of an action, the manner counts: what is to be added must not replace what is there.
            self._arguments[name] = best

    def _nearest(self, name: str, values: Sequence[str]) -> str | None:
        """The value that the sentence is about, by other words for it and by the results that it has."""
        scores = dict.fromkeys(values, 0.0)
        results = [field for field in schema_fields(self._tool.output_schema) if field.when]
        for word in self._said():
            related = related_words().get(word, {})
            for value in values:
                own = {stem(part) for part in words(value)}
                score = max((related.get(part, 0.0) for part in own), default=0.0)
                for field in results:
                    if field.when == (name, value):
                        parts = {stem(part) for part in words(f"{field.name} {field.description}")}
                        if word in parts:
                            score = 1.0
                        else:
                            score = max([score, *(related.get(part, 0.0) / 2 for part in parts)])
                scores[value] += score
        best = max(scores, key=lambda value: scores[value])
        return best if scores[best] > 0 else None

    def _said(self) -> dict[str, int]:
        """The stems of the words that say something, with their places."""
        said: dict[str, int] = {}
        for text in (self._sentence.rest, without_phrases(self._sentence.rest)):
            for word in words(text):
                if word not in FILLERS or word in ("up", "down"):
                    said.setdefault(stem(word), len(said))
        return said

    # Values with a form of their own

    def _take_point(self) -> None:
        point = next((value for value in self._sentence.values if value.kind is ValueKind.POINT), None)
        if point is not None and {"x", "y"} <= self._fields.keys():
            x, y = re.findall(r"\d+", point.text)
            self._arguments |= {"x": int(x), "y": int(y)}
            self._used.add(point)

    def _take_by_form(self, name: str) -> None:
        if name in self._arguments or not self._is_text(name):
            return
        plain, described = snake(name), described_kind(self._tool.input_schema, name)
        if _GLOB_NAME.search(plain):
            self._take(name, ValueKind.GLOB)
        elif PATH_NAME.search(plain) or described == "path":
            # A folder to start in is not what the sentence is about.
            if name in self._needed or not self._needed:
                self._take(name, ValueKind.PATH)
        elif _URL_NAME.search(plain) or described == "url":
            self._take(name, ValueKind.URL)
        elif _KEY_NAME.search(plain) and (keys := self._sentence.keys()):
            self._arguments[name] = re.sub(r"\s*\+\s*", "+", keys[0])
            self._used.update(value for value in self._sentence.values if value.text == keys[0])

    def _take(self, name: str, kind: ValueKind) -> None:
        for value in self._sentence.values:
            if value.kind is kind and value not in self._used:
                self._arguments[name] = value.text
                self._used.add(value)
                return

    def _take_numbers(self) -> None:
        fields = [
            field
            for name in self._order
            if (field := self._fields[name]).kind in ("integer", "number") and name not in self._arguments
        ]
        for value in self._sentence.values:
            if value.kind is not ValueKind.NUMBER or value in self._used:
                continue
            scores = {field.name: self._nearness(value, field) for field in fields}
            best = max(scores, key=lambda name: scores[name], default=None)
            if best is None or not scores[best]:
                best = next((field.name for field in fields if field.name in self._needed), None)
            if best is not None:
                number = float(value.text)
                self._arguments[best] = int(number) if number.is_integer() else number
                self._used.add(value)
                fields = [field for field in fields if field.name != best]

    def _nearness(self, value: Value, field: SchemaField) -> int:
        """How much the words beside a number are those of an argument: the word after it, its unit, most."""
        before = words(self._sentence.rest[: value.start])[-2:]
        after = words(self._sentence.rest[value.end :])[:1]
        name, described = _stems(field.name), _stems(field.description)
        return sum(
            weight * (2 if stem(word) in name else 1 if stem(word) in described else 0)
            for weight, beside in ((1, before), (2, after))
            for word in beside
            if word not in FILLERS
        )

    # Texts and names

    def _take_command(self) -> None:
        name = next((name for name in self._needed if _COMMAND_NAME.match(snake(name))), None)
        if name is None:
            return
        for kind in (ValueKind.LINE, ValueKind.QUOTED):
            if name not in self._arguments:
                self._take(name, kind)

    def _take_texts(self) -> None:
        """Quoted texts, for what takes any text: the argument called so, a label, or the only one needed."""
        free = [name for name in self._order if self._is_free(name)]
        fitting = [name for name in free if _TEXT_NAME.search(snake(name))]
        fitting += [name for name in free if _LABEL_NAME.match(snake(name)) and name in self._needed]
        fitting += [name for name in free if name in self._needed and name not in fitting]
        for name in fitting:
            if name in self._needed and self._lacks(name):
                self._take(name, ValueKind.QUOTED)

    def _take_names(self) -> None:
        for run in self._names():
            self._take_name(run)

    def _take_name(self, run: _Run) -> None:
        free = [name for name in self._order if self._is_free(name)]
        for name in free:
            plain = snake(name)
            is_program, is_label = bool(_PROGRAM_NAME.match(plain)), bool(_LABEL_NAME.match(plain))
            is_text = bool(_TEXT_NAME.search(plain)) and self._is_called_for()
            if name in self._needed and self._lacks(name):
                # A label is written on the screen: "Save". Where it says of what, it is a program.
                named = is_program and (run.is_about or not self._wants_label())
                fits = named or is_text or (is_label and run.is_title and not run.is_about)
            else:
                fits = is_program and run.is_about and not run.has_article
            if fits:
                self._arguments[name] = run.text
                return

    def _is_called_for(self) -> bool:
        """Whether the sentence begins with the tool's name: "type hello" has a text, "make tea" none."""
        deed = next(iter(self._said()), "")
        return not self._own.isdisjoint({deed, *related_words().get(deed, ())})

    def _wants_label(self) -> bool:
        return any(_LABEL_NAME.match(snake(name)) for name in self._needed if self._lacks(name))

    def _names(self) -> Iterator[_Run]:
        """Words side by side that neither the tool nor the thesaurus knows, or that begin with a capital."""
        found = list(_NAME.finditer(self._sentence.rest))
        run: list[re.Match[str]] = []
        for place, match in enumerate(found):
            word = match.group()
            is_title = place > 0 and word[0].isupper()
            is_name = is_title or self._is_name(word, self._own)
            beside = not run or not self._sentence.rest[run[-1].end() : match.start()].strip()
            if is_name and beside:
                run.append(match)
                continue
            if run:
                yield _Run.of(run, found)
            run = [match] if is_name else []
        if run:
            yield _Run.of(run, found)

    @staticmethod
    def _is_name(word: str, own: Collection[str]) -> bool:
        parts = words(word)
        return not any(part in FILLERS or stem(part) in own or is_known_word(part) for part in parts)

    def _take_rest(self) -> None:
        """Paths and addresses for a program that is started with them."""
        name = next((name for name in self._order if _REST_NAME.match(snake(name))), None)
        if (
            name is None
            or name in self._arguments
            or not self._fields[name].kind.startswith("list of string")
        ):
            return
        rest = [
            value
            for value in self._sentence.values
            if value.kind in (ValueKind.PATH, ValueKind.URL) and value not in self._used
        ]
        if rest:
            self._arguments[name] = [value.text for value in rest]
            self._used.update(rest)

    def _is_text(self, name: str) -> bool:
        field = self._fields[name]
        return field.kind.split(" or ")[0] == "string" and not field.values

    def _is_free(self, name: str) -> bool:
        """Whether an argument takes any text and has none."""
        plain = snake(name)
        has_form = _KEY_NAME.search(plain) or _GLOB_NAME.search(plain) or _URL_NAME.search(plain)
        of_a_kind = (
            has_form or PATH_NAME.search(plain) or _REFERENCE.search(plain) or _COMMAND_NAME.match(plain)
        )
        return name not in self._arguments and self._is_text(name) and not of_a_kind

    def _lacks(self, name: str) -> bool:
        return any(name in need for need in lacking(self._tool, self._arguments))


@dataclass(frozen=True, slots=True)
class _Run:
    """A name: words side by side. `is_about` is after "of" and the like, `has_article` after "the"."""

    text: str
    is_title: bool
    is_about: bool
    has_article: bool

    @classmethod
    def of(cls, run: list[re.Match[str]], found: list[re.Match[str]]) -> _Run:
        place = found.index(run[0])
        earlier = [match.group().casefold() for match in found[:place]][-2:]
        has_article = earlier[-1:] != [] and earlier[-1] in _ARTICLES
        lead = (earlier[:-1] if has_article else earlier)[-1:]
        return cls(
            " ".join(match.group() for match in run),
            all(match.group()[0].isupper() for match in run),
            lead != [] and lead[0] in _ABOUT,
            has_article,
        )


def _stems(text: str) -> set[str]:
    return {stem(word) for word in words(text)}
