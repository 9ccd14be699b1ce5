"""Facts about a tool in words, each with who says so: its contract, and what it needs and reaches besides."""

from __future__ import annotations

from app.text import one_line
from app.widgets.property_list import Property
from core.fleet.models import ToolScope
from core.models.tools import Fact, Source

NAMES = {
    "effect": "Effect",
    "risk": "Risk",
    "reversible": "Can be undone",
    "idempotent": "Twice is as once",
    "open_world": "Reaches outside",
    "evidence": "Shows it worked",
    "authentication": "Sign-in",
    "account": "Acts as",
    "repair": "If it fails",
}
SOURCES = {
    Source.OPERATOR: "set by an operator",
    Source.BUILT_IN: "built-in",
    Source.DECLARED: "the device says",
    Source.HEURISTIC: "guessed",
    Source.DEFAULT: "by default",
}


def fact_name(key: str) -> str:
    """The name of a fact."""
    return NAMES.get(key, key.replace("_", " ").capitalize())


def fact_words(value: object) -> str:
    """A fact's value in a word or two."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(getattr(value, "value", value)))


def scope_properties(scope: ToolScope) -> list[Property]:
    """A scope as lines of a list: value and source, with the reason as tooltip."""
    facts = [(key, getattr(scope, key)) for key in type(scope).model_fields]
    return [
        Property(
            fact_name(key), f"{fact_words(fact.value)} ({SOURCES[fact.source]})", full=one_line(fact.why)
        )
        for key, fact in facts
        if isinstance(fact, Fact)
    ]
