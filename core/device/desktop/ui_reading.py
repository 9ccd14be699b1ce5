"""Implements the tools that read controls: `get_ui_tree`, a tree or a search, and `wait_for_element`."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any

from core.controls import SHOWING, program_of
from core.device.desktop.control_search import Found, Wanted, not_there
from core.device.desktop.interface import Bounds, Control, Desktop, Scope
from core.device.desktop.outline import MOST_BYTES, brief_node, node_as_dict, tree_as_dict
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError
from core.text import sentences

DEPTH, NODES = 45, 4_000
"""How far a tree is read where the call names no limits; what is too much to return is counted."""
LONGEST_WAIT_S, WAIT_S = 600.0, 10.0
_MOST_MATCHES = 20
# Between two looks, and as a multiple of the time that a look took: a program that answers slowly needs its
# time for itself.
_PAUSE_S, _PAUSE_LOOKS = 0.2, 2.0
# Kept for the answer.
_ANSWER_S = 0.5
_NOT_THERE = (ErrorCode.CONTROL_NOT_FOUND, ErrorCode.STALE_OBSERVATION)


@dataclass(frozen=True, slots=True)
class UiReading:
    """Reads the controls of a desktop."""

    desktop: Desktop

    async def tree(self, arguments: dict[str, Any], program: str | None) -> dict[str, Any]:
        """`get_ui_tree`: the controls in a scope, or those only that the arguments name."""
        if (control_id := arguments.get("control_id")) is not None:
            return _matches([await self.desktop.control(control_id)])
        if (place := _place(arguments)) is not None:
            return _matches([await self.desktop.cell(*place)])
        scope = _scope(arguments, program)
        if (wanted := _wanted(arguments)) is not None:
            found = await self.desktop.find(scope, wanted)
            return _matches(found.controls, found)
        showing = bool(arguments.get("showing", True))
        is_brief = arguments.get("detail", "brief") == "brief"
        bounds = Bounds(
            depth=int(arguments.get("depth", DEPTH)),
            nodes=int(arguments.get("max_nodes", NODES)),
            showing=showing,
            detail="outline" if is_brief else "all",
        )
        tree = await self.desktop.tree(scope, bounds)
        most = int(arguments.get("max_bytes", MOST_BYTES))
        return tree_as_dict(tree, showing=showing, brief=is_brief, max_bytes=most)

    async def wait(self, arguments: dict[str, Any], until: float) -> dict[str, Any]:
        """`wait_for_element`: look again until a control is on the screen, or until it is gone.

        `until`: when the call's deadline passes, on the loop's clock.

        Raises:
            DeviceError: the time is over; the message lists what is nearest.
        """
        wanted, scope = _wanted(arguments), _scope(arguments, program_of(arguments))
        if wanted is None:
            raise BadInput("Give role, name or both.")
        disappears = arguments.get("until", "appears") == "disappears"
        loop = asyncio.get_running_loop()
        start = loop.time()
        end = min(start + float(arguments.get("timeout", WAIT_S)), until - _ANSWER_S)
        while True:
            looked = loop.time()
            found, fault = await self._look(scope, wanted)
            now = loop.time()
            shown = [one for one in found.controls if SHOWING in one.states]
            is_over = not shown and found.is_complete if disappears else bool(shown)
            if is_over:
                return {
                    "until": "disappears" if disappears else "appears",
                    "waited_s": round(now - start, 3),
                    "controls": [node_as_dict(one) for one in shown[:_MOST_MATCHES]],
                }
            pause = max(_PAUSE_S, _PAUSE_LOOKS * (now - looked))
            if now >= end:
                raise _not_in_time(found, fault, now - start, disappears)
            await asyncio.sleep(min(pause, max(0.0, end - now)))

    async def _look(self, scope: Scope, wanted: Wanted) -> tuple[Found[Control], QuarterdeckError | None]:
        """The matching controls on the screen now; a program or window that is not there has no controls."""
        try:
            return await self.desktop.find(scope, wanted, showing=True), None
        except QuarterdeckError as error:
            if error.code not in _NOT_THERE:
                raise
            return Found(wanted, ()), error


def _place(arguments: dict[str, Any]) -> tuple[str, int, int] | None:
    """The table, row and column of a cell that a call names."""
    row, column, table = (arguments.get(key) for key in ("row", "column", "below"))
    if row is None and column is None:
        return None
    if row is None or column is None or table is None:
        raise BadInput("Give row, column and below, the id of the table, together.")
    return table, int(row), int(column)


def _wanted(arguments: dict[str, Any]) -> Wanted | None:
    role, name = arguments.get("role"), arguments.get("name")
    return None if role is None and name is None else Wanted(role, name)


def _scope(arguments: dict[str, Any], program: str | None) -> Scope:
    return Scope(program, arguments.get("window_id"), arguments.get("below"))


def _matches(controls: Any, found: Found[Control] | None = None) -> dict[str, Any]:
    """The result of a search: each control alone, with everything that is known about it."""
    is_whole = found is None or found.is_complete
    result: dict[str, Any] = {
        "tree": [node_as_dict(one) for one in controls[:_MOST_MATCHES]],
        "nodes": min(len(controls), _MOST_MATCHES),
        "truncated": not is_whole or len(controls) > _MOST_MATCHES,
        "not_answering": [] if found is None else list(found.not_answering),
        "left_out": [],
    }
    if found is not None and not controls:
        result["nearest"] = [brief_node(one) for one in found.nearest]
    return result


def _not_in_time(
    found: Found[Control], fault: QuarterdeckError | None, waited: float, disappears: bool
) -> DeviceError:
    seconds = f"{waited:.3g} s" if math.isfinite(waited) else "the time given"
    if disappears:
        left = "is still there" if found.controls else "may still be there: not every control could be read"
        return DeviceError(f"{found.wanted} {left} after {seconds}.", ErrorCode.TOOL_FAILED)
    hidden = [one for one in found.controls if SHOWING not in one.states]
    why = f"{hidden[0].role} {hidden[0].name!r} is not showing" if hidden else not_there(found)
    if fault is not None:
        why = fault.message
    return DeviceError(sentences(f"Nothing appeared within {seconds}. {why}"), ErrorCode.CONTROL_NOT_FOUND)
