"""Which of several controls that are reported as focused gets the keys; the lists are of real programs."""

from __future__ import annotations

import pytest

from core.device.desktop.linux.atspi import Ref
from core.device.desktop.linux.focus import Candidate, chosen

EDITABLE = ("editable", "focused")


def told(role: str, *states: str, in_page: bool = False) -> Candidate:
    return Candidate(Ref(":1.1", f"/{role.replace(' ', '')}"), role, states, in_page)


@pytest.mark.parametrize(
    ("candidates", "role"),
    [
        # FeatherPad, with the keyboard in its editor, and in its menu bar.
        ([told("page tab"), told("text", *EDITABLE), told("filler")], "text"),
        ([told("menu bar"), told("menu item"), told("page tab")], "menu item"),
        ([told("menu item"), told("menu bar"), told("page tab")], "menu item"),
        # Chromium, in a field of a page, in its address bar, and in no field of a page.
        ([told("document web"), told("entry", *EDITABLE, in_page=True)], "entry"),
        ([told("document web"), told("combo box", in_page=True), told("entry", *EDITABLE)], "entry"),
        ([told("document web"), told("document web", in_page=True)], "document web"),
        # A page's own editable part is no container.
        ([told("section", *EDITABLE, in_page=True), told("document web", in_page=True)], "section"),
        # A canvas that Qt reports as a filler.
        ([told("filler")], "filler"),
    ],
)
def test_the_control_that_gets_the_keys_is_chosen(candidates: list[Candidate], role: str) -> None:
    found = chosen(candidates)
    assert found is not None
    assert found.role == role


def test_where_none_is_reported_none_is_chosen() -> None:
    assert chosen([]) is None


def test_a_page_that_tells_nothing_of_what_is_in_it_is_blank() -> None:
    assert told("document web").is_blank
    assert not told("document web", in_page=True).is_blank
