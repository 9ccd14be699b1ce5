"""settings.toml and device.toml of this computer: every key is decided about, what loosens is signed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from core.approvals.operator_keys import OperatorKey
from core.audit.entries import Kind
from core.device.config import CONFIG, DeviceConfig, Limits, Link, Undo, config_of, config_text
from core.errors import ErrorCode
from core.home import Home
from core.models.devices import Health
from core.service.console import Console, DeviceChanged
from core.service.held_settings import (
    DEVICE,
    DEVICE_KEYS,
    SETTINGS_KEYS,
    device_in_force,
    loosening_settings,
    pending_settings,
    read_device_config,
    settings_in_force,
    tightened,
)
from core.service.local_console import LocalConsole
from core.service.service import Service
from core.service.wishes import settings_change
from core.settings import Settings
from tests.fakes.desk import choose_channel, online, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import accepted, anna, sign

PINNED = [{"name": "anna", "public_key": "ab" * 32}]
EVE = {"name": "eve", "public_key": "cd" * 32}


@pytest.fixture
async def key(memory_path: Path) -> OperatorKey:
    home = Home(memory_path / "home").create()
    return await accepted(home)


@pytest.fixture
def home(memory_path: Path, key: OperatorKey) -> Home:
    return Home(memory_path / "home")


def test_every_key_of_settings_toml_is_decided_about():
    assert set(SETTINGS_KEYS) == set(Settings.model_fields)


def test_every_key_of_device_toml_is_decided_about():
    sections = {"limits": Limits, "undo": Undo, "link": Link}
    keys = set(DeviceConfig.model_fields) - set(sections)
    keys |= {f"{name}.{key}" for name, section in sections.items() for key in section.model_fields}
    assert set(DEVICE_KEYS) == keys


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"listen": "0.0.0.0:5000"}),
        ({}, {"this_computer_tags": ["lab"]}),
        ({}, {"this_computer": "in-process"}),
        ({}, {"approval_expiry": 86_400}),
        ({}, {"ui_actions_on_this_computer": True}),
        ({"secret_names": ["badge", "locker"]}, {"secret_names": ["locker"]}),
        ({}, {"secret_names": ["command"]}),
    ],
)
def test_a_setting_that_loosens_is_pending_and_does_not_hold(before: dict[str, Any], after: dict[str, Any]):
    old, new = Settings(**before), Settings(**after)
    standing = loosening_settings(old, DeviceConfig())
    assert len(pending_settings(new, standing)) == 1
    held = settings_in_force(new, standing)
    [key] = after
    assert _sorted(getattr(held, key)) == _sorted(getattr(old, key))
    # The way back needs no signature, but for keys that both ways let something through.
    both_ways = key in ("this_computer_tags", "secret_names")
    assert both_ways or pending_settings(old, loosening_settings(new, DeviceConfig())) == []


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


LOOSER: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("roots", {"roots": ["/srv/open"]}, {"roots": ["/"]}),
    ("roots", {"roots": ["/srv/open"]}, {"roots": ["/srv/open", "/etc"]}),
    ("roots", {}, {"roots": ["/"]}),
    ("roots", {"roots": ["/srv/open"]}, {}),
    ("closed_paths", {"closed_paths": ["/srv/closed"]}, {"closed_paths": ["/srv/closed/part"]}),
    ("private_paths", {"private_paths": ["/srv/vault"]}, {}),
    ("tools_off", {"tools_off": ["shell_execute", "click"]}, {"tools_off": ["click"]}),
    ("limits.max_processes", {"limits": {"max_processes": 2}}, {}),
    ("undo.days", {}, {"undo": {"days": 0.1}}),
    ("servers_from_console", {}, {"servers_from_console": True}),
    (
        "require_signed_approval",
        {"require_signed_approval": True, "pinned_operators": PINNED},
        {"pinned_operators": PINNED},
    ),
    ("pinned_operators", {"pinned_operators": PINNED}, {"pinned_operators": [*PINNED, EVE]}),
    ("pinned_operators", {"pinned_operators": PINNED}, {"pinned_operators": [EVE]}),
    (
        "approvers",
        {"pinned_operators": [*PINNED, EVE], "approvers": 2},
        {"pinned_operators": [*PINNED, EVE]},
    ),
    ("secret_names", {}, {"secret_names": ["command"]}),
]


@pytest.mark.parametrize(("key", "before", "after"), LOOSER)
def test_a_device_limit_that_loosens_is_pending_and_does_not_hold(
    key: str, before: dict[str, Any], after: dict[str, Any]
):
    old, new = DeviceConfig.model_validate(before), DeviceConfig.model_validate(after)
    standing = loosening_settings(Settings(), old)
    sentences = pending_settings(Settings(), standing, new)
    assert any(f" {key} " in sentence for sentence in sentences)
    held = device_in_force(new, standing)
    section, _, name = key.rpartition(".")
    of = (lambda config: getattr(config, section)) if section else (lambda config: config)
    was, holds = getattr(of(old), name), getattr(of(held), name)
    assert set(holds) >= set(was) if name in ("closed_paths", "private_paths", "tools_off") else holds == was
    # It is one that a device client can be started with.
    assert config_of(config_text(held)) == held


def test_an_edit_that_narrows_and_widens_roots_narrows_at_once():
    standing = loosening_settings(Settings(), DeviceConfig.model_validate({"roots": ["/srv", "/var/log"]}))
    new = DeviceConfig.model_validate({"roots": ["/srv/open", "/etc"]})
    assert device_in_force(new, standing).roots == (Path("/srv/open"),)
    apart = DeviceConfig.model_validate({"roots": ["/etc"]})
    assert device_in_force(apart, standing).roots == (Path("/srv"), Path("/var/log"))


def test_unsigned_values_of_the_journal_only_tighten():
    standing = loosening_settings(Settings(secret_names=["badge"]), DeviceConfig())
    loose = loosening_settings(
        Settings(approval_expiry=9_000, this_computer="in-process", listen="0.0.0.0:1"),
        DeviceConfig.model_validate({"roots": ["/"], "servers_from_console": True}),
    )
    assert tightened(loose, standing, begun=True) == standing
    for nonsense in ({DEVICE: 7}, {"listen": 7}, {"approval_expiry": "x"}, {DEVICE: {"roots": [1]}}, {}):
        assert tightened(nonsense, standing, begun=True) == standing


async def test_secret_names_of_another_program_hide_no_argument_until_they_are_signed(home: Home):
    file = home.path / "settings.toml"
    file.write_text('secret_names = ["command"]\napproval_expiry = 60\n')
    async with open_service(home) as service:
        assert service.settings.secret_names == []
        assert service.settings.approval_expiry == 60
        assert len((await LocalConsole(service, "window:root").service.state()).policy.pending_settings) == 1
    file.write_text("approval_expiry = 86400\n")
    async with open_service(home) as service:
        assert service.settings.approval_expiry == 60
        assert len((await LocalConsole(service, "window:root").service.state()).policy.pending_settings) == 1


async def test_limits_that_another_program_takes_out_of_device_toml_hold_until_they_are_signed(
    tmp_path: Path, home: Home
):
    opened, closed = tmp_path / "open", tmp_path / "closed"
    for folder in (opened, closed):
        folder.mkdir()
        (folder / "file").write_text("inside")
    file = home.device_state / CONFIG
    file.write_text(f'roots = ["{tmp_path}"]\nclosed_paths = ["{closed}"]\n')
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        assert (await console.service.state()).policy.pending_settings == []
        assert await _read(console, opened / "file") is None
        assert await _read(console, closed / "file") is ErrorCode.PATH_NOT_ALLOWED
        file.write_text('roots = ["/"]\n')
        await _restart(service)
        assert await _read(console, closed / "file") is ErrorCode.PATH_NOT_ALLOWED
        assert await _read(console, Path("/etc/hostname")) is ErrorCode.PATH_NOT_ALLOWED
        pending = (await console.service.state()).policy.pending_settings
        assert [DEVICE in sentence for sentence in pending] == [True, True]
        signed = await sign(console, anna(home), settings_change(home))
        await console.service.accept_settings(signed)
        assert (await console.service.state()).policy.pending_settings == []
        await _restart(service)
        assert await _read(console, closed / "file") is None
    async with open_service(home) as service:
        assert device_in_force(read_device_config(home), service.accepted_settings).roots == (Path("/"),)


async def test_before_the_first_operator_the_files_hold_as_they_are_found(memory_path: Path):
    home = Home(memory_path / "new").create()
    choose_channel(home, "in-process")
    (home.device_state / CONFIG).write_text('roots = ["/"]\n')
    async with open_service(home) as service:
        assert service.settings.this_computer == "in-process"
        console = LocalConsole(service, "operator:anna")
        assert (await console.service.state()).policy.pending_settings == []
        await console.approvals.register_operator(anna(home).operator)
        recorded = (await console.journal.entries(f"kind:{Kind.SETTINGS_ACCEPTED}")).entries
        assert all("signed" not in entry.body for entry in recorded)
    async with open_service(home) as service:
        assert service.settings.this_computer == "in-process"
        assert service.accepted_settings[DEVICE]["roots"] == ["/"]


async def _read(console: Console, path: Path) -> ErrorCode | None:
    """Why a file was not read; None if it was."""
    run = await console.runs.call("this-computer", "read_file", {"file_path": str(path)})
    [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
    assert cell.result is not None
    return cell.result.error.code if cell.result.error is not None else None


async def _restart(service: Service) -> None:
    """Kill the device client, as any program of the user can; it comes back by itself."""
    events = LocalConsole(service, "operator:test").events()
    assert service.this_computer.pid is not None
    os.kill(service.this_computer.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        async for event in events:
            if isinstance(event, DeviceChanged) and event.device.health is not Health.ONLINE:
                break
    await online(service)
