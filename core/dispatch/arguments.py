"""A call's arguments on their way through the first three stages: redacted, then checked.

Both are sealed: they have no constructor. The one function that masks makes the first, the one that validates
and hardens makes the second, and every later stage takes the second. So no caller can leave a check out.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn, TypeVar

from core.commitments import Opening

Kind = TypeVar("Kind", bound="Sealed")


class Sealed:
    """A frozen value that `seal` makes where what it proves has just been checked."""

    __slots__: tuple[str, ...] = ()

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is made only where what it proves is checked.")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is not changed; another one is checked anew.")


class RedactedArguments(Sealed):
    """Arguments whose secrets were found. Made by `Masker.redact`.

    `sent` is what a device would get, a copy of its own; `shown` is what may be signed, written and
    displayed; `openings` say where in it commitments are.
    """

    __slots__: tuple[str, ...] = ("openings", "sent", "shown")

    sent: dict[str, Any]
    shown: dict[str, Any]
    openings: tuple[Opening, ...]


class CallKey(NamedTuple):
    """What equal calls share: the contract, and the canonical bytes of their arguments."""

    contract: str
    tool_name: str
    tool_type: str
    arguments: bytes


class CheckedArguments(Sealed):
    """Arguments checked against one contract: bounded, masked, valid and hardened. Made by `Validating`.

    `sent`, `shown` and `openings` as in `RedactedArguments`. `canonical` are the canonical bytes of `sent`;
    `is_plain` is `core.canonical_json.is_plain` of `shown`. `key` is None where they are large, nested or
    hold a secret.
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
    """Make a sealed value of all its fields. Each kind has exactly one place that calls this."""
    value = object.__new__(kind)
    for name in kind.__slots__:
        object.__setattr__(value, name, fields.pop(name))
    if fields:
        raise TypeError(f"{kind.__name__} has no {', '.join(fields)}.")
    return value
