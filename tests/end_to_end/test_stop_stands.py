"""Stop all: it holds whatever happens to the journal or to the service, until somebody resumes."""

from __future__ import annotations

import pytest

from core.audit.entries import Entry, Kind, NewEntry
from core.errors import ErrorCode, JournalUnavailable
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.awaited import entries_when
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import signing

READ = {"info_type": "memory"}


async def read(console: Console) -> ErrorCode | None:
    """Ask this computer for something harmless; the error's code, or None when it was done."""
    run = await console.runs.call("this-computer", "get_system_info", READ)
    ended = await console.runs.wait(run.summary.id, PATIENCE_S)
    result = ended.cells[0].result
    assert result
    return result.error.code if result.error else None


async def test_a_stop_stands_when_the_service_is_opened_again_until_somebody_resumes(home: Home):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        assert await read(console) is None
        await console.service.stop_all()
    for _ in range(2):
        async with open_service(home) as service:
            console = signing(LocalConsole(service, "operator:anna"), service.home)
            state = await console.service.state()
            assert state.stopped
            assert state.stopped_note.startswith("Everything was stopped by operator:anna at 20")
            assert state.stopped_note.endswith("; resume to go on.")
            assert await read(console) is ErrorCode.STOPPED
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        await console.service.resume()
        assert await read(console) is None
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        assert not (await console.service.state()).stopped
        assert await read(console) is None


@pytest.mark.story
async def test_a_stop_stands_after_the_service_is_killed(home: Home):
    choose_channel(home, "in-process")
    async with service_process(home) as process:
        console = await process.console()
        await until_online(console)
        await console.service.stop_all()
        await process.kill()
    async with service_process(home) as process:
        console = await process.console()
        await until_online(console)
        assert (await console.service.state()).stopped
        assert await read(console) is ErrorCode.STOPPED


async def test_while_the_journal_cannot_be_written_everything_is_stopped_and_recorded_later(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)

        def full(*_: object) -> None:
            raise JournalUnavailable("The disk is full.")

        async def full_too(*_: object) -> list[Entry]:
            raise JournalUnavailable("The disk is full.")

        with monkeypatch.context() as patch:
            patch.setattr(service.journal, "note_all", full)
            patch.setattr(service.journal, "append_many", full_too)
            words = await console.service.stop_all()
            assert words.startswith("Everything was stopped: nothing was under way.")
            assert "it holds after a restart, too" in words
            assert (await console.service.state()).stopped
            with pytest.raises(JournalUnavailable):
                await console.service.resume()
            assert (await console.service.state()).stopped
        assert await read(console) is ErrorCode.STOPPED
        await entries_when(service.journal, f"kind:{Kind.ALL_STOPPED}")
    async with open_service(home) as service:
        assert (await signing(LocalConsole(service, "operator:anna"), service.home).service.state()).stopped


async def test_a_stop_that_was_recorded_late_does_not_undo_the_resume_after_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)

        def full(entries: list[NewEntry]) -> None:
            raise JournalUnavailable("The disk is full.")

        with monkeypatch.context() as patch:
            patch.setattr(service.journal, "note_all", full)
            await console.service.stop_all()
        await console.service.resume()
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        assert not (await console.service.state()).stopped
        page = await console.journal.entries("kind:all_stopped,all_resumed")
        assert [entry.kind for entry in page.entries] == [Kind.ALL_RESUMED, Kind.ALL_STOPPED]
