"""Which arguments of a tool are secrets, whatever its schema makes of saying so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from core.schema_forms.fields import Field, form_for
from core.schema_forms.normal import Work
from core.schema_forms.written import written


def secret_names(schema: Any) -> frozenset[str]:
    """The arguments whose values are masked; in some milliseconds, and in doubt one too many."""
    known = written(schema)
    if not known.text:
        # No form, and no call either: nobody looks closer.
        named = schema.get("properties") if isinstance(schema, dict) else None
        return frozenset(named if isinstance(named, dict) else ())
    if not known.may_have_secrets:
        return frozenset()
    form = form_for(schema)
    work = Work()
    return frozenset(name for one in (form, *form.alternatives) for name in _secrets_of(one, work))


def _secrets_of(form: Field, work: Work) -> Iterator[str]:
    named = form.keys.get("properties")
    for name in named if isinstance(named, dict) else ():
        # What is not understood, or is too much to be read, may be one.
        if work.left < 0 or (field := form.property_of(name, work)).is_secret or field.reason:
            yield name
