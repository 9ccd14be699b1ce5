"""A device in a desktop session of a test's own: in this process, with its tools and its windows."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from Xlib import Xutil

from core.aip.messages import Command, Result, ResultStatus
from core.device.router import Router
from tests.fakes.patience import PATIENCE_S


def join_session(monkeypatch: pytest.MonkeyPatch, session: dict[str, str]) -> None:
    """Make this process a program of an `accessible_session`, until the test ends."""
    for key in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(key, session[key])
    for key in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.delenv(key, raising=False)


class DesktopDevice:
    """A router in the session, with results checked against what its tools promise."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self._infos = {info.tool_name: info for info in router.tools()}

    async def result(self, tool: str, **arguments: Any) -> Result:
        """Run a tool, whatever comes of it."""
        info = self._infos[tool]
        command = Command(tool_name=tool, tool_type=info.tool_type, parameters=arguments, call_id="c")
        return await self.router.run(command, PATIENCE_S)

    async def run(self, tool: str, **arguments: Any) -> Any:
        """What a tool answers that succeeds."""
        result = await self.result(tool, **arguments)
        assert result.status is ResultStatus.SUCCESS, result.error
        # The console takes the picture out of a screenshot; the schema is of what it shows.
        if tool != "screenshot":
            jsonschema.validate(result.result, self._infos[tool].output_schema or {})
        return result.result

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The error of a tool that fails."""
        result = await self.result(tool, **arguments)
        assert result.status is ResultStatus.FAILURE
        return result.error or ""


def show_window(display: Any, box: tuple[int, int, int, int], title: str, **more: Any) -> Any:
    """Map a new window of this process on top of the others; `more` are attributes of the window."""
    screen = display.screen()
    depth = more.pop("depth", screen.root_depth)
    attributes = {"background_pixel": screen.white_pixel, **more}
    window = screen.root.create_window(*box, 0, depth, **attributes)
    window.set_wm_name(title)
    window.set_wm_class(title, title)
    # A window manager leaves it where it is.
    window.set_wm_normal_hints(flags=Xutil.PPosition)
    window.map()
    display.sync()
    return window
