"""Settings, and a contract's review, with things typed, chosen and run; each on a fresh story."""

from __future__ import annotations

import asyncio
from functools import partial

from app.main import ConsoleApplication
from app.screens.fleet.screen import FleetScreen
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenDevice, OpenSection
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.service.console import ControlChanged
from tests.fakes.console import FakeConsole
from tests.fakes.story import story
from tests.golden_pictures.studio import Studio, settled

POLICY = ("policy", "policy-broken", "policy-examples", "policy-time", "policy-why", "policy-rule",
          "policy-compare", "policy-banner")  # fmt: skip
_NAMES = (*POLICY, "grants", "revoke", "operators", "review")
_TABS = {"policy-examples": "examples", "policy-time": "time", "policy-why": "why"}


async def _play(name: str, studio: Studio) -> None:
    told: list[FakeConsole] = []
    homes: list[Home] = []

    def tell(home: Home) -> FakeConsole:
        homes.append(home)
        told.append(story([create_operator_key(home, "harbour", None).operator]))
        told[0].judge_changed_tools()
        return told[0]

    async with studio.desk(tell) as desk:
        if name == "operators":
            await asyncio.to_thread(create_operator_key, homes[0], "quay", "correct horse battery")
            await desk.window.keys.refresh()
        await _show(desk, name, told[0])
        await studio.take(desk, f"settings-{name}")


async def _show(desk: ConsoleApplication, name: str, console: FakeConsole) -> None:
    window = desk.window
    if name == "review":
        window.open("fleet", OpenDevice("build-lnx-03", "tools"))
        await settled(window)
        fleet = window.current
        assert isinstance(fleet, FleetScreen)
        fleet.panel.tools_tab.choose(desk.state.devices["build-lnx-03"].changed_tools[0])
        fleet.panel.tools_tab.details.review_asked.emit()
        return
    section = {"revoke": "grants"}.get(name, "policy" if name in POLICY else name)
    window.open("settings", OpenSection(section))
    await settled(window)
    settings = window.current
    assert isinstance(settings, SettingsScreen)
    if name == "revoke":
        settings.grants.revoke()
    elif name == "operators":
        settings.operators.table.choose("quay")
    elif name in POLICY:
        await _show_policy(settings, name, console)


async def _show_policy(settings: SettingsScreen, name: str, console: FakeConsole) -> None:
    page, text = settings.policy, settings.policy.editor.text()
    page.show_tab(_TABS.get(name, "check"))
    match name:
        case "policy":
            page.go_to(32)
        case "policy-broken":
            page.editor.replace_text(text.replace('tool = "write_file"', 'tol = "write_file"'))
            page.check_now()
            await settled(settings.window())
            page.check.table.choose("p0")
        case "policy-examples":
            page.editor.replace_text(text.replace("/srv/spool/label.txt", "/srv/other/label.txt"))
        case "policy-time":
            page.time_machine.start()
            await settled(settings.window())
            page.time_machine.chips["against"].click()
        case "policy-why":
            page.why.choose("lab-lnx-01", "shell_execute", {"command": "df -h /srv"})
        case "policy-rule":
            page.insert_rule()
            await settled(settings.window())
        case "policy-compare":
            page.editor.append_text('\n[[rule]]\nid = "mine"\ndecision = "ask"\n')
            console.policy_on_disk = text.replace('"guarded"', '"trusted"', 1)
            page.work.read()
            await settled(settings.window())
            page.compare()
        case "policy-banner":
            problem = "policy.toml line 29: rule spool-files: tol: there is no such key"
            console.policy_on_disk = text.replace('tool = "write_file"', 'tol = "write_file"')
            console.policy_status = console.policy_status.model_copy(update={"problem": problem})
            console.emit(
                ControlChanged(
                    stopped=False, stopped_note="", policy=console.policy_status, operators=console.operators
                )
            )


SCENES = {f"settings-{name}": partial(_play, name) for name in _NAMES}
