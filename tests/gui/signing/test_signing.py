"""The sheet that signs a change, what stands in it, and the banners of what another program changed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.main import ConsoleApplication
from app.records.asker import asker_words
from app.screens.approvals.text import unproved_words
from app.screens.fleet.pairing_dialog import start_pairing
from app.screens.journal.entry_text import actor_words
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenSection
from app.shell.session_controller import pending_words
from app.signing.change_text import change_facts, change_title
from app.text import person_words
from app.theme.theme import Theme
from app.widgets.banner import Banner
from app.widgets.buttons import IconButton
from app.widgets.labels import Link
from app.widgets.line_breaks import whole
from app.widgets.sentences import MOST_SHOWN, Sentences
from core.approvals import operator_keys
from core.approvals.operator_keys import KeyFile
from core.audit.entries import Entry, Kind
from core.changes import Change, ChangeKind
from core.errors import ErrorCode, Refused, ServiceError
from core.home import Home
from core.policy.models import Profile
from core.replay.titles import title_of
from core.service.console import PolicyStatus
from tests.fakes.approvals_desk import make_approval
from tests.fakes.console import FakeConsole
from tests.fakes.sign_sheets import PHRASE, do_not_sign, operator_of, sign, sign_sheet, sign_sheets
from tests.fakes.window import open_frame, seen
from tests.gui.page import link_in, problem_in, scroller_of, visible
from tests.gui.shell.page import banner_with

SMALLEST = (1024, 640)
CTRL = Qt.KeyboardModifier.ControlModifier


def banners(desk: ConsoleApplication) -> list[str]:
    return desk.window.notices.words()


def press_where_the_keyboard_is(key: Qt.Key, modifier: Qt.KeyboardModifier | None = None) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, key, modifier or Qt.KeyboardModifier.NoModifier)


# What a change is called


def test_every_kind_of_change_has_a_title_and_every_value_a_line() -> None:
    for kind in ChangeKind:
        change = Change(
            kind=kind, subject="db-4/action::x", before={"a": 1, "b": []}, after={"a": 2, "c": ""}
        )
        assert change_title(change).startswith("Sign")
        facts = {fact.label: fact.value for fact in change_facts(change)}
        assert facts == {"a now": "1", "a then": "2", "c": "—", "b now": "—"}


def test_hidden_characters_of_a_subject_or_value_are_written_out() -> None:
    change = Change(kind=ChangeKind.CONTRACT, subject="d/x\u202ey", after={"agent": "a\u200bb\nc"})
    assert "\u202e" not in change_title(change)
    [fact] = change_facts(change)
    assert fact.full == "a[U+200B]b[U+000A]c"
    assert whole(fact.value) == fact.full, "only with places where a line may end"


def test_sentences_of_a_service_are_plain_text_with_hidden_characters_written_out(theme: Theme) -> None:
    card = Sentences("What changes")
    card.show_sentences(["<b>bold</b> \u202eeb", *("x" for _ in range(MOST_SHOWN + 5))])
    words = [label.text() for label in card.findChildren(QLabel)]
    assert words[0].startswith("<b>bold</b>")
    assert "\u202e" not in words[0]
    assert words[-1] == "6 more are not listed here."
    assert all(label.textFormat() is Qt.TextFormat.PlainText for label in card.findChildren(QLabel))
    card.show_sentences(["One."])
    assert card.accessibleName() == "What changes: One."


# The sheet


async def test_a_long_difference_has_to_be_read_to_its_end_before_it_can_be_signed_by_keyboard_alone(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path, passphrase=PHRASE)])
    rules = "".join(f'\n[[rule]]\nid = "more-{n}"\ndecision = "allow"\ntool = "x{n}"\n' for n in range(12))

    async with open_frame(theme, tmp_path, console, size=SMALLEST) as desk:
        desk.window.activateWindow()
        await seen(desk.window.isActiveWindow)
        console.changed_by_another_program(console.policy_on_disk + rules)
        await seen(lambda: banners(desk))
        desk.window.control.start_accept()
        sheet = await sign_sheet(desk)
        assert QApplication.focusWidget() is scroller_of(sheet)
        assert scroller_of(sheet).verticalScrollBar().value() == 0
        assert not sheet.sign.isEnabled()
        press_where_the_keyboard_is(Qt.Key.Key_Return, CTRL)
        assert sheet.signed is None
        # In this low window the sheet itself scrolls as well: the Tab key leads through all of it.
        for _ in range(12):
            if sheet.sign.isEnabled():
                break
            press_where_the_keyboard_is(Qt.Key.Key_Tab)
            assert sheet.isAncestorOf(QApplication.focusWidget() or desk.window)
            press_where_the_keyboard_is(Qt.Key.Key_End)
            await seen(lambda: True)
        await seen(sheet.sign.isEnabled)
        while QApplication.focusWidget() is not (sheet.unlock and sheet.unlock.secret):
            press_where_the_keyboard_is(Qt.Key.Key_Tab)
        QTest.keyClicks(QApplication.focusWidget(), PHRASE)
        press_where_the_keyboard_is(Qt.Key.Key_Return, CTRL)
        await seen(lambda: not console.policy_status.pending)
        assert len(console.signed) == 1


async def test_the_keyboard_starts_on_cancel_stays_inside_and_goes_back_to_where_it_was(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])

    async with open_frame(theme, tmp_path, console) as desk:
        window = desk.window
        window.activateWindow()
        await seen(window.isActiveWindow)
        await seen(lambda: desk.keys.unlocked)
        pairing = start_pairing(window, desk.state, desk.link, window)
        pairing.name_field.setText("db-4")
        pair = pairing.answer("pair")
        await seen(pair.isEnabled)
        pair.setFocus(Qt.FocusReason.TabFocusReason)
        press_where_the_keyboard_is(Qt.Key.Key_Return)
        sheet = await sign_sheet(desk)
        assert QApplication.focusWidget() is sheet.answer("cancel")
        # The press that opened it, made twice, signs nothing.
        found: list[QWidget | None] = []
        for _ in range(4):
            press_where_the_keyboard_is(Qt.Key.Key_Tab)
            found.append(QApplication.focusWidget())
        assert sheet.sign in found
        assert all(one is not None and sheet.isAncestorOf(one) for one in found)
        QTest.keyClick(window, Qt.Key.Key_Escape)
        await seen(lambda: not sign_sheets(desk))
        assert pairing.isVisible(), "Esc puts away the innermost only"
        await seen(pair.isEnabled)
        assert QApplication.focusWidget() is pair
        press_where_the_keyboard_is(Qt.Key.Key_Return)
        await sign_sheet(desk)
        press_where_the_keyboard_is(Qt.Key.Key_Return)
        await seen(lambda: not sign_sheets(desk))
        assert console.signed == []
        assert "pair" not in console.asked
        pairing.dismiss()


async def test_the_sheet_and_its_parts_are_named_for_assistive_technology(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path, passphrase=PHRASE)])

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(desk)
        assert sheet.accessibleName() == "Sign this change of the policy"
        assert "The profile becomes trusted; it was guarded." in sheet.accessibleDescription()
        assert sheet.sign.accessibleName() == "Sign and apply"
        assert sheet.facts.accessibleName() == "What is signed"
        assert sheet.diff.accessibleName() == "What would change: 1 line added, 1 removed"
        assert sheet.unlock is not None
        assert sheet.unlock.secret.accessibleName() == "Passphrase of harbour"
        await do_not_sign(desk)


async def test_another_operator_can_be_chosen_to_sign(theme: Theme, tmp_path: Path) -> None:
    operators = [operator_of(tmp_path), operator_of(tmp_path, "quay", PHRASE)]
    console = FakeConsole(operators=operators)

    async with open_frame(theme, tmp_path, console) as desk:
        await desk.keys.unlock("harbour", None)
        desk.window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(desk)
        part = sheet.unlock
        assert part is not None
        assert part.file.name == "harbour"
        assert not part.secret.isVisible()
        part.who.setCurrentIndex(part.who.findData("quay"))
        assert part.secret.isVisible()
        assert "quay" in " ".join(fact.value for fact in sheet.facts.facts)
        QTest.keyClicks(part.secret, PHRASE)
        await sign(desk)
        await seen(lambda: console.policy_status.profile is Profile.TRUSTED)
        assert console.signed[0].statement.approver == "quay"


async def test_a_key_whose_file_was_exchanged_signs_nothing(theme: Theme, tmp_path: Path) -> None:
    stranger = operator_of(tmp_path / "other")
    operator_of(tmp_path)
    console = FakeConsole(operators=[stranger])

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(desk)
        await seen(lambda: "has a key here" in problem_in(sheet))
        assert not sheet.sign.isEnabled()
        assert sheet.unlock is None
        await do_not_sign(desk)
        assert console.proved == ""


async def test_an_act_that_fails_after_it_was_signed_is_told_where_it_was_asked_for(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    console.fail_next["set_profile"] = Refused(
        "The signature is for another change, or things changed meanwhile; look and sign again.",
        ErrorCode.APPROVAL_INVALID,
    )

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.choose_profile(Profile.TRUSTED)
        await sign(desk)
        await seen(lambda: any("look and sign again" in words for words in banners(desk)))
        assert console.policy_status.profile is Profile.GUARDED
        # Nothing of the first try is left in the way of the second.
        desk.window.choose_profile(Profile.TRUSTED)
        await sign(desk)
        await seen(lambda: console.policy_status.profile is Profile.TRUSTED)


async def test_a_service_that_is_lost_while_the_sheet_is_open_changes_nothing_and_says_so(
    theme: Theme, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    # The connection is opened again at its first try.
    console.fail_next["set_profile"] = ServiceError("The line broke.")

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.choose_profile(Profile.TRUSTED)
        await sign(desk)
        await seen(lambda: any("The line broke." in words for words in banners(desk)))
        assert console.policy_status.profile is Profile.GUARDED
    capsys.readouterr()


async def test_another_screen_puts_the_sheet_away_unsigned(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.choose_profile(Profile.TRUSTED)
        await sign_sheet(desk)
        desk.window.open("journal")
        await seen(lambda: not sign_sheets(desk))
        assert banners(desk) == []
        assert console.signed == []
        assert console.policy_status.profile is Profile.GUARDED


async def test_over_another_question_only_its_card_is_dimmed_once_more(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])

    theme.set_mode("light")
    async with open_frame(theme, tmp_path, console) as desk:
        window = desk.window
        pairing = start_pairing(window, desk.state, desk.link, window)
        pairing.name_field.setText("db-4")
        await seen(pairing.answer("pair").isEnabled)
        beside = QPoint(5, window.height() // 2)

        def light(point: QPoint) -> int:
            return window.grab().toImage().pixelColor(point).lightness()

        corner = pairing.card.mapTo(window, QPoint(20, pairing.card.height() - 6))
        before = light(beside), light(corner)
        pairing.answer("pair").click()
        sheet = await sign_sheet(desk)
        assert light(beside) == before[0]
        if not sheet.card.geometry().contains(sheet.mapFrom(window, corner)):
            assert light(corner) < before[1]
        await do_not_sign(desk)
        pairing.dismiss()


# Banners


def test_the_words_of_what_waits_name_the_files_and_count_the_things() -> None:
    status = PolicyStatus(profile=Profile.GUARDED)
    assert pending_words(status) == ("", "")
    fact, detail = pending_words(status.model_copy(update={"pending": ["One."]}))
    assert fact == "policy.toml was changed by another program."
    assert detail == "What it tightens holds; 1 thing it would loosen waits for your signature."
    both = {"pending": ["One.", "Two."], "pending_settings": ["Three."]}
    fact, detail = pending_words(status.model_copy(update=both))
    assert fact == "policy.toml and settings.toml were changed by another program."
    assert detail == "What it tightens holds; 3 things it would loosen wait for your signature."


async def test_the_banner_of_what_waits_leads_to_the_sheet_and_to_the_page(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])

    async with open_frame(theme, tmp_path, console) as desk:
        console.changed_by_another_program(console.policy_on_disk.replace("<=medium", "<=high"))
        await seen(lambda: banners(desk))
        desk.window.notices.dismiss_newest()
        assert banners(desk), "what is true cannot be put away"
        banner = banner_with(desk, "Look and accept…")
        link_in(banner, "Show in Settings").click()
        settings = desk.window.current
        assert isinstance(settings, SettingsScreen)
        assert settings.policy.tabs.current() == "accepted"
        link_in(banner, "Look and accept…").click()
        await sign(desk)
        await seen(lambda: not banners(desk))


async def test_a_banner_that_says_the_same_again_keeps_the_keyboard_on_its_link(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.activateWindow()
        await seen(desk.window.isActiveWindow)
        console.changed_by_another_program(console.policy_on_disk.replace("<=medium", "<=high"))
        await seen(lambda: banners(desk))
        link = link_in(desk.window.notices, "Look and accept…")
        link.setFocus(Qt.FocusReason.TabFocusReason)
        told: list[bool] = []
        desk.state.control_changed.connect(lambda: told.append(True))
        console.tell_control()
        await seen(lambda: told)
        assert QApplication.focusWidget() is link


async def test_what_does_not_count_is_told_whole_and_can_be_put_away_until_there_is_something_else(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    first = ["operators.json names mallory with a key that is not registered in the journal."]

    def tell(notes: list[str]) -> None:
        console.policy_status = console.policy_status.model_copy(update={"notes": notes})
        console.tell_control()

    async with open_frame(theme, tmp_path, console) as desk:
        tell(first)
        await seen(lambda: banners(desk))
        assert banners(desk)[0].startswith("1 thing in the files of this home does not count.")
        [banner] = visible(desk.window.notices, Banner)
        visible(banner, Link)[0].click()
        sheet = next(one for one in desk.window.findChildren(QWidget, "sheet") if one.isVisible())
        assert "mallory" in " ".join(label.text() for label in sheet.findChildren(QLabel))
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        visible(banner, IconButton)[0].click()
        await seen(lambda: not banners(desk))
        tell(first)
        tell([*first, "The accepted policy cannot be read, so everything asks."])
        await seen(lambda: banners(desk))
        assert banners(desk)[0].startswith("2 things")


async def test_a_policy_that_cannot_be_read_says_why_and_the_page_what_to_do(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    problem = "policy.toml is missing, and one was accepted; put it back or accept its absence."

    async with open_frame(theme, tmp_path, console) as desk:
        console.accepted_policy, console.policy_on_disk = console.policy_on_disk, ""
        console.policy_status = console.policy_status.model_copy(update={"problem": problem})
        console.tell_control()
        await seen(lambda: banners(desk))
        assert banners(desk) == [f"The policy cannot be read: everything asks. {problem}"]
        desk.window.open("settings", OpenSection("policy", tab="accepted"))
        settings = desk.window.current
        assert isinstance(settings, SettingsScreen)
        tab = settings.policy.accepted
        await seen(lambda: tab.accept.isVisible() and tab.restore.isVisible())
        tab.restore.click()
        assert settings.policy.editor.text() == console.accepted_policy
        settings.policy.work.save()
        await seen(lambda: console.policy_on_disk)
        assert console.signed == [], "what was accepted already needs no signature"


# Who asks


def test_people_are_called_by_what_is_proved_of_them() -> None:
    assert person_words("operator:harbour") == "harbour"
    assert person_words("window:root") == "root (not proved)"
    assert person_words("cli:root") == "cli:root"
    assert person_words("agent:clerk") == "agent:clerk"
    assert person_words("service") == "service"
    entry = Entry(seq=1, time="2026-01-01T00:00:00Z", kind=Kind.RUN_STARTED, actor="window:root")
    assert actor_words(entry) == "root (not proved)"
    assert asker_words("window:ro\u202eot") == "ro[U+202E]ot (not proved)"
    assert asker_words("agent:clerk") == "agent:clerk"


def test_the_card_says_why_one_operator_more_must_approve() -> None:
    plain = make_approval(1, approvers=2, askers=["harbour"])
    assert unproved_words(plain) == ""
    decision = plain.decision
    one = plain.model_copy(update={"approvers": 3, "askers": [""], "decision": decision})
    assert unproved_words(one) == "Asked without a proof of who asks, so one operator more must approve"
    edited = plain.model_copy(update={"approvers": 4, "askers": ["", "anna"], "decision": decision})
    assert "2 operators more" in unproved_words(edited)
    alone = make_approval(1, approvers=1, askers=[""])
    assert unproved_words(alone) == ""


def test_the_new_kinds_of_entries_have_words() -> None:
    def title(kind: Kind, **body: str) -> str:
        return title_of(Entry(seq=1, time="2026-01-01T00:00:00Z", kind=kind, actor="window:x", body=body))

    assert title(Kind.OPERATOR_REMOVED, operator="quay") == "An operator was removed: quay"
    assert title(Kind.SETTINGS_ACCEPTED)
    assert "not an operator" in title(Kind.CHANGE_REFUSED, problem="x is not an operator of this home.")


async def test_a_change_waits_to_be_signed_until_the_keys_are_read(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path, passphrase=PHRASE)])
    read, may_be_read = operator_keys.list_operator_keys, threading.Event()

    def slowly(home: Home) -> list[KeyFile]:
        assert may_be_read.wait(60)
        return read(home)

    monkeypatch.setattr(operator_keys, "list_operator_keys", slowly)

    async with open_frame(theme, tmp_path, console, wait=False) as desk:
        await seen(lambda: desk.state.loaded)
        desk.window.choose_profile(Profile.TRUSTED)
        sheet = await sign_sheet(desk)
        try:
            assert not sheet.sign.isEnabled()
            # Nothing is said of keys that are not known yet.
            assert not problem_in(sheet)
        finally:
            may_be_read.set()
        await seen(lambda: sheet.unlock is not None)
        await do_not_sign(desk)


def test_of_this_computers_file_what_differs_has_a_row_and_the_rest_is_counted() -> None:
    before = {"roots": ["/srv"], "approvers": 1, "tools_off": []}
    change = Change(
        kind=ChangeKind.SETTINGS,
        subject="settings.toml",
        before={"this-computer/device.toml": before},
        after={"this-computer/device.toml": before | {"roots": ["/srv", "/etc"]}},
    )
    facts = [(fact.label, fact.full or fact.value) for fact in change_facts(change)]
    assert [label for label, _ in facts] == ["roots now", "roots then", "device.toml"]
    assert "/etc" in facts[1][1]
    assert facts[2][1] == "2 values as accepted"
