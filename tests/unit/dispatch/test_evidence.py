"""Pictures before and after a command: through the dispatcher, tied to it by hash, or it is not sent."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
from PIL import Image, ImageDraw

from core.aip.messages import Command, Result, ResultStatus
from core.approvals.models import Approval
from core.approvals.operator_keys import statement_for
from core.audit.entries import Entry
from core.batch.models import Batch
from core.batch.run_history import rebuild_run
from core.commands.request import CommandRequest
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode
from core.home import Home
from core.replay.timeline import build_timeline
from tests.fakes.journalled_runs import run_start
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, TEXT, Rig, open_rig, tool_info

NUMBER = {"type": "number"}
TOOLS = [
    tool_info("screenshot", "data_collection", {"region": TEXT}),
    tool_info("get_ui_tree", "data_collection", {"process_name": TEXT, "depth": NUMBER, "max_nodes": NUMBER}),
    tool_info(
        "click_point", "action", {"x": NUMBER, "y": NUMBER, "observation": TEXT}, ["x", "y", "observation"]
    ),
    tool_info(
        "click_element", "action", {"control_id": TEXT, "process_name": TEXT, "role": TEXT, "name": TEXT}
    ),
    tool_info("write_file", "action", {"file_path": TEXT, "content": TEXT}, ["file_path", "content"]),
]
WRITE = {"file_path": "/tmp/x", "content": "y"}
BOTH = """
[[rule]]
id = "seen"
decision = "ask"
tool = "write_file"
evidence = ["before", "after"]
"""


class Screen:
    """What the device's pictures show: a button with a label at a place."""

    def __init__(self) -> None:
        self.label = "Save"
        self.at = (100, 80)
        self.size = (400, 300)
        self.caret = False
        self.clock = "12:00"
        self.broken = ""
        self.taken = 0

    def __call__(self, command: Command) -> Any:
        if self.broken:
            return Result(status=ResultStatus.FAILURE, error=self.broken)
        self.taken += 1
        image = Image.new("RGB", self.size, "#20242c")
        draw = ImageDraw.Draw(image)
        x, y = self.at
        draw.rectangle((x, y, x + 80, y + 30), "#3d6fe0")
        draw.text((x + 20, y + 8), self.label, "#ffffff", font_size=14)
        draw.text((340, 4), self.clock, "#ffffff", font_size=14)
        if self.caret:
            draw.rectangle((x + 40, y + 6, x + 41, y + 24), "#ffffff")
        out = io.BytesIO()
        image.save(out, "PNG")
        return {
            "image": {"media_type": "image/png", "data_base64": base64.b64encode(out.getvalue()).decode()},
            "width": self.size[0],
            "height": self.size[1],
            "scale": 1.0,
            "screen_box": {"x": 0, "y": 0, "width": self.size[0], "height": self.size[1]},
            "observation": f"ref-{self.taken}",
        }

    def tree(self, command: Command) -> Any:
        x, y = self.at
        node = {"id": "7", "role": "button", "name": self.label, "children": []}
        node["box"] = {"x": x, "y": y, "width": 80, "height": 30}
        return {"tree": [{"id": "1", "role": "frame", "name": "", "children": [node]}], "truncated": False}


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
async def rig(home: Home, screen: Screen) -> AsyncIterator[Rig]:
    async with open_rig(home, TOOLS) as rig:
        rig.tools.answers["screenshot"] = screen
        rig.tools.answers["get_ui_tree"] = screen.tree
        yield rig


async def card_of(rig: Rig) -> Approval:
    """A request that waits, when its card shows the screen."""
    waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
    await rig.dispatcher.cards.shown(waiting.request.digest, renew=False)
    return waiting


async def say_yes(rig: Rig, waiting: Approval) -> None:
    await rig.approvals.decide(rig.key.sign(statement_for(waiting, "approve", "anna")))


async def approve(rig: Rig) -> None:
    await say_yes(rig, await card_of(rig))


async def approved(rig: Rig, tool: str, **parameters: Any) -> CommandResult:
    """One command, approved at once."""
    call = rig.start(tool, **parameters)
    await approve(rig)
    return await call


