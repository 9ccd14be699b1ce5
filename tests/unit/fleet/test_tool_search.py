"""The search over all devices' tools: what fits, why, in which order, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from core.aip.messages import ToolInfo
from core.errors import BadInput
from core.fleet.contracts import read_tool, tool_of
from core.fleet.models import ToolHit
from core.fleet.tool_search import LONGEST_QUERY, MOST_HITS, Offer, PastResults, Results, ToolIndex
from core.models.devices import Health
from core.models.tools import BUILT_IN_NAMESPACE, Tool


def a_tool(
    name: str,
    description: str = "",
    namespace: str = BUILT_IN_NAMESPACE,
    change: str = "",
    output: dict[str, Any] | None = None,
    **properties: Any,
) -> Tool:
    info = ToolInfo(
        tool_key=f"action::{name}",
        tool_name=name,
        tool_type="action",
        namespace=namespace,
        description=description,
        input_schema={"type": "object", "properties": properties},
        output_schema={"type": "object", "properties": output or {}},
    )
    return tool_of("any", read_tool(info), change=change)


def an_offer(device: str, *tools: Tool, health: Health = Health.ONLINE, tags: tuple[str, ...] = ()) -> Offer:
    return Offer(device, list(tags), health, {tool.tool_name: tool for tool in tools})


SYSTEM_INFO = a_tool(
    "get_system_info", "Facts about the machine.", info_type={"type": "string", "enum": ["memory", "disk"]}
)
SCREENSHOT = a_tool("screenshot", "Takes a picture of the screen.")
READ_FILE = a_tool("read_file", "Returns the text of a file.", file_path={"type": "string"})
BRANCHES = a_tool("github_list_branches", "Lists the branches of a repository.", namespace="github")
ALL = (SYSTEM_INFO, SCREENSHOT, READ_FILE, BRANCHES)


async def search(
    query: str,
    *offers: Offer,
    among: set[str] | None = None,
    limit: int = 20,
    results: PastResults | None = None,
) -> list[ToolHit]:
    index = ToolIndex()
    await index.follow(offers or [an_offer("this-computer", *ALL)])
    return index.search(query, among, limit, results or {})


@pytest.mark.parametrize(
    ("query", "tool", "reasons"),
    [
        ("screenshot", "screenshot", ["name: screenshot"]),
        ("shot", "screenshot", ["name: screenshot"]),
        ("capture an image", "screenshot", ["name: screenshot"]),
        ("how much RAM is left", "get_system_info", ["argument info_type: memory"]),
        ("scr", "screenshot", ["name: screenshot"]),
        ("screnshot", "screenshot", ["name: screenshot"]),
        ("pictures", "screenshot", ["description: picture"]),
        ("memory", "get_system_info", ["argument info_type: memory"]),
        ("memroy", "get_system_info", ["argument info_type: memory"]),
        ("how much memory is free", "get_system_info", ["argument info_type: memory"]),
        ("system disk", "get_system_info", ["name: system", "argument info_type: disk"]),
        ("getSystemInfo", "get_system_info", ["name: get, system, info"]),
        ("list_branches", "github_list_branches", ["name: list, branches"]),
        ("github repository", "github_list_branches", ["name: github", "description: repository"]),
        ("file_path", "read_file", ["name: file", "argument file_path: path"]),
        ("screenshot this-computer", "screenshot", ["name: screenshot", "device: this-computer"]),
    ],
)
async def test_words_find_a_tool_and_are_its_reasons(query, tool, reasons):
    [best, *_] = await search(query)
    assert (best.tool, best.reasons) == (tool, reasons)


async def test_any_word_finds():
    [hit] = await search("zebra giraffe memory")
    assert (hit.tool, hit.reasons) == ("get_system_info", ["argument info_type: memory"])
    assert await search("zebra giraffe") == []


async def test_a_word_does_not_find_a_tool_by_a_part_of_another_word():
    tree = a_tool("get_ui_tree", "Reads what programs show.", diagram={"type": "string"})
    assert await search("ram", an_offer("a", tree)) == []
    assert [hit.tool for hit in await search("program", an_offer("a", tree))] == ["get_ui_tree"]


@pytest.mark.parametrize("query", ["close", "closing", "closed it", "closes"])
async def test_the_forms_of_a_word_find_the_same(query):
    closes = a_tool("close_application", "Ends a program.")
    assert (await search(query, an_offer("a", closes, READ_FILE)))[0].tool == "close_application"


async def test_the_fields_of_results_are_found():
    tool = a_tool("facts", output={"uptime_seconds": {"type": "integer", "description": "Since the start."}})
    [hit] = await search("uptime", an_offer("a", tool))
    assert hit.reasons == ["result uptime_seconds: uptime"]


async def test_an_identifier_in_a_description_is_not_about_its_words():
    other = a_tool("raise", "Needs an id from list_windows.")
    hits = await search("list windows", an_offer("a", other, a_tool("list_windows")))
    assert [hit.tool for hit in hits] == ["list_windows"]


async def test_only_the_last_word_may_still_be_typed():
    assert (await search("read fi"))[0].reasons == ["name: read, file"]
    assert (await search("fi read"))[0].reasons == ["name: read"]
    assert (await search("read fi "))[0].reasons == ["name: read"]


async def test_a_value_is_looked_for_by_its_kind_and_not_by_its_words():
    others = a_tool("hosts", "Lists hosts."), a_tool("press_key", "Presses a key.")
    offer = an_offer("a", READ_FILE, *others)
    assert (await search("show /etc/hosts", offer))[0].tool == "read_file"
    assert (await search("ctrl+s", offer))[0].tool == "press_key"


async def test_a_word_in_a_name_counts_more_than_one_in_a_description():
    hits = await search("branches", an_offer("a", a_tool("prune", "Removes old branches."), BRANCHES))
    assert [hit.tool for hit in hits] == ["github_list_branches", "prune"]


async def test_the_tool_of_exactly_that_name_comes_first_among_many_that_contain_it():
    many = [a_tool(f"read_{number}_file") for number in range(300)]
    hits = await search("read file", an_offer("a", *many, READ_FILE), limit=5)
    assert hits[0].tool == "read_file"


async def test_the_same_definition_on_many_devices_is_one_hit_on_a_device_that_is_well():
    offers = [an_offer("a", SCREENSHOT, health=Health.OFFLINE), an_offer("b", SCREENSHOT)]
    [hit] = await search("screenshot", *offers)
    assert (hit.device, hit.devices, hit.health) == ("b", 2, Health.ONLINE)


async def test_a_named_device_or_tag_is_where_the_tool_is_found():
    offers = [an_offer(name, SCREENSHOT, tags=("lab",)) for name in ("x-1", "x-2")]
    offers.append(an_offer("y-1", SCREENSHOT))
    assert [hit.device for hit in await search("screenshot x-2", *offers)] == ["x-2"]
    by_tag = await search("screenshot lab", *offers)
    assert [(hit.device, hit.reasons) for hit in by_tag] == [
        ("x-1", ["name: screenshot", "tag: lab"]),
        ("x-2", ["name: screenshot", "tag: lab"]),
    ]


async def test_only_the_devices_that_are_allowed_are_searched():
    offers = [an_offer("a", SCREENSHOT, READ_FILE), an_offer("b", SCREENSHOT)]
    assert [(hit.device, hit.devices) for hit in await search("screenshot", *offers, among={"b"})] == [
        ("b", 1)
    ]
    assert await search("read_file", *offers, among={"b"}) == []
    assert await search("screenshot", *offers, among=set()) == []


async def test_health_a_blocked_definition_and_past_results_order_what_fits_alike():
    offers = [
        an_offer("away", a_tool("scan_a"), health=Health.OFFLINE),
        an_offer("bad", a_tool("scan_b")),
        an_offer("blocked", a_tool("scan_c", change="changed its definition")),
        an_offer("good", a_tool("scan_d")),
        an_offer("new", a_tool("scan_e")),
    ]
    results = {("good", "scan_d"): Results(9, 0), ("bad", "scan_b"): Results(0, 9)}
    hits = await search("scan", *offers, results=results)
    assert [hit.device for hit in hits] == ["good", "new", "bad", "blocked", "away"]
    assert [hit.device for hit in hits if hit.changed] == ["blocked"]


async def test_without_words_every_tool_fits_up_to_the_limit():
    assert {hit.tool for hit in await search("")} == {tool.tool_name for tool in ALL}
    many = [a_tool(f"tool_{number}") for number in range(MOST_HITS + 50)]
    assert len(await search("", an_offer("a", *many), limit=10_000)) == MOST_HITS
    assert len(await search("tool", an_offer("a", *many), limit=-3)) == 1


async def test_a_query_that_is_too_long_is_refused():
    with pytest.raises(BadInput, match="at most"):
        await search("x" * (LONGEST_QUERY + 1))


async def test_the_index_follows_tools_tags_and_devices_as_they_change():
    index = ToolIndex()
    await index.follow([an_offer("a", SCREENSHOT, tags=("lab",)), an_offer("b", READ_FILE)])
    assert [hit.tool for hit in index.search("lab", None, 5, {})] == ["screenshot"]
    await index.follow([an_offer("a", BRANCHES, tags=("rack",))])
    assert index.search("screenshot", None, 5, {}) == []
    assert index.search("read_file", None, 5, {}) == []
    assert index.search("lab", None, 5, {}) == []
    assert [hit.tool for hit in index.search("rack", None, 5, {})] == ["github_list_branches"]


async def test_only_what_changed_is_read_again(monkeypatch):
    read: list[str] = []

    def counting(tool: Tool) -> Any:
        read.append(tool.tool_name)
        return reading(tool)

    from core.fleet import tool_search

    reading = tool_search._Words
    monkeypatch.setattr(tool_search, "_Words", counting)
    index = ToolIndex()
    first = [an_offer(f"lab-{number}", *ALL) for number in range(50)]
    await index.follow(first)
    assert len(read) == len(ALL)
    await index.follow([*first[1:], an_offer("lab-0", *ALL, a_tool("fresh"))])
    assert read[len(ALL) :] == ["fresh"]


async def test_a_device_that_invents_tools_without_end_does_not_fill_the_index():
    index = ToolIndex()
    for turn in range(10):
        tools = [a_tool(f"invented_{turn}_{number}") for number in range(200)]
        await index.follow([an_offer("a", *tools), an_offer("b", SCREENSHOT)])
    assert len(index._definitions) < 1_500
    assert [hit.tool for hit in index.search("screenshot", None, 5, {})] == ["screenshot"]


async def test_texts_of_a_device_of_any_size_and_kind_are_searched_in_bounds():
    strange = a_tool("odd", "é " * 100_000 + "needle", file={"description": 7, "enum": "no list"}, other=True)
    hits = await search("odd", an_offer("a", strange))
    assert [len(hit.description) for hit in hits] == [300]
    assert await search("needle", an_offer("a", strange)) == []
