"""What a search for tools costs with 2,000 different ones on 80 devices, against a scan; and what it finds.

Times are of the processor: a search waits for nothing, and what else the machine does is not its cost.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import time
from collections.abc import Callable
from statistics import median

from core.aip.messages import ToolInfo
from core.fleet.contracts import read_tool, tool_of
from core.fleet.tool_search import Offer, ToolIndex
from core.models.devices import Health
from core.models.tools import Tool
from tests.bench.figures import Figure, Figures, Peer, Scale, p95
from tests.fakes.wishes import Bench, read_wishes

TOOLS, DEVICES = 2_000, 80
ROUNDS = 2_000
_VERBS = (
    "get list read write create delete update search start stop restart move copy upload download watch "
    "merge close open send render query export import resolve assign label archive scan"
).split()
_NOUNS = (
    "file folder process memory disk network interface user account issue branch commit repository page "
    "element window screenshot registry service container pod namespace secret database table row column "
    "message channel ticket invoice customer calendar event contact sensor camera door light alarm report"
).split()
_SERVERS = ("github", "filesystem", "kubernetes", "browser", "postgres", "mail", "builtin", "home")
_FILL = (
    "returns the result as text with one line for each item that matches and an optional limit of how many "
    "are wanted newest first together with its state owner size and time of the last change if it is known "
    "use this when the caller needs details which other operations of the same server do not have free used"
).split()
QUERIES = (
    "how much memory is free",
    "screenshot",
    "screnshot",
    "delete branch github",
    "list files in a folder lab-7",
    "re",
    "g",
    "restart the service on rack-3",
    "prosesses",
    "get_memory",
    "what is the state of the network interface and which process uses it",
    "calender evnt",
    "zzzz qqqq",
    "open a ticket for this customer",
)


def run(scale: Scale) -> Figures:
    """Search, and scan for the same words."""
    offers = make_offers(scale.of(DEVICES, 2))
    index = ToolIndex()
    built_ms = _timed(lambda: asyncio.run(index.follow(offers)))
    again_ms = _timed(lambda: asyncio.run(index.follow(offers)))
    gc.collect()
    queries = [QUERIES[number % len(QUERIES)] for number in range(scale.of(ROUNDS, len(QUERIES)))]
    texts = [f"{tool.tool_name} {tool.description}".casefold() for tool in _tools(offers)]
    times = [_timed(lambda query=query: index.search(query, None, 20, {})) for query in queries]
    scans = [_timed(lambda query=query: _scan(texts, query)) for query in queries]
    scan = "a scan of all texts for all words"
    tools = f"{len(texts):,} tools"
    wishes = read_wishes()
    found = Bench().score(wishes)
    of_all = f"of {len(wishes)} wishes"
    return [
        Figure("the right tool first", found.first, of_all),
        Figure("the right tool among the first three", found.in_three, of_all),
        Figure("plans of do that run as they are", found.runs, of_all),
        Figure("one search, median", median(times), "ms", Peer(scan, median(scans)), tools),
        Figure("one search, p95", p95(times), "ms", Peer(scan, p95(scans)), tools),
        Figure("the slowest search", max(times), "ms"),
        Figure("index built", built_ms, "ms"),
        Figure("index looked at again without a change", again_ms, "ms"),
    ]


def make_offers(devices: int = DEVICES) -> list[Offer]:
    """Devices with 25 tools each, all of them different."""
    chance = random.Random(7)
    pairs = itertools.cycle(itertools.product(_VERBS, _NOUNS))
    offers = []
    for number in range(devices):
        kind = "lab" if number % 2 else "rack"
        name = f"{kind}-{number}"
        tools = [_tool(chance, name, *next(pairs)) for _ in range(TOOLS // DEVICES)]
        offers.append(Offer(name, [kind, "linux"], Health.ONLINE, {tool.tool_name: tool for tool in tools}))
    return offers


def _tool(chance: random.Random, device: str, verb: str, noun: str) -> Tool:
    server = chance.choice(_SERVERS)
    name = f"{server}_{verb}_{noun}_{device[-1]}"
    words = " ".join(chance.choices(_FILL, k=40))
    info = ToolInfo(
        tool_key=f"action::{name}",
        tool_name=name,
        tool_type="action",
        namespace=server,
        title=f"{verb.title()} {noun}",
        description=f"{verb.title()}s a {noun} of {server}: {words}. {device}",
        input_schema={
            "type": "object",
            "properties": {
                f"{noun}_id": {"type": "string", "description": f"The {noun} to {verb}."},
                chance.choice(_NOUNS): {"type": "string", "enum": chance.sample(_NOUNS, 4)},
            },
        },
    )
    return tool_of(device, read_tool(info), change="")


def _tools(offers: list[Offer]) -> list[Tool]:
    return [tool for offer in offers for tool in offer.tools.values()]


def _scan(texts: list[str], query: str) -> list[str]:
    words = query.split()
    return [text for text in texts if all(word in text for word in words)]


def _timed(work: Callable[[], object]) -> float:
    """Milliseconds of this thread's processor."""
    started = time.thread_time()
    work()
    return (time.thread_time() - started) * 1000
