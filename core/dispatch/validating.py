"""Stages 2 and 3 for a call's arguments: the tool's own schema, then what no schema can say.

`CheckedArguments` are the proof that both have passed, and that secrets were masked before; they are made
here and nowhere else. Whatever comes after these stages takes such a value.
"""

from __future__ import annotations

from typing import Any

from core.canonical_json import canonical_bytes, flat_key, is_plain
from core.dispatch.argument_checks import check_form, harden
from core.dispatch.arguments import CallKey, CheckedArguments, RedactedArguments, seal
from core.dispatch.command_request import Devices
from core.dispatch.redaction import Masker, fault_words
from core.errors import BadInput
from core.fleet.models import Tool
from core.schema_forms.defaults import with_defaults
from core.schema_forms.validator import Aside, FieldError, errors_at_once
from core.text import sentences

# Arguments of one call are small where they are remembered at all (`flat_key`): 4 KiB each.
_MOST_REMEMBERED = 512
# As many faults of one call as a person reads; the rest is a number.
_MOST_NAMED = 5


class Validating:
    """Checks arguments for one dispatcher; no schema keeps its loop from others.

    A run sends the same arguments to a thousand devices. What has passed depends on nothing but the arguments
    and the contract, so it is remembered; never what was refused, and never a secret.
    """

    def __init__(self, devices: Devices, masker: Masker) -> None:
        self._devices = devices
        self._masker = masker
        self._aside = Aside()
        self._passed: dict[CallKey, CheckedArguments] = {}

    def known(self, tool: Tool, parameters: dict[str, Any]) -> CheckedArguments | None:
        """The same arguments under the same contract, where these have passed before."""
        key = _key_of(tool, with_defaults(tool.input_schema, parameters))
        return self._passed.get(key) if key is not None else None

    def redact(self, tool: Tool, parameters: dict[str, Any]) -> RedactedArguments:
        """Fill in required arguments by their defaults, and find the secrets in all of them.

        They are of a bearable size then and hold no stand-in.

        Raises:
            BadInput: they are too large, or hold what only stands for a secret.
        """
        check_form(parameters)
        filled = with_defaults(tool.input_schema, parameters)
        if filled is not parameters:
            check_form(filled)
        return self._masker.redact(tool.tool_name, filled, [tool.input_schema])

    async def check(self, tool: Tool, redacted: RedactedArguments) -> CheckedArguments:
        """Check arguments; gives up the loop only where that takes long.

        Raises:
            BadInput: they do not fit the schema, or no honest call needs them.
        """
        errors = await self._aside.errors(tool.input_schema, redacted.sent, tool.contract.digest)
        return self._checked(tool, redacted, errors)

    def check_at_once(self, tool: Tool, redacted: RedactedArguments) -> CheckedArguments:
        """The same for a call that is only explained; `look_ahead` was awaited, if it can take long.

        Raises:
            BadInput: as for `check`, or whether they fit is not known yet.
        """
        errors = errors_at_once(tool.input_schema, redacted.sent, tool.contract.digest)
        return self._checked(tool, redacted, errors)

    async def look_ahead(
        self, devices: list[str], tool: str, parameters: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Find out what `check_at_once` will want to know of these calls; gives their arguments, filled in.

        Raises:
            BadInput: there is no such device.
        """
        seen: dict[str, dict[str, Any]] = {}
        for device in devices:
            offered = self._devices.offered(device, tool)
            if offered is not None and offered.contract.digest not in seen:
                filled = with_defaults(offered.input_schema, parameters)
                seen[offered.contract.digest] = filled
                await self._aside.errors(offered.input_schema, filled, offered.contract.digest)
        return list(seen.values())

    def _checked(self, tool: Tool, redacted: RedactedArguments, errors: list[FieldError]) -> CheckedArguments:
        """The one place where checked arguments come from. `errors` are what the schema says of them."""
        if errors:
            more = f"And {len(errors) - _MOST_NAMED} more" if len(errors) > _MOST_NAMED else ""
            named = (fault_words(error, redacted.shown) for error in errors[:_MOST_NAMED])
            raise BadInput(sentences(*named, more))
        harden(tool, redacted.sent)
        key = _key_of(tool, redacted.sent) if not redacted.openings else None
        checked = seal(
            CheckedArguments,
            contract=tool.contract.digest,
            sent=redacted.sent,
            canonical=canonical_bytes(redacted.sent) if key is None else key.arguments,
            shown=redacted.shown,
            openings=redacted.openings,
            is_plain=is_plain(redacted.shown),
            key=key,
        )
        if key is not None:
            if len(self._passed) >= _MOST_REMEMBERED:
                self._passed.clear()
            self._passed[key] = checked
        return checked


def _key_of(tool: Tool, parameters: dict[str, Any]) -> CallKey | None:
    data = flat_key(parameters) if type(parameters) is dict else None
    return None if data is None else CallKey(tool.contract.digest, tool.tool_name, tool.tool_type, data)
