"""What a command passes before anything of it leaves the console: the refused is never sent."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest

from core import statements
from core.aip.messages import ResultStatus
from core.approvals.operator_keys import statement_for
from core.audit.entries import Kind
from core.commands.arguments import walked
from core.commands.request import CommandRequest
from core.commands.results import Basis, CommandResult, Verdict
from core.dispatch import approval_stage
from core.dispatch.argument_checks import harden
from core.errors import BadInput, DeviceError, ErrorCode
from core.home import Home
from core.models.devices import Health
from core.models.tools import Tool
from core.policy.models import Profile
from tests.fakes.fleet_data import make_devices, make_tools
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, USUAL_TOOLS, Rig, open_rig, tool_info


async def refused(rig: Rig, tool: str, parameters: dict[str, object]) -> ErrorCode:
    """Dispatch, and hold it to the promise of every refusal: nothing seen, journalled, a next step given."""
    seen = len(rig.tools.seen)
    result = await rig.dispatcher.dispatch(CommandRequest(DEVICE, tool, parameters, "operator:anna"))
    assert result.error
    assert result.error.next
    assert result.verdict is Verdict.REFUSED
    assert result.status is ResultStatus.FAILURE
    assert len(rig.tools.seen) == seen
    entries = [one for one in await rig.entries() if one.call_id == result.call_id]
    assert entries[-1].kind is Kind.COMMAND_REFUSED
    assert entries[-1].body["result"]["error"]["code"] == result.error.code
    assert not {Kind.INTENT_RECORDED, Kind.COMMAND_SENT} & {one.kind for one in entries}
    return result.error.code


def deep(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("tool", "parameters", "code"),
    [
        ("no_such_tool", {}, ErrorCode.UNKNOWN_TOOL),
        ("get_system_info", {}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": "memory", "extra": 1}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": 5}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": None}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": "me\x00mory"}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": float("nan")}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": 2**60}, ErrorCode.INVALID_ARGUMENTS),
        ("get_system_info", {"info_type": "\ud800"}, ErrorCode.INVALID_ARGUMENTS),
        ("read_file", {"file_path": "/tmp/a\nb"}, ErrorCode.INVALID_ARGUMENTS),
        ("read_file", {"file_path": ""}, ErrorCode.INVALID_ARGUMENTS),
        ("read_file", {"file_path": "/" + "a" * 5000}, ErrorCode.TOO_LARGE),
        ("write_file", {"file_path": "/tmp/x", "content": "x" * (50 << 20)}, ErrorCode.TOO_LARGE),
        ("get_system_info", {"info_type": deep(100)}, ErrorCode.TOO_LARGE),
        ("get_system_info", {"info_type": [0] * 200_000}, ErrorCode.TOO_LARGE),
    ],
)
async def test_bad_arguments_are_refused_with_a_clear_error_and_never_sent(
    home: Home, tool: str, parameters: dict[str, object], code: ErrorCode
):
    async with open_rig(home) as rig:
        assert await refused(rig, tool, parameters) is code


async def test_hardening_reaches_into_lists_and_objects(home: Home):
    nested = tool_info("nested", "action", {"rows": {"type": "array"}})
    async with open_rig(home, [nested]) as rig:
        for rows in ([{"name": ["a\x00b"]}], [{"file_path": "/tmp/\x1b[31m"}], [{"a\x00": 1}]):
            assert await refused(rig, "nested", {"rows": rows}) is ErrorCode.INVALID_ARGUMENTS


async def test_a_path_outside_the_roots_is_refused_also_through_a_symlink(home: Home, tmp_path: Path):
    root = tmp_path / "allowed"
    root.mkdir()
    (root / "way out").symlink_to("/etc")
    async with open_rig(home) as rig:
        await rig.connect(roots=[root])
        for path in ("/etc/passwd", f"{root}/../secret", f"{root}/way out/passwd", "~root/x", "relative"):
            assert await refused(rig, "read_file", {"file_path": path}) is ErrorCode.PATH_NOT_ALLOWED
        allowed = await rig.call("read_file", file_path=f"{root}/inside")
        assert allowed.status is ResultStatus.SUCCESS


async def test_the_roots_are_those_of_the_devices_own_tools(home: Home, tmp_path: Path):
    hosted = tool_info("get_contents", "action", {"path": {"type": "string"}}, namespace="forge")
    async with open_rig(home, [*USUAL_TOOLS, hosted]) as rig:
        await rig.connect(roots=[tmp_path])
        for path in ("README.md", "/", "src/main.py"):
            # A path of a repository is no path of this disk.
            rig.start("get_contents", path=path)
            waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
            assert waiting.request.parameters == {"path": path}


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("sources", {"sources": ["{open}/plain", "{open}/way/secret"]}),
        ("sources", {"sources": [["{open}/way"]]}),
        ("options.to", {"options": {"to": "{open}/way/new"}}),
        ("options.to", {"options": [{"to": "{open}/plain"}, {"to": "{open}/way/"}]}),
        ("sources", {"sources": ["{open}/./way//x/"]}),
    ],
)
async def test_links_are_followed_in_lists_and_objects_and_for_tools_of_any_server(
    home: Home, tmp_path: Path, name: str, sent: dict[str, object]
):
    (tmp_path / "closed").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "way").symlink_to(tmp_path / "closed")
    rules = '[[rule]]\nid = "{id}"\ndecision = "{word}"\nrisk = ">=low"\n'
    rules += '[rule.parameters."{name}"]\nbelow = "{at}"\n'
    home.policy.write_text(
        rules.format(id="no", word="deny", name=name, at=tmp_path / "closed")
        + rules.format(id="yes", word="allow", name=name, at=tmp_path / "open")
    )
    schema: dict[str, object] = {"sources": {}, "options": {}, "target": {}}
    copies = tool_info("copy", "action", schema, namespace="stranger")
    written = json.loads(json.dumps(sent).replace("{open}", str(tmp_path / "open")))
    async with open_rig(home, [*USUAL_TOOLS, copies]) as rig:
        await rig.connect(shares_disk=True)
        assert await refused(rig, "copy", written) is ErrorCode.DENIED_BY_POLICY
        plain = json.loads(json.dumps(written).replace("/way", "/plain"))
        assert (await rig.call("copy", **plain)).error is None
        # On another device's disk nothing is known but names.
        await rig.connect()
        assert (await rig.call("copy", **written)).error is None


async def test_the_disk_of_a_device_that_is_away_for_a_moment_is_still_this_computers(
    home: Home, tmp_path: Path
):
    async with open_rig(home) as rig:
        await rig.connect(roots=[tmp_path])
        rig.fleet.lost(DEVICE, None, "its process is started again", Health.RECONNECTING)
        target = rig.fleet.target(DEVICE)
        assert (target.channel, target.shares_disk, target.roots) == (None, True, [tmp_path])


async def test_an_unknown_device_and_a_device_that_is_away_are_told_apart(home: Home):
    async with open_rig(home) as rig:
        nobody = await rig.dispatcher.dispatch(CommandRequest("nobody", "screenshot", {}, "operator:anna"))
        assert nobody.error
        assert nobody.error.code is ErrorCode.UNKNOWN_DEVICE
        rig.fleet.lost(DEVICE, None, "unplugged", Health.OFFLINE)
        assert await refused(rig, "screenshot", {}) is ErrorCode.DEVICE_OFFLINE


@pytest.mark.parametrize(
    ("profile", "tool", "parameters", "expected"),
    [
        (Profile.OBSERVE, "screenshot", {}, "allow"),
        (Profile.OBSERVE, "write_file", {"file_path": "/tmp/x", "content": ""}, "deny"),
        (Profile.OBSERVE, "shell_execute", {"command": "true"}, "deny"),
        (Profile.GUARDED, "screenshot", {}, "allow"),
        (Profile.GUARDED, "write_file", {"file_path": "/tmp/x", "content": ""}, "ask"),
        (Profile.GUARDED, "shell_execute", {"command": "true"}, "ask"),
        (Profile.TRUSTED, "write_file", {"file_path": "/tmp/x", "content": ""}, "allow"),
        (Profile.TRUSTED, "shell_execute", {"command": "true"}, "ask"),
        (Profile.LOCKDOWN, "screenshot", {}, "ask"),
    ],
)
async def test_each_profile_lets_through_exactly_what_it_says(
    home: Home, profile: Profile, tool: str, parameters: dict[str, str], expected: str
):
    home.policy.write_text(f'profile = "{profile.value}"\n')
    async with open_rig(home) as rig:
        decision = rig.dispatcher.explain(DEVICE, tool, parameters)
        assert decision.answer.value == expected
        if expected == "deny":
            assert await refused(rig, tool, parameters) is ErrorCode.DENIED_BY_POLICY
        elif expected == "allow":
            result = await rig.call(tool, **parameters)
            assert result.status is ResultStatus.SUCCESS
            assert result.decision == decision


@pytest.mark.parametrize(
    "broken",
    [
        "profile = ",
        'profile = "open"',
        'profle = "trusted"',
        '[[profiles]]\nprofile = "trusted"\nx = 1',
        "\xff",
    ],
)
async def test_with_a_broken_policy_everything_asks(home: Home, broken: str):
    home.policy.write_bytes(broken.encode("latin-1"))
    async with open_rig(home) as rig:
        decision = rig.dispatcher.explain(DEVICE, "screenshot", {})
        assert decision.answer.value == "ask"
        assert "policy.toml" in decision.reasons[0].origin


async def test_a_device_cannot_talk_its_own_tool_into_low_risk(home: Home):
    claims = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    meta = {"quarterdeck": {"effect": "observe", "risk": "low", "reversible": True}}
    liars = [
        tool_info("wipe", "data_collection", namespace="stranger", annotations=claims, meta=meta),
        tool_info("screenshot", "data_collection", namespace="stranger", annotations=claims, meta=meta),
        tool_info("get_system_info", "action", annotations=claims, meta=meta),
    ]
    async with open_rig(home, liars) as rig:
        for tool in ("wipe", "screenshot", "get_system_info"):
            decision = rig.dispatcher.explain(DEVICE, tool, {})
            assert (decision.answer.value, decision.risk.value, decision.effect.value) == (
                "ask",
                "high",
                "unknown",
            )


async def test_a_device_may_raise_the_risk_of_its_tools(home: Home):
    worse = tool_info("screenshot", "data_collection", annotations={"destructiveHint": True})
    async with open_rig(home, [worse]) as rig:
        assert rig.dispatcher.explain(DEVICE, "screenshot", {}).answer.value == "ask"


async def test_a_tool_whose_definition_changed_is_blocked_until_it_is_reviewed(home: Home):
    async with open_rig(home) as rig:
        assert (await rig.call("screenshot")).status is ResultStatus.SUCCESS
        rig.tools.infos = [
            info.model_copy(update={"description": "now also deletes"})
            if info.tool_name == "screenshot"
            else info
            for info in USUAL_TOOLS
        ]
        await rig.connect()
        assert await refused(rig, "screenshot", {}) is ErrorCode.CONTRACT_CHANGED
        assert Kind.CONTRACT_CHANGED in [one.kind for one in await rig.entries()]
        [tool] = [one for one in rig.fleet.tools(DEVICE) if one.changed]
        await rig.fleet.review(DEVICE, tool.tool_key, tool.contract.digest, "operator:anna")
        assert (await rig.call("screenshot")).status is ResultStatus.SUCCESS


async def test_stopping_withdraws_what_waits_and_lets_nothing_leave_until_resumed(home: Home):
    async with open_rig(home) as rig:
        waiting = rig.start("shell_execute", command="true")
        await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        rig.dispatcher.stop("Stopped by anna.")
        rig.approvals.withdraw("Stopped by anna.")
        assert (await waiting).error.code is ErrorCode.STOPPED
        assert await refused(rig, "screenshot", {}) is ErrorCode.STOPPED
        rig.dispatcher.resume()
        assert (await rig.call("screenshot")).status is ResultStatus.SUCCESS


class Later(datetime):
    """A clock that is a minute ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(seconds=60)


