"""Which remote devices are known, and what of their tokens is kept."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from core.errors import BadInput, ErrorCode, JournalCorrupt
from core.fleet.models import DeviceSettings
from core.fleet.registry import Known, Registry, check_name, with_settings


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "devices.json", tmp_path / "keys" / "dial").load()


def reopened(registry: Registry, tmp_path: Path) -> Registry:
    return Registry(tmp_path / "devices.json", tmp_path / "keys" / "dial").load()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def everything_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_token_is_known_again_after_a_restart_and_stands_nowhere(registry, tmp_path):
    token = registry.pair(Known(name="lab-1", tags=["lab"], production=True))
    again = reopened(registry, tmp_path)
    owner = again.owner_of(token)
    assert owner is not None
    assert (owner.name, owner.tags, owner.production, owner.direction) == ("lab-1", ["lab"], True, "in")
    assert token.encode() not in everything_below(tmp_path)
    assert mode_of(tmp_path / "devices.json") == 0o600


def test_a_token_has_256_random_bits(registry):
    tokens = {registry.pair(Known(name="lab-1")) for _ in range(20)}
    assert len(tokens) == 20
    assert all(len(token) >= 43 for token in tokens)


@pytest.mark.parametrize("token", ["", None, "nobody's", "\udcff", "lab-1"])
def test_a_token_that_was_never_given_is_nobodys(registry, token):
    registry.pair(Known(name="lab-1"))
    assert registry.owner_of(token) is None


def test_the_hash_in_the_file_is_not_itself_a_token(registry, tmp_path):
    registry.pair(Known(name="lab-1"))
    kept = json.loads((tmp_path / "devices.json").read_text())["devices"][0]["token_sha256"]
    assert registry.owner_of(kept) is None


def test_pairing_again_replaces_the_token(registry):
    old = registry.pair(Known(name="lab-1"))
    new = registry.pair(registry.get("lab-1"))
    assert registry.owner_of(old) is None
    assert registry.owner_of(new).name == "lab-1"


def test_a_revoked_token_is_known_as_revoked(registry, tmp_path):
    token = registry.pair(Known(name="lab-1"))
    registry.revoke("lab-1")
    owner = reopened(registry, tmp_path).owner_of(token)
    assert owner is not None
    assert not owner.paired


def test_what_is_forgotten_is_nobodys(registry, tmp_path):
    token = registry.pair(Known(name="lab-1"))
    registry.forget("lab-1")
    assert registry.owner_of(token) is None
    assert reopened(registry, tmp_path).devices() == []
    with pytest.raises(BadInput) as caught:
        registry.forget("lab-1")
    assert caught.value.code is ErrorCode.UNKNOWN_DEVICE


def test_what_is_shown_to_a_dialled_device_is_in_a_private_file_of_its_own(registry, tmp_path):
    registry.pair_listening(Known(name="lab.2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    again = reopened(registry, tmp_path)
    assert again.dial_token("lab.2") == "secret-token"
    assert b"secret-token" not in (tmp_path / "devices.json").read_bytes()
    [file] = (tmp_path / "keys" / "dial").iterdir()
    assert mode_of(file) == 0o600
    assert mode_of(file.parent) == 0o700


@pytest.mark.parametrize("end", ["revoke", "forget", "pair"])
def test_that_file_goes_with_the_trust(registry, tmp_path, end):
    registry.pair_listening(Known(name="lab-2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    if end == "pair":
        registry.pair(registry.get("lab-2"))
    else:
        getattr(registry, end)("lab-2")
    assert b"secret-token" not in everything_below(tmp_path)
    with pytest.raises(BadInput, match="pair it again"):
        registry.dial_token("lab-2")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"devices": {}}',
        '{"devices": [{"name": "../x"}]}',
        '{"devices": [{"name": "this-computer"}]}',
        '{"devices": [{"name": "a", "surprise": 1}]}',
        '{"devices": [{}]}',
        "\x00",
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_an_error_and_never_means_no_devices(tmp_path, text):
    (tmp_path / "devices.json").write_text(text)
    with pytest.raises(JournalCorrupt, match="damaged"):
        Registry(tmp_path / "devices.json", tmp_path / "dial").load()


def test_a_file_that_is_not_text_is_damaged_too(tmp_path):
    (tmp_path / "devices.json").write_bytes(b"\xff\xfe")
    with pytest.raises(JournalCorrupt, match="damaged"):
        Registry(tmp_path / "devices.json", tmp_path / "dial").load()


@pytest.mark.parametrize("name", ["", "this-computer", "../x", "a/b", "-x", "a b", "a" * 65, "ä", ".x"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(BadInput):
        check_name(name)


@pytest.mark.parametrize(
    "settings",
    [
        DeviceSettings(tags=["a b"]),
        DeviceSettings(tags=[""]),
        DeviceSettings(tags=["!x"]),
        DeviceSettings(tags=[f"t{n}" for n in range(33)]),
        DeviceSettings(agent="Linux Agent"),
        DeviceSettings(agent="a" * 65),
    ],
)
def test_what_is_no_tag_or_agent_is_refused(settings):
    with pytest.raises(BadInput):
        with_settings(Known(name="lab-1"), settings)


def test_what_is_not_set_stays_as_it_is():
    known = Known(name="lab-1", tags=["a"], production=True, agent="HardwareAgent")
    assert with_settings(known, DeviceSettings()) == known
    assert with_settings(known, DeviceSettings(tags=["b", "b"])).tags == ["b"]
    assert with_settings(known, DeviceSettings(agent="")).agent == ""


def test_a_file_that_cannot_be_written_lets_nobody_in(registry, tmp_path):
    token = registry.pair(Known(name="lab-1"))
    (tmp_path / "devices.new").mkdir()
    with pytest.raises(BadInput, match="cannot be written"):
        registry.pair(Known(name="lab-1"))
    with pytest.raises(BadInput, match="cannot be written"):
        registry.put(Known(name="lab-1", tags=["prod"]))
    assert registry.owner_of(token).tags == []
    with pytest.raises(BadInput, match="cannot be written"):
        registry.pair_listening(Known(name="lab-2"), "ws://127.0.0.1:1/ws", "token", "")
    assert registry.find("lab-2") is None


def test_a_file_that_cannot_be_written_keeps_nobody_in(registry, tmp_path):
    first, second = registry.pair(Known(name="lab-1")), registry.pair(Known(name="lab-2"))
    (tmp_path / "devices.new").mkdir()
    with pytest.raises(BadInput, match="a restart would undo it"):
        registry.revoke("lab-1")
    with pytest.raises(BadInput, match="a restart would undo it"):
        registry.forget("lab-2")
    assert not registry.owner_of(first).paired
    assert registry.owner_of(second) is None
    (tmp_path / "devices.new").rmdir()
    registry.forget("lab-2")
    assert not reopened(registry, tmp_path).get("lab-1").paired
    assert reopened(registry, tmp_path).find("lab-2") is None


def test_a_listening_device_that_cannot_be_paired_anew_is_dialled_as_before(registry, tmp_path):
    registry.pair_listening(Known(name="lab-2"), "wss://lab:5001/ws", "first-token", "ab" * 32)
    (tmp_path / "devices.new").mkdir()
    with pytest.raises(BadInput, match="cannot be written"):
        registry.pair_listening(registry.get("lab-2"), "wss://lab:5002/ws", "second-token", "cd" * 32)
    assert registry.dial_token("lab-2") == "first-token"
    assert registry.get("lab-2").url == "wss://lab:5001/ws"
    assert b"second-token" not in everything_below(tmp_path)


def test_what_a_crash_left_of_a_token_goes_with_the_trust(registry, tmp_path):
    registry.pair_listening(Known(name="lab.2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    for left in ("lab.2.new", "lab.2.fresh"):
        (tmp_path / "keys" / "dial" / left).write_text("secret-token")
    registry.revoke("lab.2")
    assert b"secret-token" not in everything_below(tmp_path)


@pytest.mark.parametrize("held", ["abc\r\nX-Other: 1", "a b", "", "x" * 5000])
def test_what_is_no_token_is_not_shown_to_a_device(registry, tmp_path, held):
    registry.pair_listening(Known(name="lab-2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    (tmp_path / "keys" / "dial" / "lab-2.token").write_text(held)
    with pytest.raises(BadInput, match="pair"):
        registry.dial_token("lab-2")


@pytest.mark.parametrize(
    "rows",
    [
        [{"name": "lab-1", "revoked_at": "2026-01-01T00:00:00Z"}, {"name": "lab-1"}],
        [{"name": "lab-1", "token_sha256": "ab" * 32}, {"name": "lab-2", "token_sha256": "ab" * 32}],
        [{"name": "lab-1", "token_sha256": "AB" * 32}],
        [{"name": "lab-1", "token_sha256": "the token itself"}],
    ],
)
def test_an_edit_by_hand_that_leaves_open_whom_it_trusts_is_damage(tmp_path, rows):
    (tmp_path / "devices.json").write_text(json.dumps({"devices": rows}))
    with pytest.raises(JournalCorrupt, match="damaged"):
        Registry(tmp_path / "devices.json", tmp_path / "dial").load()


@pytest.mark.parametrize("name", ["lab-1\n", "This-Computer", "THIS-COMPUTER", "l\u0430b-1", ""])
def test_a_name_that_could_be_taken_for_another_is_none(name):
    with pytest.raises(BadInput):
        check_name(name)


@pytest.mark.parametrize("change", [{"tags": ["prod\n"]}, {"agent": "LinuxAgent\n"}])
def test_a_tag_or_an_agent_has_no_line_break(change):
    with pytest.raises(BadInput):
        with_settings(Known(name="lab-1"), DeviceSettings.model_validate(change))


def test_two_devices_are_not_told_apart_by_the_size_of_letters_alone(registry):
    registry.pair(Known(name="Lab-1"))
    with pytest.raises(BadInput, match="Lab-1"):
        registry.pair(Known(name="lab-1"))
    with pytest.raises(BadInput, match="Lab-1"):
        registry.pair_listening(Known(name="LAB-1"), "ws://127.0.0.1:1/ws", "token", "")
    registry.pair(Known(name="Lab-1"))
    assert [one.name for one in registry.devices()] == ["Lab-1"]