def sent(rig: Rig) -> list[str]:
    return [command.tool_name for command in rig.tools.seen]


async def evidence_of(rig: Rig, call_id: str) -> list[Entry]:
    return [one for one in await rig.entries("kind:evidence_taken") if one.call_id == call_id]


class TestEvidence:
    async def test_pictures_are_taken_before_and_after_and_tied_by_hash(self, rig: Rig, screen: Screen):
        rig.policy.path.write_text(BOTH)
        result = await approved(rig, "write_file", **WRITE)
        assert sent(rig) == ["screenshot", "write_file", "screenshot"]
        assert [one.what for one in result.evidence] == ["before", "after"]
        entries = await evidence_of(rig, result.call_id)
        assert [one.body["moment"] for one in entries] == ["before", "after"]
        [intent] = [one for one in await rig.entries("kind:intent_recorded") if one.call_id == result.call_id]
        for entry, shown in zip(entries, result.evidence, strict=True):
            assert entry.blobs == [shown.blob]
            assert entry.body["digest"] == intent.body["digest"]
            assert await rig.journal.get_blob(shown.blob)
        # The picture before is durable before the intent is; the outcome names it as well.
        assert entries[0].seq < intent.seq
        [outcome] = [
            one for one in await rig.entries("kind:result_recorded") if one.call_id == result.call_id
        ]
        assert outcome.blobs == [result.evidence[0].blob]

    @pytest.mark.parametrize("broken", ["", "tool_failed: gone"])
    async def test_a_run_that_is_read_back_has_them_as_well(self, rig: Rig, screen: Screen, broken: str):
        def write(command: Command) -> Any:
            screen.broken = broken
            return {"ok": True}

        rig.policy.path.write_text(BOTH)
        rig.tools.answers["write_file"] = write
        steps = [{"id": "write", "tool": "write_file", "with": WRITE}]
        batch = Batch.model_validate({"name": "seen", "steps": steps})
        await rig.journal.append(run_start("r-0001", batch, [DEVICE]))
        request = CommandRequest(DEVICE, "write_file", WRITE, "operator:anna", run="r-0001", step="write")
        call = rig.tasks.spawn("call", rig.dispatcher.dispatch(request))
        await approve(rig)
        result = await call
        await rig.journal.settle()
        [cell] = rebuild_run(await rig.journal.entries_of_run("r-0001")).cells
        assert cell.result is not None
        assert (cell.result.evidence, cell.result.note) == (result.evidence, result.note)
        assert [one.what for one in result.evidence] == (["before"] if broken else ["before", "after"])
        assert bool(result.note) == bool(broken)

    async def test_each_picture_is_a_command_of_its_own(self, rig: Rig):
        rig.policy.path.write_text(BOTH)
        result = await approved(rig, "write_file", **WRITE)
        entries = await rig.entries("tool:screenshot")
        calls = {one.call_id for one in entries}
        assert len(calls) == 2
        assert [one.kind.value for one in entries] == ["command_sent", "result_recorded"] * 2
        sent = [one for one in entries if one.kind.value == "command_sent"]
        assert {one.body["evidence_for"] for one in sent} == {result.call_id}
        assert {one.actor for one in sent} == {"service"}

    async def test_where_no_picture_can_be_taken_before_nothing_is_sent(self, rig: Rig, screen: Screen):
        rig.policy.path.write_text(BOTH)
        screen.broken = "tool_failed: The display cannot be opened"
        result = await approved(rig, "write_file", **WRITE)
        assert (result.verdict, result.basis) == (Verdict.REFUSED, Basis.NOTHING_SENT)
        assert result.error is not None
        assert "Rule seen wants a picture before it" in result.error.message
        assert "display cannot be opened" in result.error.message
        assert sent(rig) == ["screenshot"]

    async def test_a_device_that_takes_no_pictures_is_refused_as_well(self, home: Home):
        async with open_rig(home, [TOOLS[-1]]) as rig:
            rig.policy.path.write_text(BOTH)
            result = await approved(rig, "write_file", **WRITE)
            assert result.error is not None
            assert "has no tool 'screenshot'" in result.error.message
            assert sent(rig) == []

    async def test_a_hosted_tool_called_screenshot_is_not_run_unasked_for_the_sake_of_evidence(
        self, home: Home, screen: Screen
    ):
        hosted = tool_info("screenshot", "data_collection", {"region": TEXT}, namespace="stranger")
        async with open_rig(home, [hosted, TOOLS[-1]]) as rig:
            rig.tools.answers["screenshot"] = screen
            rig.policy.path.write_text(BOTH)
            result = await approved(rig, "write_file", **WRITE)
            assert result.error is not None
            assert "Rule seen wants a picture before it" in result.error.message
            assert sent(rig) == []

    async def test_a_missing_picture_after_is_recorded_and_the_outcome_stands(self, rig: Rig, screen: Screen):
        rig.policy.path.write_text(BOTH)

        def write(command: Command) -> Any:
            screen.broken = "tool_failed: gone"
            return {"ok": True}

        rig.tools.answers["write_file"] = write
        result = await approved(rig, "write_file", **WRITE)
        assert (result.verdict, result.basis) == (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)
        assert "No picture could be taken after it" in result.note
        [_before, after] = await evidence_of(rig, result.call_id)
        assert (after.body["moment"], after.blobs) == ("after", [])
        assert "gone" in after.body["missing"]

    async def test_a_profile_that_asks_for_everything_asks_once_not_for_each_picture(self, rig: Rig):
        rig.policy.path.write_text('profile = "lockdown"\n' + BOTH)
        result = await approved(rig, "write_file", **WRITE)
        assert result.error is None
        assert rig.asked.empty()

    async def test_a_rule_that_denies_pictures_denies_them_here_too(self, rig: Rig):
        rig.policy.path.write_text(BOTH + '[[rule]]\nid = "blind"\ndecision = "deny"\ntool = "screenshot"\n')
        result = await approved(rig, "write_file", **WRITE)
        assert result.error is not None
        assert result.basis is Basis.NOTHING_SENT
        assert sent(rig) == []

    async def test_an_allowed_command_has_its_evidence_as_well(self, rig: Rig):
        rig.use_policy(
            '[[rule]]\nid = "ok"\ndecision = "allow"\ntool = "write_file"\nrisk = ["low", "medium", "high"]\n'
            'evidence = ["after"]\n'
        )
        result = await rig.call("write_file", **WRITE)
        assert [one.what for one in result.evidence] == ["after"]
        assert sent(rig) == ["write_file", "screenshot"]

    async def test_stop_all_while_the_picture_is_taken_sends_nothing(self, rig: Rig, screen: Screen):
        rig.policy.path.write_text(BOTH)
        looks, go_on = asyncio.Event(), asyncio.Event()

        async def slow(command: Command) -> Any:
            looks.set()
            await go_on.wait()
            return screen(command)

        rig.tools.answers["screenshot"] = slow
        call = rig.start("write_file", **WRITE)
        await approve(rig)
        await asyncio.wait_for(looks.wait(), PATIENCE_S)
        rig.dispatcher.stop("Stop all.")
        go_on.set()
        result = await call
        assert result.error is not None
        assert result.error.code is ErrorCode.STOPPED
        assert "write_file" not in sent(rig)

    async def test_the_replay_shows_both(self, rig: Rig):
        rig.policy.path.write_text(BOTH)
        result = await approved(rig, "write_file", **WRITE)
        entries = [one for one in await rig.entries() if one.call_id == result.call_id]
        frames = build_timeline(entries, "x").frames
        pictures = [one.blob for one in frames if one.blob]
        assert pictures == [one.blob for one in result.evidence]


