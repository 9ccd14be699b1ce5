"""Stage 2: the arguments against the tool's own schema, which is the device's word like any other."""

from __future__ import annotations

from typing import Any

from core.dispatch.order import Devices, Prepared
from core.dispatch.secrets import fault_words
from core.errors import BadInput
from core.schema_forms.aside import Aside, errors_at_once
from core.schema_forms.validate import FieldError


class Validating:
    """Validates for one dispatcher; no schema keeps its loop from others."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._aside = Aside()

    async def check(self, prepared: Prepared) -> None:
        """Check a command; gives up the loop only where that takes long.

        Raises:
            BadInput: the arguments do not fit.
        """
        if not prepared.in_order:
            tool = prepared.tool
            schema, digest = tool.input_schema, tool.contract.digest
            _refuse(prepared, await self._aside.errors(schema, prepared.request.parameters, digest))

    def check_at_once(self, prepared: Prepared) -> None:
        """The same for a call that is only explained; `look_ahead` was awaited, if it can take long.

        Raises:
            BadInput: the arguments do not fit, or that is not known yet.
        """
        if not prepared.in_order:
            tool = prepared.tool
            schema, digest = tool.input_schema, tool.contract.digest
            _refuse(prepared, errors_at_once(schema, prepared.request.parameters, digest))

    async def look_ahead(self, devices: list[str], tool: str, parameters: dict[str, Any]) -> None:
        """Find out what `check_at_once` will want to know of these calls.

        Raises:
            BadInput: there is no such device.
        """
        seen: set[str] = set()
        for device in devices:
            offered = self._devices.offered(device, tool)
            if offered is not None and offered.contract.digest not in seen:
                seen.add(offered.contract.digest)
                await self._aside.errors(offered.input_schema, parameters, offered.contract.digest)


def _refuse(prepared: Prepared, errors: list[FieldError]) -> None:
    if errors:
        raise BadInput("; ".join(fault_words(error, prepared.shown.parameters) for error in errors[:5]))
