"""What may be asked of the queue: `device: tool: risk: actor: run: production:` and free text.

A plain word is looked for in everything that a card shows of a request in words: device, tool, who asked and
what they say, the effect, and the arguments, names and values, as the card writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from app.items.filter_edit import Words
from app.screens.approvals.request_payload import MASK_SHOWN
from core.approvals.models import Approval
from core.approvals.request_groups import Group
from core.commitments import SECRET_MARK, readable
from core.filter_language import Filter, Language
from core.models.tools import Risk
from core.text import escape_hidden

EXAMPLE = "risk:high device:lab-*"
HINTS = {
    "device": "a device's name",
    "tool": "a tool's name",
    "risk": "low, medium, high, critical",
    "actor": "who asked: an agent, an operator",
    "run": "the run it belongs to",
    "production": "yes or no",
}


class QueueFilter:
    """Tells which requests are asked for; what was worked out for a request is kept as long as it waits."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[Approval, list[str]]] = {}
        self._fits: dict[str, tuple[Approval, bool]] = {}
        self.words = Words(self._language(), HINTS, usual="device")
        self.wanted: Filter[Approval] = self.words.language.parse("")

    def _language(self) -> Language[Approval]:
        return Language(
            {
                "device": lambda one: [one.request.device],
                "tool": lambda one: [one.request.tool_name, one.request.tool_key],
                "risk": lambda one: [one.decision.risk.value],
                # `actor:clerk` is the same as `actor:agent:clerk`.
                "actor": lambda one: [one.actor, one.actor.partition(":")[2]],
                "run": lambda one: [one.run] if one.run else [],
                "production": lambda one: ["yes" if one.production else "no"],
            },
            plain=self._texts_of,
            closed={"risk": tuple(risk.value for risk in Risk), "production": ("yes", "no")},
        )

    @property
    def narrows(self) -> bool:
        """Whether anything is asked for at all."""
        return bool(self.wanted.terms)

    def want(self, wanted: Filter[Approval]) -> None:
        """Ask for others from now on."""
        self.wanted = wanted
        self._fits.clear()

    def fits(self, one: Approval) -> bool:
        """Whether this request is asked for."""
        known = self._fits.get(one.id)
        if known is None or known[0] is not one:
            known = self._fits[one.id] = one, self.wanted.matches(one)
        return known[1]

    def fitting(self, group: Group) -> int:
        """How many of a group are asked for; its card is shown whole when one is."""
        return sum(map(self.fits, group.members))

    def forget_all_but(self, waiting: Iterable[Approval]) -> None:
        """Keep nothing of requests that no longer wait."""
        left = {one.id for one in waiting}
        for gone in self._texts.keys() - left:
            del self._texts[gone]
        for gone in self._fits.keys() - left:
            del self._fits[gone]

    def _texts_of(self, one: Approval) -> list[str]:
        known = self._texts.get(one.id)
        if known is None or _facts(known[0]) != _facts(one):
            known = self._texts[one.id] = one, list(_texts(one))
        return known[1]


def _facts(one: Approval) -> tuple[str, ...]:
    """What a request's texts are made of; another object for the same request comes with each event."""
    return one.request.digest, one.actor, one.run or "", one.said, one.decision.summary


def _texts(one: Approval) -> Iterator[str]:
    request = one.request
    shown = (request.device, request.tool_name, one.actor, one.run or "", one.said, one.decision.summary)
    for text in (*shown, *_leaves(readable(request.parameters))):
        yield escape_hidden(text)


def _leaves(value: Any) -> Iterator[str]:
    """Names and values of arguments, however deep; a secret is one, whatever stands for it."""
    if isinstance(value, dict):
        if value.keys() == {SECRET_MARK}:
            yield f"{MASK_SHOWN} secret"
            return
        for name, inner in value.items():
            yield name
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value if isinstance(value, str) else json.dumps(value)
