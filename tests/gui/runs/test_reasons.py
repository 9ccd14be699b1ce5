"""Why a cell is as it is: conditions, expectations, recovery, stops, waves, inputs, and other ways."""

from __future__ import annotations

from pathlib import Path

from app.screens.targets import OpenRun, OpenTool
from app.theme.theme import Theme
from core.batch.models import Rollout, RunState
from core.service.envelope import Alternative
from tests.fakes.runs_screen import CLEAN, runs_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, opened_screens, seen
from tests.gui.page import link_in
from tests.gui.runs.page import open_runs
from tests.gui.runs.test_controls import read, write


async def test_a_cell_says_why_it_was_not_begun_and_what_is_expected_of_it(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        note.write_text("hay")
        await page.start(
            read("cond", note) | {"when": "${{ inputs.threshold > 90 }}"},
            read("look", note)
            | {
                "expect": "${{ result.content == 'needle' }}",
                "recover": [read("again", note)],
                "note": "Has to hold",
            },
            read("gone", page.work / "none") | {"retry": {"times": 1, "backoff": 0}},
            write("after", note, "x"),
            inputs={"threshold": {"type": "integer"}, "token": {"type": "string", "secret": True}},
            values={"threshold": 85, "token": "hunter2"},
        )
        await page.until(RunState.FAILED)
        said = {}
        for step in ("cond", "look", "again", "gone", "after"):
            page.choose(step)
            await seen(lambda step=step: page.drawer.title.text().endswith(step))
            said[step] = f"{page.words_of(step)}. {page.drawer.banner.accessibleName()}"
        assert said["cond"].startswith("skipped. Skipped: nothing was sent.")
        assert "inputs.threshold > 90" in said["cond"]
        assert said["look"].startswith("recovered. Done by its recovery. Recovered by again.")
        assert said["after"].startswith("not started. Not started: nothing was sent. An earlier step")
        page.choose("look")
        facts = page.drawer.facts
        assert facts.value("Expects").text() == "${{ result.content == 'needle' }}"
        assert facts.value("Recovered by").text() == "again"
        assert facts.value("Step says").text() == "Has to hold"
        assert facts.value("Inputs").text() == "threshold = 85, token = •••"
        page.choose("gone")
        assert facts.value("Attempts").text() == "2"
        assert facts.value("Retried").text().startswith("up to 1 time")
        assert "threshold = 85, token = •••" in page.screen.counts.rule_words.text()
        assert "hunter2" not in page.words(page.screen)


async def test_a_run_that_its_batch_stopped_says_at_which_number(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        await page.start(
            read("gone", page.work / "none"),
            read("next", page.work / "none"),
            on_failure="continue",
            rollout={"stop": {"run": {"failed": 1}}},
        )
        run = await page.until(RunState.FAILED)
        assert run.summary.note.startswith("Stopped: 1 of 1 devices failed")
        assert run.summary.note in page.screen.notice.words()
        page.choose("next")
        await seen(lambda: "the batch stops at 1" in page.drawer.banner.detail.text())


async def test_the_matrix_shows_where_waves_begin_and_the_head_which_one_goes_on(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    run = console.work.find(CLEAN)
    batch = run.batch.model_copy(update={"rollout": Rollout(canary=1, wave=4)})
    summary = run.summary.model_copy(update={"waves": [1, 4, 2]})
    console.work.add(run.model_copy(update={"batch": batch, "summary": summary}))

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        notes = [screen.matrix.device_note(row) for row in range(7)]
        assert notes == ["wave 1", "wave 2", "", "", "", "wave 3", ""]
        assert "wave 3 of 3" in screen.head.about.text()
        # Of a filter's rows each wave begins at the first that is shown.
        screen.counts.chosen.emit("failed")
        assert screen.matrix.cells.devices == ["build-lnx-03"]
        assert screen.matrix.device_note(0) == "wave 3"


async def test_what_failed_says_what_could_be_called_instead(theme: Theme, tmp_path: Path) -> None:
    console = story()
    other = Alternative(tool="artifact.list", device="lab-lnx-01", why="It has the same tool.")

    def alternatives(run: str, device: str, step: str) -> list[Alternative]:
        return [other] if step == "keep" else []

    console.answer("alternatives", alternatives)

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN, "build-lnx-03", "keep"))
        tab = screen.drawer.result
        await seen(tab.alternatives.isVisible)
        opened = opened_screens(desk)
        link_in(tab.alternatives, "Build it").click()
        [(name, target)] = opened
        assert name == "batch"
        assert isinstance(target, OpenTool)
        assert (target.device, target.tool_name) == ("lab-lnx-01", "artifact.list")
        screen.matrix.go_to_cell("lab-lnx-01", "disk")
        await seen(lambda: not tab.alternatives.isVisible())
