"""What would change in a file and where a click would go: whole, and nothing in it invisible."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QFont
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.screens.approvals.content_section import ContentSection
from app.screens.approvals.preview_section import age_words
from app.screens.approvals.request_payload import Part
from app.screens.approvals.target_preview import place_plate
from app.screens.targets import OpenApproval
from app.theme.theme import Theme
from app.widgets.diff_layout import shown_line
from app.widgets.text_diff import Kind, diff_of, shows_all_of
from core.approvals.preview_models import Helper, Preview, Region
from core.errors import DeviceError
from tests.fakes.approvals_desk import CTRL, KEYS, DeskWith, make_approval, press
from tests.fakes.pictures import desktop_png


def write(content: str, **more: Any) -> Any:
    parameters = {"file_path": "/etc/motd", "content": content, "mode": more.pop("mode", "overwrite")}
    return make_approval(1, tool="write_file", parameters=parameters, summary="Overwrites motd", **more)


def lines_of(before: str, after: str) -> list[str]:
    signs = {Kind.SAME: " ", Kind.REMOVED: "-", Kind.ADDED: "+", Kind.FOLD: "@"}
    return [f"{signs[line.kind]}{line.text}" for line in diff_of(before, after).lines]


def test_lines_come_and_go_with_their_numbers_and_changed_words() -> None:
    found = diff_of("a\nsize = 300\nz\n", "a\nsize = 600\nz\nnew\n")
    assert found.words() == "2 lines added, 1 removed"
    gone, come = found.lines[1], found.lines[2]
    assert (gone.old, gone.new, come.old, come.new) == (2, None, None, 2)
    assert [gone.text[start:end] for start, end in gone.changed] == ["300"]
    assert [come.text[start:end] for start, end in come.changed] == ["600"]


def test_what_is_the_same_and_far_away_is_folded_and_nothing_else() -> None:
    before = "".join(f"{n}\n" for n in range(40))
    after = before.replace("20\n", "twenty\n")
    found = diff_of(before, after)
    folds = [line for line in found.lines if line.kind is Kind.FOLD]
    assert [len(fold.hidden) for fold in folds] == [17, 16]
    assert folds[-1].at_end
    assert sum(len(line.hidden) or 1 for line in found.lines) == 41


def test_a_missing_line_end_and_other_line_ends_show() -> None:
    assert diff_of("a\n", "a").lines[-1].no_end
    assert shown_line(diff_of("a\n", "a\r\n").lines[-1], QFont()).text == "aU+000D"


def test_a_hidden_character_in_a_file_is_written_out_and_marked() -> None:
    shown = shown_line(diff_of("", "rm \u202e/tmp\u200b x\n").lines[0], QFont())
    assert "\u202e" not in shown.text
    assert [mark.name for mark in shown.marks] == ["U+202E", "U+200B"]


def test_large_files_are_compared_in_no_time() -> None:
    before = "".join(f"line {n}\n" for n in range(20_000))
    after = "".join(f"other {n}\n" for n in range(20_000))
    assert diff_of(before, after).added == 20_000
    assert diff_of(before, before + "x\n").added == 1


def test_a_preview_that_does_not_show_what_is_sent_is_known() -> None:
    assert shows_all_of("new", "old", "new")
    assert shows_all_of("new", "old", "oldnew")
    assert not shows_all_of("evil", "old", "harmless")
    assert not shows_all_of("evil", "old", "evil and more")
    assert not shows_all_of("x", None, None)


async def test_a_preview_of_earlier_contents_is_not_shown_over_the_newer_ones(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        desk.console.files["lab-lnx-01", "/etc/motd"] = "one\n"
        late, asked = asyncio.Event(), list[str]()

        async def preview(approval: str) -> Preview:
            answer = await desk.console.on_preview(approval)
            asked.append(answer.after or "")
            if len(asked) == 1:
                await late.wait()
            return answer

        desk.console.answer("preview", preview)
        await desk.open(write("one\nharmless\n"))
        await desk.until(lambda: asked)
        desk.console.request(write("evil\n"))
        summary = desk.screen.card.header.summary
        await desk.until(lambda: summary.text() == "Overwrites motd: 1 line added, 1 removed")
        late.set()
        for _ in range(5):
            await asyncio.to_thread(int)
            await asyncio.sleep(0)
        assert asked == ["one\nharmless\n", "evil\n"]
        assert summary.text() == "Overwrites motd: 1 line added, 1 removed"


async def test_a_file_request_shows_its_change_with_the_bytes_one_press_away(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        desk.console.files["lab-lnx-01", "/etc/motd"] = "one\ntwo\n"
        await desk.open(write("one\n2\n"))
        content = desk.screen.card.bytes
        await desk.until(content.diff.isVisible)
        assert content.head.title.text() == "What would change"
        assert desk.screen.card.header.summary.text() == "Overwrites motd: 1 line added, 1 removed"
        assert not content.box.isVisible()
        content.views.chosen.emit("bytes")
        assert content.box.isVisible()
        assert content.box.exact_bytes == b"one\n2\n"
        content.copy.click()
        assert bytes(QApplication.clipboard().mimeData().data("application/octet-stream")) == b"one\n2\n"


def test_when_the_old_content_was_read_is_never_cut_off(theme: Theme, qtbot: QtBot) -> None:
    part = ContentSection("Exactly what will be sent")
    qtbot.addWidget(part)
    part.show_part(Part("parameters.content", b"line\n"))
    part.facts.setText("698 bytes   no hidden characters   old content read 10:39:51")
    part.show()
    for width in (900, 460, 360):
        part.resize(width, 300)
        qtbot.waitUntil(lambda: part.facts.height() >= part.facts.heightForWidth(part.facts.width()))
        assert part.facts.wordWrap()


async def test_a_change_that_does_not_show_all_bytes_stays_behind_them(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        lie = Preview(kind="file", before="a\n", after="b\n", label="/etc/motd")
        desk.console.previews["a-0001"] = lie
        await desk.open(write("rm -rf /\n" * 40, risk="high"))
        content = desk.screen.card.bytes
        await desk.until(content.views.isVisible)
        assert content.box.isVisible()
        content.views.choose("unified")
        content.views.chosen.emit("unified")
        await desk.until(lambda: content.diff.view.end_was_seen)
        assert not desk.screen.card.end_was_seen
        assert not desk.screen.bar.approve.isEnabled()


async def test_a_file_that_could_not_be_read_is_not_shown_as_new(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        unread = Preview(kind="file", after="b\n", label="/etc/motd", problem="The file is not text.")
        desk.console.previews["a-0001"] = unread
        await desk.open(write("b\n"))
        content = desk.screen.card.bytes
        await desk.until(lambda: "not text" in content.head.hint.text())
        assert content.box.isVisible()
        assert not content.views.isVisible()
        assert "added" not in desk.screen.card.header.summary.text()


async def test_high_risk_in_a_file_wants_the_changes_end_seen(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        await desk.open(write("".join(f"line {n}\n" for n in range(60)), risk="high"))
        content, bar = desk.screen.card.bytes, desk.screen.bar
        await desk.until(content.diff.isVisible)
        assert not bar.approve.isEnabled()
        view = content.diff.view
        view.setFocus()
        QTest.keyClick(view, KEYS.Key_End)
        await desk.until(bar.approve.isEnabled)


async def test_a_fold_opens_on_enter(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        old = "".join(f"{n}\n" for n in range(30))
        desk.console.files["lab-lnx-01", "/etc/motd"] = old
        await desk.open(write(old + "end\n"))
        view = desk.screen.card.bytes.diff.view
        await desk.until(view.isVisible)
        before = len(view.shown)
        view.setFocus()
        QTest.keyClick(view, KEYS.Key_Return)
        assert len(view.shown) == before + 26
        assert not {"decide", "decide_many"} & set(desk.console.asked)


async def test_the_change_of_one_card_never_shows_on_the_next(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        await desk.open(write("secret plan\n"))
        await desk.until(desk.screen.card.bytes.diff.isVisible)
        await desk.open(make_approval(2))
        content = desk.screen.card.bytes
        assert not content.diff.isVisible()
        assert not content.views.isVisible()
        assert content.diff.view.shown == []
        content.views.chosen.emit("unified")
        assert content.box.isVisible()


async def test_a_preview_that_comes_late_is_dropped(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        free = desk.console.hold_back("preview")
        await desk.open(write("first\n"))
        await desk.open(make_approval(2))
        free.set()
        await desk.until(lambda: "preview" in desk.console.asked)
        await desk.until(lambda: desk.shown().id == "a-0002")
        assert not desk.screen.card.bytes.views.isVisible()


@pytest.mark.parametrize("x", [0, 600, 1180])
@pytest.mark.parametrize("y", [0, 380, 770])
def test_the_words_hide_neither_target_nor_edge(x: int, y: int) -> None:
    bounds, target = QRectF(0, 0, 1280, 800), QRectF(x, y, 100, 30)
    plate = place_plate(bounds, target, QSizeF(260, 24), QPointF(x + 50, y + 15))
    assert bounds.contains(plate)
    assert not plate.intersects(target)


async def test_a_click_shows_the_last_picture_with_the_target_alone_bright(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        blob = desk.console.fake_journal.add_blob(desktop_png("stock", "macos", lines=10))
        desk.console.previews["a-0001"] = Preview(
            kind="screen",
            picture=blob,
            target=Region(x=900, y=600, width=140, height=40),
            point=(960, 620),
            label="push button “Post”, left click",
            taken_at="2026-01-01T10:00:00+00:00",
        )
        await desk.open(make_approval(1, tool="click_element", parameters={"control_id": "post"}))
        part = desk.screen.card.target
        await desk.until(lambda: not part.view.image().isNull())
        assert part.isVisible()
        assert "box 900, 600, 140 × 40" in part.box.text()
        shot = part.view.grab().toImage()
        inside = part.view.to_view(QRectF(905, 604, 4, 4)).center().toPoint()
        beside = part.view.to_view(QRectF(905, 500, 4, 4)).center().toPoint()
        bright, dim = shot.pixelColor(inside).lightness(), shot.pixelColor(beside).lightness()
        plain = part.view.image()
        assert abs(bright - plain.pixelColor(906, 605).lightness()) < 12
        assert dim < 0.75 * plain.pixelColor(906, 501).lightness()
        assert not part.view.plate.intersects(part.view.to_view(part.view.target))


def on_screen(desk: Any, **more: Any) -> Preview:
    """A preview with a picture that is 14 seconds old."""
    blob = desk.console.fake_journal.add_blob(desktop_png("stock"))
    stamp = "2026-01-01T10:00:00+00:00"
    return Preview(kind="screen", picture=blob, taken_at=stamp, age_s=14.0, **more)


async def test_the_age_of_the_picture_grows_on_the_card_and_moves_nothing(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        desk.console.previews["a-0001"] = on_screen(desk, point=(9, 9), compared=True)
        await desk.open(make_approval(1, tool="click_element", parameters={"control_id": "post"}))
        part = desk.screen.card.target
        await desk.until(lambda: not part.view.image().isNull())
        hint, focus = part.head.hint, QApplication.focusWidget()
        assert hint.text().endswith(", 10 s old")
        assert part.held.isVisible()
        assert "the command is held" in part.held.text()
        start = part.clock()
        part.clock = lambda: start + 600
        desk.screen.pane.show_time()
        assert hint.text().endswith(", 10 min old")
        assert hint.accessibleName() == f"Age of the picture: {hint.text()}"
        assert hint.property("tone") == "warn"
        assert QApplication.focusWidget() is focus


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (4.9, "just now"),
        (5, "5 s old"),
        (59, "55 s old"),
        (60, "1 min old"),
        (7300, "2 h old"),
    ],
)
def test_an_age_is_said_in_words(seconds: float, words: str) -> None:
    assert age_words(seconds) == words


async def test_what_is_wrong_with_the_picture_is_said_in_full(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        problem = "No picture could be taken: it is busy. This one is older; nothing is compared with it."
        desk.console.previews["a-0001"] = on_screen(desk, problem=problem)
        await desk.open(make_approval(1, tool="click_element", parameters={"control_id": "post"}))
        part = desk.screen.card.target
        await desk.until(lambda: not part.view.image().isNull())
        assert part.held.text() == problem
        assert part.held.wordWrap()
        assert part.held.property("tone") == "warn"


async def test_a_picture_that_is_taken_on_the_card_renews_it(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        desk.console.previews["a-0001"] = on_screen(desk, point=(9, 9))
        take = Helper(id="h", title="Take a picture", device="lab-lnx-01", tool="screenshot", parameters={})
        desk.console.helpful["a-0001"] = [take]
        await desk.open(make_approval(1, tool="click_element", parameters={"control_id": "post"}))
        part = desk.screen.card.target
        await desk.until(lambda: not part.view.image().isNull())
        desk.console.previews["a-0001"] = on_screen(desk, point=(200, 200))
        desk.screen.card.helpers.run_asked.emit(take)
        await desk.until(lambda: part.view.target.center() == QPointF(200, 200))


async def test_without_a_picture_the_card_says_why(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        desk.console.fail_next["preview"] = DeviceError("lab-lnx-01 is offline.")
        await desk.open(make_approval(1, tool="click_point", parameters={"x": 1, "y": 2}))
        part = desk.screen.card.target
        await desk.until(lambda: "offline" in part.view.empty_text)
        assert part.view.image().isNull()
        assert not part.held.isVisible()


async def test_the_program_that_would_be_closed_is_shown_with_its_window(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        shown = "xterm, process 4711 with the window “not\x1b yours”"
        desk.console.previews["a-0001"] = Preview(
            kind="program", label=shown, taken_at="2026-11-01T10:00:00Z"
        )
        parameters = {"process_name": "xterm", "pid": 4711}
        await desk.open(
            make_approval(1, tool="close_application", parameters=parameters, summary="Closes it")
        )
        section = desk.screen.card.program
        await desk.until(lambda: "process 4711 with the window" in section.program.text())
        assert section.isVisible()
        assert "\x1b" not in section.program.text()
        assert section.head.hint.text().startswith("read ")


async def test_a_program_that_cannot_be_looked_at_is_said_to_be_unknown(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        desk.console.previews["a-0001"] = Preview(kind="program", problem="There is no process 4711 now.")
        await desk.open(
            make_approval(1, tool="close_application", parameters={"pid": 4711}, summary="Closes")
        )
        section = desk.screen.card.program
        await desk.until(lambda: section.program.text() == "There is no process 4711 now.")
        assert section.head.hint.text() == ""


async def test_an_answered_write_keeps_the_change_that_was_approved(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(2)]) as desk:
        desk.console.files["lab-lnx-01", "/etc/motd"] = "one\n"
        await desk.open(write("one\ntwo\n"))
        card = desk.screen.card
        await desk.until(lambda: "1 line added" in card.header.summary.text(), "the change is shown")
        await desk.until(desk.screen.bar.approve.isEnabled)
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: desk.shown().id == "a-0002", "the next card is open")
        desk.console.files["lab-lnx-01", "/etc/motd"] = "one\ntwo\n"
        previews = desk.console.asked.count("preview")
        desk.screen.enter(OpenApproval("a-0001"))
        await desk.until(lambda: desk.shown().id == "a-0001", "the answered card is open again")
        assert "1 line added" in card.header.summary.text()
        assert desk.console.asked.count("preview") == previews
