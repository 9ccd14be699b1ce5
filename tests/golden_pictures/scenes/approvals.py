"""The Approvals screen, on requests that show what the card can do."""

from __future__ import annotations

from functools import partial

from app.main import ConsoleApplication
from app.screens.approvals.edit_dialog import EditDialog
from app.screens.approvals.grant_dialog import GrantDialog
from app.screens.approvals.grant_draft import Breadth
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.targets import OpenApproval
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from tests.fakes.approvals_story import add_critical, approvals_story
from tests.fakes.console import FakeConsole
from tests.fakes.hand import press_button
from tests.golden_pictures.studio import Studio, settled

_NAMES = ("shell", "file", "file-side", "click", "group", "helpers", "grant", "edit", "edited", "several",
         "second", "filter", "filter-none", "filter-wrong", "critical", "locked")  # fmt: skip
_OPENS = {
    "file": "a-file",
    "file-side": "a-file",
    "click": "a-click",
    "group": "a-group-1",
    "edit": "a-file",
    "several": "a-several",
    "second": "a-several",
    "critical": "a-critical",
    "locked": "a-click",
}


async def _play(name: str, studio: Studio) -> None:
    told: list[FakeConsole] = []

    def tell(home: Home) -> FakeConsole:
        keys = (("harbour", None), ("anna", "a long passphrase"))
        told.append(
            approvals_story([create_operator_key(home, name, phrase).operator for name, phrase in keys])
        )
        return told[0]

    async with studio.desk(tell) as desk:
        await desk.keys.refresh()
        await desk.keys.unlock("harbour", None)
        if name == "critical":
            add_critical(told[0])
            await settled(desk.window)
        desk.window.open("approvals", OpenApproval(_OPENS.get(name, "a-shell")))
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        await settled(desk.window)
        await _act(desk, screen, name)
        if name == "filter":
            add_critical(told[0])
        await studio.take(desk, f"approvals-{name}")


async def _act(desk: ConsoleApplication, screen: ApprovalsScreen, name: str) -> None:
    """What a picture shows beyond an open card."""
    match name:
        case "file-side":
            screen.card.bytes.views.choose("side")
            screen.card.bytes._choose("side")
        case "helpers":
            screen.card.helpers.buttons[0].click()
            await settled(desk.window)
            bar = screen.card.middle.verticalScrollBar()
            bar.setValue(bar.maximum())
        case "grant":
            screen.open_card("a-file")
            await settled(desk.window)
            screen.bar.grant_act.trigger()
            sheet = next(iter(desk.window.findChildren(GrantDialog)))
            sheet.devices.setText("scan-pc-04, lab-lnx-*")
            sheet.actors.setText("agent:clerk, operator:*")
            sheet.row("file_path").widen(Breadth.BELOW, "/etc")
            sheet.row("content").widen(Breadth.ANY)
            sheet.row("mode").widen(Breadth.ONE_OF, "overwrite, create")
        case "edit" | "edited":
            screen.open_card("a-file" if name == "edit" else "a-shell")
            await settled(desk.window)
            screen.bar.edit_act.trigger()
            await settled(desk.window)
            edit = next(iter(desk.window.findChildren(EditDialog)))
            value = dict(edit.form.value())
            if name == "edit":
                value["content"] = value["content"].replace("keep_days = 30", "keep_days = 7")
            else:
                value["command"] = value["command"].replace("+14", "+30").replace("sudo ", "")
            edit.form.set_value(value)
            edit.show_versions()
            if name == "edited":
                press_button(edit.answer("ask"))
                await settled(desk.window)
        case "second":
            screen.bar.press_second()
        case "locked":
            desk.keys.lock()
        case "filter" | "filter-none" | "filter-wrong":
            texts = {
                "filter": "device:lab-lnx-0*",
                "filter-none": "tool:reboot",
                "filter-wrong": "colour:red",
            }
            screen.queue.focus_filter()
            screen.queue.field.setText(texts[name])
            screen.queue.field.apply()
        case _:
            pass


SCENES = {f"approvals-{name}": partial(_play, name) for name in _NAMES}
