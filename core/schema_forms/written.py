"""JSON text of a schema, written once for its form, its validation and its secrets."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from core.schema_forms import budget

_MOST_KEPT = 32


@dataclass(frozen=True, slots=True)
class SerializedSchema:
    """A schema with quick checks of its text; `text` is empty where it is too large or nested too deeply."""

    schema: Any
    text: str

    @property
    def may_have_secrets(self) -> bool:
        """Whether the schema may mark a value as secret."""
        return not self.text or '"writeOnly"' in self.text or '"password"' in self.text

    @property
    def may_have_old_tuples(self) -> bool:
        """Whether `items` may be a list in it."""
        return not self.text or '"items": [' in self.text

    @property
    def may_refer_by_name(self) -> bool:
        """Whether a part of it has its own name or address, or refers to a part by name or address."""
        ids = self.text.count('"$id": "')
        if isinstance(self.schema, dict) and isinstance(self.schema.get("$id"), str):
            ids -= 1
        old = any(draft in self.text for draft in ("draft-03", "draft-04")) and '"id": "' in self.text
        return ids > 0 or old or _BY_NAME.search(self.text) is not None


# Most references are pointers into the schema itself; they need no names.
_BY_NAME = re.compile(r'"\$(?:ref|dynamicRef|recursiveRef)": "(?!#?["/])')

# Keyed by identity, which is safe: `SerializedSchema` holds the schema. The window has each schema as one
# object.
_kept: OrderedDict[int, SerializedSchema] = OrderedDict()


def written(schema: Any) -> SerializedSchema:
    """The text of a schema, cached by identity; the schema must not change afterwards."""
    known = _kept.get(id(schema))
    if known is None:
        known = _kept[id(schema)] = SerializedSchema(schema, _text(schema))
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(id(schema))
    return known


def _text(schema: Any) -> str:
    if not budget.could_fit(schema):
        return ""
    try:
        return json.dumps(schema)
    except (RecursionError, TypeError, ValueError):
        return ""