class TestFreshness:
    async def click(self, rig: Rig, x: int = 140, y: int = 95) -> asyncio.Task[CommandResult]:
        shot = await rig.call("screenshot")
        return rig.start("click_point", x=x, y=y, observation=shot.result["observation"])

    async def test_a_click_whose_target_is_as_it_was_is_sent(self, rig: Rig, screen: Screen):
        call = await self.click(rig)
        screen.caret, screen.clock = True, "12:01"
        await approve(rig)
        assert (await call).error is None
        assert sent(rig) == [*["screenshot"] * 3, "click_point"]

    @pytest.mark.parametrize("change", [{"label": "Sell"}, {"at": (130, 80)}])
    async def test_a_click_whose_target_changed_is_held_with_both_pictures(
        self, rig: Rig, screen: Screen, change: dict[str, Any]
    ):
        call = await self.click(rig)
        waiting = await card_of(rig)
        for key, value in change.items():
            setattr(screen, key, value)
        await say_yes(rig, waiting)
        result = await call
        assert result.error is not None
        assert result.error.code is ErrorCode.STALE_OBSERVATION
        assert (result.verdict, result.basis) == (Verdict.REFUSED, Basis.NOTHING_SENT)
        assert "click_point" not in sent(rig)
        assert [one.what for one in result.evidence] == ["on the card", "just before"]
        card, now = [await rig.journal.get_blob(one.blob) for one in result.evidence]
        assert Image.open(io.BytesIO(card)).tobytes() != Image.open(io.BytesIO(now)).tobytes()
        [_card, taken] = await evidence_of(rig, result.call_id)
        assert taken.body["card"] == result.evidence[0].blob
        assert taken.blobs == [result.evidence[1].blob]

    async def test_an_element_that_moved_or_changed_is_held(self, rig: Rig, screen: Screen):
        for change in ({"label": "Sell"}, {"at": (30, 200)}):
            screen.label, screen.at = "Save", (100, 80)
            await rig.call("screenshot")
            call = rig.start("click_element", control_id="7")
            waiting = await card_of(rig)
            for key, value in change.items():
                setattr(screen, key, value)
            await say_yes(rig, waiting)
            result = await call
            assert result.error is not None
            assert result.error.code is ErrorCode.STALE_OBSERVATION
        assert "click_element" not in sent(rig)

    async def test_an_element_as_it_was_is_pressed(self, rig: Rig):
        await rig.call("screenshot")
        result = await approved(rig, "click_element", control_id="7")
        assert result.error is None
        assert sent(rig)[-1] == "click_element"

    async def test_an_element_that_is_gone_is_held(self, rig: Rig):
        await rig.call("screenshot")
        result = await approved(rig, "click_element", control_id="8")
        assert result.error is not None
        assert result.error.code is ErrorCode.STALE_OBSERVATION
        assert "no control fits it now" in result.error.message

    async def test_a_picture_that_an_agent_takes_meanwhile_does_not_make_it_fresh(
        self, rig: Rig, screen: Screen
    ):
        """Otherwise an agent could change the target and take a picture while a person reads the card."""
        await rig.call("screenshot")
        call = rig.start("click_element", control_id="7")
        waiting = await card_of(rig)
        screen.label = "Sell"
        await rig.dispatcher.dispatch(CommandRequest(DEVICE, "screenshot", {}, "agent:mallory"))
        await say_yes(rig, waiting)
        result = await call
        assert result.error is not None
        assert result.error.code is ErrorCode.STALE_OBSERVATION

    async def test_a_picture_made_forgotten_by_many_others_holds_the_click(self, rig: Rig):
        call = await self.click(rig)
        first = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        for _flood in range(80):
            await rig.dispatcher.dispatch(CommandRequest(DEVICE, "screenshot", {}, "agent:mallory"))
        late = rig.start("click_point", x=140, y=95, observation="ref-1")
        second = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        for waiting in (first, second):
            await say_yes(rig, waiting)
        # What was asked before the flood has its picture still.
        assert (await call).error is None
        result = await late
        assert result.error is not None
        assert result.error.code is ErrorCode.STALE_OBSERVATION
        assert "not known here any more" in result.error.message

    async def test_what_cannot_be_seen_any_more_is_held(self, rig: Rig, screen: Screen):
        call = await self.click(rig)
        screen.broken = "tool_failed: The display cannot be opened"
        await approve(rig)
        result = await call
        assert result.error is not None
        assert result.error.code is ErrorCode.STALE_OBSERVATION
        assert "cannot be seen" in result.error.message

    async def test_one_picture_serves_rule_and_freshness(self, rig: Rig):
        rig.policy.path.write_text(BOTH.replace("write_file", "click_point"))
        call = await self.click(rig)
        await approve(rig)
        assert (await call).error is None
        assert sent(rig) == [*["screenshot"] * 3, "click_point", "screenshot"]


