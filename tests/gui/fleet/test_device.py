"""The page of a device: health over time, trust, refused attempts, the doctor, one call on trial."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.items.table_model import Cell, cell_text
from app.main import ConsoleApplication
from app.screens.fleet.call_tab import CallTab
from app.screens.fleet.connection_tab import ConnectionTab
from app.screens.fleet.device_columns import DEVICE_COLUMNS, UNAVAILABLE_COLUMNS, no_tools_words, tool_title
from app.screens.fleet.diagnostics import TITLES
from app.screens.fleet.health_series import band_start, device_series, health_spans
from app.screens.fleet.history_tab import HistoryTab
from app.screens.fleet.overview import device_facts
from app.screens.fleet.screen import FleetScreen
from app.screens.fleet.tools_tab import ToolsTab
from app.screens.targets import OpenApproval, OpenDevice, OpenRun, Target
from app.theme.theme import Theme
from app.widgets.property_list import whole
from core.errors import DeviceError
from core.fleet.models import Check, CheckName, CheckState, HealthChange
from core.models.devices import Device, Health, Machine, Unavailable
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices, make_tools
from tests.fakes.story import story
from tests.fakes.window import open_window, seen


def page_of(desk: ConsoleApplication, device: str, tab: str, tool: str | None = None) -> FleetScreen:
    desk.window.open("fleet", OpenDevice(device, tab, tool))
    assert isinstance(desk.window.current, FleetScreen)
    return desk.window.current


def recorded(desk: ConsoleApplication) -> list[tuple[str, Target | None]]:
    opened: list[tuple[str, Target | None]] = []
    desk.window.open = lambda screen, target=None: opened.append((screen, target))  # type: ignore[method-assign]
    return opened


def test_stretches_of_health_cover_the_time_without_a_gap() -> None:
    now = datetime.now(UTC)
    changes = [
        HealthChange(at=(now - timedelta(minutes=ago)).isoformat(), health=health, reason=reason)
        for ago, health, reason in (
            (10, Health.STALE, "No heartbeat."),
            (60, Health.ONLINE, ""),
            (5, Health.ONLINE, ""),
        )
    ]
    spans = health_spans(changes, now)
    assert [span.health for span in spans] == ["online", "stale", "online"]
    assert spans[0].start == 0
    assert spans[-1].end == 1
    assert [one.end for one in spans[:-1]] == [one.start for one in spans[1:]]
    assert "No heartbeat." in spans[1].words
    assert health_spans([], now) == ()
    # Known for twelve seconds: the band ends now all the same, and of the rest of its minute it says nothing.
    young = [HealthChange(at=(now - timedelta(seconds=12)).isoformat(), health=Health.ONLINE)]
    (span,) = health_spans(young, now)
    assert [round(span.start, 3), span.end] == [0.8, 1]
    assert band_start(young, now) == (now - timedelta(minutes=1)).isoformat()
    assert band_start(changes, now) == changes[1].at


def test_lines_are_only_drawn_for_what_a_device_tells() -> None:
    devices = {device.name: device for device in make_devices()}
    assert [one.title for one in device_series(devices["lab-lnx-01"])] == ["Round trip", "CPU", "Memory"]
    assert [one.title for one in device_series(devices["line2-board"])] == ["Round trip"]
    assert device_series(devices["kiosk-yard"]) == ()
    # What was measured before the link was lost is not so now.
    lost = devices["lab-lnx-01"].model_copy(update={"health": Health.OFFLINE, "tool_count": 0})
    assert no_tools_words(lost)[0] == "Its tools are not known."
    assert (
        no_tools_words(lost.model_copy(update={"health": Health.ONLINE}))[0] == "The device offers no tools."
    )
    assert lost.round_trips_ms
    assert lost.cpu_percents
    assert device_series(lost) == ()


async def test_the_overview_says_who_dials_what_was_agreed_and_how_it_was(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = page_of(desk, "edge-gw-11", "overview")
        overview = fleet.panel.overview
        await seen(lambda: overview.plot.spans)
        assert overview.facts.value("Link").text() == "is dialled at 10.4.2.11:5010, TLS"
        assert "cancel" in overview.facts.value("Client").text()
        assert overview.facts.value("Identity").text().startswith("sha256 ")
        assert "Stale from" in overview.plot.accessibleDescription()
        # The band goes on while the panel stays open: its end is always now.
        drawn = overview.plot.spans
        monkeypatch.setattr("app.screens.fleet.overview.REDRAW_S", 0.0)
        fleet.listing.due.emit()
        assert overview.plot.spans[-1].start < drawn[-1].start
        fleet = page_of(desk, "line2-board", "overview")
        await seen(lambda: "speaks plain AIP" in overview.facts.value("Client").text())


ODD = "GNP.exe\u202eexe.PNG\nClient  our own\tx"
AS_SEEN = "GNP.exe[U+202E]exe.PNG[U+000A]Client  our own[U+0009]x"


async def test_no_word_of_a_device_hides_turns_around_or_makes_a_row_of_its_own(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    known = console.fleet["lab-lnx-01"]
    odd = {"system": ODD, "client": ODD, "platform": ODD, "agent": ODD}
    lost = {"health": Health.OFFLINE, "reason": ODD, "progress": "", "doing": ""}
    console.fleet["lab-lnx-01"] = known.model_copy(
        update={**odd, **lost, "unavailable": [Unavailable(tool=ODD, reason=ODD, how_to_fix=ODD)]}
    )

    async with open_window(theme, tmp_path, console) as desk:
        fleet = page_of(desk, "lab-lnx-01", "overview")
        facts = fleet.panel.overview.facts
        await seen(lambda: whole(facts.value("System").text()) == AS_SEEN)
        assert whole(facts.value("Client").text()).startswith(AS_SEEN)
        assert not {"\u202e", "\t"} & set(_shown(fleet))
    device = console.fleet["lab-lnx-01"]
    texts = [fact.value for fact in device_facts(device)]
    cells = [column.cell(device) for column in DEVICE_COLUMNS if column.cell is not None]
    cells += [column.cell(one) for one in device.unavailable for column in UNAVAILABLE_COLUMNS if column.cell]
    for cell in cells:
        texts += [cell_text(cell), cell.tip if isinstance(cell, Cell) else ""]
    texts.append(tool_title(make_tools(device)[0].model_copy(update={"tool_name": ODD})))
    assert AS_SEEN in texts
    assert not [text for text in texts if {"\u202e", "\n", "\t"} & set(text)]


def _shown(widget: QWidget) -> str:
    """Every text of the labels in a widget."""
    return "\x00".join(label.text() for label in widget.findChildren(QLabel))


async def test_refused_attempts_stand_on_the_page_with_peer_reason_and_count(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = page_of(desk, "lab-win-03", "link")
        tab = fleet.panel.link_tab
        await seen(lambda: tab.refused.rows_model.rowCount() == 2)
        newest = tab.refused.rows_model.items[0]
        assert newest.cells[1] == "10.4.9.31:51022"
        assert tab.refused.rows_model.items[1].cells[3] == "4"
        assert fleet.panel.tabs.tabText(fleet.panel.tabs.count() - 1) == "Link 5"
        page_of(desk, "lab-lnx-01", "link")
        await seen(tab.none_refused.isVisible)
        assert not tab.refused.isVisible()


async def test_the_doctor_names_the_first_thing_that_fails_and_what_to_do(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = page_of(desk, "lab-win-03", "link")
        doctor = fleet.panel.link_tab.doctor
        doctor.start.click()
        await seen(lambda: len(doctor.rows()) == 5)
        states = [row.check.state for row in doctor.rows()]
        assert states[2] is CheckState.FAILED
        assert doctor.summary.text().startswith("Certificate fails. If its certificate was renewed")
        assert "failed" in doctor.rows()[2].accessibleName()
        page_of(desk, "lab-lnx-01", "link")
        assert not doctor.rows()


def test_every_check_of_the_doctor_has_a_title() -> None:
    assert set(TITLES) == set(get_args(CheckName))
    assert all(title[0].isupper() for title in TITLES.values())


async def test_a_slow_doctor_shows_progress_and_can_be_cancelled(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.hold_back("doctor")

    async with open_window(theme, tmp_path, console) as desk:
        fleet = page_of(desk, "lab-lnx-01", "link")
        doctor = fleet.panel.link_tab.doctor
        doctor.start.click()
        await seen(doctor.progress.isVisible)
        assert not doctor.start.isEnabled()
        doctor.progress.cancel.click()
        assert not doctor.progress.isVisible()
        assert doctor.start.isEnabled()
        assert "Cancelled" in doctor.summary.text()


async def test_words_of_a_check_are_never_markup(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.checks = [Check(name="reach", state=CheckState.FAILED, found="<b>x</b>", next="Do it.")]

    async with open_window(theme, tmp_path, console) as desk:
        fleet = page_of(desk, "lab-lnx-01", "link")
        doctor = fleet.panel.link_tab.doctor
        doctor.run()
        await seen(lambda: doctor.rows())
        from app.widgets.labels import Label

        labels = doctor.rows()[0].findChildren(Label)
        assert all(label.textFormat() == Qt.TextFormat.PlainText for label in labels)


async def test_a_call_on_trial_asks_for_approval_like_any_other(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = page_of(desk, "lab-lnx-01", "try", "action::shell_execute")
        tab = fleet.panel.try_tab
        await seen(lambda: tab.call.text() == "Ask for approval…")
        assert tab.chosen() is not None
        tab.call.click()
        await seen(lambda: "Nothing was sent" in tab.outcome.text())
        assert "call" not in console.asked
        QTest.keyClicks(tab.form.inputs()[0], "uptime")
        tab.call.click()
        await seen(lambda: "waits for your approval" in tab.outcome.text())
        run = console.work.summaries()[0]
        assert run.devices == ["lab-lnx-01"]
        await seen(tab.outcome.open_approval.isVisible)
        opened = recorded(desk)
        tab.outcome.open_approval.click()
        tab.outcome.open_run.click()
        approval = next(one for one in console.queue.values() if one.run == run.id)
        assert opened == [("approvals", OpenApproval(approval.id)), ("runs", OpenRun(run.id))]


async def test_a_read_on_trial_runs_and_links_to_its_run(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = page_of(desk, "lab-lnx-01", "try", "data_collection::list_processes")
        tab = fleet.panel.try_tab
        await seen(lambda: tab.call.text() == "Call" and tab.call.isEnabled())
        tab.call.click()
        await seen(lambda: tab.outcome.text().endswith("is done."))
        assert tab.outcome.open_run.isVisible()
        assert not tab.outcome.open_approval.isVisible()


async def test_a_refused_trial_says_that_nothing_was_sent(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fail_next["call"] = DeviceError("lab-lnx-01 is offline.")

    async with open_window(theme, tmp_path, console) as desk:
        fleet = page_of(desk, "lab-lnx-01", "try", "data_collection::list_processes")
        tab = fleet.panel.try_tab
        await seen(lambda: tab.chosen() is not None and tab.call.isEnabled())
        tab.call.click()
        await seen(lambda: tab.outcome.text().startswith("Nothing was sent. lab-lnx-01 is offline."))


async def test_a_changed_tool_cannot_be_tried_before_its_review(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = page_of(desk, "build-lnx-03", "try", "action::indexer.rebuild")
        tab = fleet.panel.try_tab
        await seen(lambda: (tool := tab.chosen()) is not None and tool.changed)
        assert not tab.call.isEnabled()
        assert "It changed its definition: review it first" in tab.call.toolTip()


@pytest.mark.parametrize("change", ["changed its definition", "now claims low risk, no longer critical"])
async def test_a_blocked_tool_says_whether_it_or_only_what_its_device_claims_has_changed(
    theme: Theme, tmp_path: Path, change: str
) -> None:
    console = story()
    tools = console.tools_of["build-lnx-03"]
    for place, one in enumerate(tools):
        if one.changed:
            tools[place] = one.model_copy(update={"change": change})

    async with open_window(theme, tmp_path, console) as desk:
        overview = page_of(desk, "build-lnx-03", "overview").panel.overview
        said = f"indexer.rebuild {change}."
        await seen(lambda: overview.notice.isVisible() and said in overview.notice.accessibleName())
        tab = page_of(desk, "build-lnx-03", "tools", "action::indexer.rebuild").panel.tools_tab
        await seen(lambda: tab.details.notice.isVisible())
        assert tab.details.notice.accessibleName().startswith(f"It {change}.")


async def test_a_device_that_dials_cannot_be_reconnected_from_here(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(make_devices(), story().operators)

    async with open_window(theme, tmp_path, console) as desk:
        fleet = page_of(desk, "lab-win-03", "link")
        tab = fleet.panel.link_tab
        assert not tab.reconnect.isEnabled()
        page_of(desk, "lab-mac-01", "link")
        tab.reconnect.click()
        await seen(lambda: "reconnect" in console.asked)
        page_of(desk, "this-computer", "link")
        assert not tab.revoke.isEnabled()
        assert not tab.forget.isEnabled()


async def test_tab_goes_from_a_tab_through_what_stands_in_it_to_what_stands_below(
    theme: Theme, tmp_path: Path
) -> None:
    wanted = {
        "try": ["command, required", "timeout", "working_directory", "Ask for approval"],
        "link": ["Link of the device", "List tools again", "Settings", "Revoke", "Forget"],
    }

    async with open_window(theme, tmp_path, story()) as desk:
        panel = page_of(desk, "build-lnx-03", "overview").panel
        for tab, names in wanted.items():
            page_of(desk, "build-lnx-03", tab, "action::shell_execute")
            await seen(lambda: panel.tabs.tabText(1) == "Tools 11" and "high" in panel.try_tab.why.text())
            panel.tabs.setFocus()
            walked: list[str] = []
            while (at := QApplication.focusWidget()) is not panel.entries:
                assert at is not None
                assert len(walked) < 20
                walked.append(at.accessibleName().removesuffix("…"))
                QTest.keyClick(at, Qt.Key.Key_Tab)
            first = walked.index(names[0])
            assert walked[first : first + len(names)] == names
            assert walked[-2:] == ["Call a tool", "Replay"]


async def test_a_tab_is_made_when_it_is_first_wanted_and_shows_what_was_read_before(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        panel = page_of(desk, "build-lnx-03", "overview").panel
        await seen(lambda: panel.overview.table.rows_model.rowCount() and panel.overview.facts.value("Link"))
        await seen(lambda: panel.overview.plot.accessibleDescription())
        made = (ToolsTab, CallTab, HistoryTab, ConnectionTab)
        assert not [tab for kind in made for tab in panel.findChildren(kind)]
        asked = list(console.asked)
        panel.show_tab("tools", "action::write_file")
        assert panel.tools_tab.table.rows_model.rowCount() == panel.overview.table.rows_model.rowCount()
        for tab in ("try", "link"):
            panel.show_tab(tab)
        assert [panel.tools_tab.chosen(), panel.try_tab.chosen()] == [
            console.tool_named("build-lnx-03", "action::write_file")
        ] * 2
        assert panel.link_tab.refused.rows_model.rowCount() == 2
        assert console.asked == asked


async def test_the_tab_of_a_device_whose_tools_were_never_listed_has_no_number(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    never = console.fleet["this-computer"].model_copy(
        update={"health": Health.OFFLINE, "tool_count": 0, "reason": "It has never been connected."}
    )
    console.fleet["this-computer"] = never

    async with open_window(theme, tmp_path, console) as desk:
        bar = page_of(desk, "this-computer", "overview").panel.tabs
        await seen(lambda: bar.tabText(1) == "Tools —")
        assert bar.accessibleTabName(1) == "Tools, not known how many"
        page_of(desk, "build-lnx-03", "overview")
        await seen(lambda: bar.tabText(1) == "Tools 11")


async def test_a_device_that_is_shown_again_after_none_was_is_read_anew(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_window(theme, tmp_path, console) as desk:
        panel = page_of(desk, "lab-lnx-01", "overview").panel
        await seen(lambda: panel.overview.table.rows_model.rowCount() and "device_details" in console.asked)
        device = desk.state.devices["lab-lnx-01"]
        before = console.asked.count("tools"), console.asked.count("device_details")
        panel.show_device(None)
        panel.show_device(device)
        await seen(lambda: (console.asked.count("tools"), console.asked.count("device_details")) > before)
        await seen(lambda: panel.overview.table.rows_model.rowCount())


async def test_why_the_tools_cannot_be_read_stays_until_they_are_read_again(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.fail_next["tools"] = DeviceError("kiosk-yard is offline.")

    def said(place: QWidget) -> str:
        return " ".join(label.text() for label in place.findChildren(QLabel) if label.isVisible())

    async with open_window(theme, tmp_path, console) as desk:
        panel = page_of(desk, "kiosk-yard", "overview").panel
        place = panel.overview.place
        await seen(lambda: "The tools cannot be read. kiosk-yard is offline." in said(place))
        device = desk.state.devices["kiosk-yard"]
        panel.show_device(device.model_copy(update={"picture_at": None}))
        assert "The tools cannot be read. kiosk-yard is offline." in said(place)
        panel.show_device(device.model_copy(update={"health": Health.ONLINE}))
        assert "cannot be read" not in said(place)


def test_the_host_of_a_device_and_a_machine_that_is_held_are_facts_of_its_page():
    device = Device(
        name="lab-1",
        health=Health.OFFLINE,
        since="2026-11-27T00:00:00Z",
        direction="in",
        machine=Machine(identity="a" * 64, host="lab-1"),
        other_machine=Machine(identity="b" * 64, host="clone-2"),
    )
    facts = {fact.label: fact for fact in device_facts(device)}
    assert facts["Host"].value == "lab-1"
    assert "clone-2" in facts["Held"].value
    assert facts["Held"].tone == "warn"
