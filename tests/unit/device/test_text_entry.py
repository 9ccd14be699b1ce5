"""Where text goes, and that what did not arrive is said; with a desktop whose fields are as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from core.device.desktop import text_entry
from core.device.desktop.interface import (
    PROTECTED,
    Box,
    Control,
    EditPoint,
    Focus,
    NoDesktop,
    Unavailability,
    Window,
)
from core.device.desktop.key_chords import Chord
from core.device.desktop.text_entry import Entry, TextEntry
from core.device.desktop.ui_tools import UiTools
from core.device.observations import ObservationStore
from core.errors import DeviceError, ErrorCode

WINDOW = Window("0x1", "Form", 7, "form", Box(0, 0, 800, 600), active=True, visible=True)
OTHER = Window("0x2", "Other", 8, "other", Box(0, 0, 800, 600), active=True, visible=True)


def field(role: str = "entry", name: str = "Name", **more: Any) -> Control:
    states = ("editable", "enabled", "focused", "showing")
    return Control(f"id-{name}", role, name, 7, **{"states": states, **more})


class Form(NoDesktop):
    """A window with fields, of which one has the keyboard; `takes` is what a field makes of a key."""

    def __init__(self, *fields: Control, takes: Callable[[Form, str], None] | None = None) -> None:
        super().__init__("test")
        self.fields = list(fields)
        self.focus_on: Control | None = fields[0] if fields else None
        self.certainty: Any = "control" if fields else "nothing"
        self.texts = {one.id: "" for one in fields}
        self.selected = 0
        self.keys: list[str] = []
        self.protected: list[str | None] = []
        self.front = [WINDOW]
        self._takes = takes or Form.put

    def put(self, key: str) -> None:
        """Put a key into the field that has the keyboard."""
        assert self.focus_on is not None
        self.texts[self.focus_on.id] += key

    def lack(self, need: str) -> Unavailability | None:
        return None

    async def windows(self) -> list[Window]:
        return self.front

    async def window_of(self, control: Control) -> Window | None:
        return WINDOW

    async def control(self, control_id: str) -> Control:
        return next(one for one in self.fields if one.id == control_id)

    async def focus(self, control: Control) -> None:
        self.focus_on = control

    async def keyboard(self) -> Focus:
        return Focus(self.focus_on, self.certainty)

    async def has_focus(self, control: Control) -> bool:
        return self.focus_on is not None and self.focus_on.id == control.id

    async def edit_point(self, control: Control) -> EditPoint | None:
        if PROTECTED in control.states or "editable" not in control.states:
            return None
        length = len(self.texts[control.id])
        return EditPoint(length - self.selected, length, length)

    async def text_between(self, control: Control, start: int, end: int) -> str | None:
        return self.texts[control.id][start:end]

    async def delete_text(self, control: Control, start: int, end: int) -> bool:
        self.texts[control.id] = self.texts[control.id][:start] + self.texts[control.id][end:]
        self.selected = 0
        return True

    async def insert_text(self, control: Control, text: str) -> bool:
        if control.takes_text:
            self.texts[control.id] += text
        return control.takes_text

    def protect(self, control_id: str | None) -> None:
        self.protected.append(control_id)

    async def type_keys(self, text: str, window: Window | None = None) -> int:
        for typed, key in enumerate(text):
            if window is not None and self.front[-1].id != window.id:
                return typed
            self.keys.append(key)
            self._takes(self, key)
        return len(text)

    async def press(self, chord: Chord, window: Window | None = None) -> None:
        self.keys.append(chord.key)
        self._takes(self, {"enter": "\n", "tab": "\t"}[chord.key])


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MOVES_S", "_ARRIVES_S", "_COMPLETES_S"):
        monkeypatch.setattr(text_entry, name, 0.05)


async def typed(form: Form, text: str, *, secret: bool = False, named: Control | None = None) -> Entry:
    return await TextEntry(form, text, named, None, secret).run()


async def refused(form: Form, text: str, **more: Any) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        await typed(form, text, **more)
    return caught.value


async def test_what_stands_in_the_field_is_the_answer() -> None:
    form = Form(field())
    form.texts["id-Name"] = "Dr. "
    entry = await typed(form, "Bob")
    assert (entry.stands, entry.typed, entry.method) == ("Dr. Bob", 3, "keys")
    assert entry.control == form.fields[0]
    assert entry.window == WINDOW


async def test_letters_that_were_lost_are_said() -> None:
    form = Form(field(), takes=lambda form, key: form.put("" if key == "s" else key))
    error = await refused(form, "/srv/x")
    assert error.message == "Typed 6 of 6 characters: the entry 'Name' now has '/rv/x'."


async def test_a_field_that_takes_text_but_changes_it_is_said() -> None:
    form = Form(field(takes_text=True))

    async def shortened(control: Control, text: str) -> bool:
        form.texts[control.id] += text[:3]
        return True

    form.insert_text = shortened  # type: ignore[method-assign]
    assert "now has 'abc'" in (await refused(form, "abcdef")).message
    assert "now has 'abcabc'" in (await refused(form, "abcdef", named=form.fields[0])).message


async def test_a_secret_is_neither_read_nor_said() -> None:
    form = Form(field(), takes=lambda form, key: form.put("*"))
    entry = await typed(form, "hunter2", secret=True)
    assert entry.stands is None
    assert form.protected == ["id-Name"]
    password = field("password text", states=("editable", "enabled", "showing", PROTECTED))
    form = Form(password, takes=lambda form, key: form.put("*"))
    assert (await typed(form, "hunter2")).stands is None


async def test_a_list_that_opens_a_field_at_the_first_key_gets_the_rest_there() -> None:
    table = field("table", "Files", states=("enabled", "focused", "showing"))
    location = field("text", "Location", takes_text=True)

    def opens(form: Form, key: str) -> None:
        form.focus_on = location
        form.put(key)

    form = Form(table, location, takes=opens)
    entry = await typed(form, "/srv/x")
    assert (form.texts["id-Location"], form.keys) == ("/srv/x", ["/"])
    assert (entry.control, entry.stands) == (location, "/srv/x")


async def test_a_field_that_opened_without_the_first_key_gets_no_more() -> None:
    table = field("table", "Files", states=("enabled", "focused", "showing"))
    location = field("text", "Location", takes_text=True)

    def opens(form: Form, key: str) -> None:
        form.focus_on = location

    form = Form(table, location, takes=opens)
    error = await refused(form, "/srv/x")
    assert error.message.startswith("Typed 1 of 6 characters: the keyboard went to the text 'Location'")
    assert form.texts["id-Location"] == ""


async def test_a_first_key_that_opens_a_menu_is_the_last() -> None:
    canvas = field("drawing area", "Canvas", states=("enabled", "focused", "showing"))
    item = field("menu item", "Undo", states=("enabled", "focused", "showing"))

    def opens(form: Form, key: str) -> None:
        form.focus_on = item

    form = Form(canvas, item, takes=opens)
    error = await refused(form, "abc")
    assert "Typed 1 of 3 characters: the keyboard is in a menu, 'Undo'" in error.message
    assert form.keys == ["a"]


@pytest.mark.parametrize(
    ("role", "said"),
    [
        ("menu bar", "a menu bar"),
        ("menu item", "a menu"),
        ("push button", "a button"),
        ("check box", "a check box"),
        ("document web", "a web page"),
        ("frame", "a window"),
    ],
)
async def test_text_is_refused_where_keys_are_commands(role: str, said: str) -> None:
    form = Form(field(role, states=("enabled", "focused", "showing")))
    error = await refused(form, "abc")
    assert error.code is ErrorCode.KEYBOARD_ELSEWHERE
    assert f"The keyboard is in {said}" in error.message
    assert "'Form' of form" in error.message
    assert form.keys == []
    assert said in (await refused(form, "abc", named=form.fields[0])).message
    assert form.keys == []


async def test_a_dialog_that_has_just_opened_may_tell_of_its_field_a_moment_later() -> None:
    class Opening(Form):
        looks = 0

        async def keyboard(self) -> Focus:
            self.looks += 1
            opener, name = self.fields
            self.focus_on = opener if self.looks < 3 else name
            return await super().keyboard()

    form = Opening(field("push button", "Open", states=("enabled", "focused", "showing")), field())
    assert (await typed(form, "abc")).control is form.fields[1]
    assert form.keys == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("certainty", "said"), [("nothing", "is in no field"), ("not searched", "could not be read in time")]
)
async def test_text_is_refused_where_no_field_has_the_keyboard(certainty: str, said: str) -> None:
    form = Form()
    form.certainty = certainty
    error = await refused(form, "abc")
    assert (error.code, said in error.message) == (ErrorCode.KEYBOARD_ELSEWHERE, True)
    assert form.keys == []


async def test_a_program_that_tells_nothing_gets_the_keys() -> None:
    form = Form(takes=lambda form, key: None)
    form.certainty = "untold"
    entry = await typed(form, "abc")
    assert (entry.control, entry.stands, form.keys) == (None, None, ["a", "b", "c"])


async def test_a_line_end_is_enter_in_every_kind_of_field_and_a_tab_is_tab() -> None:
    form = Form(field(takes_text=True))
    await typed(form, "a\r\nb\rc\n\td")
    assert form.keys == ["enter", "enter", "enter", "tab"]
    assert form.texts["id-Name"] == "a\nb\nc\n\td"
    form = Form(field())
    await typed(form, "a\nb")
    assert form.keys == ["a", "enter", "b"]


async def test_after_a_tab_text_goes_on_in_the_next_field() -> None:
    first, second = field(takes_text=True), field(name="Street", takes_text=True)

    def moves(form: Form, key: str) -> None:
        form.focus_on = second

    form = Form(first, second, takes=moves)
    entry = await typed(form, "Bob\tHigh St")
    assert (form.texts["id-Name"], form.texts["id-Street"]) == ("Bob", "High St")
    assert (entry.control, entry.stands) == (second, "High St")


async def test_text_ends_where_enter_leads_to_another_program() -> None:
    def leaves(form: Form, key: str) -> None:
        if key == "\n":
            form.front, form.focus_on = [OTHER], None
        else:
            form.put(key)

    form = Form(field(), takes=leaves)
    error = await refused(form, "ab\ncd")
    assert "Typed 3 of 5 characters: the keyboard went to the window 'Other' of other" in error.message
    assert form.keys == ["a", "b", "enter"]


async def test_text_ends_where_another_window_takes_the_keyboard() -> None:
    def interrupts(form: Form, key: str) -> None:
        form.put(key)
        if key == "b":
            form.front = [OTHER]

    form = Form(field(), takes=interrupts)
    error = await refused(form, "abcd")
    assert "Typed 2 of 4 characters: the keyboard went to the window 'Other' of other" in error.message
    assert form.keys == ["a", "b"]


async def test_a_completion_that_a_field_adds_is_taken_out_again() -> None:
    def completes(form: Form, key: str) -> None:
        form.put(key)
        if key == "m":
            form.put("ple.org")
            form.selected = len("ple.org")

    form = Form(field(), takes=completes)
    assert (await typed(form, "exam")).stands == "exam"
    assert form.texts["id-Name"] == "exam"


async def test_a_calculator_that_replaces_its_result_has_what_was_typed() -> None:
    form = Form(field(takes_text=True))
    form.texts["id-Name"] = "144"

    async def replaced(control: Control, text: str) -> bool:
        form.texts[control.id] = text
        return True

    form.insert_text = replaced  # type: ignore[method-assign]
    assert (await typed(form, "3+4")).stands == "3+4"


async def test_a_page_with_paragraphs_inside_is_not_compared() -> None:
    form = Form(field("section"), takes=lambda form, key: form.put("\N{OBJECT REPLACEMENT CHARACTER}"))
    assert (await typed(form, "ab")).stands is None


async def test_keys_and_text_go_to_the_named_window_or_nowhere() -> None:
    form = Form(field())
    tools = UiTools(form, ObservationStore())
    told = await tools.type_text({"text": "abc", "window_id": "0x1"})
    assert told["window"]["window_id"] == "0x1"
    assert told["control"] == {"role": "entry", "name": "Name", "control_id": "id-Name"}
    assert told["text_there"] == "abc"
    for call in (
        tools.type_text({"text": "x", "window_id": "0x9"}),
        tools.press_key({"key": "a", "window_id": "0x9"}),
    ):
        with pytest.raises(DeviceError) as caught:
            await call
        assert caught.value.code is ErrorCode.STALE_OBSERVATION
    assert form.keys == ["a", "b", "c"]
