"""`Query` and `Mutation`: stale answers, pauses, errors, owners that are gone, failures that must be told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from app.qt_loop import ended
from app.query import Buttons, Declined, Mutation, Query, quietly
from app.service_client import ConsoleLink
from app.state import AppState
from app.theme.theme import Theme
from app.widgets.buttons import Button
from app.widgets.dialog import Dialog
from core.errors import QuarterdeckError, Refused
from core.service.console import Console
from tests.fakes.console import FakeConsole
from tests.fakes.window import PATIENCE_S, nothing_left, open_window, seen


class Service:
    """Answers when the test says so: `answer` and `refuse` end the oldest open request of a name."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._open: dict[str, list[asyncio.Future[str]]] = {}
        self._news = asyncio.Event()

    def fetch(self, name: str) -> Callable[[Console], Coroutine[Any, Any, str]]:
        async def request(_console: Console) -> str:
            self.asked.append(name)
            answer = asyncio.get_running_loop().create_future()
            self._open.setdefault(name, []).append(answer)
            self._news.set()
            return str(await answer)

        return request

    def stubborn(self, name: str) -> Callable[[Console], Coroutine[Any, Any, str]]:
        """As `fetch`, but it goes on although it is cancelled."""
        fetch = self.fetch(name)

        async def request(console: Console) -> str:
            try:
                return await fetch(console)
            except asyncio.CancelledError:
                return f"{name} in spite of the cancel"

        return request

    async def asked_for(self, name: str) -> None:
        """Wait until there is an open request of this name."""
        async with asyncio.timeout(PATIENCE_S):
            while not any(not answer.done() for answer in self._open.get(name, [])):
                self._news.clear()
                await self._news.wait()

    def answer(self, name: str, answer: str) -> None:
        self._open[name].pop(0).set_result(answer)

    def refuse(self, name: str, words: str) -> None:
        self._open[name].pop(0).set_exception(Refused(words))


@asynccontextmanager
async def open_link() -> AsyncIterator[ConsoleLink]:
    """A link to a fake service; fails when a task is left or an error was reported."""

    async def opened() -> Console:
        return FakeConsole()

    reported: list[BaseException] = []
    link = ConsoleLink(opened, AppState(), report=lambda _name, error: reported.append(error))
    attached = asyncio.Event()
    link.attached.connect(lambda: attached.set())
    link.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await attached.wait()
        yield link
    finally:
        await link.close()
    nothing_left()
    assert not reported, reported


