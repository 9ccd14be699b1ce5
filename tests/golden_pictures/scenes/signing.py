"""The sheet that signs a change, for each kind, and the banners of what another program changed."""

from __future__ import annotations

from functools import partial

from app.main import ConsoleApplication
from app.screens.fleet.contract_review_dialog import ContractReviewDialog, start_review
from app.screens.fleet.device_dialogs import start_edit
from app.screens.fleet.pairing_dialog import start_pairing
from app.screens.fleet.screen import FleetScreen
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenDevice, OpenSection
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.policy.models import Profile
from core.service.held_settings import loosening_settings, pending_settings
from core.settings import Settings
from tests.fakes.console import FakeConsole
from tests.fakes.policy_data import RULES
from tests.fakes.story import story
from tests.golden_pictures.studio import Studio, settled

PHRASE = "correct horse battery"
WIDER = RULES.replace('tool = ["shell_execute", "launch_app"]', 'tool = "*"').replace(
    '"uptime", "df -h", "systemctl status"', '"uptime", "df -h", "systemctl *"'
)
_NAMES = ("policy", "profile", "resume", "pairing", "device", "review", "listen", "add", "remove", "locked",
         "several", "first", "none-here", "banner", "banner-two", "banner-notes", "notes", "accepted",
         "settings")  # fmt: skip


async def _play(name: str, studio: Studio) -> None:
    told: list[FakeConsole] = []

    def tell(home: Home) -> FakeConsole:
        phrase = PHRASE if name in ("locked", "several") else None
        operators = [] if name == "first" else [create_operator_key(home, "harbour", phrase).operator]
        if name in ("several", "remove"):
            operators.append(create_operator_key(home, "quay", PHRASE).operator)
        if name == "none-here":
            other = Home(home.path / "other").create()
            operators = [create_operator_key(other, "harbour", None).operator]
        told.append(story(operators))
        if name == "first":
            told[0].operators.clear()
        told[0].judge_changed_tools()
        if name == "settings":
            (home.path / "settings.toml").write_text('listen = "0.0.0.0:5000"\n')
        return told[0]

    async with studio.desk(tell) as desk:
        if name in ("several", "remove"):
            await desk.keys.unlock("harbour", PHRASE if name == "several" else None)
            desk.keys.lock() if name == "several" else None
        await _show(desk, name, told[0])
        await studio.take(desk, f"sign-{name}")


async def _show(desk: ConsoleApplication, name: str, console: FakeConsole) -> None:
    window = desk.window
    window.activateWindow()
    match name:
        case "policy" | "locked" | "several":
            window.open("settings", OpenSection("policy"))
            await settled(window)
            page = _settings(desk).policy
            page.editor.replace_text(WIDER)
            await settled(window)
            page.save.click()
        case "profile" | "none-here":
            window.choose_profile(Profile.TRUSTED)
        case "resume":
            await console.service.stop_all()
            await settled(window)
            window.control.start_resume()
        case "pairing" | "first":
            window.open("fleet")
            sheet = start_pairing(window, desk.state, desk.link, window)
            sheet.name_field.setText("db-4")
            sheet.tags_field.setText("db lab")
            sheet.production.setChecked(True)
            await settled(window)
            sheet.answer("pair").click()
        case "device":
            window.open("fleet", OpenDevice("lab-lnx-01"))
            edit = start_edit(window, desk.link, desk.state.devices["lab-lnx-01"], window)
            edit.focusWidget().setText("lab linux prod")
            edit.answer("save").click()
        case "review":
            window.open("fleet", OpenDevice("build-lnx-03", "tools"))
            await settled(window)
            fleet = window.current
            assert isinstance(fleet, FleetScreen)
            key = desk.state.devices["build-lnx-03"].changed_tools[0]
            tool = next(one for one in await console.devices.tools("build-lnx-03") if one.tool_key == key)
            start_review(window, desk.link, window.signing, tool, lambda: None)
            await settled(window)
            opened = window.findChildren(ContractReviewDialog)[0]
            opened.trust.set_off("")
            opened.trust.click()
        case "listen":
            window.open("settings", OpenSection("devices"))
            await settled(window)
            devices = _settings(desk).devices
            devices.address.setText("0.0.0.0:5001")
            devices.listen.click()
        case "add" | "remove":
            window.open("settings", OpenSection("operators"))
            await settled(window)
            operators = _settings(desk).operators
            if name == "remove":
                operators.table.choose("quay")
                operators.remove.click()
            else:
                operators.name_field.setText("bosun")
                operators.secret_field.setText(PHRASE)
                operators.again_field.setText(PHRASE)
                operators.make.click()
        case "banner" | "accepted":
            console.changed_by_another_program(WIDER)
            if name == "accepted":
                await settled(window)
                window.open("settings", OpenSection("policy", tab="accepted"))
        case "banner-two" | "settings":
            console.settings = Settings(listen="0.0.0.0:5000")
            pending = pending_settings(console.settings, loosening_settings(Settings()))
            console.policy_status = console.policy_status.model_copy(update={"pending_settings": pending})
            if name == "settings":
                console.tell_control()
                await settled(window)
                window.accept_changes()
            else:
                console.changed_by_another_program(WIDER)
        case "banner-notes" | "notes":
            notes = [
                "operators.json names mallory with a key that is not registered in the journal; it does not "
                "count.",
                "Operator mallory (entry 18,203) was registered without a valid signature.",
            ]
            console.policy_status = console.policy_status.model_copy(update={"notes": notes})
            console.tell_control()
            if name == "notes":
                window.control._open_notes(notes)


def _settings(desk: ConsoleApplication) -> SettingsScreen:
    settings = desk.window.current
    assert isinstance(settings, SettingsScreen)
    return settings


SCENES = {f"sign-{name}": partial(_play, name) for name in _NAMES}