def nested(levels: int, node: dict[str, Any]) -> dict[str, Any]:
    """A control below `levels` others."""
    for number in range(levels):
        node = {"id": f"f{number}", "role": "panel", "name": "", "box": None, "children": [node]}
    return node


def cut(node: dict[str, Any], depth: int) -> dict[str, Any]:
    """A tree as a device gives it that is asked for so many levels."""
    children = [cut(child, depth - 1) for child in node["children"]] if depth else []
    return {**node, "children": children}


NAMED = {"process_name": "editor", "role": "Button", "name": " save "}


class TestWhichControl:
    """What is compared is what the device will press; where that cannot be seen, nothing is pressed."""

    def button(self, screen: Screen, **more: Any) -> dict[str, Any]:
        x, y = screen.at
        box = {"x": x, "y": y, "width": 80, "height": 30}
        return {
            "id": "7",
            "role": "button",
            "name": "Save",
            "box": box,
            "states": ["showing"],
            "children": [],
            **more,
        }

    def shows(self, rig: Rig, *roots: dict[str, Any]) -> None:
        def tree(command: Command) -> Any:
            depth = int((command.parameters or {}).get("depth", 30))
            return {"tree": [cut(root, depth) for root in roots], "truncated": False}

        rig.tools.answers["get_ui_tree"] = tree

    async def press(self, rig: Rig, screen: Screen, changes: bool, **named: Any) -> CommandResult:
        await rig.call("screenshot")
        call = rig.start("click_element", **(named or NAMED))
        waiting = await card_of(rig)
        screen.label = "Sell" if changes else screen.label
        await say_yes(rig, waiting)
        return await call

    @pytest.mark.parametrize("changes", [False, True])
    @pytest.mark.parametrize("how", ["a hidden twin", "white space in its name", "far below", "by its id"])
    async def test_what_the_device_would_press_is_compared(
        self, rig: Rig, screen: Screen, how: str, changes: bool
    ):
        button, named = self.button(screen), NAMED
        match how:
            case "a hidden twin":
                self.shows(rig, button, self.button(screen, id="8", states=[], box=None))
            case "white space in its name":
                self.shows(rig, {**button, "name": "SAVE  "})
            case "far below":
                self.shows(rig, nested(38, button))
            case _:
                # The device asks no more once an id is given.
                self.shows(rig, nested(43, {**button, "name": "renamed"}))
                named = {"control_id": "7", "name": "Save"}
        result = await self.press(rig, screen, changes, **named)
        if changes:
            assert result.error is not None
            assert result.error.code is ErrorCode.STALE_OBSERVATION
            assert "look different" in result.error.message
            assert "click_element" not in sent(rig)
        else:
            assert result.error is None, result.error
            assert sent(rig)[-1] == "click_element"

    @pytest.mark.parametrize(
        "fault", ["gone", "twice", "no place", "odd box", "unreadable", "no tree", "denied"]
    )
    async def test_a_target_that_cannot_be_located_holds_the_command(
        self, rig: Rig, screen: Screen, fault: str
    ):
        button = self.button(screen)
        match fault:
            case "gone":
                self.shows(rig)
            case "twice":
                self.shows(rig, button, {**button, "id": "8"})
            case "no place":
                self.shows(rig, {**button, "box": None})
            case "odd box":
                self.shows(rig, {**button, "box": {"x": 0, "y": 0, "width": 1e308, "height": 1}})
            case "unreadable":
                failed = Result(status=ResultStatus.FAILURE, error="tool_failed: the bus does not answer")
                rig.tools.answers["get_ui_tree"] = lambda command: failed
            case "no tree":
                rig.tools.answers["get_ui_tree"] = lambda command: ["no", "tree"]
            case _:
                rig.policy.path.write_text(
                    '[[rule]]\nid = "blind"\ndecision = "deny"\ntool = "get_ui_tree"\n'
                )
        result = await self.press(rig, screen, changes=False)
        assert result.error is not None
        assert result.error.code is ErrorCode.STALE_OBSERVATION
        assert (result.verdict, result.basis) == (Verdict.REFUSED, Basis.NOTHING_SENT)
        assert "cannot be seen" in result.error.message
        assert "click_element" not in sent(rig)

    @pytest.mark.parametrize("hidden", [False, True])
    async def test_a_hidden_control_in_a_tree_that_was_cut_short_is_not_taken_for_the_target(
        self, rig: Rig, screen: Screen, hidden: bool
    ):
        """The device presses a control that shows before a hidden one, and may read on to one that does."""
        button = self.button(screen, states=[] if hidden else ["showing"])
        rig.tools.answers["get_ui_tree"] = lambda command: {"tree": [button], "truncated": True}
        result = await self.press(rig, screen, changes=False)
        assert (result.error is not None) == hidden
        if result.error is not None:
            assert result.error.code is ErrorCode.STALE_OBSERVATION
            assert "of those that could be read" in result.error.message
            assert "click_element" not in sent(rig)
        # An id is unique, so what was not read does not matter.
        assert (await self.press(rig, screen, changes=False, control_id="7")).error is None

    async def test_a_device_that_stops_offering_its_tree_meanwhile_is_held(self, rig: Rig, screen: Screen):
        await rig.call("screenshot")
        self.shows(rig, self.button(screen))
        call = rig.start("click_element", **NAMED)
        waiting = await card_of(rig)
        rig.tools.infos = [one for one in rig.tools.infos if one.tool_name != "get_ui_tree"]
        await rig.fleet.relist(DEVICE)
        await say_yes(rig, waiting)
        result = await call
        assert result.error is not None
        assert result.error.code is ErrorCode.STALE_OBSERVATION

    @pytest.mark.parametrize("without", ["its tree", "our own tool"])
    async def test_where_no_comparison_was_promised_the_approval_is_enough(self, home: Home, without: str):
        screen, infos = Screen(), list(TOOLS)
        if without == "its tree":
            infos = [one for one in infos if one.tool_name != "get_ui_tree"]
        else:
            infos = [
                one.model_copy(update={"namespace": "browser"}) if one.tool_name == "click_element" else one
                for one in infos
            ]
        async with open_rig(home, infos) as rig:
            rig.tools.answers["screenshot"] = screen
            self.shows(rig)
            assert (await self.press(rig, screen, changes=True)).error is None
            assert sent(rig)[-1] == "click_element"


