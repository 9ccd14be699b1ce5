"""Validation for a loop that others wait for: what takes long is done in a thread, one at a time.

A schema comes from a device, and to read the worst one that is admitted takes seconds, to hold arguments
against it half a second. The loop does what is quick itself, and waits for the rest.
"""

from __future__ import annotations

import asyncio
from typing import Any

from core.schema_forms import budget
from core.schema_forms.ecma import MOST_QUICK, is_quick
from core.schema_forms.validate import (
    NOT_AN_OBJECT,
    TOO_MUCH,
    FieldError,
    Validator,
    keep,
    known,
    validator_for,
)

STEPS_AT_ONCE = 1_000
"""Steps of one validation that the loop takes itself: 10 ms."""
_MOST_PARTS, _MOST_CHARACTERS = 40, 8_000
_LATER = [FieldError((), "The tool's schema has not been read yet; ask again in a moment.")]


class Aside:
    """Validates for one loop."""

    def __init__(self) -> None:
        # However many ask: other work that is done in threads must find one, too.
        self._one = asyncio.Lock()

    async def errors(self, schema: Any, parameters: Any, digest: str) -> list[FieldError]:
        """What is wrong with the arguments of one call; empty when the call may go on.

        Arguments are always an object, whatever the schema says. `digest` is of something that the schema is
        part of, a tool's definition for one: where it was seen before, the schema itself is not read again.
        Gives up the loop only where it takes long.
        """
        if not isinstance(parameters, dict):
            return NOT_AN_OBJECT
        found = _at_once(schema, parameters, digest)
        if found is not None:
            return found
        async with self._one:
            # Whoever waited here may have waited for the very same.
            found = _at_once(schema, parameters, digest)
            if found is not None:
                return found
            validator = known(digest) or keep(digest, await asyncio.to_thread(Validator, schema))
            found = validator.errors_within(parameters, STEPS_AT_ONCE)
            if found is None:
                found = await asyncio.to_thread(validator.look_at, parameters, budget.MAX_STEPS)
                found = TOO_MUCH if found is None else found
                validator.remember(parameters, found)
            return found


def errors_at_once(schema: Any, parameters: Any, digest: str) -> list[FieldError]:
    """See `Aside.errors`, for who cannot wait: what takes long and was not asked aside is a fault."""
    if not isinstance(parameters, dict):
        return NOT_AN_OBJECT
    found = _at_once(schema, parameters, digest)
    return _LATER if found is None else found


def _at_once(schema: Any, parameters: dict[str, Any], digest: str) -> list[FieldError] | None:
    validator = known(digest)
    if validator is None:
        if not is_light(schema):
            return None
        validator = keep(digest, validator_for(schema))
    return validator.errors_within(parameters, STEPS_AT_ONCE)


def is_light(schema: Any) -> bool:
    """Whether a schema is read in some milliseconds: few parts, and no pattern that counts."""
    if not budget.could_fit(schema, _MOST_CHARACTERS):
        return False
    left = MOST_QUICK
    for count, one in enumerate(budget.subschemas(schema)):
        if count >= _MOST_PARTS:
            return False
        patterns = one.get("patternProperties")
        for source in (one.get("pattern"), *(patterns if isinstance(patterns, dict) else ())):
            left -= len(source) if isinstance(source, str) else 0
            if isinstance(source, str) and (left < 0 or not is_quick(source)):
                return False
    return True
