"""What a device takes as its console's next certificate, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.aip.extensions import NextPin
from core.aip.pairing import Pairing
from core.changes import Change, ChangeKind, ChangeStatement, SignedChange, next_certificate_change
from core.device.config import PinnedOperator
from core.device.console_pins import ConsolePins
from core.device.credentials import CredentialStore
from core.errors import BadInput, Refused
from core.statements import signed_bytes

A, B, C, D = "a" * 64, "b" * 64, "c" * 64, "d" * 64
PAIRING = Pairing("wss://console.example:5000/ws", "lab-1", "t" * 43, A)
KEY = Ed25519PrivateKey.from_private_bytes(b"7" * 32)
ANNA = PinnedOperator(name="anna", public_key=KEY.public_key().public_bytes_raw().hex())


@pytest.fixture
def trust(tmp_path: Path) -> CredentialStore:
    store = CredentialStore(tmp_path)
    store.save_pairing(PAIRING)
    return store


@pytest.fixture
def pins(trust: CredentialStore) -> ConsolePins:
    return ConsolePins(trust)


def offer(before: str, after: str, number: int, approval: dict[str, Any] | None = None) -> dict[str, Any]:
    pin = NextPin(before=before, fingerprint=after, number=number, approval=approval)
    return pin.model_dump(mode="json")


def signed(change: Change, key: Ed25519PrivateKey = KEY) -> dict[str, Any]:
    statement = ChangeStatement(
        home="5e" * 32, change=change, approver="anna", nonce="n", expires="2026-01-01T00:00:00+00:00"
    )
    signature = key.sign(signed_bytes(statement)).hex()
    return SignedChange(statement=statement, signature=signature).model_dump(mode="json")


def test_both_are_accepted_until_the_next_was_used_and_then_it_alone(
    pins: ConsolePins, trust: CredentialStore
) -> None:
    pins.take(offer(A, B, 7), PAIRING, A)
    assert pins.fingerprints(PAIRING) == (A, B)
    assert pins.used(PAIRING, A) == PAIRING
    assert pins.fingerprints(PAIRING) == (A, B)
    renewed = pins.used(PAIRING, B)
    assert renewed.fingerprint == B
    assert trust.pairing() == renewed
    assert pins.fingerprints(renewed) == (B,)


def test_an_earlier_announcement_does_not_come_back(pins: ConsolePins) -> None:
    """Neither one of the same certificate's, nor one that was recorded before the last switch."""
    pins.take(offer(A, B, 7), PAIRING, A)
    pins.take(offer(A, C, 9), PAIRING, A)
    with pytest.raises(Refused, match="at least as new"):
        pins.take(offer(A, B, 7), PAIRING, A)
    with pytest.raises(Refused, match="at least as new"):
        pins.take(offer(A, B, 9), PAIRING, A)
    assert pins.fingerprints(PAIRING) == (A, C)
    renewed = pins.used(PAIRING, C)
    with pytest.raises(Refused, match="another one than this link's"):
        pins.take(offer(A, B, 10), renewed, C)
    with pytest.raises(Refused, match="at least as new"):
        pins.take(offer(C, B, 9), renewed, C)
    assert pins.fingerprints(renewed) == (C,)


def test_the_same_announcement_is_taken_again_without_a_change(pins: ConsolePins) -> None:
    pins.take(offer(A, B, 7), PAIRING, A)
    pins.take(offer(A, B, 7), PAIRING, A)
    assert pins.fingerprints(PAIRING) == (A, B)


def test_one_of_another_console_is_refused(pins: ConsolePins) -> None:
    with pytest.raises(Refused, match="another one than this link's"):
        pins.take(offer(D, B, 7), PAIRING, A)
    assert pins.fingerprints(PAIRING) == (A,)


def test_another_pairing_knows_nothing_of_it(pins: ConsolePins, trust: CredentialStore) -> None:
    pins.take(offer(A, B, 7), PAIRING, A)
    other = Pairing(PAIRING.url, PAIRING.name, "u" * 43, A)
    trust.save_pairing(other)
    assert pins.fingerprints(other) == (A,)
    # Announced over the link of the earlier pairing, which still stands.
    pins.take(offer(A, C, 8), PAIRING, A)
    assert pins.used(PAIRING, C).fingerprint == A
    assert trust.pairing() == other
    assert pins.fingerprints(other) == (A,)


@pytest.mark.parametrize(
    "announced",
    [
        {},
        {"before": A, "fingerprint": "B" * 64, "number": 1},
        {"before": A, "fingerprint": B, "number": 0},
        {"before": A, "fingerprint": B, "number": 2**60},
        {"before": A, "fingerprint": [B], "number": 1},
    ],
)
def test_what_is_no_announcement_is_refused(pins: ConsolePins, announced: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        pins.take(announced, PAIRING, A)
    assert pins.fingerprints(PAIRING) == (A,)


class TestPinnedOperators:
    @pytest.fixture
    def pins(self, trust: CredentialStore) -> ConsolePins:
        return ConsolePins(trust, (ANNA,))

    def test_what_one_of_them_signed_is_taken(self, pins: ConsolePins) -> None:
        pins.take(offer(A, B, 7, signed(next_certificate_change(A, B))), PAIRING, A)
        assert pins.fingerprints(PAIRING) == (A, B)

    @pytest.mark.parametrize(
        "approval",
        [
            None,
            {"statement": "none", "signature": "x"},
            signed(next_certificate_change(A, C)),
            signed(next_certificate_change(C, B)),
            signed(next_certificate_change(A, B), Ed25519PrivateKey.generate()),
            signed(Change(kind=ChangeKind.DEVICE_PAIRED, after={"certificate_sha256": B})),
        ],
    )
    def test_nothing_else_is(self, pins: ConsolePins, approval: dict[str, Any] | None) -> None:
        with pytest.raises(Refused):
            pins.take(offer(A, B, 7, approval), PAIRING, A)
        assert pins.fingerprints(PAIRING) == (A,)


@pytest.mark.parametrize("text", ["", "[]", '{"paired": 1}', json.dumps({"paired": "", "fingerprint": "x"})])
def test_a_damaged_file_is_said_and_accepts_nothing(trust: CredentialStore, text: str) -> None:
    file = trust.state_dir / "trust" / "second-pin.json"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(BadInput, match=r"second-pin\.json cannot be used"):
        ConsolePins(trust).fingerprints(PAIRING)


def test_no_token_stands_in_the_file(pins: ConsolePins, trust: CredentialStore) -> None:
    pins.take(offer(A, B, 7), PAIRING, A)
    assert PAIRING.token not in (trust.state_dir / "trust" / "second-pin.json").read_text()
