"""Pictures and words of a moment in Replay: as known then, plain, none that cannot be trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.theme.theme import Theme
from core.errors import ErrorCode, QuarterdeckError
from tests.fakes.story import story
from tests.fakes.window import seen
from tests.gui.replay.page import KEYS, ReplayPage, add_entry, entries_of, on_bay_count


async def test_stepping_shows_the_pictures_before_and_after_and_how_much_changed(
    theme: Theme, tmp_path: Path
) -> None:
    async with on_bay_count(theme, tmp_path, ("09", "result_recorded")) as (_, page, console):
        pictures = page.screen.pictures
        await seen(lambda: not pictures.changed.image().isNull() and not pictures.before.image().isNull())
        assert pictures.after.blob == entries_of(console, "09")["result_recorded"].blobs[0]
        assert pictures.before.blob == entries_of(console, "07")["result_recorded"].blobs[0]
        await seen(lambda: "1 place" in pictures.words.text())
        assert pictures.words.text().endswith("% of the picture")


async def test_nothing_is_shown_that_was_not_known_at_the_moment(theme: Theme, tmp_path: Path) -> None:
    async with on_bay_count(theme, tmp_path, ("08", "approval_requested")) as (_, page, console):
        stages = entries_of(console, "08")
        assert page.screen.pictures.after.blob == entries_of(console, "07")["result_recorded"].blobs[0]
        await seen(lambda: page.fact("Approval").startswith("waits"))
        assert page.fact("Sent") == "not yet"
        assert page.fact("Answer") == "none yet"
        page.screen.details.show_tab("result")
        await seen(lambda: "Not answered yet" in page.screen.details.result_tab.words.text())
        page.screen.details.show_tab("decision")
        page.screen.go_to_entry(stages["command_prepared"].seq)
        await seen(lambda: page.screen.details.decision_tab.answer.text() == "not decided yet")
        page.screen.go_to_entry(stages["approval_given"].seq)
        assert page.fact("Approved") == "once, by harbour after 1:22"
        page.screen.go_to_entry(stages["result_recorded"].seq)
        assert page.fact("Answer") == "after 212 ms"


async def test_the_first_picture_stands_alone(theme: Theme, tmp_path: Path) -> None:
    async with on_bay_count(theme, tmp_path, ("01", "result_recorded")) as (_, page, _):
        await seen(lambda: not page.screen.pictures.changed.image().isNull())
        assert page.screen.pictures.changed_box.title.text() == "Picture"
        assert page.screen.pictures.before.problem == "No earlier picture"


async def test_pictures_are_read_on_when_the_screen_comes_back(theme: Theme, tmp_path: Path) -> None:
    console = story()
    gate = console.hold_back("blob")

    async with on_bay_count(theme, tmp_path, ("09", "result_recorded"), console) as (desk, page, _):
        desk.window.open("fleet")
        gate.set()
        desk.window.open("replay")
        await seen(lambda: not page.screen.pictures.changed.image().isNull())
        await seen(lambda: not page.screen.pictures.before.image().isNull())


async def test_digits_choose_how_pictures_are_shown_and_the_choice_is_kept(
    theme: Theme, tmp_path: Path
) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, _):
        page.press(KEYS.Key_1)
        assert page.screen.pictures.before.isVisible()
        assert not page.screen.pictures.changed.isVisible()
        page.press(KEYS.Key_3)
        assert page.screen.pictures.changed.isVisible()
        assert not page.screen.pictures.before.isVisible()
        assert page.screen.remembered("mode") == "full"
        page.press(KEYS.Key_2)
        assert page.screen.pictures.before.isVisible()
        assert page.screen.pictures.changed.isVisible()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (QuarterdeckError("x", ErrorCode.JOURNAL_CORRUPT), "This picture does not match its hash."),
        (QuarterdeckError("x", ErrorCode.NOT_FOUND), "This picture is missing from the store."),
    ],
)
async def test_a_picture_that_cannot_be_trusted_is_replaced_by_the_reason(
    theme: Theme, tmp_path: Path, error: QuarterdeckError, words: str
) -> None:
    console = story()
    bad = entries_of(console, "07")["result_recorded"].blobs[0]

    def blob(sha256: str) -> bytes:
        if sha256 == bad:
            raise error
        return console.on_blob(sha256)

    console.answer("blob", blob)

    async with on_bay_count(theme, tmp_path, ("07", "result_recorded"), console) as (_, page, _):
        await seen(lambda: page.screen.pictures.changed.problem == words)
        assert page.screen.pictures.after.problem == words
        await seen(lambda: words in page.screen.pictures.words.text())
        # The picture of the step before is still there.
        await seen(lambda: not page.screen.pictures.before.image().isNull())


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n" + b"\x00" * 64, b"<svg/>"])
async def test_bytes_that_are_no_picture_are_said_to_be_none(
    theme: Theme, tmp_path: Path, data: bytes
) -> None:
    console = story()
    console.fake_journal.blobs[entries_of(console, "07")["result_recorded"].blobs[0]] = data

    async with on_bay_count(theme, tmp_path, ("07", "result_recorded"), console) as (_, page, _):
        await seen(lambda: "picture" in page.screen.pictures.changed.problem and not_reading(page))
        assert page.screen.pictures.changed.image().isNull()


def not_reading(page: ReplayPage) -> bool:
    return not page.screen.pictures.changed.problem.startswith("Reading")


async def test_the_proof_is_checked_in_the_window_and_a_wrong_one_is_said_to_be_wrong(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with on_bay_count(theme, tmp_path, ("09", "result_recorded"), console) as (_, page, _):
        page.screen.details.show_tab("proof")
        proof_tab = page.screen.details.proof_tab
        await seen(lambda: proof_tab.verdict.isVisible())
        assert f'"seq":{page.seq},' in proof_tab.text.toPlainText()

        def forged(seq: int) -> object:
            proof = console.on_proof(seq)
            return proof.model_copy(update={"entry": proof.entry.replace("confirmed", "unverified")})

        console.answer("proof", forged)
        page.screen.go_to_entry(entries_of(console, "07")["result_recorded"].seq)
        await seen(lambda: proof_tab.failure.isVisible())
        assert "does not give the hash" in proof_tab.failure.accessibleName()
        assert not proof_tab.verdict.isVisible()


async def test_text_from_devices_is_shown_plain_and_with_its_hidden_characters(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    add_entry(console, tool="<b>rm</b>\u202ecod")

    async with on_bay_count(theme, tmp_path, console=console) as (_, page, _):
        page.press(KEYS.Key_End)
        assert page.screen.details.tool.text() == "<b>rm</b>[U+202E]cod"
        assert "\u202e" not in page.screen.details.title.text()
