"""Which remote devices are known, what of their tokens is kept, and what the copy of it can say."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from core.errors import BadInput, ErrorCode
from core.fleet.known_devices import Copy, KnownDevice, KnownDevices, check_name, read_copy, with_settings
from core.fleet.models import DeviceSettings
from core.tokens import MOST_OFFERED, token_digest
from tests.fakes.full_disk import full_disk_for
from tests.fakes.known_devices import dialled, pair, pair_listening


@pytest.fixture
def registry(tmp_path: Path) -> KnownDevices:
    return KnownDevices(tmp_path / "devices.json", tmp_path / "keys" / "dial")


def reopened(registry: KnownDevices, tmp_path: Path) -> KnownDevices:
    """The next service's, which has from the journal what this one knows."""
    again = KnownDevices(tmp_path / "devices.json", tmp_path / "keys" / "dial")
    assert again.restore(registry.devices(), {}, read_copy(tmp_path / "devices.json")) == []
    return again


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def everything_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_token_is_known_again_after_a_restart_and_stands_nowhere(registry, tmp_path):
    token = pair(registry, KnownDevice(name="lab-1", tags=["lab"], production=True))
    again = reopened(registry, tmp_path)
    owner = again.owner_of(token)
    assert owner is not None
    assert (owner.name, owner.tags, owner.production, owner.direction) == ("lab-1", ["lab"], True, "in")
    assert token.encode() not in everything_below(tmp_path)
    assert mode_of(tmp_path / "devices.json") == 0o600


def test_a_token_has_256_random_bits(registry):
    tokens = {pair(registry, KnownDevice(name="lab-1")) for _ in range(20)}
    assert len(tokens) == 20
    assert all(len(token) >= 43 for token in tokens)


@pytest.mark.parametrize("token", ["", None, "nobody's", "\udcff", "lab-1"])
def test_a_token_that_was_never_given_is_nobodys(registry, token):
    pair(registry, KnownDevice(name="lab-1"))
    assert registry.owner_of(token) is None


def test_the_hash_in_the_file_is_not_itself_a_token(registry, tmp_path):
    pair(registry, KnownDevice(name="lab-1"))
    kept = json.loads((tmp_path / "devices.json").read_text())["devices"][0]["token_sha256"]
    assert registry.owner_of(kept) is None


def test_pairing_again_replaces_the_token(registry):
    old = pair(registry, KnownDevice(name="lab-1"))
    new = pair(registry, registry.get("lab-1"))
    assert registry.owner_of(old) is None
    assert registry.owner_of(new).name == "lab-1"


def test_a_revoked_token_is_known_as_revoked(registry, tmp_path):
    token = pair(registry, KnownDevice(name="lab-1"))
    registry.revoke("lab-1")
    owner = reopened(registry, tmp_path).owner_of(token)
    assert owner is not None
    assert not owner.paired


def test_what_is_forgotten_is_nobodys(registry, tmp_path):
    token = pair(registry, KnownDevice(name="lab-1"))
    registry.forget("lab-1")
    registry.left("lab-1")
    assert registry.owner_of(token) is None
    assert reopened(registry, tmp_path).devices() == []
    for end in (registry.forget, registry.revoke):
        with pytest.raises(BadInput) as caught:
            end("lab-1")
        assert caught.value.code is ErrorCode.UNKNOWN_DEVICE


