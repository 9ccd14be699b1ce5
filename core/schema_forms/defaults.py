"""Defaults for missing required arguments, taken from the tool's schema.

JSON Schema's `default` is only an annotation. Schemas generated from zod list such properties as required
nevertheless, and their servers accept a call without them; our own validation, and a device's, does not.
"""

from __future__ import annotations

import copy
from typing import Any

from core.schema_forms.messages import is_secret

_MOST_FILLED = 1_000


def with_defaults(schema: Any, arguments: Any) -> Any:
    """The arguments with the default of each missing required argument; the same object if none is missing.

    A secret is never filled in. A default is validated, judged, shown and signed like a typed value.
    """
    if not isinstance(schema, dict) or not isinstance(arguments, dict):
        return arguments
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return arguments
    filled: dict[str, Any] = {}
    for name in required[:_MOST_FILLED]:
        if not isinstance(name, str) or name in arguments:
            continue
        said = properties.get(name)
        if isinstance(said, dict) and "default" in said and not is_secret(said):
            filled[name] = copy.deepcopy(said["default"])
    return {**arguments, **filled} if filled else arguments
