"""Stages 2 and 3 for a call's arguments: redaction, the tool's schema, and checks beyond schemas."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from core.commands.arguments import Arguments, PreparedCall, WalkedArguments, seal, walked
from core.commands.request import NO_SECRETS, Secrets
from core.commitments import NO_PLACES, Places
from core.dispatch.argument_checks import harden
from core.dispatch.interfaces import Devices
from core.dispatch.redaction import Redactor, fault_words
from core.errors import BadInput
from core.models.tools import Tool
from core.schema_forms.validator import FieldError, ThreadedValidator, errors_at_once, with_defaults
from core.text import sentences

# Calls, and bytes of the arguments of each: larger ones are rarely sent twice.
_MOST_CACHED = 512
_LARGEST_CACHED = 4_096
# Faults listed in an error message; the rest are only counted.
_MOST_NAMED = 5


class _CallKey(NamedTuple):
    """The key of a prepared call; `arguments` is their digest. The contract covers the schema."""

    contract: str
    tool_name: str
    tool_type: str
    arguments: str


class CallPreparer:
    """Prepares calls for one dispatcher; slow schemas do not block its loop.

    A run sends the same arguments to a thousand devices, so that the last prepared calls are cached: checking
    the arguments again costs ten times as much as finding them (`make bench round-trips`). This is the only
    cache of calls. Refused arguments are not in it, nor are those with secrets or with unquoted texts.
    """

    def __init__(self, devices: Devices, redactor: Redactor) -> None:
        self._devices = devices
        self._redactor = redactor
        self._validator = ThreadedValidator()
        self._cached: OrderedDict[_CallKey, PreparedCall] = OrderedDict()

    def take(
        self,
        tool: Tool,
        parameters: dict[str, Any],
        secrets: Secrets = NO_SECRETS,
        unquoted: Places = NO_PLACES,
    ) -> Arguments:
        """The arguments of a call, with the defaults of required ones; a `PreparedCall` if that is cached.

        Raises:
            BadInput: the arguments are too large, have no canonical form, or hold a redacted secret's mark.
        """
        arguments = walked(with_defaults(tool.input_schema, parameters))
        # An equal call that was prepared before may show what is secret in this one.
        key = _key_of(tool, arguments) if not any(secrets) and not unquoted else None
        if key is not None and (call := self._cached.get(key)) is not None:
            self._cached.move_to_end(key)
            return call
        return self._redactor.redact(tool.tool_name, arguments, [tool.input_schema], secrets.places, unquoted)

    async def prepare(self, tool: Tool, arguments: Arguments) -> PreparedCall:
        """Check arguments against a tool; yields to the loop only if that takes long.

        Raises:
            BadInput: the arguments do not fit the schema, or `harden` refuses them.
        """
        if isinstance(arguments, PreparedCall):
            return arguments
        errors = await self._validator.errors(tool.input_schema, arguments.sent, tool.contract.digest)
        return self._prepared(tool, arguments, errors)

    def prepare_at_once(self, tool: Tool, arguments: Arguments) -> PreparedCall:
        """`prepare` without waiting, for `explain`; if it can take long, await `look_ahead` first.

        Raises:
            BadInput: as for `prepare`, or whether the arguments fit is not known yet.
        """
        if isinstance(arguments, PreparedCall):
            return arguments
        errors = errors_at_once(tool.input_schema, arguments.sent, tool.contract.digest)
        return self._prepared(tool, arguments, errors)

    async def look_ahead(
        self, devices: list[str], tool: str, parameters: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Validate in advance for `prepare_at_once`; returns the filled-in arguments, once per contract.

        Raises:
            BadInput: there is no such device.
        """
        by_contract: dict[str, dict[str, Any]] = {}
        for device in devices:
            offered = self._devices.offered(device, tool)
            if offered is not None and offered.contract.digest not in by_contract:
                filled = with_defaults(offered.input_schema, parameters)
                by_contract[offered.contract.digest] = filled
                await self._validator.errors(offered.input_schema, filled, offered.contract.digest)
        return list(by_contract.values())

    def _prepared(self, tool: Tool, arguments: Arguments, errors: list[FieldError]) -> PreparedCall:
        """The only maker of `PreparedCall`. `errors` are the schema's findings."""
        if errors:
            more = f"And {len(errors) - _MOST_NAMED} more" if len(errors) > _MOST_NAMED else ""
            named = (fault_words(error, arguments.shown) for error in errors[:_MOST_NAMED])
            raise BadInput(sentences(*named, more))
        harden(tool, arguments)
        call = seal(PreparedCall, arguments, contract=tool.contract.digest, tool=tool, _analyses={})
        key = _key_of(tool, arguments) if not any(arguments.marks) else None
        if key is not None:
            self._cached[key] = call
            if len(self._cached) > _MOST_CACHED:
                self._cached.popitem(last=False)
        return call


def _key_of(tool: Tool, arguments: WalkedArguments) -> _CallKey | None:
    """The key of a call in the cache; None for arguments that are large, or that others equal."""
    if not arguments.is_exact or len(arguments.sent_json.data) > _LARGEST_CACHED:
        return None
    return _CallKey(tool.contract.digest, tool.tool_name, tool.tool_type, arguments.digest)
