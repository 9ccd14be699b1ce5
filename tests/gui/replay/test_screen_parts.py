"""The replay's plain parts: the reel, the axis, words, and the shelf of pictures."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.screens.replay.film_strip import FilmStrip
from app.screens.replay.images import ImageDifference, ImagePair, Job, Problem, ReplayImages, ScaledImage
from app.screens.replay.moment_facts import moment_facts
from app.screens.replay.text import Clock, lasting, since_words, tool_icon
from app.screens.replay.time_axis import step_for, ticks_between
from app.screens.replay.timeline_index import TimelineIndex
from app.screens.replay.timeline_painter import label_of, place_beside
from app.screens.replay.timeline_view import TimelineView
from app.theme.theme import Theme
from core.replay.models import Frame, Moment, Span, Timeline
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, seen

BEGAN = "2026-01-01T10:35:04.500000Z"


def moment(seq: int, at: float, device: str | None = "a", call: str | None = None) -> Moment:
    return Moment(
        seq=seq,
        at=at,
        time=BEGAN,
        kind="result_recorded",
        title=f"moment {seq}",
        actor="agent:x",
        device=device,
        tool="screenshot",
        call_id=call,
    )


def frame(seq: int, blob: str | None, device: str = "a") -> Frame:
    return Frame(seq=seq, at=float(seq), time=BEGAN, tool="screenshot", device=device, blob=blob)


def timeline(moments: list[Moment], frames: list[Frame], spans: list[Span] | None = None) -> Timeline:
    lanes = list(dict.fromkeys(span.lane for span in spans or []))
    return Timeline(
        title="t",
        run="r",
        start=BEGAN,
        end=BEGAN,
        length_s=moments[-1].at if moments else 0.0,
        lanes=lanes,
        moments=moments,
        spans=spans or [],
        marks=[],
        frames=frames,
    )


def blobs(pair: tuple[Frame | None, Frame | None]) -> tuple[str | None, str | None]:
    before, after = pair
    return before and before.blob, after and after.blob


def test_pictures_are_those_of_the_moments_device_and_never_later_ones() -> None:
    frames = [frame(2, "a1"), frame(3, "b1", "b"), frame(4, None), frame(5, "a2")]
    moments = [moment(1, 1), moment(2, 2), moment(3, 3, "b"), moment(4, 4), moment(5, 5), moment(6, 6, None)]
    reel = TimelineIndex(timeline(moments, frames))
    shown = [blobs(reel.known_at(place)) for place in range(len(reel))]
    assert shown == [(None, None), (None, "a1"), (None, "b1"), (None, "a1"), ("a1", "a2"), ("a1", "a2")]


def test_a_picture_that_stays_the_same_is_no_change() -> None:
    moments = [moment(seq, seq) for seq in range(1, 6)]
    reel = TimelineIndex(timeline(moments, [frame(1, "x"), frame(2, "x"), frame(3, "y"), frame(5, "x")]))
    assert reel.changes == [2, 4]
    assert reel.next_change(0, 1) == 2
    assert reel.next_change(4, 1) is None
    assert reel.next_change(4, -1) == 2
    assert reel.next_change(0, -1) is None
    assert reel.pair_of(1) is None
    assert reel.pair_of(2) == ("x", "y")


def test_entries_that_are_missing_lead_to_the_one_before() -> None:
    reel = TimelineIndex(timeline([moment(10, 0), moment(20, 5)], []))
    assert [reel.at_seq(seq) for seq in (1, 10, 15, 20, 99)] == [0, 0, 0, 1, 1]
    assert [reel.at_time(at) for at in (-1, 0, 4.9, 5, 99)] == [0, 0, 0, 1, 1]
    assert reel.frame_at(0) is None


def test_search_wants_every_word() -> None:
    reel = TimelineIndex(timeline([moment(1, 0), moment(2, 1, "b")], []))
    assert reel.search("MOMENT screenshot") == [0, 1]
    assert reel.search("result recorded 2") == [1]
    assert reel.search("moment nothing") == []
    assert reel.search("   ") == []


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("seconds", [0.02, 1.0, 240.0, 86_400.0, 30 * 86_400.0])
def test_ticks_stand_apart_and_inside_the_range(seconds: float, relative: bool) -> None:
    ticks = ticks_between(0.0, seconds, 900, Clock(relative), BEGAN)
    assert 1 <= len(ticks.places) <= 10
    assert all(0 <= place <= seconds for place in ticks.places)
    assert step_for(seconds, 900) * 900 / seconds >= 96


def test_clock_ticks_stand_at_round_times() -> None:
    ticks = ticks_between(0.0, 240.0, 900, Clock(), BEGAN)
    # Where the clock is a quarter of an hour off, another minute is the round one.
    first = datetime.fromisoformat(BEGAN).astimezone() + timedelta(seconds=25.5)
    assert ticks.words[0] == f"{first:%H:%M:%S}"
    assert first.second == 30
    assert ticks.places[0] == pytest.approx(25.5)


def test_times_that_cannot_be_read_are_counted_from_the_beginning() -> None:
    assert Clock().words("yesterday", 61.25, exact=True) == "1:01.250"
    assert ticks_between(0.0, 10.0, 900, Clock(), "?").words[0] == "0:00"
    assert since_words(3723) == "1:02:03"
    assert [lasting(one) for one in (0.2124, 2.44, 41.2, 82.0)] == ["212 ms", "2.4 s", "41 s", "1:22"]


def test_what_an_entry_does_not_name_has_one_dash_in_one_type() -> None:
    nothing = moment(1, 0.0, device=None).model_copy(update={"tool": None})
    facts = {fact.label: fact for fact in moment_facts(nothing, Clock())}
    assert [(facts[label].value, facts[label].mono) for label in ("Device", "Tool")] == [("—", False)] * 2
    assert {fact.label: fact for fact in moment_facts(moment(1, 0.0), Clock())}["Tool"].mono


def test_tools_have_icons_and_unknown_ones_a_wrench() -> None:
    assert [tool_icon(name) for name in ("ui.click_element", "type_text", "EXEC_CLI", "x")] == [
        "click",
        "type",
        "shell",
        "tool",
    ]


def test_a_lane_tells_what_is_under_the_pointer(theme: Theme) -> None:
    spans = [
        Span(lane="a", start=0.0, end=2.0, kind="action", label="click", seq=1),
        Span(lane="a", start=6.0, end=None, kind="unknown", label="shell_execute", seq=2),
    ]
    lanes = TimelineView()
    lanes.resize(900, lanes.sizeHint().height())
    lanes.show_reel(TimelineIndex(timeline([moment(1, 0), moment(2, 10)], [], spans)), Clock(), frozenset())
    y = lanes.row_rect("a").center().y()
    assert lanes.thing_at(QPointF(lanes.x_at(1.0), y)) is spans[0]
    assert lanes.thing_at(QPointF(lanes.x_at(4.0), y)) is None
    assert lanes.thing_at(QPointF(lanes.x_at(9.0), y)) is spans[1]
    assert "not ended yet" in lanes.words_at(QPointF(lanes.x_at(9.0), y))
    assert label_of(spans[1]) == "shell_execute: unknown"
    lanes.deleteLater()


def test_words_beside_a_span_are_written_whole_or_not_at_all() -> None:
    within = (100.0, 1000.0)
    assert place_beside((200, 240), 80, [(200, 240)], within) == 246, "at its right"
    assert place_beside((940, 990), 80, [(940, 990)], within) == 854, "at its left, where the edge is near"
    assert place_beside((200, 240), 80, [(200, 240), (300, 310)], within) == 114, "another span is in the way"
    assert place_beside((940, 990), 80, [(860, 930), (940, 990)], within) is None
    assert place_beside((110, 990), 80, [(110, 990)], within) is None


def test_many_lanes_scroll_instead_of_growing(theme: Theme) -> None:
    spans = [Span(lane=f"d{number}", start=0, end=1, kind="action", label="x", seq=1) for number in range(20)]
    lanes = TimelineView()
    lanes.show_reel(
        TimelineIndex(timeline([moment(1, 0), moment(2, 10)], [], spans)), Clock(), frozenset({"d1"})
    )
    assert lanes.height() == 20 + 6 * 35
    lanes.set_compact(True)
    assert lanes.height() == 18 + 6 * 24
    lanes.grab()
    lanes.deleteLater()


def png(boxes: list[tuple[int, int, int, int]], size: tuple[int, int] = (640, 400)) -> bytes:
    picture = Image.new("RGB", size, (40, 60, 80))
    for box in boxes:
        ImageDraw.Draw(picture).rectangle(box, fill=(250, 240, 230))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


@asynccontextmanager
async def open_shelf(theme: Theme, folder: Path, console: FakeConsole) -> AsyncIterator[ReplayImages]:
    async with open_frame(theme, folder, console) as desk:
        shelf = ReplayImages(desk.link)
        yield shelf
        shelf.stop()
        shelf.deleteLater()


async def test_changes_far_apart_are_places_of_their_own(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    before = console.fake_journal.add_blob(png([]))
    after = console.fake_journal.add_blob(png([(16, 16, 60, 40), (70, 20, 90, 40), (500, 300, 520, 320)]))
    other = console.fake_journal.add_blob(png([], (320, 200)))

    async with open_shelf(theme, tmp_path, console) as shelf:
        shelf.want("test", [ImagePair(before, after), ImagePair(before, other), ScaledImage(after, 128, 80)])
        await seen(lambda: shelf.spots(before, after) and shelf.spots(before, other))
        spots = shelf.spots(before, after)
        assert isinstance(spots, ImageDifference)
        assert spots.places == 2
        assert spots.path.contains(QRectF(20, 20, 10, 10))
        assert not spots.path.contains(QPointF(300, 200))
        resized = shelf.spots(before, other)
        assert isinstance(resized, ImageDifference)
        assert resized.words().startswith("another size")
        await seen(lambda: shelf.small(after, QSize(128, 80)))
        small = shelf.small(after, QSize(128, 80))
        assert isinstance(small, QImage)
        assert (small.width(), small.height()) == (128, 80)


async def test_what_is_wanted_later_replaces_what_was_wanted_before(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    shas = [console.fake_journal.add_blob(png([(0, 0, number, number)])) for number in range(40)]
    gate = console.hold_back("blob")

    async with open_shelf(theme, tmp_path, console) as shelf:
        first: list[Job] = list(shas[:39])
        shelf.want("test", first)
        shelf.want("test", [shas[39]])
        gate.set()
        await seen(lambda: shelf.picture(shas[39]))
        assert console.asked.count("blob") <= 5


async def test_a_failed_picture_is_tried_again_only_after_a_reconnection(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    data = png([])
    sha = console.fake_journal.add_blob(data)
    del console.fake_journal.blobs[sha]

    async with open_shelf(theme, tmp_path, console) as shelf:
        shelf.want("test", [sha])
        await seen(lambda: isinstance(shelf.picture(sha), Problem))
        console.fake_journal.blobs[sha] = data
        shelf.want("test", [sha])
        assert isinstance(shelf.picture(sha), Problem)
        shelf.forget_problems()
        shelf.want("test", [sha])
        await seen(lambda: isinstance(shelf.picture(sha), QImage))


def many(count: int) -> TimelineIndex:
    """One command on each of many devices; the read on the last of them failed."""
    moments = [
        moment(number, float(number), f"lab-{number:03d}", f"c{number}") for number in range(1, count + 1)
    ]
    failed = {"title": "read_file answered", "status": "failure", "tool": "read_file"}
    moments[-1] = moments[-1].model_copy(update=failed)
    spans = [
        Span(lane=one.device or "", start=one.at - 0.5, end=one.at, kind="action", label="x", seq=one.seq)
        for one in moments
    ]
    frames = [frame(one.seq, None, one.device or "") for one in moments]
    frames[-1] = frames[-1].model_copy(update={"ended": "failed"})
    return TimelineIndex(timeline(moments, frames, spans))


def test_a_search_finds_devices_and_what_failed_and_leaves_their_lanes(theme: Theme, qtbot: QtBot) -> None:
    reel, lanes = many(300), TimelineView()
    qtbot.addWidget(lanes)
    lanes.resize(900, 300)
    lanes.show()
    lanes.show_reel(reel, Clock(), frozenset())
    height = lanes.height()
    assert len(lanes.shown_lanes) == 300
    for words, wanted in (("lab-137", "lab-137"), ("failed", "lab-300"), ("failure", "lab-300")):
        found = reel.search(words)
        assert [reel.moments[place].device for place in found] == [wanted], words
        lanes.show_found([reel.ats[place] for place in found], reel.lanes_of(found))
        assert lanes.shown_lanes == [wanted]
        assert lanes.thing_at(QPointF(lanes.x_at(reel.ats[found[0]]) - 1, 30)) is not None
        lanes.grab()
    assert lanes.height() == height, "what is below stays in its place"
    lanes.show_found([], None)
    assert len(lanes.shown_lanes) == 300


def test_few_lanes_stay_while_a_search_stands(theme: Theme, qtbot: QtBot) -> None:
    reel, lanes = many(3), TimelineView()
    qtbot.addWidget(lanes)
    lanes.show_reel(reel, Clock(), frozenset())
    lanes.show_found([1.0], frozenset({"lab-001"}))
    assert len(lanes.shown_lanes) == 3


def test_frames_of_several_devices_say_whose_they_are(theme: Theme, qtbot: QtBot) -> None:
    """Strips that differ in a device's name alone do not look alike; a single device is not named."""
    pictures: dict[tuple[str, str], QImage] = {}
    for names in (("lab-lnx-01", "lab-lnx-02"), ("lab-lnx-01", "lab-lnx-09"), ("a", "a"), ("b", "b")):
        frames = [frame(number, None, name) for number, name in enumerate(names, 1)]
        moments = [moment(number, float(number), name) for number, name in enumerate(names, 1)]
        strip = FilmStrip()
        qtbot.addWidget(strip)
        strip.resize(400, 116)
        strip.show_reel(TimelineIndex(timeline(moments, frames)), Clock())
        strip.show_current(1)
        pictures[names] = strip.grab().toImage()
        assert strip.accessibleDescription() == f"frame 2 of 2, {names[1]}"
    two, other, one, another = pictures.values()
    assert two != other
    assert one == another
