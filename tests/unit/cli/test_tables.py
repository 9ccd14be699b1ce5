"""Tables stay readable whatever a device calls its tools; programs read every name whole."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.cli import devices, entries, tools
from core.cli.answer import print_answer
from core.cli.output import tool_cell
from core.cli.session import Session
from core.cli.terminal import width
from core.fleet.tool_catalog import MOST_NAME
from core.home import Home
from core.models.devices import Device, Health
from core.service.api.models import EntryPage
from core.service.console import Console
from core.text import escape_hidden, escape_right_to_left
from tests.fakes.rig import DEVICE, Rig, open_rig, tool_info

# As long as the console takes a name and a key from a device; longer ones it does not list at all.
ENDLESS = "copy_" + "a" * (MOST_NAME - len("data_collection::copy__once")) + "_once"
ODD = "wipe\u202e" * 45
LONGEST_OF_A_SERVER = "s" * 64


def session_of(rig: Rig) -> Session:
    async def tools(device: str) -> list[Any]:
        return rig.fleet.tools(device)

    async def entries(query: str, before: int | None, limit: int) -> Any:
        await rig.journal.settle()
        page = await rig.journal.query(query, limit=limit)
        return EntryPage(entries=page.entries, more=False, total=page.count, total_exact=True, took_ms=0)

    devices, journal = SimpleNamespace(tools=tools), SimpleNamespace(entries=entries)
    console = SimpleNamespace(devices=devices, journal=journal)
    return Session(rig.home, cast(Console, console), hosted=False)


def with_odd_tools(home: Path) -> AbstractAsyncContextManager[Rig]:
    names = ["look", ENDLESS, ODD, LONGEST_OF_A_SERVER]
    return open_rig(Home(home).create(), infos=[tool_info(name) for name in names])


async def test_a_tool_with_an_endless_name_widens_nobody_elses_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with with_odd_tools(tmp_path / "home") as rig:
        session = session_of(rig)
        answer = await tools.tools(session, DEVICE)
        await print_answer(answer, False)
        head, *rows = capsys.readouterr().out.splitlines()
        assert len(rows) == 4
        column = head.index("RISK")
        assert column < 100
        assert {row[column:].split()[0] for row in rows} == {"high"}
        assert any(f" {LONGEST_OF_A_SERVER} " in row for row in rows)
        assert any(" copy_aaa" in row and "…" in row and "aaa_once " in row for row in rows)
        await print_answer(answer, True)
        told = json.loads(capsys.readouterr().out)["tools"]
        assert {ENDLESS, ODD, LONGEST_OF_A_SERVER} < {tool["tool_name"] for tool in told}


async def test_the_journals_rows_are_as_narrow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with with_odd_tools(tmp_path / "home") as rig:
        await rig.call("no_such_tool_" + "b" * 5_000)
        await print_answer(await entries.find(session_of(rig), "", 50, None), False)
        shown = capsys.readouterr().out
        assert "no_such_tool_b" in shown
        assert max(map(len, shown.splitlines())) < 250


@given(st.text(max_size=300))
@example("端" * 300)
@example("\u202e" * 60)
@example("\u05c6")
def test_a_name_in_a_table_is_narrow_and_hides_nothing(name: str) -> None:
    shown = tool_cell(name)
    assert width(shown) <= 2 * 64
    assert escape_hidden(shown, keep_lines=False) == shown
    if len(shown) < 64:
        assert shown == escape_right_to_left(escape_hidden(name, keep_lines=False))


async def test_what_a_device_claims_to_be_widens_no_other_row(capsys: pytest.CaptureFixture[str]) -> None:
    claims = "W" * 200
    found = [
        Device(name="honest", health=Health.ONLINE, since="", system="Debian", reason=""),
        Device(
            name="boasts", health=Health.OFFLINE, since="", system=claims, reason=f"{claims}\u202e\n{claims}"
        ),
    ]

    async def match(targets: str) -> list[Device]:
        assert targets == ""
        return found

    session = Session(
        Home(Path("/nowhere")),
        cast(Console, SimpleNamespace(devices=SimpleNamespace(match=match))),
        hosted=False,
    )
    answer = await devices.list_devices(session)
    await print_answer(answer, False)
    head, honest, boasts = capsys.readouterr().out.splitlines()
    assert head.index("WHY") < 100
    assert honest.index("Debian") == head.index("SYSTEM") == boasts.index("W")
    assert len(boasts) < 300
    assert "\u202e" not in boasts
    await print_answer(answer, True)
    assert json.loads(capsys.readouterr().out)["devices"][1]["system"] == claims
