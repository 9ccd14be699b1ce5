"""Types for a call's arguments after redaction (`RedactedArguments`) and after checks (`CheckedArguments`).

Both are sealed: they have no public constructor. Only `Redactor.redact` makes the first, and only
`ArgumentValidator` the second. Every later stage demands `CheckedArguments`, so no caller can skip a check.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn, TypeVar

from core.commitments import Opening

Kind = TypeVar("Kind", bound="Sealed")


class Sealed:
    """An immutable value that only `seal` creates; its existence proves that its check has passed."""

    __slots__: tuple[str, ...] = ()

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is made only where what it proves is checked.")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is not changed; another one is checked anew.")


class RedactedArguments(Sealed):
    """Arguments after redaction. Made by `Redactor.redact`.

    `sent` are the arguments for the device, a copy of the caller's. `shown` are the redacted arguments, which
    may be signed, written and displayed. `openings` list the paths and salts of the commitments in `shown`.
    """

    __slots__: tuple[str, ...] = ("openings", "sent", "shown")

    sent: dict[str, Any]
    shown: dict[str, Any]
    openings: tuple[Opening, ...]


class CallKey(NamedTuple):
    """The key of equal calls: the contract, the tool, and the canonical bytes of the arguments."""

    contract: str
    tool_name: str
    tool_type: str
    arguments: bytes


class CheckedArguments(Sealed):
    """Arguments checked against one contract: bounded, redacted, valid, hardened. Made by `Validating`.

    `sent`, `shown` and `openings` as in `RedactedArguments`. `canonical` are the canonical bytes of `sent`;
    `is_plain` is `core.canonical_json.is_plain` of `shown`. `key` is None if the arguments are large, nested
    or hold a secret.
    """

    __slots__: tuple[str, ...] = (
        "canonical", "contract", "is_plain", "key", "openings", "sent", "shown",
    )  # fmt: skip

    contract: str
    sent: dict[str, Any]
    canonical: bytes
    shown: dict[str, Any]
    openings: tuple[Opening, ...]
    is_plain: bool
    key: CallKey | None


def seal(kind: type[Kind], **fields: Any) -> Kind:
    """Create a sealed value from all its fields. For each kind, exactly one function calls this."""
    value = object.__new__(kind)
    for name in kind.__slots__:
        object.__setattr__(value, name, fields.pop(name))
    if fields:
        raise TypeError(f"{kind.__name__} has no {', '.join(fields)}.")
    return value