async def turns() -> None:
    """Let everything go on that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def later_timer() -> None:
    """Let a timer fire that was started now and is slower than those of the tests."""
    timer = QTimer()
    timer.setSingleShot(True)
    timer.start(3)
    await ended(timer.timeout)


def failures_of(link: ConsoleLink) -> list[str]:
    """What the banner is told from now on."""
    told: list[str] = []
    link.failed.connect(lambda what, error: told.append(f"{what}: {error.message}"))
    return told


# Reading


async def test_an_answer_and_an_error_are_shown_and_kept() -> None:
    async with open_link() as link:
        service, shown = Service(), list[str]()
        owner = QObject()
        query = Query(owner, link, shown.append, lambda error: shown.append(error.message), "read it")
        assert (query.loading, query.value, query.error) == (False, None, None)
        query.load(service.fetch("a"), "a")
        assert query.loading
        await service.asked_for("a")
        service.answer("a", "first")
        await turns()
        assert (shown, query.loading, query.value) == (["first"], False, "first")
        query.refresh()
        await service.asked_for("a")
        service.refuse("a", "no more")
        await turns()
        assert shown == ["first", "no more"]
        assert query.error is not None
        assert query.value == "first", "what was read before stays, for the same key"


async def test_the_answer_to_an_earlier_question_is_never_shown() -> None:
    async with open_link() as link:
        service, shown = Service(), list[str]()
        owner = QObject()
        query = Query(owner, link, shown.append)
        query.load(service.stubborn("a"), "a")
        await service.asked_for("a")
        query.load(service.fetch("b"), "b")
        await service.asked_for("b")
        await turns()
        assert (shown, query.value) == ([], None), "a's answer came in spite of the cancel"
        service.answer("b", "of b")
        await turns()
        assert shown == ["of b"]


async def test_the_failure_of_an_earlier_question_is_not_shown_either() -> None:
    async with open_link() as link:
        service, told = Service(), failures_of(link)
        owner = QObject()
        query = Query(owner, link, lambda _answer: None)
        query.load(service.fetch("a"))
        await service.asked_for("a")
        service.refuse("a", "refused")
        query.load(service.fetch("b"))
        await service.asked_for("b")
        service.answer("b", "of b")
        await turns()
        assert (told, query.error) == ([], None)


async def test_after_a_cancel_nothing_is_shown() -> None:
    async with open_link() as link:
        service, shown = Service(), list[str]()
        owner = QObject()
        query = Query(owner, link, shown.append)
        query.load(service.stubborn("a"), "a")
        await service.asked_for("a")
        query.cancel()
        await turns()
        assert (shown, query.loading) == ([], False)


async def test_many_loads_within_the_pause_are_one_request_the_newest() -> None:
    async with open_link() as link:
        service, shown = Service(), asyncio.Queue[str]()
        owner = QObject()
        query = Query(owner, link, shown.put_nowait, pause_ms=1)
        for name in ("a", "b", "c"):
            query.load(service.fetch(name), name)
        assert query.loading
        assert service.asked == [], "it waits for the pause"
        await service.asked_for("c")
        service.answer("c", "of c")
        async with asyncio.timeout(PATIENCE_S):
            assert await shown.get() == "of c"
        assert service.asked == ["c"]
        query.load(service.fetch("d"), "d", now=True)
        await turns()
        assert service.asked == ["c", "d"], "at once, where that is asked for"


async def test_a_re_read_never_starves_the_screen_and_the_newest_state_comes_last() -> None:
    async with open_link() as link:
        service, shown = Service(), list[str]()
        owner = QObject()
        query = Query(owner, link, shown.append)
        for _ in range(50):
            query.load(service.fetch("a"), "a")
        await service.asked_for("a")
        service.answer("a", "old")
        await service.asked_for("a")
        service.answer("a", "new")
        await turns()
        assert shown == ["old", "new"]
        assert service.asked == ["a", "a"], "fifty changes, two requests"


async def test_what_is_here_is_not_read_twice_and_what_failed_is() -> None:
    async with open_link() as link:
        service = Service()
        owner = QObject()
        query = Query(owner, link, lambda _answer: None, quietly)
        query.ensure(service.fetch("a"), "a")
        query.ensure(service.fetch("a"), "a")
        await service.asked_for("a")
        service.refuse("a", "not now")
        await turns()
        query.ensure(service.fetch("a"), "a")
        await service.asked_for("a")
        service.answer("a", "here")
        await turns()
        query.ensure(service.fetch("a"), "a")
        await turns()
        assert service.asked == ["a", "a"]
        query.ensure(service.fetch("b"), "b")
        await turns()
        assert service.asked == ["a", "a", "b"]


async def test_a_refresh_waits_its_pause_and_never_falls_on_a_request_under_way() -> None:
    async with open_link() as link:
        service, shown = Service(), list[str]()
        owner = QObject()
        query = Query(owner, link, shown.append)
        query.refresh()
        query.refresh_within(1)
        assert not query.loading, "there is nothing to read again"
        query.load(service.fetch("a"), "a")
        await service.asked_for("a")
        for _ in range(5):
            query.refresh_within(1)
            await later_timer()
        assert service.asked == ["a"]
        service.answer("a", "old")
        await service.asked_for("a")
        service.answer("a", "new")
        await turns()
        assert (shown, service.asked) == (["old", "new"], ["a", "a"])
        query.refresh_within(1)
        query.stop_refreshing()
        await later_timer()
        assert service.asked == ["a", "a"]


async def test_showing_an_answer_may_ask_for_the_next() -> None:
    async with open_link() as link:
        service, shown = Service(), list[str]()
        owner = QObject()

        def show(answer: str) -> None:
            shown.append(answer)
            if answer == "page 1":
                query.load(service.fetch("page 2"))

        query: Query[str] = Query(owner, link, show)
        query.load(service.fetch("page 1"))
        await service.asked_for("page 1")
        service.answer("page 1", "page 1")
        await service.asked_for("page 2")
        service.answer("page 2", "page 2")
        await turns()
        assert shown == ["page 1", "page 2"]


async def test_a_query_ends_with_its_owner() -> None:
    async with open_link() as link:
        service, shown, told = Service(), list[str](), failures_of(link)
        for fetch in (service.fetch, service.stubborn):
            owner = QWidget()
            query = Query(owner, link, shown.append, pause_ms=1)
            query.load(fetch("a"), "a", now=True)
            await service.asked_for("a")
            owner.deleteLater()
            await ended(owner.destroyed)
            await turns()
            assert not query.loading
            query.load(fetch("a"), "b")
            query.refresh()
            query.refresh_within(1)
            query.cancel()
        await turns()
        assert (shown, told, service.asked) == ([], [], ["a", "a"])


async def test_a_fetch_that_breaks_is_an_error_on_the_screen() -> None:
    async with open_link() as link:

        async def broken(_console: Console) -> str:
            raise ValueError("a bug")

        errors: list[QuarterdeckError] = []
        owner = QObject()
        query = Query(owner, link, lambda _answer: None, errors.append)
        query.load(broken)
        await turns()
        assert [error.message for error in errors] == ["ValueError: a bug"]


async def test_an_error_in_showing_an_answer_reaches_the_reporter_and_fails_the_test(
    theme: Theme, tmp_path: Path
) -> None:
    def broken(_answer: object) -> None:
        raise ValueError("nobody sees this")

    heard: list[str] = []
    with pytest.raises(AssertionError, match="ValueError: nobody sees this"):  # noqa: PT012  # as it ends
        async with open_window(theme, tmp_path, FakeConsole()) as desk:
            desk.reporter.happened.connect(lambda words, _details: heard.append(words))
            Query(desk.window, desk.link, broken).load(lambda console: console.approvals.list())
            await seen(lambda: heard)


# Doing


async def test_its_button_is_off_while_it_runs_and_a_second_press_does_nothing(
    qapp: QApplication, theme: Theme
) -> None:
    theme.apply(qapp)

    async with open_link() as link:
        service, done = Service(), list[str]()
        owner = QWidget()
        button = Button("Revoke", parent=owner)
        owner.show()
        mutation = Mutation(owner, link, done.append, quietly, "revoke it", button, "It is being revoked.")
        assert mutation.run(service.fetch("revoke"))
        assert mutation.running
        assert not button.isEnabled()
        assert button.toolTip() == "It is being revoked."
        assert not mutation.run(service.fetch("revoke"))
        await service.asked_for("revoke")
        service.answer("revoke", "gone")
        await turns()
        assert (done, mutation.running, button.isEnabled()) == (["gone"], False, True)
        assert service.asked == ["revoke"]
        owner.deleteLater()
        await ended(owner.destroyed)


async def test_several_buttons_are_off_together_and_the_first_says_what_goes_on(
    qapp: QApplication, theme: Theme
) -> None:
    theme.apply(qapp)

    async with open_link() as link:
        service = Service()
        owner = QWidget()
        make, remove = Button("Make", parent=owner), Button("Remove", parent=owner)
        remove.set_off("There is none.")
        owner.show()
        mutation: Mutation[str] = Mutation(
            owner, link, None, quietly, "make it", Buttons(make, remove), label="Making…"
        )
        mutation.run(service.fetch("make"))
        await service.asked_for("make")
        assert (make.text(), make.isEnabled(), remove.isEnabled()) == ("Making…", False, False)
        assert remove.toolTip() == "The service is asked."
        service.refuse("make", "No.")
        await turns()
        assert (make.text(), make.isEnabled()) == ("Make", True)
        assert (remove.isEnabled(), remove.toolTip()) == (False, "There is none.")
        owner.deleteLater()
        await ended(owner.destroyed)


async def test_a_failure_is_said_where_it_was_started_and_nowhere_else(
    qapp: QApplication, theme: Theme
) -> None:
    theme.apply(qapp)

    async with open_link() as link:
        service, told, shown = Service(), failures_of(link), list[str]()
        owner = QWidget()
        button = Button("Save", parent=owner)
        owner.show()
        fail = lambda error: shown.append(error.message)  # noqa: E731  # as a screen writes it
        mutation: Mutation[str] = Mutation(owner, link, None, fail, "save it", button)
        mutation.run(service.fetch("save"))
        await service.asked_for("save")
        service.refuse("save", "The disk is full.")
        await turns()
        assert (shown, told, button.isEnabled()) == (["The disk is full."], [], True)
        silent: Mutation[str] = Mutation(owner, link, what="save it")
        silent.run(service.fetch("save"), "save it as x")
        await service.asked_for("save")
        service.refuse("save", "No.")
        await turns()
        assert told == ["save it as x: No."], "without a place of its own the banner says it"
        owner.deleteLater()
        await ended(owner.destroyed)


@pytest.mark.parametrize("deleted", [False, True], ids=["hidden", "deleted"])
async def test_a_failure_whose_owner_is_gone_is_told_once_by_the_banner(
    qapp: QApplication, theme: Theme, deleted: bool
) -> None:
    theme.apply(qapp)

    async with open_link() as link:
        service, told, shown = Service(), failures_of(link), list[str]()
        owner = QWidget()
        button = Button("Revoke", parent=owner)
        owner.show()

        def fail(error: QuarterdeckError) -> None:
            shown.append(error.message)
            button.setText("Revoke")  # which would raise when it is deleted

        mutation: Mutation[str] = Mutation(owner, link, None, fail, "revoke it", button)
        mutation.run(service.fetch("revoke"))
        await service.asked_for("revoke")
        owner.hide()
        if deleted:
            owner.deleteLater()
            await ended(owner.destroyed)
        service.refuse("revoke", "The disk is full.")
        await turns()
        assert (told, shown) == (["revoke it: The disk is full."], [])
        if not deleted:
            owner.deleteLater()
            await ended(owner.destroyed)


async def test_a_success_whose_owner_is_gone_touches_nothing(qapp: QApplication, theme: Theme) -> None:
    theme.apply(qapp)

    async with open_link() as link:
        service, told = Service(), failures_of(link)
        owner = QWidget()
        button = Button("Revoke", parent=owner)
        mutation = Mutation(owner, link, button.setText, quietly, "revoke it", button)
        mutation.run(service.fetch("revoke"))
        await service.asked_for("revoke")
        owner.deleteLater()
        await ended(owner.destroyed)
        service.answer("revoke", "gone")
        await turns()
        assert told == []
        assert not mutation.running


async def test_what_the_operator_declined_is_no_failure() -> None:
    async with open_link() as link:
        told, heard = failures_of(link), list[str]()
        owner = QObject()

        async def work() -> str:
            raise Declined("It was not signed; nothing was changed.")

        mutation: Mutation[str] = Mutation(
            owner, link, fail=lambda error: heard.append(error.message), declined=lambda: heard.append("no")
        )
        mutation.carry(work)
        await turns()
        assert (heard, told, mutation.running) == (["no"], [], False)


async def test_a_refused_act_is_told_by_the_banner_although_its_dialog_was_closed(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        service = Service()
        sheet = Dialog(desk.window, "Revoke lab-lnx-01?")
        revoke = sheet.add_answer("revoke", "Revoke", "danger", closes=False, primary=True)
        mutation: Mutation[str] = Mutation(
            sheet, desk.link, None, lambda error: sheet.say(error.message), "revoke the device", revoke
        )
        revoke.clicked.connect(lambda *_: mutation.run(service.fetch("revoke")))
        sheet.open()
        revoke.click()
        await service.asked_for("revoke")
        sheet.dismissed.emit()
        await ended(sheet.destroyed)
        service.refuse("revoke", "The disk is full.")
        await seen(desk.window.notices.words)
        told = " ".join(desk.window.notices.words())
        assert told.count("Could not revoke the device. The disk is full.") == 1


async def test_when_the_window_ends_nothing_is_asked_any_more() -> None:
    async with open_link() as link:
        service, owner = Service(), QObject()
        query = Query(owner, link, lambda _answer: None)
        mutation: Mutation[str] = Mutation(owner, link)
        query.load(service.fetch("a"), "a")
        mutation.run(service.fetch("b"))
        await service.asked_for("b")
        await link.close()
        query.load(service.fetch("c"), "c")
        mutation.run(service.fetch("d"))
        await turns()
        assert service.asked == ["a", "b"]
        assert (query.loading, mutation.running) == (False, False)
