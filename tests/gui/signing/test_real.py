"""What loosens, asked for in the window on a real service: signed as shown, or nothing is changed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.fleet.device_dialogs import start_edit
from app.screens.fleet.pairing_dialog import PairingDialog, start_pairing
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenSection
from app.theme.theme import Theme
from app.widgets.text_diff import Kind as LineKind
from core.aip.pairing import Pairing as Line
from core.aip.pairing import encode_pairing
from core.approvals.models import Operator
from core.approvals.operators import adding
from core.audit.entries import Kind
from core.changes import Change
from core.errors import Refused
from core.fleet.models import DeviceSettings
from core.policy.models import Profile
from core.service.api.methods import ApiMethod
from core.service.console import PolicyStatus
from core.service.rpc.client import RemoteConsole
from core.service.wishes import policy_change
from tests.fakes.sign_sheets import PHRASE, do_not_sign, press, sign, sign_sheet, sign_sheets
from tests.fakes.window import seen
from tests.fakes.window_on_service import Bay, open_on_service
from tests.gui.page import part_of, problem_in

ALLOW = '[[rule]]\nid = "mine"\ndecision = "allow"\ntool = "write_file"\nrisk = "<=high"\n'
TAGGED = '[[profiles]]\ntag = "prod"\nprofile = "lockdown"\n'


async def settings_of(bay: Bay, section: str, tab: str = "") -> SettingsScreen:
    bay.desk.window.activateWindow()
    bay.desk.window.open("settings", OpenSection(section, tab=tab))
    settings = bay.desk.window.current
    assert isinstance(settings, SettingsScreen)
    if section == "policy":
        await seen(lambda: settings.policy.work.base is not None and settings.policy.work.found is not None)
    return settings


async def status_of(bay: Bay) -> PolicyStatus:
    return (await bay.beside.service.state()).policy


async def test_a_policy_is_saved_by_a_signature_over_exactly_the_text_that_was_shown(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        page = (await settings_of(bay, "policy")).policy
        page.editor.replace_text(ALLOW)
        await seen(lambda: page.work.found is not None and page.work.found.ok)
        page.save.click()
        sheet = await sign_sheet(bay.desk)
        assert [line.text for line in sheet.diff.shown if line.kind is LineKind.ADDED] == ALLOW.splitlines()
        assert "Rule mine allows." in sheet.sentences.accessibleName()
        # Put away: the file, what holds, and what was typed are as they were.
        await do_not_sign(bay.desk)
        await seen(page.save.isEnabled)
        assert not bay.home.policy.exists()
        assert (await status_of(bay)).accepted == (await status_of(bay)).file
        assert page.editor.text() == ALLOW
        page.save.click()
        shown = await sign(bay.desk)
        await seen(lambda: not page.work.dirty)
        assert bay.home.policy.read_text() == ALLOW
        assert shown == policy_change(ALLOW).model_copy(update={"before": shown.before})
        entry, signed = await bay.signed_entry(Kind.POLICY_SAVED)
        assert signed.statement.change == shown
        assert signed.statement.approver == "harbour"
        assert bay.service.operators.check_change(signed).name == "harbour"
        assert entry.body["policy_pin"] == shown.after["sha256"]
        assert page.stand.text() == "Saved; this is in force"
        assert len(await bay.entries(Kind.POLICY_SAVED)) == 1
        assert await bay.entries(Kind.CHANGE_REFUSED) == []


async def test_what_only_tightens_is_saved_without_a_signature(theme: Theme, tmp_path: Path) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        page = (await settings_of(bay, "policy")).policy
        page.editor.replace_text(ALLOW.replace('"allow"', '"deny"'))
        await seen(lambda: page.work.found is not None and page.work.found.ok)
        page.save.click()
        await seen(lambda: not page.work.dirty and bay.home.policy.exists())
        [entry] = await bay.entries(Kind.POLICY_SAVED)
        assert "signed" not in entry.body
        assert sign_sheets(bay.desk) == []


async def test_a_laxer_profile_is_signed_and_a_stricter_one_is_not(theme: Theme, tmp_path: Path) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        bay.desk.window.choose_profile(Profile.TRUSTED)
        await do_not_sign(bay.desk)
        assert (await status_of(bay)).profile is Profile.GUARDED
        bay.desk.window.choose_profile(Profile.TRUSTED)
        shown = await sign(bay.desk)
        await seen(lambda: bay.desk.window.top_bar.profile.text() == "trusted")
        _, signed = await bay.signed_entry(Kind.PROFILE_CHANGED)
        assert signed.statement.change == shown
        bay.desk.window.choose_profile(Profile.GUARDED)
        await seen(lambda: bay.desk.window.top_bar.profile.text() == "guarded")
        assert sign_sheets(bay.desk) == []


async def test_commands_leave_again_after_a_signature_over_the_stop_that_was_shown(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        words = await bay.beside.service.stop_all()
        await seen(lambda: bay.desk.state.stopped)
        bay.desk.window.control.start_resume()
        await do_not_sign(bay.desk)
        assert (await bay.beside.service.state()).stopped
        bay.desk.window.control.start_resume()
        shown = await sign(bay.desk)
        assert shown.before == {"stopped": words}
        await seen(lambda: not bay.desk.state.stopped)
        _, signed = await bay.signed_entry(Kind.ALL_RESUMED)
        assert signed.statement.change == shown


def pairing_in(bay: Bay) -> PairingDialog:
    window = bay.desk.window
    return start_pairing(window, bay.desk.state, bay.desk.link, window)


async def test_a_device_that_dials_in_is_paired_by_a_signature_and_the_form_outlives_a_cancel(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        sheet = pairing_in(bay)
        sheet.name_field.setText("db-4")
        sheet.tags_field.setText("db lab")
        sheet.production.setChecked(True)
        await seen(sheet.answer("pair").isEnabled)
        sheet.answer("pair").click()
        await do_not_sign(bay.desk)
        await seen(sheet.answer("pair").isEnabled)
        assert (sheet.name_field.text(), sheet.tags_field.text()) == ("db-4", "db lab")
        assert problem_in(sheet) == ""
        assert bay.service.registry.find("db-4") is None
        sheet.answer("pair").click()
        shown = await sign(bay.desk)
        await seen(sheet.result.isVisible)
        made = {"direction": "in", "token_sha256": shown.after["token_sha256"]}
        assert shown.after == {**made, "tags": ["db", "lab"], "production": True, "agent": ""}
        _, signed = await bay.signed_entry(Kind.DEVICE_PAIRED)
        assert signed.statement.change == shown
        known = bay.service.registry.get("db-4")
        assert (known.tags, known.token_sha256) == (["db", "lab"], made["token_sha256"])
        sheet.dismiss()


async def test_a_device_that_listens_is_paired_by_a_signature_over_its_address_and_certificate(
    theme: Theme, tmp_path: Path
) -> None:
    string = encode_pairing(Line("ws://127.0.0.1:1/ws", "crane-2", "t" * 43, ""))

    async with open_on_service(theme, tmp_path) as bay:
        sheet = pairing_in(bay)
        part_of(sheet.form.direction, "The device listens").click()
        sheet.form.string_field.setPlainText(string)
        assert sheet.name_field.text() == "crane-2"
        sheet.answer("pair").click()
        await do_not_sign(bay.desk)
        await seen(sheet.answer("pair").isEnabled)
        assert sheet.form.string_field.toPlainText() == string
        assert bay.service.registry.find("crane-2") is None
        sheet.answer("pair").click()
        shown = await sign(bay.desk)
        await seen(sheet.result.isVisible)
        assert shown.after["url"] == "ws://127.0.0.1:1/ws"
        entry, signed = await bay.signed_entry(Kind.DEVICE_PAIRED)
        assert signed.statement.change == shown
        assert "t" * 43 not in entry.model_dump_json()
        sheet.dismiss()


async def test_tags_are_signed_where_the_policy_looks_at_them(theme: Theme, tmp_path: Path) -> None:
    async with open_on_service(theme, tmp_path, policy=TAGGED) as bay:
        await _paired(bay, "db-4", ["prod"])
        window = bay.desk.window
        edit = start_edit(window, bay.desk.link, bay.desk.state.devices["db-4"], window)
        field = edit.focusWidget()
        QTest.keyClick(field, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        QTest.keyClicks(field, "lab")
        edit.answer("save").click()
        await do_not_sign(bay.desk)
        await seen(edit.answer("save").isEnabled)
        assert bay.service.registry.get("db-4").tags == ["prod"]
        edit.answer("save").click()
        shown = await sign(bay.desk)
        assert (shown.before["tags"], shown.after["tags"]) == (["prod"], ["lab"])
        await seen(lambda: bay.desk.state.devices["db-4"].tags == ["lab"])
        _, signed = await bay.signed_entry(Kind.DEVICE_SET)
        assert signed.statement.change == shown


async def _paired(bay: Bay, name: str, tags: list[str]) -> None:
    after = {"direction": "in", "tags": tags}
    signed = await bay.signed_by("harbour", Change(kind="device_paired", subject=name, after=after))
    await bay.beside.devices.pair(name, DeviceSettings(tags=tags), signed)
    await seen(lambda: name in bay.desk.state.devices)


async def test_listening_for_other_machines_is_signed_and_for_this_one_is_not(
    theme: Theme, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])

    async with open_on_service(theme, tmp_path) as bay:
        devices = (await settings_of(bay, "devices")).devices
        before = bay.service.links.listening().address
        await seen(lambda: devices.address.text() == before)
        devices.address.setText(f"0.0.0.0:{port}")
        devices.listen.click()
        await do_not_sign(bay.desk)
        await seen(devices.listen.isEnabled)
        assert devices.address.text() == f"0.0.0.0:{port}"
        assert bay.service.links.listening().address == before
        devices.listen.click()
        shown = await sign(bay.desk)
        await seen(lambda: bay.service.links.listening().address == f"0.0.0.0:{port}")
        _, signed = await bay.signed_entry(Kind.LISTENING_CHANGED)
        assert signed.statement.change == shown
        await seen(lambda: not devices.listen.is_working)
        devices.address.setText(f"127.0.0.1:{port}")
        devices.listen.click()
        await seen(lambda: bay.service.links.listening().address == f"127.0.0.1:{port}")
        assert sign_sheets(bay.desk) == []


async def test_an_operator_is_added_and_removed_by_signatures_of_another_one(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        section = (await settings_of(bay, "operators")).operators
        for field, text in (
            (section.name_field, "quay"),
            (section.secret_field, PHRASE),
            (section.again_field, PHRASE),
        ):
            field.setText(text)
        section.make.click()
        shown = await sign(bay.desk)
        await seen(lambda: len(bay.desk.state.operators) == 2)
        quay = bay.service.operators.get("quay")
        assert shown == adding(quay)
        _, signed = await bay.signed_entry(Kind.OPERATOR_REGISTERED)
        assert (signed.statement.change, signed.statement.approver) == (shown, "harbour")
        section.table.choose("quay")
        await seen(section.remove.isEnabled)
        section.remove.click()
        sheet = await sign_sheet(bay.desk)
        assert sheet.unlock is not None
        who = sheet.unlock.who
        assert {who.itemData(at) for at in range(who.count())} == {"harbour", "quay"}
        shown = await sign(bay.desk)
        await seen(lambda: [known.name for known in bay.desk.state.operators] == ["harbour"])
        _, signed = await bay.signed_entry(Kind.OPERATOR_REMOVED)
        assert signed.statement.change == shown
        await seen(lambda: not section.remove.isVisible() or not section.remove.isEnabled())


async def test_a_locked_key_is_unlocked_in_the_sheet_and_a_wrong_passphrase_loses_nothing(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path, operators=(("harbour", PHRASE),)) as bay:
        window = bay.desk.window
        window.activateWindow()
        await seen(window.isActiveWindow)
        window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(bay.desk)
        assert sheet.unlock is not None
        secret = sheet.unlock.secret
        assert QApplication.focusWidget() is secret
        assert secret.accessibleName() == "Passphrase of harbour"
        QTest.keyClicks(secret, "not that one")
        QTest.keyClick(secret, Qt.Key.Key_Return)
        await seen(lambda: "wrong" in problem_in(sheet))
        assert QApplication.focusWidget() is secret
        assert secret.hasSelectedText()
        QTest.keyClicks(secret, PHRASE)
        QTest.keyClick(secret, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
        await seen(lambda: window.top_bar.profile.text() == "trusted")
        assert bay.desk.keys.unlocked == "harbour"
        assert await bay.entries(Kind.CHANGE_REFUSED) == []


async def test_a_program_that_presses_every_button_while_the_key_is_locked_loosens_nothing(
    theme: Theme, tmp_path: Path
) -> None:
    """As over the accessibility bus: texts set, buttons pressed, no passphrase known."""

    async with open_on_service(theme, tmp_path, operators=(("harbour", PHRASE),)) as bay:
        page = (await settings_of(bay, "policy")).policy
        page.editor.replace_text(f'profile = "trusted"\n{ALLOW}')
        await seen(lambda: page.work.found is not None and page.work.found.ok)
        page.save.click()
        sheet = await sign_sheet(bay.desk)
        assert sheet.unlock is not None
        # The end of the difference is in sight as soon as the sheet is laid out.
        await seen(sheet.sign.isEnabled)
        for guess in ("", "password1234", "harbour"):
            sheet.unlock.secret.setText(guess)
            sheet.say("")
            sheet.sign.click()
            await seen(lambda: problem_in(sheet) and not sheet.sign.is_working)
            assert sheet.signed is None
        await do_not_sign(bay.desk)
        bay.desk.window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(bay.desk)
        await seen(sheet.sign.isEnabled)
        sheet.sign.click()
        await seen(lambda: problem_in(sheet))
        await do_not_sign(bay.desk)
        assert not bay.home.policy.exists()
        assert (await status_of(bay)).profile is Profile.GUARDED
        line = {"command": "rm -rf ~"}
        assert (await bay.beside.policy.explain("this-computer", "shell_execute", line)).answer.value == "ask"
        assert await bay.entries(Kind.POLICY_SAVED, Kind.PROFILE_CHANGED, Kind.CHANGE_REFUSED) == []


async def test_in_a_home_without_operators_the_sheet_makes_the_first_one(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path, operators=()) as bay:
        bay.desk.window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(bay.desk)
        assert sheet.first_key is not None
        press(sheet)
        await seen(lambda: "at least 10 characters" in problem_in(sheet))
        sheet.first_key.name_field.setText("anna")
        sheet.first_key.secret.setText(PHRASE)
        await sign(bay.desk)
        await seen(lambda: bay.desk.window.top_bar.profile.text() == "trusted")
        assert [known.name for known in bay.desk.state.operators] == ["anna"]
        [entry] = await bay.entries(Kind.OPERATOR_REGISTERED)
        assert "signed" not in entry.body
        _, signed = await bay.signed_entry(Kind.PROFILE_CHANGED)
        assert signed.statement.approver == "anna"


async def test_what_changed_while_the_sheet_was_open_is_refused_told_and_can_be_signed_anew(
    theme: Theme, tmp_path: Path
) -> None:
    other = ALLOW.replace('"mine"', '"theirs"')

    async with open_on_service(theme, tmp_path) as bay:
        page = (await settings_of(bay, "policy")).policy
        page.editor.replace_text(ALLOW)
        await seen(lambda: page.work.found is not None and page.work.found.ok)
        page.save.click()
        sheet = await sign_sheet(bay.desk)
        # Another client has another policy accepted, and the file put back: only the accepted text differs.
        signed = await bay.signed_by("harbour", policy_change(other), other)
        await bay.beside.policy.save(other, page.work.base.digest if page.work.base else "", signed)
        bay.home.policy.unlink()
        press(sheet)
        await seen(lambda: not page.work.saving and page.banner.isVisible())
        assert "sign again" in page.banner.words() or "changed by another program" in page.banner.words()
        assert page.editor.text() == ALLOW
        assert not bay.home.policy.exists()
        [refused] = await bay.entries(Kind.CHANGE_REFUSED)
        assert "things changed meanwhile" in refused.body["problem"]


Lie = Callable[[Change], dict[str, Any]]


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(lambda change: {"subject": "db-5"}, id="another device"),
        pytest.param(lambda change: {"after": {**change.after, "tags": ["prod"]}}, id="other tags"),
        pytest.param(lambda change: {"after": {**change.after, "direction": "out"}}, id="another direction"),
        pytest.param(lambda change: {"after": {**change.after, "agent": "Mallory"}}, id="what was not asked"),
        pytest.param(lambda change: {"kind": "resume"}, id="another kind"),
    ],
)
async def test_a_service_that_proposes_something_else_gets_no_signature(
    theme: Theme, tmp_path: Path, lie: Lie, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        honest = bay.doors[-1].service.propose

        async def lying(wish: Change, text: str = "") -> Any:
            proposal = await honest(wish, text)
            changed = Change.model_validate({**proposal.change.model_dump(), **lie(proposal.change)})
            return proposal.model_copy(update={"change": changed})

        def never(_proposal: object) -> None:
            raise AssertionError("something was signed")

        monkeypatch.setattr(bay.doors[-1].service, "propose", lying)
        monkeypatch.setattr(bay.desk.keys, "sign_change", never)
        sheet = pairing_in(bay)
        sheet.name_field.setText("db-4")
        sheet.tags_field.setText("lab")
        await seen(sheet.answer("pair").isEnabled)
        sheet.answer("pair").click()
        await seen(lambda: "something else than what was asked for" in problem_in(sheet))
        assert sign_sheets(bay.desk) == []
        assert sheet.name_field.text() == "db-4"
        assert sheet.answer("pair").isEnabled()
        assert await bay.entries(Kind.DEVICE_PAIRED, Kind.CHANGE_REFUSED) == []
        sheet.dismiss()


async def test_a_policy_is_not_signed_beside_a_difference_that_is_not_its_own(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that are shown come with another answer than the proposal; both must be of one text."""

    async with open_on_service(theme, tmp_path) as bay:
        page = (await settings_of(bay, "policy")).policy
        page.editor.replace_text(ALLOW)
        await seen(lambda: page.work.found is not None and page.work.found.ok)
        honest = bay.doors[-1].policy.text

        async def lying() -> Any:
            # As if nearly nothing would change.
            return (await honest()).model_copy(update={"accepted": ALLOW + "# a comment\n"})

        monkeypatch.setattr(bay.doors[-1].policy, "text", lying)
        page.save.click()
        await seen(lambda: not page.work.saving and page.banner.isVisible())
        assert "Another policy was accepted meanwhile" in page.banner.words()
        assert sign_sheets(bay.desk) == []
        assert await bay.entries(Kind.POLICY_SAVED, Kind.CHANGE_REFUSED) == []
        assert page.editor.text() == ALLOW