async def test_a_signature_that_ran_out_before_the_last_approver_came_sends_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    home.policy.write_text('[[rule]]\nid = "two"\ndecision = "ask"\napprovers = 2\n')
    async with open_rig(home) as rig:
        other = rig.add_operator("bert")
        parameters = {"file_path": "/tmp/x", "content": "y"}
        order = CommandRequest(DEVICE, "write_file", parameters, "window:carl", operators=("carl",))
        call = rig.tasks.spawn("call write_file", rig.dispatcher.dispatch(order))
        waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        short = statement_for(waiting, "approve", "anna", valid_s=50)
        await rig.approvals.decide(rig.key.sign(short))
        monkeypatch.setattr(statements, "datetime", Later)
        await rig.approvals.decide(other.sign(statement_for(waiting, "approve", "bert", valid_s=100)))
        result = await call
        assert result.basis is Basis.NOTHING_SENT
        assert result.error is not None
        assert result.error.code is ErrorCode.APPROVAL_INVALID
        assert not rig.tools.seen


async def test_a_tools_name_of_any_length_is_refused_in_few_words(home: Home):
    async with open_rig(home) as rig:
        result = await rig.call("x" * 100_000)
        assert result.error is not None
        assert result.error.code is ErrorCode.UNKNOWN_TOOL
        assert len(result.error.message) < 400


