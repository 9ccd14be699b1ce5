"""What the door makes of the journal: values by how often they occur, bars with their failures."""

from __future__ import annotations

from core.audit.entries import Kind, NewEntry
from core.home import Home
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.signing import signing


def sent(tool: str, status: str | None = None, verdict: str | None = None) -> NewEntry:
    return NewEntry(kind=Kind.RESULT_RECORDED, actor="test", tool=tool, status=status, verdict=verdict)


async def test_the_values_of_a_field_come_most_frequent_first(home: Home):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        rare = [sent(f"x-{number:03d}") for number in range(60)]
        await service.journal.append_many([*rare, *[sent("x-zz")] * 5, *[sent("x-yy")] * 3, sent("x-yz")])
        found = await signing(LocalConsole(service, "operator:anna"), service.home).journal.facets(
            "tool", "x-", 4
        )
        assert [(one.value, one.count) for one in found] == [
            ("x-zz", 5),
            ("x-yy", 3),
            ("x-000", 1),
            ("x-001", 1),
        ]
        assert (
            await signing(LocalConsole(service, "operator:anna"), service.home).journal.facets(
                "tool", "nothing", 4
            )
            == []
        )


async def test_bars_say_how_many_of_their_entries_failed_or_are_unknown(home: Home):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        await service.journal.append_many(
            [
                *[sent("x", "failure", "unverified")] * 4,
                *[sent("x", "success", "confirmed")] * 2,
                *[sent("x", "none", "unknown")] * 3,
                sent("y", "failure", "unverified"),
            ]
        )
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        for query, counts in {"tool:x": (9, 4, 3), "tool:x status:failure": (4, 4, 0)}.items():
            bars = await console.journal.histogram(query, 5)
            assert (
                sum(bar.count for bar in bars),
                sum(bar.failed for bar in bars),
                sum(bar.unknown for bar in bars),
            ) == counts


async def test_the_numbers_of_what_matches_come_alone_highest_first_in_bounded_pages(home: Home):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        await service.journal.append_many([sent("x" if number % 3 else "y") for number in range(12_500)])
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        whole = [entry.seq for entry in (await console.journal.entries("tool:y", limit=5_000)).entries]
        page = await console.journal.numbers("tool:y", limit=3_000)
        rest = await console.journal.numbers("tool:y", page.next_before, 3_000)
        assert page.numbers + rest.numbers == whole
        assert (len(page.numbers), rest.next_before) == (3_000, None)
        assert len((await console.journal.numbers("", limit=1_000_000)).numbers) == 10_000
        assert (await console.journal.numbers("tool:nothing")).numbers == []
