"""Buttons, fields, banners, progress, toasts: how they behave under hands and keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QPointF, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QLineEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.widgets.animation_timer import animation_timer_of
from app.widgets.badges import CountPill, ProductionTag, VerdictBadge
from app.widgets.banner import Banner
from app.widgets.buttons import Button, IconButton, Kind, Segmented
from app.widgets.copyable_text import CopyableText
from app.widgets.fields import DropDown, Field, SearchField, TextField
from app.widgets.image_view import ImageView
from app.widgets.labels import ElidedLabel, Label, Link, escaped_tooltip
from app.widgets.master_detail import MasterDetail
from app.widgets.progress import ProgressBar, Spinner
from app.widgets.property_list import Property, PropertyList, short_digest
from app.widgets.toast import Toast
from tests.fakes.window import apply_to_parts
from tests.gallery.pages import PAGES
from tests.gallery.render import main as render_gallery


@pytest.mark.parametrize("page", list(PAGES))
def test_every_control_has_a_name_and_a_hit_area_and_no_label_takes_markup(
    theme: Theme, qtbot: QtBot, page: str
) -> None:
    maker, size = PAGES[page]
    widget = maker()
    qtbot.addWidget(widget)
    widget.resize(*size)
    widget.show()
    for label in widget.findChildren(QLabel):
        assert label.textFormat() == Qt.TextFormat.PlainText, label.text()
    for child in widget.findChildren(QWidget):
        if child.focusPolicy() & Qt.FocusPolicy.TabFocus and child.isVisible() and child.parent() is not None:
            own = type(child).__module__.startswith("app.")
            assert child.accessibleName() or not own, child
            if own and isinstance(child, QAbstractButton):
                assert min(child.width(), child.height()) >= 24, (child.accessibleName(), child.size())
    for icon in widget.findChildren(IconButton):
        assert icon.toolTip()
        assert icon.accessibleName()


def test_the_gallery_renders_each_page_in_both_modes(
    theme: Theme, qapp: QApplication, tmp_path: Path
) -> None:
    assert render_gallery(["--out", str(tmp_path)]) == 0
    names = {path.stem for path in tmp_path.glob("*.png")}
    assert {f"{page}-{mode}" for page in PAGES for mode in ("dark", "light")} <= names
    apply_to_parts(theme, qapp)


@pytest.mark.parametrize("kind", ["primary", "normal", "danger", "ghost"])
def test_a_thousand_presses_tell_a_thousand_times(theme: Theme, qtbot: QtBot, kind: Kind) -> None:
    button = Button("Run", kind)
    qtbot.addWidget(button)
    pressed: list[bool] = []
    button.clicked.connect(lambda: pressed.append(True))
    for _ in range(1000):
        button.click()
    assert len(pressed) == 1000


def test_every_signal_of_the_components_survives_a_thousand_emits(theme: Theme, qtbot: QtBot) -> None:
    heard: list[object] = []
    segmented, banner, link = Segmented([("a", "A"), ("b", "B")], "x"), Banner(), Link("go")
    picture = ImageView()
    for widget in (segmented, banner, link, picture):
        qtbot.addWidget(widget)
    segmented.chosen.connect(heard.append)
    banner.acted.connect(heard.append)
    link.clicked.connect(lambda: heard.append(True))
    picture.zoom_changed.connect(heard.append)
    for number in range(1000):
        segmented.chosen.emit("a")
        banner.acted.emit("b")
        link.clicked.emit()
        picture.zoom_changed.emit(float(number))
    assert len(heard) == 4000


def test_enter_presses_the_focused_button_but_none_is_ever_the_default(theme: Theme, qtbot: QtBot) -> None:
    button = Button("Approve once", "primary")
    qtbot.addWidget(button)
    button.show()
    assert not button.isDefault()
    assert not button.autoDefault()
    with qtbot.waitSignal(button.clicked):
        QTest.keyClick(button, Qt.Key.Key_Return)


def test_a_disabled_button_says_why(theme: Theme, qtbot: QtBot) -> None:
    button = Button("Approve once", "primary")
    qtbot.addWidget(button)
    button.set_off("Scroll to the end first")
    assert not button.isEnabled()
    assert button.toolTip() == button.accessibleDescription() == "Scroll to the end first"
    button.set_off("")
    assert button.isEnabled()
    assert button.toolTip() == ""


def test_choosing_a_segment_tells_its_key_and_choosing_from_code_does_not(theme: Theme, qtbot: QtBot) -> None:
    segmented = Segmented([("a", "Unified"), ("b", "Bytes")], "Diff")
    qtbot.addWidget(segmented)
    segmented.show()
    with qtbot.assertNotEmitted(segmented.chosen):
        segmented.choose("b")
    assert segmented.current() == "b"
    first = segmented.findChildren(QAbstractButton)[0]
    with qtbot.waitSignal(segmented.chosen) as chosen:
        first.click()
    assert chosen.args == ["a"]


def test_arrow_keys_move_the_choice_of_a_segmented_control(theme: Theme, qtbot: QtBot) -> None:
    segmented = Segmented([("a", "Unified"), ("b", "Bytes")], "Diff")
    qtbot.addWidget(segmented)
    segmented.show()
    segmented.activateWindow()
    first = segmented.findChildren(QAbstractButton)[0]
    first.setFocus()
    qtbot.waitUntil(first.hasFocus)
    with qtbot.waitSignal(segmented.chosen) as chosen:
        QTest.keyClick(first, Qt.Key.Key_Right)
    assert chosen.args == ["b"]
    assert segmented.current() == "b"


def test_an_error_in_a_field_is_words_shape_and_description(theme: Theme, qtbot: QtBot) -> None:
    field = Field("timeout", TextField("timeout"), help_text="default 30")
    qtbot.addWidget(field)
    field.set_error("Not a number. Write whole seconds.")
    assert field.control.property("state") == "fail"
    assert field.control.accessibleDescription() == "Not a number. Write whole seconds."
    field.set_error("")
    assert field.control.accessibleDescription() == "default 30"


def test_escape_clears_a_search_first_and_leaves_the_second_to_others(theme: Theme, qtbot: QtBot) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    search = SearchField("Search", keys="Ctrl+K", parent=holder)
    holder.show()
    QTest.keyClicks(search, "abc")
    QTest.keyClick(search, Qt.Key.Key_Escape)
    assert search.text() == ""


def test_the_wheel_over_a_closed_choice_changes_nothing(theme: Theme, qtbot: QtBot) -> None:
    from PySide6.QtCore import QPoint as Point
    from PySide6.QtGui import QWheelEvent

    choice = DropDown("Retry")
    qtbot.addWidget(choice)
    choice.addItems(["never", "once"])
    event = QWheelEvent(
        QPointF(5, 5),
        QPointF(5, 5),
        Point(0, -120),
        Point(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    choice.wheelEvent(event)
    assert choice.currentText() == "never"
    assert not event.isAccepted()


def test_text_from_devices_is_never_markup(theme: Theme, qtbot: QtBot) -> None:
    hostile = "<img src=x><b>Approved</b>"
    label, facts = Label(hostile), PropertyList()
    facts.show_facts([Property(hostile, hostile, full=hostile)])
    for widget in (label, facts):
        qtbot.addWidget(widget)
    assert label.text() == hostile
    assert all(shown.textFormat() == Qt.TextFormat.PlainText for shown in facts.findChildren(QLabel))
    assert "<b>" not in escaped_tooltip(hostile)


def test_facts_keep_their_widgets_while_only_values_change(theme: Theme, qtbot: QtBot) -> None:
    facts = PropertyList()
    qtbot.addWidget(facts)
    facts.show_facts([Property("Actor", "a"), Property("Run", "r-1")])
    before = facts.value("Run")
    facts.show_facts([Property("Actor", "a"), Property("Run", "r-2")])
    assert facts.value("Run") is before
    assert before.text() == "r-2"
    facts.show_facts([Property("Other", "x")])
    with pytest.raises(KeyError):
        facts.value("Run")


def test_a_digest_is_shortened_as_people_compare_it() -> None:
    assert short_digest("9f3c" + "0" * 56 + "e210") == "sha256 9f3c … e210"
    assert short_digest("sha256:" + "9f3c" + "0" * 56 + "e210") == "sha256 9f3c … e210"


def test_a_cut_line_is_whole_in_its_tooltip(theme: Theme, qtbot: QtBot) -> None:
    label = ElidedLabel("a rather long line of words that will not fit")
    qtbot.addWidget(label)
    label.resize(80, 18)
    label.show()
    label.grab()
    assert "will not fit" in label.toolTip()
    label.resize(600, 18)
    label.grab()
    assert label.toolTip() == ""


def test_a_line_to_copy_is_shown_whole_at_any_width(theme: Theme, qtbot: QtBot) -> None:
    box = CopyableText("String to paste", lines=2)
    qtbot.addWidget(box)
    box.show_text("qd1." + "0123456789abcdef" * 24)
    box.show()
    text = box.box

    def is_whole() -> bool:
        last = text.blockBoundingGeometry(text.document().lastBlock())
        bottom = last.translated(text.contentOffset()).bottom()
        return bottom <= text.viewport().height() and text.verticalScrollBar().maximum() == 0

    for width in (900, 520, 300):
        box.resize(width, box.sizeHint().height())
        qtbot.waitUntil(is_whole)


def test_a_banner_says_its_words_and_tells_which_link_was_followed(theme: Theme, qtbot: QtBot) -> None:
    banner = Banner()
    qtbot.addWidget(banner)
    assert not banner.isVisible()
    banner.say(
        "fail", "Entry 9,412 does not match its hash.", "", (("show", "Show entry"), ("now", "What now"))
    )
    assert banner.isVisible()
    assert banner.accessibleName() == "Entry 9,412 does not match its hash."
    with qtbot.waitSignal(banner.acted) as acted:
        banner.findChildren(Link)[1].click()
    assert acted.args == ["now"]


def test_a_count_of_none_is_not_shown(theme: Theme, qtbot: QtBot) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    pill = CountPill(2, parent=holder)
    holder.show()
    pill.set_count(0)
    assert not pill.isVisible()
    pill.set_count(3)
    assert pill.isVisible()
    assert pill.accessibleName() == "3 waiting for you"


def test_the_shared_timer_runs_only_while_something_turns(theme: Theme, qtbot: QtBot) -> None:
    theme.set_reduced_motion(False)
    badge = VerdictBadge("running")
    qtbot.addWidget(badge)
    badge.show()
    pulse = animation_timer_of(badge)
    qtbot.waitUntil(lambda: pulse.running)
    badge.set_verdict("confirmed")
    qtbot.waitUntil(lambda: not pulse.running)


def test_the_shared_timer_survives_widgets_that_were_deleted(theme: Theme, qtbot: QtBot) -> None:
    theme.set_reduced_motion(False)
    kept = VerdictBadge("running")
    kept.show()
    pulse = animation_timer_of(kept)
    qtbot.waitUntil(lambda: pulse.running)
    shiboken6.delete(kept)
    qtbot.waitUntil(lambda: not pulse.running)


def test_nothing_turns_with_reduced_motion(theme: Theme, qtbot: QtBot) -> None:
    badge, spinner, bar = VerdictBadge("running"), Spinner(), ProgressBar()
    for widget in (badge, spinner, bar):
        qtbot.addWidget(widget)
        widget.show()
        widget.grab()
    bar.set_share(None)
    bar.grab()
    qtbot.waitUntil(lambda: not animation_timer_of(badge).running)


def test_a_toast_replaces_the_one_before_and_takes_no_focus(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(800, 600)
    field = QLineEdit(window)
    window.show()
    field.setFocus()
    toast = Toast(window)
    toast.say("Copied 3 rows.")
    toast.say("Exported.")
    assert toast.words() == "Exported."
    assert not toast.hasFocus()


def test_a_toast_goes_after_its_time_and_with_its_window(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(800, 600)
    window.show()
    toast = Toast(window)
    timer = toast.findChild(QTimer)
    assert timer is not None
    toast.say("Copied.")
    assert timer.isActive()
    assert timer.interval() == 4000
    timer.timeout.emit()
    assert not toast.isVisible()
    toast.say("Copied.")
    window.hide()
    window.show()
    assert not toast.isVisible()


def test_a_mark_without_a_parent_never_becomes_a_window(theme: Theme, qtbot: QtBot) -> None:
    marks: list[CountPill | ProductionTag] = [CountPill(3), ProductionTag(), ProductionTag(2), CountPill(0)]
    marks[3].set_count(1)
    field = Field("Name", TextField("Name"), required=True)
    assert not any(mark.isVisible() for mark in marks)
    pane = QWidget()
    qtbot.addWidget(pane)
    column = QVBoxLayout(pane)
    for mark in (*marks, field):
        column.addWidget(mark)
    pane.show()
    assert all(mark.isVisible() for mark in marks)
    marks[0].set_count(0)
    assert not marks[0].isVisible()
    marks[0].set_count(2)
    assert marks[0].isVisible()


def test_of_two_panes_one_is_given_its_size_and_the_other_the_rest(theme: Theme, qtbot: QtBot) -> None:
    rows, details = QWidget(), QWidget()
    split = MasterDetail(rows, details, (500, 400), rows)
    qtbot.addWidget(split)
    split.resize(901, 200)
    split.show()
    split.set_size(details, 320)
    assert split.sizes() == [580, 320]
    split.resize(1001, 200)
    assert split.sizes() == [680, 320]


def test_an_icon_that_is_off_is_fainter_than_one_that_is_on(theme: Theme, qtbot: QtBot) -> None:
    button = IconButton("undo", "Undo")
    qtbot.addWidget(button)
    button.show()
    qtbot.waitExposed(button)
    on = strongest(button)
    button.setEnabled(False)
    # By the tokens alone it would be four fifths.
    assert strongest(button) < on * 0.6


def strongest(widget: QWidget) -> int:
    """How far the strongest pixel is from the ground."""
    picture = widget.grab().toImage()
    ground = picture.pixelColor(0, 0).lightness()
    points = [(x, y) for x in range(picture.width()) for y in range(picture.height())]
    return max(abs(picture.pixelColor(x, y).lightness() - ground) for x, y in points)


@pytest.mark.qt_log_ignore("This plugin does not support")  # the list that opens, off screen
def test_the_list_of_a_drop_down_has_a_border(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    theme.dress(window)
    choice = DropDown("Theme", parent=window)
    choice.addItems(["Dark", "Light"])
    qtbot.addWidget(window)
    window.show()
    choice.showPopup()
    qtbot.waitUntil(choice.view().isVisible)
    picture, edge = choice.view().grab().toImage(), theme.color("border2")
    right, bottom = picture.width() - 1, picture.height() - 1
    middle = (picture.width() // 2, picture.height() // 2)
    corners = ((middle[0], 0), (middle[0], bottom), (0, middle[1]), (right, middle[1]))
    assert [picture.pixelColor(*corner) for corner in corners] == [edge] * 4
    choice.hidePopup()