def test_what_is_shown_to_a_dialled_device_is_in_a_private_file_of_its_own(registry, tmp_path):
    pair_listening(registry, KnownDevice(name="lab.2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    again = reopened(registry, tmp_path)
    assert again.dial_token("lab.2") == "secret-token"
    assert b"secret-token" not in (tmp_path / "devices.json").read_bytes()
    [file] = (tmp_path / "keys" / "dial").iterdir()
    assert mode_of(file) == 0o600
    assert mode_of(file.parent) == 0o700


@pytest.mark.parametrize("left", ["lab.2.token", "lab.2.fresh"])
def test_what_is_shown_to_a_device_can_be_deleted_also_what_a_crash_left_of_it(registry, tmp_path, left):
    pair_listening(registry, KnownDevice(name="lab.2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    (tmp_path / "keys" / "dial" / left).write_text("secret-token")
    registry.drop_dial_token("lab.2")
    assert b"secret-token" not in everything_below(tmp_path)
    with pytest.raises(BadInput, match="pair it again"):
        registry.dial_token("lab.2")


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
        '{"devices": [{"name": "a", "\\ud800\\u202e\\n": 1}]}',
        json.dumps({"devices": [{"name": "lab-1", "revoked_at": "2026-01-01T00:00:00Z"}, {"name": "lab-1"}]}),
        json.dumps({"devices": [{"name": name, "token_sha256": "ab" * 32} for name in ("lab-1", "lab-2")]}),
        json.dumps({"devices": [{"name": "lab-1", "token_sha256": "AB" * 32}]}),
        json.dumps({"devices": [{"name": "lab-1", "token_sha256": "the token itself"}]}),
    ],
)
def test_a_damaged_copy_is_said_written_anew_and_counts_for_nothing(tmp_path, text):
    path = tmp_path / "devices.json"
    path.write_text(text)
    path.chmod(0o600)
    copy = read_copy(path)
    assert copy.problem
    assert copy.devices == {}
    known = KnownDevice(name="lab-1", token_sha256="ab" * 32)
    again = KnownDevices(path, tmp_path / "dial")
    [note] = again.restore([known], {}, copy)
    assert "devices.json" in note
    assert note.isprintable()
    assert len(note) < 400
    assert again.devices() == [known]
    assert read_copy(path).devices == {"lab-1": known}


def test_where_no_device_is_known_no_copy_is_made(tmp_path):
    assert KnownDevices(tmp_path / "devices.json", tmp_path / "dial").restore([], {}, Copy()) == []
    assert list(tmp_path.iterdir()) == []


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
        with_settings(KnownDevice(name="lab-1"), settings)


def test_what_is_not_set_stays_as_it_is():
    known = KnownDevice(name="lab-1", tags=["a"], production=True, agent="HardwareAgent")
    assert with_settings(known, DeviceSettings()) == known
    assert with_settings(known, DeviceSettings(tags=["b", "b"])).tags == ["b"]
    assert with_settings(known, DeviceSettings(agent="")).agent == ""


def test_a_copy_that_cannot_be_written_is_behind_and_says_why(registry, tmp_path):
    first, second = pair(registry, KnownDevice(name="lab-1")), pair(registry, KnownDevice(name="lab-2"))
    assert registry.problem == ""
    with full_disk_for(tmp_path / "devices.json"):
        third = pair(registry, KnownDevice(name="lab-3"))
        assert "cannot be written" in registry.problem
        registry.revoke("lab-1")
        registry.forget("lab-2")
    assert not registry.owner_of(first).paired
    assert registry.owner_of(second) is None
    assert registry.owner_of(third).paired
    registry.put(registry.get("lab-3"))
    assert registry.problem == ""
    assert not reopened(registry, tmp_path).get("lab-1").paired


def test_the_copy_has_a_forgotten_device_as_revoked_until_the_journal_has_it(registry, tmp_path):
    pair(registry, KnownDevice(name="lab-1"))
    forgotten = registry.forget("lab-1")
    assert registry.devices() == []
    row = read_copy(tmp_path / "devices.json").devices["lab-1"]
    assert not row.paired
    assert row.paired_at == forgotten.paired_at
    registry.left("lab-1")
    assert read_copy(tmp_path / "devices.json").devices == {}


def test_a_listening_device_that_cannot_be_paired_anew_is_dialled_as_before(registry, tmp_path):
    pair_listening(registry, KnownDevice(name="lab-2"), "wss://lab:5001/ws", "first-token", "ab" * 32)
    (tmp_path / "keys" / "dial" / "lab-2.fresh").mkdir()
    with pytest.raises(BadInput, match="cannot be written"):
        pair_listening(registry, registry.get("lab-2"), "wss://lab:5002/ws", "second-token", "cd" * 32)
    assert registry.dial_token("lab-2") == "first-token"
    assert registry.get("lab-2").url == "wss://lab:5001/ws"
    assert b"second-token" not in everything_below(tmp_path)


def test_a_token_for_dialling_that_was_not_recorded_is_not_kept(registry, tmp_path):
    pair_listening(registry, KnownDevice(name="lab-2"), "wss://lab:5001/ws", "first-token", "ab" * 32)
    with pytest.raises(ValueError, match="full"), registry.staged_dial_token("lab-2", "second-token"):
        raise ValueError("full")
    assert registry.dial_token("lab-2") == "first-token"
    assert b"second-token" not in everything_below(tmp_path)


def test_another_token_than_the_one_that_was_paired_is_not_shown(registry, tmp_path):
    pair_listening(registry, KnownDevice(name="lab-2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    (tmp_path / "keys" / "dial" / "lab-2.token").write_text("another-token")
    with pytest.raises(BadInput, match="pair it again"):
        registry.dial_token("lab-2")


def test_the_token_for_dialling_a_device_lets_nobody_in(registry):
    pair_listening(registry, KnownDevice(name="lab-2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    assert registry.owner_of("secret-token") is None


class TestProofs:
    """Whether an operator signed a pairing is asked when its device first comes."""

    @pytest.fixture
    def asked(self) -> list[str]:
        return []

    @pytest.fixture
    def restored(self, tmp_path: Path, asked: list[str]) -> KnownDevices:
        registry = KnownDevices(tmp_path / "devices.json", tmp_path / "keys" / "dial")
        devices = [
            KnownDevice(name="good", token_sha256=token_digest("good")),
            KnownDevice(name="bad", token_sha256=token_digest("bad")),
            dialled(KnownDevice(name="far"), "wss://lab:5001/ws", "far-token", "ab" * 32),
        ]
        proofs = {
            name: lambda name=name: asked.append(name) or name == "good" for name in ("good", "bad", "far")
        }
        registry.restore(devices, proofs, Copy())
        (tmp_path / "keys" / "dial").mkdir(parents=True)
        (tmp_path / "keys" / "dial" / "far.token").write_text("far-token")
        return registry

    def test_each_is_asked_once_and_only_when_it_is_needed(self, restored, asked):
        assert asked == []
        for _ in range(3):
            assert restored.owner_of("good").paired
        assert asked == ["good"]

    def test_a_device_without_one_is_neither_let_in_nor_dialled_however_often_it_comes(self, restored, asked):
        for _ in range(3):
            assert not restored.owner_of("bad").paired
            with pytest.raises(BadInput, match="signature"):
                restored.dial_token("far")
        assert asked == ["bad", "far"]

    def test_other_tags_do_not_stand_for_one(self, restored):
        restored.put(with_settings(restored.get("bad"), DeviceSettings(tags=["x"])))
        assert not restored.owner_of("bad").paired

    def test_a_new_pairing_does(self, restored):
        token = pair(restored, restored.get("bad"))
        assert restored.owner_of(token).paired


def test_a_token_is_offered_under_its_digest_and_taken_once(registry):
    digest = registry.offer_token()
    token = registry.take_offered(digest)
    assert token_digest(token) == digest
    assert token_digest(registry.take_offered(digest)) != digest
    assert registry.owner_of(token) is None


def test_of_tokens_that_are_offered_without_end_the_oldest_give_way(registry):
    first = registry.offer_token()
    later = [registry.offer_token() for _ in range(MOST_OFFERED)]
    assert token_digest(registry.take_offered(first)) != first
    assert token_digest(registry.take_offered(later[0])) == later[0]


@pytest.mark.parametrize("held", ["abc\r\nX-Other: 1", "a b", "", "x" * 5000])
def test_what_is_no_token_is_not_shown_to_a_device(registry, tmp_path, held):
    pair_listening(registry, KnownDevice(name="lab-2"), "wss://lab:5001/ws", "secret-token", "ab" * 32)
    (tmp_path / "keys" / "dial" / "lab-2.token").write_text(held)
    with pytest.raises(BadInput, match="pair"):
        registry.dial_token("lab-2")


@pytest.mark.parametrize("name", ["lab-1\n", "This-Computer", "THIS-COMPUTER", "l\u0430b-1", ""])
def test_a_name_that_could_be_taken_for_another_is_none(name):
    with pytest.raises(BadInput):
        check_name(name)


@pytest.mark.parametrize("change", [{"tags": ["prod\n"]}, {"agent": "LinuxAgent\n"}])
def test_a_tag_or_an_agent_has_no_line_break(change):
    with pytest.raises(BadInput):
        with_settings(KnownDevice(name="lab-1"), DeviceSettings.model_validate(change))


def test_two_devices_are_not_told_apart_by_the_size_of_letters_alone(registry):
    pair(registry, KnownDevice(name="Lab-1"))
    for name in ("lab-1", "LAB-1"):
        with pytest.raises(BadInput, match="Lab-1"):
            registry.check_free(name)
        assert registry.turn(name) is registry.turn("Lab-1")
    registry.check_free("Lab-1")
