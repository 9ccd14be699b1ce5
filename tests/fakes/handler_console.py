"""A console whose calls go to its own methods, named `on_` and the method's name on the wire."""

from __future__ import annotations

from typing import Any

from core.service.api.methods import ApiMethod
from core.service.console import Console


class HandlerConsole(Console):
    """`console.runs.start(...)` calls `on_start_run(...)`; fakes of the console build on this."""

    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return await getattr(self, f"on_{method.wire}")(*args, **kwargs)
