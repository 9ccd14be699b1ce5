"""What the service remembers of its verifications, where two of them run at once."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from core.audit.store import DATABASE
from core.service.service import Service


async def test_a_verification_that_began_before_the_damage_and_ends_after_it_is_no_all_clear(
    service: Service, monkeypatch: pytest.MonkeyPatch
):
    verify, has_read, may_end = service.journal.verify, asyncio.Event(), asyncio.Event()

    async def slow(*how: Any, **more: Any) -> Any:
        report = await verify(*how, **more)
        has_read.set()
        await may_end.wait()
        return report

    monkeypatch.setattr(service.journal, "verify", slow)
    earlier = service.tasks.spawn("the earlier verification", service.verify())
    await has_read.wait()
    monkeypatch.setattr(service.journal, "verify", verify)
    with closing(sqlite3.connect(service.home.path / DATABASE)) as database, database:
        changed = "CAST(replace(entry, '\"stay\"', '\"stop\"') AS BLOB)"
        database.execute(f"UPDATE entries SET entry = {changed} WHERE seq = 1")
    assert (await service.verify()).first_bad == 1
    may_end.set()
    assert (await earlier).ok
    assert service.journal_status().verified_ok is False
    assert service.journal_status().first_bad == 1


async def test_the_one_that_began_last_counts_also_when_it_ends_last(service: Service):
    first = await service.verify()
    assert service.verified is first
    again = await service.verify()
    assert service.verified is again
