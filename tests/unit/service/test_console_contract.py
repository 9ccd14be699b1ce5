"""What every screen relies on: the fake console and a real service, over its socket, answer alike.

Each row is a call and what comes of it: an error's code, or a function that says whether the answer is right.
Rows of one object of the API are called in their order, on a console with an operator, anna. An argument may
be a function of what was answered before, or a signature of anna's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from core.approvals.models import ApprovalState, NotTaken
from core.approvals.operator_keys import OperatorKey, create_operator_key, statement_for
from core.batch.models import AskedExpression, Batch, CellState, RunState
from core.changes import Change, SignedIdentity, change_statement
from core.errors import ErrorCode, QuarterdeckError
from core.fleet.models import DeviceSettings
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.policy.models import Answer, Profile
from core.service import wishes
from core.service.console import BackupKey, Console, ControlChanged, api_methods
from core.service.local_console import LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from tests.fakes.console import FakeConsole
from tests.fakes.desk import open_service
from tests.fakes.fleet_data import make_devices
from tests.fakes.patience import PATIENCE_S

HERE, NOWHERE, NO_RUN = "this-computer", "nowhere", "r-9999"
NO_BLOB = "ab" * 32
SETTINGS = 'this_computer = "in-process"\nlisten = "127.0.0.1:0"\n'
READ = {"tool": "get_system_info", "parameters": {"info_type": "memory"}}
ASKS = {"tool": "shell_execute", "parameters": {"command": "sudo systemctl restart printer"}}
OTHER = {"command": "sudo systemctl restart other"}
BATCH = Batch.model_validate(
    {
        "name": "Look",
        "targets": f"name:{HERE}",
        "steps": [{"id": "look", "tool": READ["tool"], "with": READ["parameters"]}],
    }
)
ELSEWHERE = BATCH.model_copy(update={"targets": f"name:{NOWHERE}"})
BACKUP_KEY = BackupKey(salt="ab" * 32, key="cd" * 32)
STRICT = 'profile = "lockdown"\n'
DENIED = [CellState.REFUSED]


@dataclass
class Scene:
    """A console, the operator at it, a folder for files, and the last answer of each method."""

    console: Console
    key: OperatorKey
    folder: Path
    answers: dict[str, Any] = field(default_factory=dict)

    async def call(self, method: str, arguments: dict[str, Any]) -> Any:
        """Call a method by its name on the wire."""
        given = {}
        for name, value in arguments.items():
            value = value(self) if callable(value) else value
            given[name] = await value if inspect.isawaitable(value) else value
        declared = api_methods()[method]
        answer = await getattr(getattr(self.console, declared.api), declared.name)(**given)
        self.answers[method] = answer
        return answer


def signed(wish: Change, text: str = "") -> Callable[[Scene], Any]:
    """Anna's signature under what the console proposes."""

    async def sign(scene: Scene) -> Any:
        proposal = await scene.console.service.propose(wish, text)
        assert proposal.needs_signature
        return scene.key.sign_change(change_statement(proposal, "anna"))

    return sign


@dataclass(frozen=True)
class Later:
    """What is right of an answer, at once or after some events: the call is made again after each."""

    is_right: Callable[[Any], Any]


def run_of(method: str) -> Callable[[Scene], str]:
    """The run that a method answered last."""
    return lambda scene: scene.answers[method].summary.id


def request(scene: Scene) -> str:
    """The request that waits."""
    return str(scene.answers["approvals"][0].id)


def answer(verdict: Any) -> Callable[[Scene], Any]:
    """Anna's statement about the request that waits."""
    return lambda scene: scene.key.sign(statement_for(scene.answers["approvals"][0], verdict, "anna", "no"))


def forged(scene: Scene) -> Any:
    """A statement whose signature is another one's."""
    return answer("approve")(scene).model_copy(update={"signature": "00" * 64})


def forged_twice(scene: Scene) -> list[Any]:
    """The forged statement, named twice in one call."""
    return [forged(scene)] * 2


