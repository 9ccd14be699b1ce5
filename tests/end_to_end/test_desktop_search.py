"""Trees and searches of programs with many controls, with controls without names, and with closed menus."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.device import DeviceConfig, build_router
from core.device.desktop.linux import atspi
from tests.fakes.accessible_program import (
    APPLICATION,
    BUTTON,
    CELL,
    ENTRY,
    FRAME,
    LABEL,
    LIST,
    MENU,
    MENU_ITEM,
    PANEL,
    PASSWORD,
    ROOT,
    SHOWING,
    STATES,
    Program,
    Thing,
    accessible_program,
)
from tests.fakes.accessible_session import accessible_session
from tests.fakes.desktop_device import DesktopDevice, join_session
from tests.fakes.patience import PATIENCE_S
from tests.fakes.spreadsheet import Spreadsheet, SpreadsheetProgram

HIDDEN = STATES & ~SHOWING
GROUP = ("Accessible", "Component", "Collection")
TEXT = ("Accessible", "Component", "Text", "EditableText")


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session("1024x768") as environment:
        yield environment


@pytest_asyncio.fixture
async def device(
    session: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DesktopDevice]:
    join_session(monkeypatch, session)
    monkeypatch.setattr(atspi, "CALL_S", PATIENCE_S)
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "desk")
    yield DesktopDevice(router)
    await router.close()


def flat(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from flat(node.get("children", []))


def names(result: Any) -> list[str]:
    return [one["name"] for one in flat(result["tree"]) if one["name"]]


def window(children: list[str], **more: Thing) -> dict[str, Thing]:
    """A program with one window, as a toolkit without a cache shows it."""
    return {
        ROOT: Thing("notes", APPLICATION, ["/f"], interfaces=GROUP),
        "/f": Thing("Notes", FRAME, children, interfaces=GROUP, extents=(0, 0, 1024, 768)),
        **{f"/{name}": thing for name, thing in more.items()},
    }


@contextlib.asynccontextmanager
async def program(things: dict[str, Thing], **more: Any) -> AsyncIterator[Program]:
    async with accessible_program(things, **more) as running:
        running.has_cache = False
        yield running


def rows(count: int, shown: range) -> dict[str, Thing]:
    return {
        f"/r{at}": Thing(
            f"Row {at}", CELL, states=STATES if at in shown else HIDDEN, extents=(9, 9 + at % 40, 50, 1)
        )
        for at in range(count)
    }


async def test_of_a_long_list_the_rows_on_the_screen_are_read_wherever_they_stand(
    device: DesktopDevice,
) -> None:
    more = rows(2_000, range(1_994, 2_000))
    things = window(["/l"], l=Thing("Rows", LIST, list(more), interfaces=GROUP)) | more
    async with program(things) as running:
        found = await device.run("get_ui_tree", app_root_name="notes")
        assert names(found) == ["notes", "Notes", "Rows", *(f"Row {at}" for at in range(1_994, 2_000))]
        assert not found["truncated"]
        (left_out,) = found["left_out"]
        assert (left_out["count"], "showing=false" in left_out["how"]) == (1_994, True)
        asked = {path for path, _ in running.asked if path.startswith("/r")}
        assert asked == {f"/r{at}" for at in range(1_994, 2_000)}
        (row,) = (await device.run("get_ui_tree", process_name="notes", name="row 1999"))["tree"]
        assert row["name"] == "Row 1999"


async def test_the_cells_of_a_sheet_are_those_on_the_screen_and_any_is_found_by_its_name(
    device: DesktopDevice,
) -> None:
    sheet = Spreadsheet(window(["/sheet"]))
    sheet.top, sheet.texts = 1_000, {(1_001, 1): "seen", (7, 2): "far away"}
    async with program(sheet, kind=SpreadsheetProgram):
        full = await device.run("get_ui_tree", process_name="notes", detail="full", max_bytes=1_000_000)
        cells = [one["name"] for one in flat(full["tree"]) if one["role"] == "table cell"]
        assert cells == [f"{letter}{row}" for row in range(1_001, 1_006) for letter in "ABCDE"]
        brief = await device.run("get_ui_tree", process_name="notes")
        shown = {one["name"]: one.get("value") for one in flat(brief["tree"]) if one["role"] == "table cell"}
        assert shown == {"B1002": "seen"}
        assert {one["what"]: one["count"] for one in brief["left_out"]}["empty cells"] == 24
        for name, value in (("B1002", "seen"), ("c8", "far away"), ("A1", "")):
            (cell,) = (await device.run("get_ui_tree", process_name="notes", name=name))["tree"]
            assert (cell["name"].lower(), cell["value"]) == (name.lower(), value)
        table = next(one for one in flat(brief["tree"]) if one["role"] == "table")
        (cell,) = (await device.run("get_ui_tree", below=table["id"], row=8, column=3))["tree"]
        assert (cell["name"], cell["value"]) == ("C8", "far away")
        assert "together" in await device.refused("get_ui_tree", below=table["id"], row=8)
        no_table = await device.refused("get_ui_tree", below=brief["tree"][0]["id"], row=8, column=3)
        assert "is not a table" in no_table


def form() -> dict[str, Thing]:
    """A log-in form: the program lists the password first, and relates no label to the first two fields."""
    return window(
        ["/w", "/u", "/lu", "/lw", "/la", "/a", "/lr", "/r", "/s", "/n", "/g"],
        w=Thing("", PASSWORD, interfaces=TEXT, text="hunter2", extents=(200, 60, 300, 30)),
        u=Thing("", ENTRY, interfaces=TEXT, extents=(200, 20, 300, 30)),
        lu=Thing("User", LABEL, extents=(20, 26, 90, 18)),
        lw=Thing("Pass", LABEL, extents=(20, 66, 90, 18)),
        la=Thing("Age:", LABEL, extents=(20, 200, 90, 18)),
        a=Thing("", ENTRY, interfaces=TEXT, relations=[(2, ["/la"])], extents=(600, 500, 90, 30)),
        lr=Thing("Room", LABEL, relations=[(1, ["/r"])], extents=(20, 300, 90, 18)),
        r=Thing("", ENTRY, interfaces=TEXT, extents=(600, 400, 90, 30)),
        s=Thing(
            "", ENTRY, interfaces=TEXT, attributes={"placeholder-text": "Search"}, extents=(20, 600, 90, 30)
        ),
        n=Thing("", BUTTON, description="<b>Next</b> page", extents=(200, 600, 40, 30)),
        g=Thing("Font", PANEL, ["/gi"], interfaces=GROUP, extents=(300, 600, 90, 30)),
        gi=Thing("", PANEL, ["/gt", "/gb"], interfaces=GROUP, extents=(300, 600, 90, 30)),
        gt=Thing("", ENTRY, interfaces=TEXT, text="Serif", extents=(300, 600, 60, 30)),
        gb=Thing("", BUTTON, extents=(360, 600, 30, 30)),
    )


async def test_fields_are_named_by_what_stands_around_them_in_the_order_of_the_screen(
    device: DesktopDevice,
) -> None:
    async with program(form()):
        found = await device.run("get_ui_tree", process_name="notes")
        fields = [(one["role"], one["name"]) for one in flat(found["tree"]) if one["role"] != "label"]
        assert fields[2:] == [
            ("entry", "User"),
            ("password text", "Pass"),
            ("entry", "Room"),
            ("entry", "Age:"),
            ("entry", "Search"),
            ("push button", "Next page"),
            ("panel", "Font"),
            ("entry", "Font"),
            ("push button", ""),
        ]
        assert "hunter2" not in json.dumps(found)


@pytest.mark.parametrize(
    ("name", "role", "path"),
    [
        ("User", "entry", "/u"),
        ("Pass", "password text", "/w"),
        ("Age:", "entry", "/a"),
        ("Room", "entry", "/r"),
        ("search", "entry", "/s"),
        ("Next page", "push button", "/n"),
    ],
)
async def test_a_field_is_found_by_the_name_that_was_found_for_it(
    device: DesktopDevice, name: str, role: str, path: str
) -> None:
    async with program(form()):
        found = await device.run("get_ui_tree", process_name="notes", name=name)
        (field,) = found["tree"]
        assert (field["role"], field["name"].lower()) == (role, name.lower())
        assert field["id"].endswith(path)
        assert "hunter2" not in json.dumps(found)


async def test_a_button_without_a_name_can_be_asked_for(device: DesktopDevice) -> None:
    async with program(form()) as running:
        (button,) = (await device.run("get_ui_tree", process_name="notes", role="push button", name=""))[
            "tree"
        ]
        assert button["id"].endswith("/gb")
        running._things["/gb"].interfaces = ("Accessible", "Component", "Action")
        await device.run("click_element", process_name="notes", role="push button", name="")
        assert running.done == [("/gb", 0)]


def menus() -> dict[str, Thing]:
    items = {f"/i{at}": Thing(f"Item {at}", MENU_ITEM, states=HIDDEN) for at in range(30)}
    return (
        window(
            ["/m", "/b1", "/b2"],
            m=Thing("File", MENU, list(items), interfaces=GROUP),
            b1=Thing("OK", BUTTON, interfaces=("Accessible", "Component", "Action"), extents=(9, 9, 9, 9)),
            b2=Thing("OK", BUTTON, interfaces=("Accessible", "Component", "Action"), extents=(99, 9, 9, 9)),
        )
        | items
    )


async def test_a_closed_menu_is_counted_and_its_items_are_found_by_name(device: DesktopDevice) -> None:
    async with program(menus()):
        found = await device.run("get_ui_tree", process_name="notes")
        menu = next(one for one in flat(found["tree"]) if one["name"] == "File")
        assert (menu["not_showing"], "children" in menu) == (30, False)
        assert len(names(await device.run("get_ui_tree", process_name="notes", showing=False))) == 35
        below = await device.run("get_ui_tree", below=menu["id"], showing=False)
        assert names(below) == ["notes", "File", *(f"Item {at}" for at in range(30))]
        (item,) = (await device.run("get_ui_tree", process_name="notes", name="item 7"))["tree"]
        assert "showing" not in item["states"]


async def test_a_search_takes_what_is_showing_and_reads_no_closed_menu_for_it(device: DesktopDevice) -> None:
    async with program(menus()) as running:
        running._things["/i3"].name = "File"
        (menu,) = (await device.run("get_ui_tree", process_name="notes", name="File"))["tree"]
        assert menu["role"] == "menu"
        assert not [path for path, _ in running.asked if path.startswith("/i")]


async def test_two_that_fit_are_refused_and_what_is_nearest_is_listed(device: DesktopDevice) -> None:
    async with program(menus()) as running:
        two = await device.refused("click_element", process_name="notes", name="OK")
        assert two.startswith("control_ambiguous: 2 controls fit")
        none = await device.refused("click_element", process_name="notes", name="Itme 12")
        assert none.startswith("control_not_found: ")
        assert none.split(";")[0].endswith("not showing (" + none.split("not showing (")[1].split(";")[0])
        assert "'Item 12'" in none.split(";")[0]
        found = await device.run("get_ui_tree", process_name="notes", name="Itme 12")
        assert (found["tree"], found["nearest"][0]["name"]) == ([], "Item 12")
        assert running.done == []


async def test_a_program_that_does_not_answer_is_named(
    device: DesktopDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atspi, "CALL_S", 0.2)
    async with program(menus()) as running:
        running.mute.update({("/b1", "Name"), ("/b1", "GetRole")})
        refused = await device.refused("click_element", process_name="notes", name="Save")
        assert "does not answer: " in refused


async def test_a_long_answer_is_shortened_and_says_so(device: DesktopDevice) -> None:
    more = rows(500, range(500))
    things = (
        window(["/l", "/b"], l=Thing("Rows", LIST, list(more), interfaces=GROUP), b=Thing("OK", BUTTON))
        | more
    )
    async with program(things):
        found = await device.run("get_ui_tree", process_name="notes")
        assert len(json.dumps(found).encode()) < 20_000
        assert "OK" in names(found)
        rows_of = next(one for one in flat(found["tree"]) if one["name"] == "Rows")
        left_out = next(one for one in found["left_out"] if "max_bytes" in one["how"])
        assert rows_of["left_out"] == left_out["count"] == 500 - len(rows_of["children"])
        whole = await device.run("get_ui_tree", process_name="notes", max_bytes=1_000_000)
        assert len(names(whole)) == 504


async def test_extents_are_asked_of_controls_only_that_have_a_place(device: DesktopDevice) -> None:
    things = window(["/p"], p=Thing("Page", PANEL, ["/b"], interfaces=("Accessible",)), b=Thing("OK", BUTTON))
    async with program(things) as running:
        for detail in ("brief", "full"):
            await device.run("get_ui_tree", process_name="notes", detail=detail, showing=False)
        assert ("/b", "GetExtents") in running.asked
        assert ("/p", "GetExtents") not in running.asked


async def test_waiting_ends_when_a_control_appears_and_when_it_is_gone(device: DesktopDevice) -> None:
    things = window(["/b"], b=Thing("Done", BUTTON, states=HIDDEN))
    target = {"process_name": "notes", "name": "Done", "timeout": 600}
    async with program(things) as running, asyncio.TaskGroup() as tasks:
        shown = tasks.create_task(device.run("wait_for_element", **target))
        await looked_again(running, "/b")
        assert not shown.done()
        things["/b"].states = STATES
        assert [one["name"] for one in (await shown)["controls"]] == ["Done"]
        gone = tasks.create_task(device.run("wait_for_element", **target, until="disappears"))
        await looked_again(running, "/b")
        assert not gone.done()
        things["/f"].children.clear()
        assert (await gone)["controls"] == []


async def looked_again(running: Program, path: str) -> None:
    """Wait until the program was read twice, and an object of it with it."""
    twice = asyncio.Event()
    looks = seen = 0

    def heard(at: str, member: str) -> None:
        nonlocal looks, seen
        looks += (at, member) == (ROOT, "ChildCount")
        seen += at == path
        if looks > 2 and seen:
            twice.set()

    running.on_call = heard
    async with asyncio.timeout(PATIENCE_S):
        await twice.wait()


async def test_waiting_that_is_over_names_the_nearest(device: DesktopDevice) -> None:
    async with program(menus()):
        late = await device.refused("wait_for_element", process_name="notes", name="OKK", timeout=0)
        assert late.startswith("control_not_found: Nothing appeared")
        assert "push button 'OK'" in late
        still = await device.refused(
            "wait_for_element", process_name="notes", name="OK", until="disappears", timeout=0
        )
        assert "is still there" in still
        nobody = await device.refused("wait_for_element", process_name="nobody", name="OK", timeout=0)
        assert "No program 'nobody' shows controls" in nobody
        gone = await device.run("wait_for_element", process_name="nobody", name="OK", until="disappears")
        assert gone["controls"] == []
        assert "role, name or both" in await device.refused("wait_for_element", process_name="notes")


async def test_waiting_can_be_cancelled(device: DesktopDevice) -> None:
    async with program(menus()) as running, asyncio.TaskGroup() as tasks:
        never = device.result("wait_for_element", process_name="notes", name="Never", timeout=600)
        waiting = tasks.create_task(never)
        await looked_again(running, "/m")
        assert device.router.executor.cancel("c")
        assert ((await waiting).error or "").startswith("cancelled: ")


async def test_a_program_that_does_not_filter_for_a_while_is_read_child_by_child(
    device: DesktopDevice,
) -> None:
    things = menus()
    # So are calls answered for a minute that a busy browser has left unanswered.
    for path in (ROOT, "/f"):
        things[path].lies["GetMatches"] = ("", [])
    things["/b2"].name = "Cancel"
    async with program(things):
        (button,) = (await device.run("get_ui_tree", process_name="notes", name="Cancel"))["tree"]
        assert button["id"].endswith("/b2")
        found = await device.run("wait_for_element", process_name="notes", name="OK", timeout=1)
        assert [one["name"] for one in found["controls"]] == ["OK"]
        assert "Item 3" not in names(await device.run("get_ui_tree", process_name="notes"))
