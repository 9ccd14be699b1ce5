"""Which alternative of an anyOf a value belongs to."""

from __future__ import annotations

from typing import Any

from core.schema_forms.fields import Field
from core.schema_forms.json_values import UNSET, type_word
from core.schema_forms.kinds import FieldKind
from core.schema_forms.normal import NotUnderstood, Work


def best_alternative(field: Field, value: Any) -> int | None:
    """Which alternative of an anyOf a given value belongs to; None when it fits none of them."""
    # One measure for all of them: a hundred alternatives, each slow to be read, are looked at as one.
    work = Work()
    scores = [_score(alternative, value, work) for alternative in field.alternatives]
    best = max(scores, default=0)
    return scores.index(best) if best > 0 else None


def _score(field: Field, value: Any, work: Work) -> int:
    if not _fits(field, value, work) or (value is None and field.kind is not FieldKind.NULL):
        return 0
    if field.kind is FieldKind.JSON:
        return 1
    if field.kind is FieldKind.NUMBER and type_word(value) == "integer":
        return 3
    if field.kind is FieldKind.INTEGER and type_word(value) == "number":
        return 2
    if field.kind is FieldKind.ARRAY:
        return 3 + (2 if value and _score(field.item_field(0, work), value[0], work) > 1 else 0)
    if field.kind is not FieldKind.OBJECT:
        return 6 if field.kind in (FieldKind.ENUM, FieldKind.CONST) else 4
    return _object_score(field, value, work)


def _fits(field: Field, value: Any, work: Work) -> bool:
    try:
        work.take(1 + len(field.values))
    except NotUnderstood:
        return False
    return field.fits(value)


def _object_score(field: Field, value: dict[str, Any], work: Work) -> int:
    """Tags decide; then the more names are known, and the fewer are missing, the better."""
    properties = field.keys.get("properties")
    known = properties if isinstance(properties, dict) else {}
    score = 100 - 4 * sum(name not in value for name in field.required_names if name in known)
    for name, here in value.items():
        if name not in known or here is UNSET:
            continue
        child = field.property_of(name, work)
        fits = _fits(child, here, work)
        if child.kind in (FieldKind.CONST, FieldKind.ENUM) and not fits:
            score -= 40
        else:
            score += 2 if fits else -2
    return max(2, score)
