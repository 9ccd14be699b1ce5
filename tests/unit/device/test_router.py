"""Routing: every command gets an answer, and every tool a full contract."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import psutil
import pytest

from core.aip.extensions import CommandOptions, unpack_blob
from core.aip.frames import read_error_text
from core.aip.messages import Command, Result, ResultStatus
from core.device import DeviceConfig, Router, build_router, metrics, system_info
from core.device.binary_values import BinaryResult
from core.device.config import Limits, PinnedOperator
from core.device.frame_runner import SKIPPED, FrameRunner
from core.device.frames import Step, read_frame
from core.device.guard import Guard, result_size, text_within
from core.device.system_info import FACTS
from core.device.tool import OBSERVES, Tool, ToolCall, object_schema
from core.errors import BadInput, DeviceError, ErrorCode

OFFERED = {
    "get_system_info",
    "SYS_INFO",
    "read_file",
    "write_file",
    "restore_file",
    "shell_execute",
    "EXEC_CLI",
    "list_tools",
    "get_mcp_tools",
}


@pytest.fixture
async def router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Router]:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    built = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "router")
    yield built
    await built.close()


def look(tool: str, kind: Any = "data_collection", /, **arguments: Any) -> Command:
    return Command(tool_name=tool, tool_type=kind, parameters=arguments or None, call_id="c")


async def error_of(router: Router, command: Command) -> tuple[ErrorCode, str]:
    result = await router.run(command, 10)
    assert result.status is ResultStatus.FAILURE
    assert result.call_id == command.call_id
    told = read_error_text(result.error or "")
    return told.code, told.message


async def test_every_tool_has_description_schemas_annotations_and_contract(router: Router) -> None:
    infos = {info.tool_name: info for info in router.tools()}
    assert set(infos) >= OFFERED
    for info in infos.values():
        assert info.description
        assert info.namespace == "builtin"
        assert info.tool_key == f"{info.tool_type}::{info.tool_name}"
        assert info.input_schema is not None
        assert info.output_schema is not None
        assert info.input_schema["additionalProperties"] is False
        jsonschema.Draft202012Validator.check_schema(info.input_schema)
        jsonschema.Draft202012Validator.check_schema(info.output_schema)
        contract = (info.meta or {})["quarterdeck"]
        assert set(contract) == {"effect", "risk", "reversible", "idempotent", "platforms"}
        assert (contract["effect"] == "observe") == (info.tool_type == "data_collection")
        assert (info.annotations or {})["readOnlyHint"] == (contract["effect"] == "observe")


async def test_every_result_is_what_its_schema_says(router: Router, tmp_path: Path) -> None:
    schemas = {info.tool_name: info.output_schema or {} for info in router.tools()}
    path = str(tmp_path / "x")
    commands = [look(tool, info_type=kind) for tool in ("get_system_info", "SYS_INFO") for kind in FACTS]
    commands += [
        look("write_file", "action", file_path=path, content="1"),
        look("read_file", file_path=path),
        look("shell_execute", "action", command="true"),
        look("EXEC_CLI", "action", command="true"),
        look("list_tools"),
        look("get_mcp_tools"),
    ]
    for command in commands:
        result = await router.run(command, 10)
        assert result.status is ResultStatus.SUCCESS, result.error
        jsonschema.validate(result.result, schemas[command.tool_name])
        if command.tool_name == "write_file":
            undone = await router.run(look("restore_file", "action", undo_id=result.result["undo"]), 10)
            jsonschema.validate(undone.result, schemas["restore_file"])
            await router.run(command, 10)


async def test_system_info_has_numbers_and_sys_info_has_texts(router: Router) -> None:
    numbers = (await router.run(look("get_system_info", info_type="memory"), 10)).result
    assert 0 < numbers["used_bytes"] < numbers["total_bytes"]
    assert 0 < numbers["use_percent"] < 100
    texts = (await router.run(look("SYS_INFO", info_type="memory"), 10)).result["data"]
    assert set(texts) == {"total", "used", "free", "available", "swap_total", "swap_used"}
    assert texts["total"].endswith(("MB", "GB"))
    stamp = (await router.run(look("SYS_INFO", info_type="os"), 10)).result["timestamp"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    disks = (await router.run(look("get_system_info", info_type="disk"), 10)).result["filesystems"]
    assert disks[0]["mount_point"] == "/"


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0B"), (1536, "1.5KB"), (16 << 30, "16GB"), (25_198_000_000, "23.5GB"), (99 << 50, "101376TB")],
)
async def test_a_size_of_sys_info_keeps_its_decimal(
    router: Router, monkeypatch: pytest.MonkeyPatch, size: int, words: str
) -> None:
    names = ("total", "used", "free", "available", "swap_total", "swap_used")
    monkeypatch.setitem(FACTS, "memory", lambda: {f"{name}_bytes": size for name in names})
    data = (await router.run(look("SYS_INFO", info_type="memory"), 10)).result["data"]
    assert data == dict.fromkeys(names, words)


@pytest.mark.skipif(sys.platform != "linux", reason="reads sysfs")
async def test_both_tools_name_disks_and_their_controllers_and_sys_info_writes_sizes_as_texts(
    router: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, pci = tmp_path / "block", tmp_path / "pci"
    for path, text in {
        block / "sda" / "size": "2097152",
        block / "sda" / "queue" / "rotational": "1",
        block / "sda" / "device" / "model": "A Disk  ",
        block / "loop0" / "size": "8",
        pci / "0000:00:1f.2" / "class": "0x010601",
        pci / "0000:00:1f.2" / "vendor": "0x8086",
        pci / "0000:00:1f.2" / "device": "0x1c02",
        pci / "0000:00:02.0" / "class": "0x030000",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    monkeypatch.setattr(system_info, "_BLOCK", block)
    monkeypatch.setattr(system_info, "_PCI", pci)
    numbers = (await router.run(look("get_system_info", info_type="hardware"), 10)).result
    schemas = {tool.tool_name: tool.output_schema for tool in router.tools()}
    jsonschema.validate(numbers, schemas["get_system_info"])
    assert numbers["disks"] == [{"name": "sda", "model": "A Disk", "rotational": True, "size_bytes": 1 << 30}]
    data = (await router.run(look("SYS_INFO", info_type="hardware"), 10)).result["data"]
    assert data["disk_controllers"] == numbers["disk_controllers"]
    assert data["disks"] == [{"name": "sda", "model": "A Disk", "rotational": True, "size": "1GB"}]
    [controller] = data["disk_controllers"]
    assert (controller["address"], controller["kind"]) == ("0000:00:1f.2", "sata")
    assert data["memory_total"].endswith("B")
    interfaces = (await router.run(look("SYS_INFO", info_type="network"), 10)).result["data"]["interfaces"]
    assert all(row["sent"].endswith("B") and "sent_bytes" not in row for row in interfaces)


async def test_facts_that_windows_cannot_tell_without_performance_counters_are_null(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disabled() -> None:
        raise RuntimeError("PdhAddEnglishCounterW failed. Performance counters may be disabled.")

    monkeypatch.setattr(system_info, "_IS_LINUX", False)
    for name in ("swap_memory", "getloadavg"):
        monkeypatch.setattr(psutil, name, disabled)
    schemas = {tool.tool_name: tool.output_schema for tool in router.tools()}
    memory = (await router.run(look("get_system_info", info_type="memory"), 10)).result
    cpu = (await router.run(look("get_system_info", info_type="cpu"), 10)).result
    for facts in (memory, cpu):
        jsonschema.validate(facts, schemas["get_system_info"])
    assert (memory["swap_total_bytes"], memory["swap_used_bytes"], cpu["load_average"]) == (None, None, None)
    assert memory["total_bytes"] == psutil.virtual_memory().total
    assert cpu["threads"] == psutil.cpu_count()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_machine_that_says_odd_things_is_described_all_the_same(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_battery() -> None:
        raise FileNotFoundError("/sys/class/power_supply/BAT0/energy_now")

    def latin() -> dict[str, str]:
        raise UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "invalid start byte")

    root = psutil.disk_usage("/")
    stick = SimpleNamespace(device="/dev/sda1", mountpoint=os.fsdecode(b"/media/caf\xe9"), fstype="vfat")
    monkeypatch.setattr(psutil, "sensors_battery", no_battery, raising=False)
    monkeypatch.setattr(psutil, "disk_partitions", lambda **words: [stick])
    monkeypatch.setattr(psutil, "disk_usage", lambda path: root)
    monkeypatch.setattr(platform, "freedesktop_os_release", latin)
    monkeypatch.setenv("LOGNAME", "somebody-else")
    system_info._distribution.cache_clear()

    async def of(kind: str) -> Any:
        answer = await router.run(look("get_system_info", info_type=kind), 10)
        assert answer.error is None
        return answer.result

    assert (await of("disk"))["filesystems"][1]["mount_point"] == "/media/caf\\xe9"
    assert (await of("hardware"))["battery_percent"] is None
    about = await of("os")
    assert (about["user"], about["version"]) == (psutil.Process().username(), platform.version())
    system_info._distribution.cache_clear()


def test_how_busy_the_processors_are_is_told_of_now_however_often_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, busy, load = 1000.0, 100.0, 0.9

    def go_on(seconds: float) -> None:
        nonlocal now, busy
        now, busy = now + seconds, busy + seconds * load

    # As the kernel counts: in hundredths.
    monkeypatch.setattr(metrics, "_times", lambda: (round(busy, 2), round(now, 2)))
    share = metrics.CpuSampler(lambda: now, go_on)
    assert not share.is_instant()
    assert share.read() == pytest.approx(90, abs=3)
    for _ in range(20):
        go_on(0.005)
        assert share.is_instant()
        assert share.read() == pytest.approx(90, abs=3)
    # It was idle for an hour in which nobody asked.
    load = 0.0
    go_on(3600)
    load = 0.5
    assert not share.is_instant()
    assert share.read() == pytest.approx(50, abs=3)


def test_a_machine_that_hides_its_counters_ends_nothing_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden() -> tuple[float, float]:
        raise FileNotFoundError("/proc/stat")

    monkeypatch.setattr(metrics, "_times", hidden)
    share = metrics.CpuSampler(sleep=lambda seconds: None)
    assert not share.is_instant()
    with pytest.raises(FileNotFoundError):
        share.read()
    monkeypatch.setattr(metrics, "_times", iter([(1.0, 10.0), (2.0, 12.0)]).__next__)
    assert share.read() == 50.0


async def test_what_comes_after_its_deadline_is_not_begun(router: Router, tmp_path: Path) -> None:
    for seconds in (0.0, -3.0):
        late = look("write_file", "action", file_path=str(tmp_path / "late"), content="x")
        result = await router.run(late, seconds)
        assert read_error_text(result.error or "").code is ErrorCode.TIMEOUT
        assert "-" not in (result.error or "")
    assert not (tmp_path / "late").exists()


async def test_what_is_not_offered_says_why_and_what_to_do(router: Router) -> None:
    (missing,) = (row for row in router.unavailable if row.tool == "screenshot")
    assert "DISPLAY" in missing.reason
    code, message = await error_of(router, look("screenshot"))
    assert code is ErrorCode.UNKNOWN_TOOL
    assert missing.how_to_fix in message


async def test_an_unknown_tool_is_answered_with_the_tools_there_are(router: Router) -> None:
    code, message = await error_of(router, look("format_disk", "action"))
    assert code is ErrorCode.UNKNOWN_TOOL
    assert "shell_execute" in message


async def test_a_tool_under_the_wrong_type_is_not_run(router: Router, tmp_path: Path) -> None:
    code, message = await error_of(router, look("shell_execute", command=f"touch {tmp_path}/ran"))
    assert code is ErrorCode.UNKNOWN_TOOL
    assert "offered as action" in message
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"info_type": "gpu"}, "Unknown info type: gpu. One of: memory, disk, cpu, network, hardware, os"),
        ({}, "get_system_info needs the argument info_type"),
        ({"info_type": "cpu", "extra": 1}, "get_system_info has no argument extra. It takes: info_type"),
        ({"info_type": ["cpu"]}, "Unknown info type: ['cpu']."),
    ],
)
async def test_a_wrong_argument_is_named_with_what_is_allowed(
    router: Router, arguments: dict[str, Any], said: str
) -> None:
    code, message = await error_of(router, look("get_system_info", **arguments))
    assert code is ErrorCode.INVALID_ARGUMENTS
    assert message.startswith(said)


@pytest.mark.parametrize("value", [True, 1.5, "1", None, [1]])
async def test_an_argument_of_the_wrong_type_is_named(router: Router, value: Any) -> None:
    code, message = await error_of(router, look("read_file", file_path="/x", offset=value))
    assert code is ErrorCode.INVALID_ARGUMENTS
    assert message.startswith("offset must be of type integer")


async def test_a_50_mib_argument_is_refused_by_its_size(router: Router, tmp_path: Path) -> None:
    huge = "x" * (50 * 1024 * 1024)
    code, message = await error_of(
        router, look("write_file", "action", file_path=str(tmp_path / "x"), content=huge)
    )
    assert code is ErrorCode.TOO_LARGE
    assert len(message) < 200
    assert not (tmp_path / "x").exists()


async def test_a_tool_switched_off_on_the_device_is_not_offered(tmp_path: Path) -> None:
    config = DeviceConfig(roots=(tmp_path,), tools_off=frozenset({"shell_execute"}))
    router = build_router(config, tmp_path / "state", "router")
    assert "shell_execute" not in {info.tool_name for info in router.tools()}
    code, message = await error_of(router, look("shell_execute", "action", command="true"))
    assert code is ErrorCode.UNKNOWN_TOOL
    assert "switched off" in message
    await router.close()


async def test_the_listing_answers_under_both_types_and_filters(router: Router) -> None:
    stock_form = await router.run(look("list_tools", "action", tool_type="action"), 10)
    assert {info["tool_type"] for info in stock_form.result} == {"action"}
    nothing = await router.run(look("get_mcp_tools", server_name="elsewhere"), 10)
    assert nothing.result == []
    everything = await router.run(look("list_tools", remove_meta=False, namespace=None), 10)
    assert {info["tool_name"] for info in everything.result} >= OFFERED


async def test_bytes_leave_as_base64_unless_the_asker_takes_them_beside(router: Router) -> None:
    async def picture(call: ToolCall) -> dict[str, Any]:
        return {
            "image": {"media_type": "image/png", "data_bytes": b"\x89PNG"},
            "note": {"mimeType": "text/x"},
        }

    router.offer(
        Tool(
            name="picture",
            title="Picture",
            tool_type="data_collection",
            description="A tool of this test.",
            input_schema=object_schema({}),
            output_schema={},
            contract=OBSERVES,
            run=picture,
        )
    )
    plain = await router.run(look("picture"), 10)
    assert type(plain) is Result
    assert plain.result["image"] == {"media_type": "image/png", "data_base64": "iVBORw=="}
    beside = await router.run(look("picture"), 10, binary=True)
    assert isinstance(beside, BinaryResult)
    [(sha256, frame)] = beside.blobs.items()
    assert beside.result["image"] == {"media_type": "image/png", "$blob": sha256}
    assert unpack_blob(frame)[1] == b"\x89PNG"
    assert "blobs" not in beside.model_dump()


@pytest.mark.parametrize("picture", [{}, {"picture": b"\x89PNG"}])
async def test_text_of_any_bytes_that_a_tool_finds_is_marked_and_costs_nothing_else(
    router: Router, picture: dict[str, Any]
) -> None:
    async def names(call: ToolCall) -> dict[str, Any]:
        return {"names": ["a\udcff", "ok"], "\ud83d": 10**30, **picture}

    async def fails(call: ToolCall) -> dict[str, Any]:
        raise BadInput("/tmp/b\udcff is no folder")

    for name, run in {"names": names, "fails": fails}.items():
        router.offer(
            Tool(
                name=name,
                title=name,
                tool_type="data_collection",
                description="A tool of this test.",
                input_schema=object_schema({}),
                output_schema={},
                contract=OBSERVES,
                run=run,
            )
        )
    found = await router.run(look("names"), 10, binary=True)
    assert found.status is ResultStatus.SUCCESS, found.error
    assert (found.result["names"], found.result["\ufffd"]) == (["a\ufffd", "ok"], 10**30)
    assert "\ufffd is no folder" in (await error_of(router, look("fails")))[1]
    for result in (found, await router.run(look("fails"), 10)):
        result.model_dump_json()


@pytest.mark.parametrize("approval", [None, {}])
async def test_a_device_that_wants_approvals_refuses_what_comes_without(
    tmp_path: Path, approval: dict[str, Any] | None
) -> None:
    operators = (PinnedOperator(name="o", public_key="ab" * 32),)
    config = DeviceConfig(roots=(tmp_path,), require_signed_approval=True, pinned_operators=operators)
    router = build_router(config, tmp_path / "state", "router")
    action = look("shell_execute", "action", command=f"touch {tmp_path}/ran")
    for terms in (None, CommandOptions(deadline_s=5, approval=approval)):
        refused = await router.run(action, 10, terms=terms)
        assert read_error_text(refused.error or "").code is ErrorCode.DENIED_BY_DEVICE
    assert not (tmp_path / "ran").exists()
    assert (await router.run(look("list_tools", "action"), 10)).error is None
    await router.close()


async def test_a_batch_stops_after_a_failure_but_answers_every_step(router: Router, tmp_path: Path) -> None:
    runner = FrameRunner(router, Limits())
    steps = [
        Step("1", look("get_system_info", info_type="memory")),
        Step("2", None, DeviceError("Not a command", ErrorCode.PROTOCOL_ERROR)),
        Step("3", look("shell_execute", "action", command=f"touch {tmp_path}/ran")),
        Step("4", Command(tool_name="", tool_type="action", call_id="4")),
    ]
    results = await runner.run(steps)
    assert [result.status.value for result in results] == ["success", "failure", "skipped", "success"]
    assert results[2].error == SKIPPED
    assert results[3].result == "No action taken."
    assert not (tmp_path / "ran").exists()


async def test_one_response_id_is_never_served_twice(router: Router) -> None:
    runner = FrameRunner(router, Limits())
    assert runner.refusal("r") is None
    assert runner.refusal(None) is None
    refusal = runner.refusal("r")
    assert refusal is not None
    assert refusal.code is ErrorCode.PROTOCOL_ERROR


def test_a_malformed_action_leaves_its_neighbours_readable() -> None:
    received = read_frame(
        '{"type":"command","status":"continue","response_id":"r","actions":['
        '{"tool_name":"a","tool_type":"action","call_id":"1"},'
        '{"tool_name":"b","tool_type":"magic","call_id":"2"},7,{"call_id":"4"}]}'
    )
    assert received.message.response_id == "r"
    assert [step.call_id for step in received.steps] == ["1", "2", None, "4"]
    assert [step.command is None for step in received.steps] == [False, True, True, True]
    assert "tool_type" in str(received.steps[1].fault)


def test_a_frame_without_a_status_runs_nothing_but_answers_each_action() -> None:
    received = read_frame(
        '{"type":"command","actions":[{"tool_name":"a","tool_type":"action","call_id":"1"}]}'
    )
    assert [(step.call_id, step.command) for step in received.steps] == [("1", None)]


@pytest.mark.parametrize("data", ["", "{", "[]", "null", '{"type":"command","actions":7}', "[" * 100_000])
def test_what_holds_no_commands_is_a_protocol_error(data: str) -> None:
    with pytest.raises(DeviceError, match="Not an AIP frame"):
        read_frame(data)


def test_a_large_result_is_shortened_and_says_so() -> None:
    guard = Guard(DeviceConfig(limits=Limits(max_output_bytes=2000)))
    for result in ({"small": 1, "text": "ü" * 5000}, {"a": "\x00" * 900, "b": "x" * 1500}, list(range(5000))):
        shorter, size = guard.bound(result)
        assert size == result_size(shorter) <= 2000
        assert shorter["truncated"] is True
    assert guard.bound({"a": 1}) == ({"a": 1}, 7)


@pytest.mark.parametrize("most", range(2, 40))
def test_a_text_is_cut_at_the_last_character_that_fits(most: int) -> None:
    text = 'a"\x01é漢\n😀\\z' * 3
    fits = [size for size in range(len(text) + 1) if result_size(text[:size]) <= most]
    assert text_within(text, most) == text[: fits[-1]]


def test_a_result_that_is_not_json_is_a_bad_result() -> None:
    with pytest.raises(DeviceError) as caught:
        Guard(DeviceConfig()).bound({"x": object()})
    assert caught.value.code is ErrorCode.BAD_RESULT
