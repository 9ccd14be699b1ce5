"""Arguments that passed once are not looked at again; nothing else ever passes because of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.audit.entries import Kind
from core.commands import arguments
from core.commands.arguments import PreparedCall, walked
from core.commands.request import CommandRequest
from core.dispatch.call_preparer import CallPreparer
from core.dispatch.redaction import Redactor
from core.errors import BadInput, ErrorCode
from core.home import Home
from core.models.devices import Health
from core.models.tools import Tool
from core.schema_forms.validator import ThreadedValidator
from tests.fakes.arguments import tool_of
from tests.fakes.rig import DEVICE, TEXT, USUAL_TOOLS, Rig, open_rig, tool_info

READ = {"info_type": "memory"}


def count_validations(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    real = ThreadedValidator.errors

    async def counting(self: ThreadedValidator, schema: Any, parameters: Any, digest: str) -> Any:
        seen.append(dict(parameters))
        return await real(self, schema, parameters, digest)

    monkeypatch.setattr(ThreadedValidator, "errors", counting)
    return seen


async def code_of(rig: Rig, parameters: dict[str, Any], tool: str = "get_system_info") -> ErrorCode | None:
    result = await rig.dispatcher.dispatch(CommandRequest(DEVICE, tool, parameters, "operator:anna"))
    return result.error.code if result.error else None


async def test_the_same_arguments_are_looked_at_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_rig(home) as rig:
        seen = count_validations(monkeypatch)
        for _ in range(3):
            assert await code_of(rig, dict(READ)) is None
        assert seen == [READ]


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"info_type": "memory", "extra": "memory"},
        {"info_type": ["memory"]},
        {"info_type": {"info_type": "memory"}},
        {"info_type": 1},
        {"info_type": None},
        {"info_type": "mem\x00ory"},
        {"info_type": "memory\ud800"},
        {"info_type": "m" * (2 << 20)},
    ],
)
async def test_other_arguments_are_refused_whatever_passed_before(home: Home, other: dict[str, Any]) -> None:
    async with open_rig(home) as rig:
        assert await code_of(rig, dict(READ)) is None
        sent = len(rig.tools.seen)
        assert await code_of(rig, other) in {ErrorCode.INVALID_ARGUMENTS, ErrorCode.TOO_LARGE}
        assert len(rig.tools.seen) == sent


async def test_the_same_object_with_another_value_in_it_is_looked_at_again(home: Home) -> None:
    async with open_rig(home) as rig:
        parameters: dict[str, Any] = dict(READ)
        assert await code_of(rig, parameters) is None
        parameters["info_type"] = 7
        assert await code_of(rig, parameters) is ErrorCode.INVALID_ARGUMENTS


async def test_what_was_refused_is_refused_again(home: Home) -> None:
    async with open_rig(home) as rig:
        for _ in range(3):
            assert await code_of(rig, {"info_type": 5}) is ErrorCode.INVALID_ARGUMENTS
        assert rig.tools.seen == []


async def test_a_reviewed_definition_is_asked_anew(home: Home) -> None:
    async with open_rig(home) as rig:
        assert await code_of(rig, dict(READ)) is None
        [before] = [tool for tool in rig.fleet.tools(DEVICE) if tool.tool_name == "get_system_info"]
        wants_more = tool_info(
            "get_system_info", "data_collection", {"info_type": TEXT, "depth": TEXT}, ["info_type", "depth"]
        )
        others = [one for one in USUAL_TOOLS if one.tool_name != "get_system_info"]
        rig.tools.infos = [*others, wants_more]
        await rig.connect()
        assert await code_of(rig, dict(READ)) is ErrorCode.CONTRACT_CHANGED
        [now] = [tool for tool in rig.fleet.tools(DEVICE) if tool.tool_name == "get_system_info"]
        assert now.contract.digest != before.contract.digest
        await rig.fleet.review(DEVICE, now.tool_key, now.contract.digest, "operator:anna")
        assert await code_of(rig, dict(READ)) is ErrorCode.INVALID_ARGUMENTS


async def test_a_path_on_a_shared_disk_is_followed_each_time(home: Home, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    link = inside / "link"
    link.symlink_to(inside)
    async with open_rig(home) as rig:
        await rig.connect(roots=[inside])
        parameters = {"file_path": str(link / "notes.txt")}
        assert await code_of(rig, dict(parameters), "read_file") is None
        link.unlink()
        link.symlink_to(outside)
        assert await code_of(rig, dict(parameters), "read_file") is ErrorCode.PATH_NOT_ALLOWED


async def test_a_secret_is_masked_every_time(home: Home) -> None:
    login = tool_info("login", "data_collection", {"password": TEXT}, ["password"])
    async with open_rig(home, [*USUAL_TOOLS, login], expiry_s=0.2) as rig:
        for _ in range(3):
            await code_of(rig, {"password": "correct horse"}, "login")
        prepared = [one for one in await rig.entries() if one.kind is Kind.COMMAND_PREPARED]
        assert len(prepared) == 3
        assert all(set(one.body["parameters"]["password"]) == {"$secret"} for one in prepared)
        assert "correct horse" not in str(prepared)


def test_values_that_are_not_the_same_have_different_digests() -> None:
    values: list[Any] = [
        1,
        "1",
        True,
        "true",
        None,
        "null",
        "",
        0,
        False,
        -1,
        1.5,
        "1.5",
        '"',
        "\\",
        "\u00e9",
        "e\u0301",
    ]
    found = [walked({name: value}) for name in ("a", "b") for value in values]
    assert all(one.is_exact for one in found)
    assert len({one.digest for one in found}) == len(found)


@pytest.mark.parametrize("odd", [{"a": 1.0}, {"a": 1e300}, {"a": [-0.0]}, {"a": "x" * 5000}])
def test_what_is_large_or_shares_its_digest_with_other_values_is_checked_each_time(
    odd: dict[str, Any],
) -> None:
    tool = tool_of()
    preparer = CallPreparer(None, Redactor(b"x" * 32))  # type: ignore[arg-type]  # no device is asked for its tools
    for _ in range(2):
        arguments = preparer.take(tool, odd)
        assert not isinstance(arguments, PreparedCall)
        preparer.prepare_at_once(tool, arguments)


@pytest.mark.parametrize("odd", [{"a": float("nan")}, {1: "a"}, {"a": "\ud800"}, {"a": b"x"}])
def test_what_has_no_canonical_form_is_refused_at_the_door(odd: dict[Any, Any]) -> None:
    with pytest.raises(BadInput):
        walked(odd)


async def test_several_problems_are_sentences_that_each_name_their_argument(home: Home) -> None:
    async with open_rig(home) as rig:
        two = {"info_type": 7, "more": 1}
        many = {f"more_{number}": 1 for number in range(9)}
        for wrong, names, end in ((two, two, "."), (many, list(many)[:5], "And 5 more.")):
            result = await rig.dispatcher.dispatch(
                CommandRequest(DEVICE, "get_system_info", wrong, "operator:anna")
            )
            assert result.error is not None
            said = result.error.message
            assert [name for name in names if f"{name} " not in said] == []
            assert ".;" not in said
            assert ".." not in said
            assert said.endswith(end)
        assert rig.tools.seen == []


async def test_a_command_does_not_move_the_time_since_when_a_device_is_online(home: Home) -> None:
    async with open_rig(home) as rig:
        online = rig.fleet.get(DEVICE)
        rig.fleet.began(DEVICE, "call-1", "get_system_info")
        busy = rig.fleet.get(DEVICE)
        assert busy.health is Health.BUSY
        assert await code_of(rig, dict(READ)) is None
        after = rig.fleet.get(DEVICE)
        assert after.last_heard is not None
        assert after.last_heard > online.since
        assert [busy.since, after.since] == [online.since] * 2
        assert rig.fleet.history(DEVICE)[-1].at >= online.since


async def test_equal_calls_are_analysed_once_for_many_devices(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[str] = []
    real = arguments.analyze_call

    def counting(tool: Tool, *more: Any, **named: Any) -> Any:
        analysed.append(tool.tool_name)
        return real(tool, *more, **named)

    monkeypatch.setattr(arguments, "analyze_call", counting)
    async with open_rig(home) as rig:
        for _ in range(10):
            assert rig.dispatcher.explain(DEVICE, "get_system_info", dict(READ)).summary
        assert await code_of(rig, dict(READ)) is None
    assert analysed == ["get_system_info"]
