"""What changed at the target holds a command; a caret, and what happens elsewhere, does not."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageDraw

from core.approvals.preview_models import Region
from core.dispatch.stale_target import (
    AROUND_POINT,
    Screenshot,
    around_point,
    compare,
    has_screen_target,
    with_screen_position,
)
from core.errors import BadInput

SIZE = (640, 400)
POINT = {"x": 300, "y": 200, "observation": "o"}


class Screen:
    """A desktop with a window, a button under the point, a text field and a clock."""

    def __init__(self, scale: int = 1) -> None:
        self.scale = scale
        self.image = Image.new("RGB", (SIZE[0] * scale, SIZE[1] * scale), "#20242c")
        self.draw = ImageDraw.Draw(self.image)
        self.box((120, 60, 560, 340), "#2b303a")
        self.button("Save")
        self.box((200, 260, 480, 290), "#ffffff")
        self.clock("12:00")

    def box(self, place: tuple[int, int, int, int], color: str) -> None:
        self.draw.rectangle(tuple(one * self.scale for one in place), color)

    def words(self, place: tuple[int, int], text: str, color: str = "#ffffff") -> None:
        at = tuple(one * self.scale for one in place)
        self.draw.text(at, text, color, font_size=14 * self.scale)

    def button(self, label: str, left: int = 260, top: int = 185) -> None:
        self.box((left, top, left + 80, top + 30), "#3d6fe0")
        self.words((left + 20, top + 6), label)

    def clock(self, time: str) -> None:
        self.box((560, 0, 640, 24), "#101318")
        self.words((580, 4), time)

    def caret(self, left: int = 300, top: int = 190, width: int = 1) -> None:
        self.box((left, top, left + width - 1, top + 17), "#ffffff")

    def packed(self, kind: str = "PNG") -> bytes:
        out = io.BytesIO()
        self.image.save(out, kind, **({} if kind == "PNG" else {"quality": 85}))
        return out.getvalue()


def region() -> Region:
    found = around_point(POINT)
    assert found is not None
    return found


def test_the_same_screen_is_fresh() -> None:
    found = compare(Screen().packed(), Screen().packed(), region())
    assert (found.fresh, found.tiles, found.of) == (True, 0, (AROUND_POINT // 8) ** 2)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("left", range(290, 300))
def test_a_blinking_caret_is_no_change_wherever_it_stands(width: int, left: int) -> None:
    blinked = Screen()
    blinked.caret(left, width=width)
    for before, after in ((Screen(), blinked), (blinked, Screen())):
        found = compare(before.packed(), after.packed(), region())
        assert found.fresh
        assert found.tiles > 0


def test_a_caret_of_a_dense_screen_is_none_either() -> None:
    blinked = Screen(scale=2)
    blinked.caret(width=2)
    place = Region(x=568, y=368, width=64, height=64)
    assert compare(Screen(scale=2).packed(), blinked.packed(), place, scale=2.0).fresh


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_clock_elsewhere_is_no_change(kind: str) -> None:
    later = Screen()
    later.clock("12:01")
    assert compare(Screen().packed(kind), later.packed(kind), region()).fresh


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("label", ["Sell", "Save as", "Delete", "Sove", ""])
def test_a_changed_label_is_a_change(kind: str, label: str) -> None:
    other = Screen()
    other.button(label)
    found = compare(Screen().packed(kind), other.packed(kind), region())
    assert not found.fresh
    assert "look different" in found.why


@pytest.mark.parametrize(("left", "top"), [(261, 185), (260, 186), (290, 185), (260, 150), (420, 300)])
def test_a_moved_button_is_a_change(left: int, top: int) -> None:
    moved = Screen()
    moved.box((250, 170, 350, 220), "#2b303a")
    moved.button("Save", left, top)
    assert not compare(Screen().packed(), moved.packed(), region()).fresh


def test_a_dialog_over_it_is_a_change() -> None:
    covered = Screen()
    covered.box((200, 120, 460, 300), "#f4f4f4")
    covered.words((220, 140), "Delete everything?", "#000000")
    found = compare(Screen().packed(), covered.packed(), region())
    assert not found.fresh
    assert found.tiles > found.of // 2


def test_another_colour_alone_is_a_change() -> None:
    other = Screen()
    other.box((260, 185, 340, 215), "#e05a3d")
    other.words((280, 191), "Save")
    assert not compare(Screen().packed(), other.packed(), region()).fresh


def test_two_carets_apart_are_more_than_a_caret() -> None:
    two = Screen()
    two.caret(280)
    two.caret(320)
    assert not compare(Screen().packed(), two.packed(), region()).fresh


@pytest.mark.parametrize(("width", "height"), [(2, 2), (3, 3), (3, 5)])
def test_a_dot_is_no_caret(width: int, height: int) -> None:
    """A check mark in a box, or a full stop that makes 15 of 1.5, is as narrow as a caret."""
    dotted = Screen()
    dotted.box((295, 195, 294 + width, 194 + height), "#ffffff")
    assert not compare(Screen().packed(), dotted.packed(), region()).fresh


def test_another_size_of_the_screen_is_a_change() -> None:
    found = compare(Screen().packed(), Screen(scale=2).packed(), region())
    assert not found.fresh
    assert "640 × 400" in found.why


def test_at_the_edge_only_what_is_there_is_compared() -> None:
    corner = around_point({"x": 0, "y": 399})
    assert corner is not None
    found = compare(Screen().packed(), Screen().packed(), corner)
    assert (found.region.width, found.region.height) == (32, 33)


@pytest.mark.parametrize("place", [(-500, 0), (700, 10), (10, 900)])
def test_a_place_outside_cannot_be_compared(place: tuple[int, int]) -> None:
    where = around_point({"x": place[0], "y": place[1]})
    assert where is not None
    with pytest.raises(BadInput, match="outside"):
        compare(Screen().packed(), Screen().packed(), where)


@pytest.mark.parametrize("data", [b"", b"not a picture", Screen().packed()[:200]])
def test_what_is_no_picture_cannot_be_compared(data: bytes) -> None:
    with pytest.raises(BadInput):
        compare(data, Screen().packed(), region())
    with pytest.raises(BadInput):
        compare(Screen().packed(), data, region())


def test_a_box_on_the_screen_is_found_in_a_smaller_picture_of_a_part() -> None:
    seen = Screenshot("b", left=100, top=50, scale=0.5)
    assert seen.in_picture({"x": 120, "y": 70, "width": 41, "height": 20}) == Region(
        x=10, y=10, width=21, height=10
    )
    for odd in ({}, {"x": 1}, {"x": 0, "y": 0, "width": 0, "height": 5}, {"x": "a", "y": 0, "width": 1}):
        assert seen.in_picture(odd) is None


def test_the_place_of_a_picture_is_told_by_its_size_and_not_by_a_claim() -> None:
    """The card marks the target by the picture's size, so the comparison must not go by anything else."""
    result = {"width": 100, "height": 50, "screen_box": {"x": 40, "y": 30, "width": 200, "height": 100}}
    for claim in ({}, {"scale": 0.02}, {"scale": "wide"}):
        seen = with_screen_position(Screenshot("b"), {**result, **claim})
        assert (seen.left, seen.top, seen.scale) == (40, 30, 0.5)
    for odd in ({}, {"width": 100}, {"width": 100, "screen_box": {"width": 0}}, {"screen_box": [4]}):
        assert with_screen_position(Screenshot("b"), {**odd, "scale": 0.25}).scale == 0.25
        assert with_screen_position(Screenshot("b"), odd).scale == 1.0


def test_only_what_aims_at_a_place_is_compared() -> None:
    assert has_screen_target("click_point", {})
    assert has_screen_target("click_element", {"name": "Save"})
    assert has_screen_target("type_text", {"control_id": "1"})
    assert not has_screen_target("type_text", {"text": "x"})
    assert not has_screen_target("press_key", {"key": "a"})
    assert not has_screen_target("shell_execute", {"control_id": "1"})


@pytest.mark.parametrize("wrong", ["inf", "nan", "-inf", 1e308, "1e999", 10**15])
@pytest.mark.parametrize("key", ["x", "y", "width", "height"])
def test_a_box_that_is_on_no_screen_is_no_box(key: str, wrong: object):
    box = {"x": 1, "y": 1, "width": 5, "height": 5, key: wrong}
    assert Screenshot("blob", scale=2.0).in_picture(box) is None