async def test_what_another_program_wrote_stands_in_a_banner_and_holds_once_it_is_signed(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        window = bay.desk.window
        bay.home.policy.write_text(ALLOW)
        # Noticed when the service looks at the policy next: here, when another client reads it.
        await bay.beside.policy.text()
        await seen(lambda: window.notices.words())
        [words] = window.notices.words()
        assert words.startswith("policy.toml was changed by another program. What it tightens holds; 1 thing")
        allowed = {"file_path": str(tmp_path / "x"), "content": ""}
        assert (await bay.beside.policy.explain("this-computer", "write_file", allowed)).answer.value == "ask"
        page = (await settings_of(bay, "policy", "accepted")).policy
        await seen(lambda: page.stand.text() == "1 thing in it waits for a signature")
        assert "Rule mine allows." in page.accepted.pending.accessibleName()
        page.accepted.accept.click()
        await do_not_sign(bay.desk)
        assert window.notices.words() == [words]
        window.control.start_accept()
        shown = await sign(bay.desk)
        await seen(lambda: not window.notices.words())
        entry, signed = await bay.signed_entry(Kind.POLICY_SAVED)
        assert signed.statement.change == shown
        assert entry.body["by_file"] is True
        assert (
            await bay.beside.policy.explain("this-computer", "write_file", allowed)
        ).answer.value == "allow"
        await seen(lambda: page.stand.text() == "Saved; this is in force")


async def test_settings_that_another_program_wrote_are_accepted_after_the_policy_in_one_go(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        window = bay.desk.window
        settings = bay.home.path / "settings.toml"
        settings.write_text(settings.read_text().replace("127.0.0.1:0", "0.0.0.0:5000"))
        bay.home.policy.write_text(ALLOW)
        await bay.beside.policy.text()
        await seen(lambda: window.notices.words())
        assert "policy.toml and settings.toml were changed" in window.notices.words()[0]
        window.control.start_accept()
        assert (await sign(bay.desk)).kind.value == "policy"
        shown = await sign(bay.desk)
        assert shown.after["listen"] == "0.0.0.0:5000"
        await seen(lambda: not window.notices.words())
        entry, signed = await bay.signed_entry(Kind.SETTINGS_ACCEPTED)
        assert signed.statement.change == shown
        assert entry.body["settings"] == shown.after


async def test_a_missing_policy_is_told_and_put_back_without_a_signature_or_its_absence_accepted_with_one(
    theme: Theme, tmp_path: Path
) -> None:
    denies = ALLOW.replace('"allow"', '"deny"')

    async with open_on_service(theme, tmp_path, policy=denies) as bay:
        window = bay.desk.window
        bay.home.policy.unlink()
        await bay.beside.policy.text()
        await seen(lambda: any("everything asks" in words for words in window.notices.words()))
        page = (await settings_of(bay, "policy", "accepted")).policy
        await seen(lambda: page.accepted.restore.isVisible() and page.accepted.accept.isVisible())
        page.accepted.restore.click()
        assert page.editor.text() == denies
        await seen(page.save.isEnabled)
        page.save.click()
        await seen(bay.home.policy.exists)
        await seen(lambda: not window.notices.words())
        bay.home.policy.unlink()
        await bay.beside.policy.text()
        await seen(page.accepted.accept.isVisible)
        page.accepted.accept.click()
        sheet = await sign_sheet(bay.desk)
        assert "Rule mine (denies) is gone." in sheet.sentences.accessibleName()
        await sign(bay.desk)
        await seen(lambda: not window.notices.words())


async def test_the_window_proves_who_is_at_it_and_only_as_long_as_the_key_is_unlocked(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path, operators=(("harbour", PHRASE), ("quay", PHRASE))) as bay:
        desk = bay.desk
        identity = desk.window.identity

        async def asker() -> tuple[str, str]:
            run = await desk.link.perform(
                lambda console: console.runs.call("this-computer", "get_system_info", {})
            )
            [entry] = [one for one in await bay.entries(Kind.RUN_STARTED) if one.run == run.summary.id]
            return run.summary.actor, str(entry.body.get("operator", ""))

        actor, operator = await asker()
        assert (actor.partition(":")[0], operator) == ("window", "")
        await desk.keys.unlock("harbour", PHRASE)
        await seen(lambda: identity.proved == "harbour")
        assert await asker() == ("operator:harbour", "harbour")
        # Another operator is another connection: what the first one asked for stays theirs.
        await desk.keys.unlock("quay", PHRASE)
        await seen(lambda: identity.proved == "quay")
        assert await asker() == ("operator:quay", "quay")
        assert len(bay.doors) == 2
        desk.keys.lock()
        await seen(lambda: len(bay.doors) == 3 and not identity.proved and desk.link.connected)
        assert await asker() == (actor, "")


async def test_a_locked_key_opens_one_new_connection_however_late_its_state_is_read(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        desk = bay.desk
        await seen(lambda: desk.window.identity.proved == "harbour")
        invoke, reattach, answered = RemoteConsole.invoke, desk.link.reattach, asyncio.Event()
        openings: list[asyncio.Future[Any] | None] = []

        async def state_comes_late(
            self: RemoteConsole, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            if method.wire == "state":
                await answered.wait()
            return await invoke(self, method, args, kwargs)

        def counted() -> asyncio.Future[Any] | None:
            openings.append(reattach())
            return openings[-1]

        monkeypatch.setattr(RemoteConsole, "invoke", state_comes_late)
        monkeypatch.setattr(desk.link, "reattach", counted)
        desk.keys.lock()
        [opening] = openings
        assert opening is not None
        assert await opening
        desk.state.control_changed.emit()
        assert len(openings) == 1
        answered.set()
        await seen(lambda: not desk.window.identity.proved and desk.link.connected)
        assert len(bay.doors) == 2


async def test_the_proof_is_made_anew_after_the_connection_was_lost(theme: Theme, tmp_path: Path) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        desk = bay.desk
        await seen(lambda: desk.window.identity.proved == "harbour")
        await bay.server.close()
        await seen(lambda: not desk.link.connected and not desk.window.identity.proved)
        await bay.server.open()
        desk.link.try_now()
        await seen(lambda: desk.link.connected and desk.window.identity.proved == "harbour")
        run = await desk.link.perform(
            lambda console: console.runs.call("this-computer", "get_system_info", {})
        )
        assert run.summary.actor == "operator:harbour"
        assert len(bay.doors) == 2


async def test_a_key_that_is_not_the_registered_one_proves_and_signs_nothing(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        desk = bay.desk
        stranger = Operator(name="harbour", public_key="ab" * 32, has_passphrase=False)
        identity = desk.window.identity
        await seen(lambda: identity.proved == "harbour")
        desk.keys.lock()
        # The connection that follows brings the service's own list of operators.
        await seen(lambda: len(bay.doors) == 2 and not identity.proved and desk.link.connected)
        # As if the operator had been registered with another key than the one that lies here.
        desk.state.operators = [stranger]
        await desk.keys.unlock("harbour", None)
        assert not identity.proved
        desk.window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(desk)
        assert not sheet.sign.isEnabled()
        assert "has a key here" in problem_in(sheet)
        await do_not_sign(desk)
        assert await bay.entries(Kind.PROFILE_CHANGED, Kind.CHANGE_REFUSED) == []


async def test_a_signature_of_the_window_is_worth_nothing_for_a_second_act(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_on_service(theme, tmp_path) as bay:
        first = await bay.beside.service.stop_all()
        await seen(lambda: bay.desk.state.stopped)
        bay.desk.window.control.start_resume()
        await sign(bay.desk)
        await seen(lambda: not bay.desk.state.stopped)
        _, signed = await bay.signed_entry(Kind.ALL_RESUMED)
        assert await bay.beside.service.stop_all() == first, "the same change once more"
        with pytest.raises(Refused, match="used already"):
            await bay.beside.service.resume(signed)
        assert (await bay.beside.service.state()).stopped
