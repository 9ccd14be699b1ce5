"""A call's arguments and the prepared call, as sealed values: their existence proves that they were checked.

Neither has a public constructor. Only `Redactor.redact` makes `Arguments`, and only `CallPreparer` makes a
`PreparedCall`. Every later stage demands a `PreparedCall`, so no caller can skip a check.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from core.canonical_json import Encoded
from core.commitments import Opening
from core.models.tools import Tool
from core.policy.analysis.call_analysis import CallAnalysis, analyze_call
from core.policy.analysis.masking import Marks, Path
from core.token_formats import Span

Kind = TypeVar("Kind", bound="Sealed")


class Sealed:
    """An immutable value that only `seal` creates; its existence proves that its check has passed."""

    __slots__: tuple[str, ...] = ()

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is made only where what it proves is checked.")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable.")


class Arguments(Sealed):
    """The arguments of one call, bounded and redacted. Made by `Redactor.redact`.

    `sent` are the arguments for the device, a copy of the caller's. `shown` are the redacted arguments, which
    may be signed, written and displayed; without a secret they are the same object. `openings` list the
    places and salts of the commitments in `shown`. `unquoted` are the texts in shell lines that a template
    did not quote.
    """

    __slots__: tuple[str, ...] = ("openings", "sent", "shown", "unquoted")

    sent: dict[str, Any]
    shown: dict[str, Any]
    openings: tuple[Opening, ...]
    unquoted: tuple[tuple[Path, Span], ...]

    @property
    def marks(self) -> Marks:
        """What the analysis of the arguments has to know of their parts."""
        return Marks(self.openings, self.unquoted)


class PreparedCall(Sealed):
    """Arguments that fit one contract: valid by its schema, and hardened. Made by `CallPreparer`.

    It depends on nothing but the contract and the arguments, so equal calls to a thousand devices share it.
    `tool` is the tool of the first of them. `sent_json` and `shown_json` are the encoded arguments.
    """

    __slots__: tuple[str, ...] = ("_analyses", "arguments", "contract", "sent_json", "shown_json", "tool")

    contract: str
    tool: Tool
    arguments: Arguments
    sent_json: Encoded
    shown_json: Encoded
    _analyses: dict[str, CallAnalysis]

    def analysis(self, home: str = "") -> CallAnalysis:
        """What the arguments would do as they are sent, without repeating a secret; made when first wanted.

        `home` is the home folder of the device's user, if the device uses this computer's disk; else empty.
        """
        analysis = self._analyses.get(home)
        if analysis is None:
            analysis = self._analyses[home] = analyze_call(
                self.tool, self.arguments.sent, home, marks=self.arguments.marks
            )
        return analysis


def seal(kind: type[Kind], **fields: Any) -> Kind:
    """Create a sealed value from all its fields. For each kind, exactly one function calls this."""
    value = object.__new__(kind)
    for name in kind.__slots__:
        object.__setattr__(value, name, fields.pop(name))
    if fields:
        raise TypeError(f"{kind.__name__} has no {', '.join(fields)}.")
    return value