SEEN_FIRST = """
[[rule]]
id = "seen"
decision = "allow"
risk = ["low", "medium", "high"]
tool = "write_file"
evidence = ["before"]
"""


@pytest.mark.parametrize(
    "stricter",
    [
        SEEN_FIRST.replace('"allow"', '"deny"').replace('evidence = ["before"]', ""),
        SEEN_FIRST.replace('"allow"', '"ask"'),
        'profile = "lockdown"\n' + SEEN_FIRST,
        "broken",
    ],
)
async def test_a_policy_that_became_stricter_while_a_picture_was_taken_counts(
    rig: Rig, screen: Screen, stricter: str
):
    rig.use_policy(SEEN_FIRST)

    def meanwhile(command: Command) -> Any:
        rig.use_policy(stricter)
        return screen(command)

    rig.tools.answers["screenshot"] = meanwhile
    result = await rig.call("write_file", **WRITE)
    assert result.verdict is Verdict.REFUSED
    assert "write_file" not in sent(rig)


async def test_what_was_allowed_is_sent_when_nothing_became_stricter(rig: Rig):
    rig.use_policy(SEEN_FIRST)
    result = await rig.call("write_file", **WRITE)
    assert result.verdict is Verdict.UNVERIFIED
    assert sent(rig)[-1] == "write_file"
