"""`quarterdeck-device --forget-pairing`: afterwards the device knows no console."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.aip.pairing import Pairing as Line
from core.aip.pairing import decode_pairing, encode_pairing
from core.device.__main__ import main
from core.device.credentials import CredentialStore

CONSOLE = encode_pairing(Line("ws://127.0.0.1:5000/ws", "lab-1", "a-token-of-lab-1"))


def run(tmp_path: Path, *words: str) -> int:
    return main(["--state", str(tmp_path / "state"), *words])


def test_a_paired_console_is_dialled_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--pair", CONSOLE) == 0
    assert run(tmp_path, "--forget-pairing") == 0
    assert "Forgotten" in capsys.readouterr().out
    assert CredentialStore(tmp_path / "state").pairing() is None
    assert run(tmp_path) == 2
    assert "Which console?" in capsys.readouterr().err


def test_the_token_of_a_listening_device_is_another_one_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listen = ("--listen", "127.0.0.1:5001", "--pair")
    assert run(tmp_path, *listen) == 0
    before = decode_pairing(capsys.readouterr().out.strip())
    assert run(tmp_path, "--forget-pairing") == 0
    assert CredentialStore(tmp_path / "state").listening() is None
    capsys.readouterr()
    assert run(tmp_path, *listen) == 0
    after = decode_pairing(capsys.readouterr().out.strip())
    assert before.token != after.token


def test_a_pairing_that_cannot_be_read_is_forgotten_as_well(tmp_path: Path) -> None:
    assert run(tmp_path, "--pair", CONSOLE) == 0
    (tmp_path / "state" / "trust" / "pairing").write_text("nonsense")
    assert run(tmp_path, "--forget-pairing") == 0
    assert CredentialStore(tmp_path / "state").pairing() is None


def test_to_forget_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--forget-pairing") == 0
    assert "not paired" in capsys.readouterr().out


def test_where_to_listen_that_an_earlier_version_kept_has_no_name(tmp_path: Path) -> None:
    store = CredentialStore(tmp_path / "state")
    assert store.listening_name() is None
    assert run(tmp_path, "--listen", "127.0.0.1:5001", "--pair", "--name", "lab-2") == 0
    assert store.listening_name() == "lab-2"
    kept = tmp_path / "state" / "trust" / "listening.json"
    kept.write_text('{"host": "127.0.0.1", "port": 5001, "advertised": null}\n')
    assert store.listening_name() is None
    found = store.listening()
    assert found is not None
    assert found[0].port == 5001
