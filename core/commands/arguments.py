"""A call's arguments, made once where its command enters, as sealed values: each proves what was checked.

None has a public constructor. `walked` reads what a caller gave in one walk, `Redactor.redact` makes
`Arguments` of that, and `CallPreparer` a `PreparedCall` of these. A channel's permit is minted only for a
`PreparedCall`, so no caller can skip a check.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, TypeVar

from core.aip.limits import MOST_ARGUMENTS_SENT, MOST_TEXT_SENT
from core.canonical_json import Encoded, encoded, sha256_hex
from core.commitments import SECRET_MARK, Opening
from core.errors import BadInput, ErrorCode
from core.json_walk import Place, place_text
from core.models.tools import Tool
from core.policy.analysis.call_analysis import CallAnalysis, analyze_call
from core.policy.analysis.masking import Marks, Path
from core.token_formats import Span

MOST_TEXT = MOST_TEXT_SENT
MOST_TOTAL = MOST_ARGUMENTS_SENT
MOST_DEPTH = 64
MOST_VALUES = 100_000

Kind = TypeVar("Kind", bound="Sealed")
Text = tuple[str, Place]
"""A text with its place; None for a name in an object."""


class Sealed:
    """An immutable value that only `seal` creates; its existence proves that its check has passed."""

    __slots__: tuple[str, ...] = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = (*cls._fields, *cls.__slots__)

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is made only where what it proves is checked.")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable.")


class WalkedArguments(Sealed):
    """The result of one walk over a caller's arguments. Made by `walked`.

    `sent` is a copy of them for the device, `sent_json` its canonical bytes, and `digest` the SHA-256 of
    these. `texts` are all names and texts. `is_exact` tells that only the very same values have this digest:
    1.0 has the canonical form of 1.
    """

    __slots__: tuple[str, ...] = ("digest", "is_exact", "sent", "sent_json", "texts")

    sent: dict[str, Any]
    sent_json: Encoded
    digest: str
    texts: list[Text]
    is_exact: bool


class Arguments(WalkedArguments):
    """The arguments of one call, bounded and redacted. Made by `Redactor.redact`.

    `shown` are the redacted arguments, which may be signed, written and displayed, and `shown_json` their
    canonical bytes; without a secret they are those that are sent. `openings` list the places and salts of
    the commitments in `shown`. `unquoted` are the texts in shell lines that a template did not quote.
    """

    __slots__: tuple[str, ...] = ("openings", "shown", "shown_json", "unquoted")

    shown: dict[str, Any]
    shown_json: Encoded
    openings: tuple[Opening, ...]
    unquoted: tuple[tuple[Path, Span], ...]

    @property
    def marks(self) -> Marks:
        """The marks of the arguments' parts, for their analysis."""
        return Marks(self.openings, self.unquoted)


class PreparedCall(Arguments):
    """Arguments that fit one contract: valid by its schema, and hardened. Made by `CallPreparer`.

    They depend on nothing but the contract and what the caller gave, so equal calls to a thousand devices
    share them. `tool` is the tool of the first of these.
    """

    __slots__: tuple[str, ...] = ("_analyses", "contract", "tool")

    contract: str
    tool: Tool
    _analyses: dict[str, CallAnalysis]

    def analysis(self, home: str = "") -> CallAnalysis:
        """The analysis of the arguments as they are sent, without repeating a secret; made when first wanted.

        `home` is the home folder of the device's user, if the device uses this computer's disk; else empty.
        """
        analysis = self._analyses.get(home)
        if analysis is None:
            analysis = self._analyses[home] = analyze_call(self.tool, self.sent, home, marks=self.marks)
        return analysis


def seal(kind: type[Kind], of: Sealed | None = None, **fields: Any) -> Kind:
    """Create a sealed value from all its fields. For each kind, exactly one function calls this.

    `of` is the value whose further check makes this one, and has the fields that are not given.
    """
    if of is not None:
        fields = {name: getattr(of, name) for name in of._fields} | fields
    value, fill = object.__new__(kind), object.__setattr__
    for name in kind._fields:
        fill(value, name, fields[name])
    if len(fields) != len(kind._fields):
        raise TypeError(f"{kind.__name__} has no {', '.join(fields.keys() - set(kind._fields))}.")
    return value


def walked(parameters: Any) -> WalkedArguments:
    """Copy and encode arguments in one walk, which ends where they are too large or nested too deep.

    Also refuses, at any depth, an object with the key `SECRET_MARK`: it would be displayed as a redacted
    secret. In an operator's edit, secrets are restored from such marks before this.

    Raises:
        BadInput: `too_large`, naming the argument and the limit, or `invalid_arguments`.
    """
    if not isinstance(parameters, dict):
        raise BadInput("The arguments must be an object.")
    walk = _Walk()
    sent = walk.copied(parameters, None, 0)
    sent_json = encoded(sent)
    return seal(
        WalkedArguments,
        sent=sent,
        sent_json=sent_json,
        digest=sha256_hex(sent_json.data),
        texts=walk.texts,
        is_exact=walk.is_exact,
    )


class _Walk:
    """One walk over a call's arguments. Names, leaves, lists and objects count as values."""

    __slots__ = ("is_exact", "texts", "total", "values")

    def __init__(self) -> None:
        self.values = self.total = 0
        self.is_exact = True
        self.texts: list[Text] = []

    def copied(self, value: Any, place: Place, depth: int) -> Any:
        """A copy of a value; a tuple becomes a list."""
        if depth > MOST_DEPTH:
            raise BadInput(f"The arguments are nested deeper than {MOST_DEPTH} levels.", ErrorCode.TOO_LARGE)
        if isinstance(value, str):
            self._take_text(value, place)
            return value
        self._count()
        if isinstance(value, dict):
            copy = {}
            for name, member in value.items():
                self._take_name(name, place)
                copy[name] = self.copied(member, (place, name), depth + 1)
            return copy
        if isinstance(value, (list, tuple)):
            return [self.copied(element, (place, at), depth + 1) for at, element in enumerate(value)]
        if isinstance(value, float) and value.is_integer():
            self.is_exact = False
        return value

    def _take_name(self, name: Any, place: Place) -> None:
        if not isinstance(name, str):
            raise BadInput(f"{place_text(place) or 'The arguments'} has a name that is not text.")
        if name == SECRET_MARK:
            where = place_text(place) or "The call"
            raise BadInput(
                f'{where} has an argument named "{SECRET_MARK}": this only stands for a secret where '
                "arguments are shown, and cannot be sent."
            )
        self._take_text(name, None)

    def _take_text(self, text: str, place: Place) -> None:
        self._count()
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > MOST_TEXT:
            raise BadInput(
                f"{text_name(place)} is {size:,} bytes; the most is {MOST_TEXT:,}, whatever a device takes.",
                ErrorCode.TOO_LARGE,
            )
        self.total += size
        if self.total > MOST_TOTAL:
            raise BadInput(f"The arguments are over {MOST_TOTAL:,} bytes together.", ErrorCode.TOO_LARGE)
        self.texts.append((text, place))

    def _count(self) -> None:
        self.values += 1
        if self.values > MOST_VALUES:
            raise BadInput(f"The arguments hold more than {MOST_VALUES:,} values.", ErrorCode.TOO_LARGE)


def text_name(place: Place) -> str:
    """A place in words; without one, the text is a name."""
    return place_text(place) or "a name"