@pytest.mark.parametrize("address", ["https://a.example/x", "HTTP://a", "data:text/plain;base64,aGk="])
def test_an_address_that_leads_to_the_web_or_holds_what_it_names_is_let_through(address: str):
    harden(_asks_for_an_address(), walked({"data": address}))


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "javascript:1", " https://a", "ftp://a", "a.example"]
)
def test_any_other_address_is_refused_with_the_arguments_name(address: str):
    with pytest.raises(BadInput, match="data must be an http, https or data address"):
        harden(_asks_for_an_address(), walked({"data": address}))


def _asks_for_an_address() -> Tool:
    [tool, *_] = make_tools(make_devices()[0])
    schema = {"type": "object", "properties": {"data": {"type": "string", "format": "uri"}}}
    return tool.model_copy(update={"input_schema": schema})


DENIES = '[[rule]]\nid = "no"\ntool = ["get_system_info"]\ndecision = "deny"\n'


async def ended(rig: Rig, tool: str, **parameters: object) -> CommandResult:
    return await rig.dispatcher.dispatch(CommandRequest(DEVICE, tool, dict(parameters), "operator:anna"))


async def test_a_result_tells_the_stage_that_the_command_ended_in(home: Home):
    async with open_rig(home) as rig:
        assert (await ended(rig, "no_such_tool")).stage == "prepare"
        assert (await ended(rig, "get_system_info", info_type=5)).stage == "validate"
        assert (await ended(rig, "read_file", file_path="/tmp/a\nb")).stage == "validate"
        assert (await ended(rig, "get_system_info", info_type="memory")).stage is None

        def fails(command: object) -> dict[str, object]:
            return {"error": "it did not work"}

        rig.tools.answers["get_system_info"] = fails
        assert (await ended(rig, "get_system_info", info_type="memory")).stage == "observe"

        def gone(command: object) -> None:
            raise DeviceError("It is away.", ErrorCode.DEVICE_OFFLINE)

        rig.tools.answers["get_system_info"] = gone
        assert (await ended(rig, "get_system_info", info_type="memory")).stage == "send"