def listed(make: Callable[[Scene], Any]) -> Callable[[Scene], list[Any]]:
    """A list of the one value that `make` makes."""
    return lambda scene: [make(scene)]


def identity(scene: Scene) -> SignedIdentity:
    """Anna's proof for this connection."""
    return scene.key.sign_identity(scene.answers["state"].home_key, scene.answers["challenge"])


def names(answers: Any) -> list[str]:
    return [one.name for one in answers]


def parameters_of(approvals: Any) -> list[dict[str, Any]]:
    return [one.request.parameters for one in approvals]


Row = tuple[str, dict[str, Any], Any]
LAB = DeviceSettings(tags=["lab"])
CAREFUL = AgentSettings(profile=Profile.LOCKDOWN)
CASES: dict[str, list[Row]] = {
    "devices": [
        ("match_devices", {"targets": f"name:{HERE}"}, lambda found: names(found) == [HERE]),
        ("match_devices", {"targets": "tag:none-has-it"}, lambda found: found == []),
        ("match_devices", {"targets": "health:perhaps"}, ErrorCode.INVALID_ARGUMENTS),
        ("tools", {"device": HERE}, lambda tools: READ["tool"] in {one.tool_name for one in tools}),
        ("tools", {"device": NOWHERE}, ErrorCode.UNKNOWN_DEVICE),
        ("search_tools", {"words": "get_system_info"}, lambda hits: hits[0].tool == READ["tool"]),
        ("search_tools", {"words": "x", "targets": "health:perhaps"}, ErrorCode.INVALID_ARGUMENTS),
        (
            "describe_tool",
            {"device": HERE, "tool": READ["tool"]},
            lambda found: found.tool.tool_name == READ["tool"],
        ),
        ("describe_tool", {"device": HERE, "tool": "none"}, ErrorCode.UNKNOWN_TOOL),
        ("describe_tool", {"device": NOWHERE, "tool": "none"}, ErrorCode.UNKNOWN_DEVICE),
        ("contract_change", {"device": HERE, "tool_key": "action::none"}, ErrorCode.UNKNOWN_TOOL),
        (
            "review_contract",
            {"device": HERE, "tool_key": "action::none", "digest": "c" * 64},
            ErrorCode.UNKNOWN_TOOL,
        ),
        ("device_details", {"name": HERE}, lambda details: details.device.name == HERE),
        ("device_details", {"name": NOWHERE}, ErrorCode.UNKNOWN_DEVICE),
        ("refusals", {}, lambda refusals: isinstance(refusals, list)),
        ("doctor", {"name": HERE}, lambda checks: checks),
        ("doctor", {"name": NOWHERE}, ErrorCode.UNKNOWN_DEVICE),
        ("watch_pictures", {"devices": []}, lambda pictures: pictures == []),
        ("listening", {}, lambda listening: listening.url),
        ("listen", {"address": "here"}, ErrorCode.INVALID_ARGUMENTS),
        ("listen", {"address": "0.0.0.0:5999"}, ErrorCode.SIGNATURE_REQUIRED),
        ("listen", {"address": "127.0.0.1:0"}, lambda listening: not listening.secure),
        ("certificates", {}, lambda found: (found.present, found.next) == ("", "")),
        ("renew_certificate", {}, ErrorCode.INVALID_ARGUMENTS),
        ("switch_certificate", {}, ErrorCode.INVALID_ARGUMENTS),
        ("pair", {"name": "pad", "settings": LAB}, ErrorCode.SIGNATURE_REQUIRED),
        (
            "pair",
            {"name": "pad", "settings": LAB, "signed": signed(wishes.pairing_change("pad", LAB))},
            lambda pairing: pairing.name == "pad" and pairing.string.startswith("qd"),
        ),
        ("match_devices", {"targets": "tag:lab"}, lambda found: names(found) == ["pad"]),
        (
            "pair_listening",
            {"name": "pod", "string": "nonsense", "settings": LAB},
            ErrorCode.INVALID_ARGUMENTS,
        ),
        ("set_device", {"name": NOWHERE, "settings": LAB}, ErrorCode.UNKNOWN_DEVICE),
        ("set_device", {"name": "pad", "settings": LAB}, lambda device: device.tags == ["lab"]),
        ("accept_machine", {"name": NOWHERE, "identity": "f" * 64}, ErrorCode.UNKNOWN_DEVICE),
        ("accept_machine", {"name": "pad", "identity": "f" * 64}, ErrorCode.NOT_FOUND),
        ("reconnect", {"name": NOWHERE}, ErrorCode.UNKNOWN_DEVICE),
        ("revoke", {"name": NOWHERE}, ErrorCode.UNKNOWN_DEVICE),
        ("revoke", {"name": "pad"}, lambda device: not device.paired),
        ("forget", {"name": "pad"}, lambda nothing: nothing is None),
        ("forget", {"name": "pad"}, ErrorCode.UNKNOWN_DEVICE),
    ],
    "agents": [
        ("agents", {}, lambda agents: agents == []),
        ("agent_tallies", {}, lambda tallies: tallies == {}),
        (
            "introduce_agent",
            {"transport": "stdio", "program": "x", "version": "1"},
            ErrorCode.INVALID_ARGUMENTS,
        ),
        ("add_agent", {"name": "clerk", "settings": CAREFUL}, ErrorCode.SIGNATURE_REQUIRED),
        (
            "add_agent",
            {
                "name": "clerk",
                "settings": CAREFUL,
                "signed": signed(wishes.agent_added("clerk", CAREFUL)),
            },
            lambda new: new.agent.name == "clerk" and new.token.startswith("clerk."),
        ),
        ("agents", {}, lambda agents: names(agents) == ["clerk"]),
        ("agent_commands", {"name": "clerk"}, lambda page: page.commands == []),
        ("set_agent", {"name": "clerk", "settings": AgentSettings()}, ErrorCode.SIGNATURE_REQUIRED),
        ("set_agent", {"name": "ghost", "settings": CAREFUL}, ErrorCode.NOT_FOUND),
        ("pause_agent", {"name": "ghost"}, ErrorCode.NOT_FOUND),
        ("pause_agent", {"name": "clerk"}, lambda agent: agent.settings.paused),
        ("stop_agent", {"name": "ghost"}, ErrorCode.NOT_FOUND),
        ("stop_agent", {"name": "clerk"}, lambda words: "clerk" in words),
        ("revoke_agent", {"name": "clerk"}, lambda agent: agent.name == "clerk"),
        ("revoke_agent", {"name": "clerk"}, ErrorCode.NOT_FOUND),
    ],
    "runs": [
        ("plan", {"batch": BATCH}, lambda plan: plan.devices == [HERE]),
        (
            "try_expressions",
            {
                "batch": BATCH,
                "step": "none",
                "asked": [AskedExpression(place="when", text="1 == 1")],
            },
            ErrorCode.NOT_FOUND,
        ),
        ("start_run", {"batch": ELSEWHERE}, ErrorCode.UNKNOWN_DEVICE),
        ("start_run", {"batch": BATCH, "expected_devices": ["pad"]}, ErrorCode.INVALID_ARGUMENTS),
        ("start_run", {"batch": BATCH}, lambda run: run.summary.devices == [HERE]),
        (
            "wait_run",
            {"run": run_of("start_run"), "timeout": PATIENCE_S},
            lambda run: run.summary.state is RunState.DONE,
        ),
        ("call", {"device": NOWHERE, **READ}, ErrorCode.UNKNOWN_DEVICE),
        ("call", {"device": HERE, "tool": "none", "parameters": {}}, lambda run: run.summary.kind == "call"),
        (
            "wait_run",
            {"run": run_of("call"), "timeout": PATIENCE_S},
            lambda run: (
                run.cells[0].state is CellState.NO_SUCH_TOOL
                and run.cells[0].result.error.code is ErrorCode.UNKNOWN_TOOL
            ),
        ),
        ("call", {"device": HERE, **READ}, lambda run: run.summary.kind == "call"),
        ("wait_run", {"run": run_of("call"), "timeout": PATIENCE_S}, lambda run: run.cells[0].result),
        ("wait_run", {"run": NO_RUN, "timeout": 1.0}, ErrorCode.NOT_FOUND),
        ("run", {"run": run_of("call")}, lambda run: run.summary.state is RunState.DONE),
        ("run", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        ("run_cells", {"run": run_of("call")}, lambda page: (len(page.cells), page.next) == (1, None)),
        ("run_cells", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        ("run_output", {"run": run_of("call"), "device": HERE, "step": "none"}, ErrorCode.NOT_FOUND),
        ("run_results", {"run": run_of("call")}, lambda page: (len(page.results), page.next) == (1, None)),
        ("run_results", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        ("alternatives", {"run": NO_RUN, "device": HERE, "step": "call"}, ErrorCode.NOT_FOUND),
        ("run_blob", {"run": run_of("call"), "sha256": NO_BLOB}, ErrorCode.NOT_FOUND),
        (
            "compare_runs",
            {"before": run_of("call"), "after": run_of("call")},
            lambda comparison: comparison is not None,
        ),
        ("compare_runs", {"before": run_of("call"), "after": NO_RUN}, ErrorCode.NOT_FOUND),
        ("undo_plan", {"run": run_of("call")}, lambda plan: plan.calls == []),
        ("undo_plan", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        ("undo_run", {"run": run_of("call")}, ErrorCode.NOT_FOUND),
        ("cancel_run", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        ("cancel_run", {"run": run_of("call")}, lambda run: run.state is RunState.DONE),
        ("cancel_step", {"run": run_of("call"), "device": HERE, "step": "call"}, ErrorCode.WRONG_STATE),
        ("cancel_step", {"run": NO_RUN, "device": HERE, "step": "call"}, ErrorCode.NOT_FOUND),
        ("pause_run", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        ("pause_run", {"run": run_of("call")}, ErrorCode.WRONG_STATE),
        ("unpause_run", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        ("unpause_run", {"run": run_of("call")}, ErrorCode.WRONG_STATE),
        ("resume_run", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        ("resume_run", {"run": run_of("call")}, ErrorCode.WRONG_STATE),
        (
            "settle_step",
            {"run": run_of("call"), "device": HERE, "step": "call", "outcome": "done"},
            ErrorCode.WRONG_STATE,
        ),
        (
            "settle_step",
            {"run": NO_RUN, "device": HERE, "step": "call", "outcome": "done"},
            ErrorCode.NOT_FOUND,
        ),
        ("runs", {}, lambda runs: [run.kind for run in runs] == ["call", "call", "batch"]),
        ("runs", {"active": True}, lambda runs: runs == []),
        ("find_runs", {"words": "Look"}, lambda page: names(page.runs) == ["Look"]),
        ("find_runs", {"words": "nowhere-at-all"}, lambda page: page.runs == []),
        ("batches", {}, lambda batches: batches == []),
        ("load_batch", {"name": "Look"}, ErrorCode.NOT_FOUND),
        ("save_batch", {"name": "Look", "batch": BATCH}, lambda nothing: nothing is None),
        ("batches", {}, lambda batches: batches == ["Look"]),
        ("saved_batches", {}, lambda saved: [(one.name, one.steps) for one in saved] == [("Look", 1)]),
        ("load_batch", {"name": "Look"}, lambda batch: batch.steps == BATCH.steps),
        ("rename_batch", {"name": "none", "to": "Other"}, ErrorCode.NOT_FOUND),
        ("rename_batch", {"name": "Look", "to": "\n"}, ErrorCode.INVALID_ARGUMENTS),
        ("rename_batch", {"name": "Look", "to": "Other"}, lambda nothing: nothing is None),
        ("delete_batch", {"name": "Look"}, ErrorCode.NOT_FOUND),
        ("delete_batch", {"name": "Other"}, lambda nothing: nothing is None),
    ],
    "approvals": [
        ("approvals", {}, lambda waiting: waiting == []),
        ("approval", {"approval": "a-none"}, ErrorCode.NOT_FOUND),
        ("call", {"device": HERE, **ASKS}, lambda run: run.summary.kind == "call"),
        ("approvals", {}, Later(lambda waiting: parameters_of(waiting) == [ASKS["parameters"]])),
        ("approval", {"approval": request}, lambda found: found.decision.answer is Answer.ASK),
        ("hold", {"approval": request, "reading": True}, lambda held: held.paused),
        ("hold", {"approval": request, "reading": False}, lambda held: not held.paused),
        ("hold", {"approval": "a-none", "reading": True}, ErrorCode.NOT_FOUND),
        ("preview", {"approval": request}, lambda preview: preview.kind),
        ("preview", {"approval": "a-none"}, ErrorCode.NOT_FOUND),
        ("helpers", {"approval": request}, lambda helpers: isinstance(helpers, list)),
        ("helpers", {"approval": "a-none"}, ErrorCode.NOT_FOUND),
        ("run_helper", {"approval": request, "helper": "none"}, ErrorCode.NOT_FOUND),
        ("decide", {"signed": forged}, ErrorCode.APPROVAL_INVALID),
        (
            "decide_many",
            {"signed": forged_twice},
            lambda fates: [fate.why for fate in fates] == [NotTaken.NOT_SIGNED, NotTaken.BEING_ANSWERED],
        ),
        ("edit_approval", {"approval": request, "parameters": {}}, ErrorCode.INVALID_ARGUMENTS),
        (
            "edit_approval",
            {"approval": request, "parameters": OTHER},
            lambda edited: edited.state is ApprovalState.EDITED,
        ),
        ("approvals", {}, Later(lambda waiting: parameters_of(waiting) == [OTHER])),
        ("decide", {"signed": answer("deny")}, lambda decided: decided.decided_by == "anna"),
        ("decide", {"signed": answer("deny")}, ErrorCode.APPROVAL_INVALID),
        (
            "decide_many",
            {"signed": listed(answer("deny"))},
            lambda fates: (
                [(fate.state, fate.why) for fate in fates] == [(ApprovalState.DENIED, NotTaken.ENDED)]
            ),
        ),
        (
            "wait_run",
            {"run": run_of("call"), "timeout": PATIENCE_S},
            lambda run: [c.state for c in run.cells] == DENIED,
        ),
        ("approvals", {}, lambda waiting: waiting == []),
        ("fatigue", {"operator": "anna"}, lambda fatigue: fatigue.decided == 1),
        ("grants", {}, lambda grants: grants == []),
        ("revoke_grant", {"grant": "g-none"}, ErrorCode.NOT_FOUND),
        (
            "register_operator",
            {"operator": lambda scene: scene.key.operator},
            lambda known: known.name == "anna",
        ),
        ("remove_operator", {"name": "nobody"}, ErrorCode.NOT_FOUND),
        ("remove_operator", {"name": "anna"}, ErrorCode.DENIED_BY_POLICY),
    ],
    "policy": [
        ("explain", {"device": HERE, **READ}, lambda decision: decision.answer is Answer.ALLOW),
        ("explain", {"device": NOWHERE, **READ}, ErrorCode.UNKNOWN_DEVICE),
        ("explain", {"device": HERE, **READ, "tool": "none"}, ErrorCode.UNKNOWN_TOOL),
        ("explanation", {"device": HERE, **ASKS}, lambda found: found.decision.answer is Answer.ASK),
        ("explanation", {"device": NOWHERE, **ASKS}, ErrorCode.UNKNOWN_DEVICE),
        ("policy_text", {}, lambda text: len(text.digest) == 64),
        ("check_policy", {"text": STRICT}, lambda check: check.ok),
        ("check_policy", {"text": "profile = 7"}, lambda check: not check.ok),
        ("try_policy", {"text": STRICT}, lambda trial: trial.rows is not None),
        ("try_policy", {"text": "profile = 7"}, ErrorCode.INVALID_ARGUMENTS),
        ("save_policy", {"text": "profile = 7", "digest": "0" * 64}, ErrorCode.INVALID_ARGUMENTS),
        ("save_policy", {"text": STRICT, "digest": "0" * 64}, ErrorCode.APPROVAL_INVALID),
        ("accept_policy", {"digest": "0" * 64}, ErrorCode.APPROVAL_INVALID),
        ("set_profile", {"profile": Profile.TRUSTED}, ErrorCode.SIGNATURE_REQUIRED),
        ("set_profile", {"profile": Profile.LOCKDOWN}, lambda status: status.profile is Profile.LOCKDOWN),
        ("policy_text", {}, lambda text: "lockdown" in text.text),
        ("explain", {"device": HERE, **READ}, lambda decision: decision.answer is Answer.ASK),
    ],
    "journal": [
        ("entries", {"query": "kind:operator_registered"}, lambda page: len(page.entries) == 1),
        ("entries", {"query": "since:never"}, ErrorCode.INVALID_ARGUMENTS),
        ("entries", {"query": "tool:none"}, lambda page: (page.entries, page.more) == ([], False)),
        ("entry_numbers", {"query": "kind:operator_registered"}, lambda page: len(page.numbers) == 1),
        ("export_entries", {"query": "kind:operator_registered"}, lambda page: len(page.entries) == 1),
        ("export_entries", {"query": "kind:none"}, ErrorCode.INVALID_ARGUMENTS),
        ("entry", {"seq": lambda scene: scene.answers["entry_numbers"].numbers[0]}, lambda entry: entry.seq),
        ("entry", {"seq": 10**6}, ErrorCode.NOT_FOUND),
        ("histogram", {}, lambda buckets: sum(one.count for one in buckets)),
        ("histogram", {"query": "tool:none"}, lambda buckets: not sum(one.count for one in buckets)),
        (
            "facets",
            {"field": "kind", "prefix": "operator_r"},
            lambda found: found[0].value == "operator_registered",
        ),
        ("call", {"device": HERE, **READ}, lambda run: run.summary.kind == "call"),
        ("wait_run", {"run": run_of("call"), "timeout": PATIENCE_S}, lambda run: run.cells[0].call_id),
        (
            "command",
            {"call_id": lambda scene: scene.answers["wait_run"].cells[0].call_id},
            lambda record: record.decision.answer is Answer.ALLOW and record.entries,
        ),
        ("command", {"call_id": "c-none"}, ErrorCode.NOT_FOUND),
        ("blob", {"sha256": NO_BLOB}, ErrorCode.NOT_FOUND),
        ("proof", {"seq": 1}, lambda proof: proof.seq == 1),
        ("proof", {"seq": 10**6}, ErrorCode.NOT_FOUND),
        ("verify", {}, lambda report: report.ok),
        ("timeline", {"run": run_of("call")}, lambda timeline: timeline.moments),
        ("timeline", {"run": NO_RUN}, ErrorCode.NOT_FOUND),
        (
            "find_in_results",
            {"words": ["nowhere-at-all"], "run": run_of("call")},
            lambda hits: hits.numbers == [[]],
        ),
    ],
    "service": [
        ("state", {}, lambda state: (names(state.devices), names(state.operators)) == ([HERE], ["anna"])),
        ("challenge", {}, lambda challenge: challenge),
        (
            "identify",
            {"signed": lambda scene: identity(scene).model_copy(update={"signature": "00" * 64})},
            ErrorCode.APPROVAL_INVALID,
        ),
        ("challenge", {}, lambda challenge: challenge),
        ("identify", {"signed": identity}, lambda operator: operator.name == "anna"),
        ("propose", {"wish": wishes.RESUME}, lambda proposal: not proposal.needs_signature),
        (
            "propose",
            {"wish": wishes.agent_added("clerk", CAREFUL)},
            lambda proposal: proposal.needs_signature,
        ),
        ("accept_settings", {}, lambda status: status.profile is Profile.GUARDED),
        ("stop_all", {}, lambda words: words),
        ("state", {}, lambda state: state.stopped),
        ("call", {"device": HERE, **READ}, lambda run: run.summary.kind == "call"),
        (
            "wait_run",
            {"run": run_of("call"), "timeout": PATIENCE_S},
            lambda run: run.cells[0].result.error.code is ErrorCode.STOPPED,
        ),
        ("resume", {}, ErrorCode.SIGNATURE_REQUIRED),
        ("resume", {"signed": signed(wishes.RESUME)}, lambda nothing: nothing is None),
        ("state", {}, lambda state: not state.stopped),
        (
            "backup",
            {"path": lambda scene: f"{scene.folder}/desk.tar", "key": BACKUP_KEY},
            lambda made: made.path.endswith("/desk.tar") and made.entries and not made.left_out,
        ),
        ("shut_down", {"cancel_work": True}, lambda words: words),
    ],
}


@asynccontextmanager
async def a_fake(home: Home) -> AsyncIterator[Console]:
    """The fake console, with one device."""
    yield FakeConsole([device for device in make_devices() if device.name == HERE])


@asynccontextmanager
async def a_service(home: Home) -> AsyncIterator[Console]:
    """A real service over its real socket; this computer is its only device."""
    (home.path / "settings.toml").write_text(SETTINGS)
    async with open_service(home) as service:
        server = ControlServer(LocalConsoles(service), home)
        await server.open()
        console = await RemoteConsole.connect(home, "window", "window:anna")
        try:
            yield console
        finally:
            await console.close()
            await server.close()


@pytest.fixture(params=[a_fake, a_service])
async def scene(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> AsyncIterator[Scene]:
    key = create_operator_key(home, "anna", None)
    async with request.param(home) as console:
        await console.approvals.register_operator(key.operator)
        yield Scene(console, key, tmp_path)


async def problem_of(scene: Scene, row: Row) -> str | None:
    """What is not as the row says."""
    method, arguments, expected = row
    what = f"{method} {arguments}"
    try:
        events = scene.console.events()
        answer = await scene.call(method, arguments)
        if isinstance(expected, Later):
            async with asyncio.timeout(PATIENCE_S):
                while not expected.is_right(answer):
                    await anext(events)
                    answer = await scene.call(method, arguments)
            return None
    except QuarterdeckError as error:
        return None if error.code is expected else f"{what}: {error.code} ({error.message})"
    if isinstance(expected, ErrorCode):
        return f"{what}: no error, but {answer!r:.300}"
    return None if expected(answer) else f"{what}: {answer!r:.300}"


def test_every_method_of_the_api_is_called():
    assert {method for rows in CASES.values() for method, *_ in rows} == set(api_methods())


@pytest.mark.parametrize("api", CASES)
async def test_fake_and_service_answer_alike(scene: Scene, api: str):
    problems = [await problem_of(scene, row) for row in CASES[api]]
    assert [problem for problem in problems if problem] == []


async def test_fake_and_service_tell_of_changes_alike(scene: Scene):
    events = scene.console.events()
    await scene.console.service.state()
    await scene.console.runs.call(HERE, **READ)
    await scene.console.service.stop_all()
    seen: set[str] = set()
    async with asyncio.timeout(PATIENCE_S):
        while not seen >= {"run", "cell", "journal", "control"}:
            event = await anext(events)
            if not isinstance(event, ControlChanged) or event.stopped:
                seen.add(event.event)
