"""Stages 2 and 3 for a call's arguments: checks against the tool's schema, then checks beyond schemas.

A `CheckedArguments` value guarantees that both have passed and that secrets were redacted before. It is made
only here, and every later stage demands it.
"""

from __future__ import annotations

from typing import Any

from core.canonical_json import canonical_bytes, flat_key, is_plain
from core.dispatch.argument_checks import check_form, harden
from core.dispatch.arguments import CallKey, CheckedArguments, RedactedArguments, seal
from core.dispatch.command_request import Devices
from core.dispatch.redaction import Redactor, fault_words
from core.errors import BadInput
from core.fleet.models import Tool
from core.schema_forms.validator import FieldError, ThreadedValidator, errors_at_once, with_defaults
from core.text import sentences

# Calls. Remembered arguments are small (`flat_key`): 4 KiB per call.
_MOST_REMEMBERED = 512
# Faults listed in an error message; the rest are only counted.
_MOST_NAMED = 5


class ArgumentValidator:
    """Checks arguments for one dispatcher; slow schemas do not block its loop.

    A run sends the same arguments to a thousand devices. A passed check depends only on the arguments and the
    contract, so it is cached; refused arguments and arguments with secrets are not.
    """

    def __init__(self, devices: Devices, masker: Redactor) -> None:
        self._devices = devices
        self._masker = masker
        self._aside = ThreadedValidator()
        self._passed: dict[CallKey, CheckedArguments] = {}

    def known(self, tool: Tool, parameters: dict[str, Any]) -> CheckedArguments | None:
        """The cached check of the same arguments under the same contract; None if there is none."""
        key = _key_of(tool, with_defaults(tool.input_schema, parameters))
        return self._passed.get(key) if key is not None else None

    def redact(self, tool: Tool, parameters: dict[str, Any]) -> RedactedArguments:
        """Check the form of arguments, fill in defaults of required arguments, and redact.

        Raises:
            BadInput: the arguments are too large, or contain a redacted secret's mark (`check_form`).
        """
        check_form(parameters)
        filled = with_defaults(tool.input_schema, parameters)
        if filled is not parameters:
            check_form(filled)
        return self._masker.redact(tool.tool_name, filled, [tool.input_schema])

    async def check(self, tool: Tool, redacted: RedactedArguments) -> CheckedArguments:
        """Check arguments; yields to the loop only if that takes long.

        Raises:
            BadInput: the arguments do not fit the schema, or `harden` refuses them.
        """
        errors = await self._aside.errors(tool.input_schema, redacted.sent, tool.contract.digest)
        return self._checked(tool, redacted, errors)

    def check_at_once(self, tool: Tool, redacted: RedactedArguments) -> CheckedArguments:
        """`check` without waiting, for `explain`; if it can take long, await `look_ahead` first.

        Raises:
            BadInput: as for `check`, or whether the arguments fit is not known yet.
        """
        errors = errors_at_once(tool.input_schema, redacted.sent, tool.contract.digest)
        return self._checked(tool, redacted, errors)

    async def look_ahead(
        self, devices: list[str], tool: str, parameters: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Validate in advance for `check_at_once`; returns the filled-in arguments, for each contract once.

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
        """The only maker of `CheckedArguments`. `errors` are the schema's findings."""
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