async def test_a_denial_by_the_policy_ends_where_it_is_decided(home: Home):
    async with open_rig(home) as rig:
        rig.use_policy(DENIES)
        assert (await ended(rig, "get_system_info", info_type="memory")).stage == "decide"


async def test_the_journal_holds_a_result_without_its_stage(home: Home):
    async with open_rig(home) as rig:
        result = await ended(rig, "no_such_tool")
        entry = [one for one in await rig.entries() if one.call_id == result.call_id][-1]
        assert "stage" not in entry.body["result"]
        assert CommandResult.model_validate(entry.body["result"]).stage is None


@pytest.mark.parametrize("waits", [True, False])
async def test_a_signature_does_not_run_out_while_its_command_waits_for_its_turn(
    home: Home, monkeypatch: pytest.MonkeyPatch, waits: bool
):
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + (590.0 if waits else 1.0))
    monkeypatch.setattr(approval_stage, "time", later)

    async def turn() -> None:
        monkeypatch.setattr(statements, "datetime", Later)

    async with open_rig(home) as rig:
        parameters = {"file_path": "/tmp/x", "content": "y"}
        order = CommandRequest(DEVICE, "write_file", parameters, "window:carl", turn=turn)
        call = rig.tasks.spawn("call write_file", rig.dispatcher.dispatch(order))
        waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        await rig.approvals.decide(rig.key.sign(statement_for(waiting, "approve", "anna", valid_s=50)))
        result = await call
        assert (result.error is None) is waits
        assert bool(rig.tools.seen) is waits
