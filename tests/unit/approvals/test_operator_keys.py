"""The operator's key: how it is kept, and what its signature is worth."""

from __future__ import annotations

import itertools
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.approvals.models import Approval
from core.approvals.operator_keys import (
    OperatorKey,
    create_operator_key,
    list_operator_keys,
    load_operator_key,
    login_name,
    statement_for,
    verify_statement,
)
from core.canonical_json import canonical_bytes
from core.errors import BadInput, ErrorCode, Refused
from core.home import Home
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Profile
from core.statements import SignedStatement, Statement, make_request

PASSPHRASE = "correct horse battery"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path).create()


@pytest.fixture
def key(home: Home) -> OperatorKey:
    return create_operator_key(home, "anna", None)


def approval() -> Approval:
    request = make_request(
        device="d1",
        contract="c" * 64,
        tool_key="ns::t",
        tool_name="t",
        tool_type="action",
        namespace=None,
        parameters={"command": "ls"},
        call_id="call-1",
    )
    decision = Decision(
        answer=Answer.ASK,
        risk=Risk.HIGH,
        effect=Effect.CHANGE,
        profile=Profile.GUARDED,
        summary="",
        reasons=[],
    )
    return Approval(
        id="a1", request=request, decision=decision, actor="cli:x", asked_at="", expires_at="", remaining_s=1
    )


def test_a_key_is_for_its_owner_alone_and_comes_back_as_it_was(home, key):
    assert [stat.S_IMODE(path.stat().st_mode) for path in home.keys.iterdir()] == [0o600, 0o600]
    again = load_operator_key(home, "anna", None)
    assert again.operator == key.operator
    assert not again.has_passphrase


def test_a_passphrase_encrypts_the_key_on_disk(home):
    key = create_operator_key(home, "anna", PASSPHRASE)
    assert key.operator.has_passphrase
    assert (home.keys / "operator-anna.pem").read_bytes().startswith(b"-----BEGIN ENCRYPTED")
    assert load_operator_key(home, "anna", PASSPHRASE).public_key == key.public_key


@pytest.mark.parametrize(
    ("given", "said"), [("wrong horse battery", "passphrase is wrong"), (None, "not given")]
)
def test_a_locked_key_does_not_open_without_its_passphrase(home, given, said):
    create_operator_key(home, "anna", PASSPHRASE)
    with pytest.raises(BadInput, match=said):
        load_operator_key(home, "anna", given)


def test_a_passphrase_must_be_worth_its_name(home):
    with pytest.raises(BadInput, match="at least 10"):
        create_operator_key(home, "anna", "short")
    with pytest.raises(BadInput, match="at most 1,023 bytes"):
        create_operator_key(home, "anna", "é" * 512)
    assert list_operator_keys(home) == []


def test_a_key_is_never_overwritten(home, key):
    before = (home.keys / "operator-anna.pem").read_bytes()
    with pytest.raises(BadInput, match="already"):
        create_operator_key(home, "anna", PASSPHRASE)
    assert (home.keys / "operator-anna.pem").read_bytes() == before


def test_a_key_that_appears_in_between_is_not_overwritten_either(home, key, monkeypatch):
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(BadInput, match="already"):
        create_operator_key(home, "anna", None)
    assert load_operator_key(home, "anna", None).public_key == key.public_key


@pytest.mark.parametrize("name", ["", "../anna", "a/b", ".hidden", "anna\n", "a b", "x" * 65, "ann\u00e4"])
def test_a_name_cannot_lead_out_of_the_folder(home, name):
    with pytest.raises(BadInput, match="operator's name"):
        create_operator_key(home, name, None)


def test_keys_are_listed_without_unlocking_them(home, key):
    create_operator_key(home, "bert", PASSPHRASE)
    (home.keys / "other.pem").write_text("not an operator's")
    anna, bert = list_operator_keys(home)
    assert (anna.name, anna.has_passphrase, anna.public_key) == ("anna", False, key.public_key)
    assert (bert.name, bert.has_passphrase) == ("bert", True)


def test_no_changed_byte_of_a_key_s_file_ends_in_anything_but_a_refusal(home):
    create_operator_key(home, "bert", None)
    path = home.keys / "operator-bert.pem"
    whole = path.read_bytes()
    opened = 0
    for at, bit in itertools.product(range(len(whole)), range(8)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        try:
            load_operator_key(home, "bert", None)
        except BadInput:
            continue
        opened += 1
    # A changed byte of the key itself is another key, which is registered nowhere.
    assert opened < 8 * len(whole)


def test_a_damaged_key_and_a_missing_key_are_told_apart(home, key):
    (home.keys / "operator-anna.pem").write_text("nonsense")
    with pytest.raises(BadInput, match="damaged"):
        load_operator_key(home, "anna", None)
    with pytest.raises(BadInput) as missing:
        load_operator_key(home, "bert", None)
    assert missing.value.code is ErrorCode.NOT_FOUND


def test_the_private_half_shows_in_no_representation(key):
    secret = key._private.private_bytes_raw().hex()
    assert secret not in repr(key)
    assert "_private" not in repr(key)


def test_whoever_is_logged_in_has_a_usable_name(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "DOMAIN\\änna k")
    assert login_name() == "DOMAIN-nna-k"
    monkeypatch.setattr("getpass.getuser", lambda: "..")
    assert login_name() == "operator"


class TestSignature:
    @pytest.fixture
    def signed(self, key: OperatorKey) -> SignedStatement:
        return key.sign(statement_for(approval(), "approve", "anna", "looks right"))

    def test_it_holds_for_the_statement_and_key_it_was_made_with(self, signed, key):
        assert verify_statement(signed, key.public_key)

    @pytest.mark.parametrize("field", sorted(Statement.model_fields))
    def test_it_breaks_when_any_field_is_changed(self, signed, key, field):
        before = getattr(signed.statement, field)
        other = "deny" if field == "verdict" else f"{before} "
        forged = signed.model_copy(update={"statement": signed.statement.model_copy(update={field: other})})
        assert not verify_statement(forged, key.public_key)

    def test_it_breaks_when_any_bit_of_it_is_changed(self, signed, key):
        raw = bytes.fromhex(signed.signature)
        for bit in range(len(raw) * 8):
            flipped = bytearray(raw)
            flipped[bit // 8] ^= 1 << bit % 8
            assert not verify_statement(
                signed.model_copy(update={"signature": flipped.hex()}), key.public_key
            )

    def test_another_key_is_not_the_signer(self, home, signed):
        other = create_operator_key(home, "bert", None)
        assert not verify_statement(signed, other.public_key)

    @pytest.mark.parametrize(
        "trick",
        [
            str.upper,
            lambda s: f" {s}",
            lambda s: s[:64] + " " + s[64:],
            lambda s: s + "\n",
            lambda s: s + "00",
        ],
    )
    def test_one_signature_has_one_spelling(self, signed, key, trick):
        assert not verify_statement(
            signed.model_copy(update={"signature": trick(signed.signature)}), key.public_key
        )

    @pytest.mark.parametrize("odd", ["", "00", "zz" * 32, "00" * 32, "f" * 64])
    def test_a_key_that_is_none_verifies_nothing(self, signed, key, odd):
        assert not verify_statement(signed, odd)
        assert not verify_statement(signed, key.public_key.upper())

    @pytest.mark.parametrize("verdict", ["approve", "deny"])
    @pytest.mark.parametrize(
        ("parameters", "digest"),
        [
            ({"command": "ls "}, None),
            ({"command": "ls"}, "d" * 64),
            ({"command": "ls"}, ""),
            ({"command": {"$secret": "ab" * 32}}, None),
            ({"command": float("nan")}, None),
        ],
    )
    def test_nothing_is_signed_under_a_digest_that_is_not_of_what_is_shown(self, parameters, digest, verdict):
        asked = approval()
        changes = {"parameters": parameters, "digest": asked.request.digest if digest is None else digest}
        other = asked.model_copy(update={"request": asked.request.model_copy(update=changes)})
        with pytest.raises(Refused, match="nothing is signed"):
            statement_for(other, verdict, "anna")

    @pytest.mark.parametrize(
        "stand_in",
        [
            {"$secret": "ab"},
            {"$secret": "AB" * 32},
            {"$secret": 1},
            {"$secret": "ab" * 32, "more": 1},
            {"$secret": {}},
        ],
    )
    def test_nothing_is_signed_in_which_a_commitment_is_none(self, stand_in):
        request = approval().request.model_dump(exclude={"digest", "parameters"})
        forged = make_request(**request, parameters={"logins": [{"word": stand_in}]})
        with pytest.raises(Refused, match="malformed"):
            statement_for(approval().model_copy(update={"request": forged}), "approve", "anna")

    def test_nobody_signs_in_anothers_name(self, key):
        with pytest.raises(BadInput, match="cannot sign for bert"):
            key.sign(statement_for(approval(), "approve", "bert"))

    def test_it_names_the_request_in_full_and_expires_soon(self, signed):
        statement = signed.statement
        assert statement.request_digest == approval().request.digest
        assert statement.contract == "c" * 64
        assert (statement.device, statement.call_id, statement.approval) == ("d1", "call-1", "a1")
        left = datetime.fromisoformat(statement.expires) - datetime.now(UTC)
        assert timedelta(seconds=50) < left <= timedelta(seconds=60)

    def test_it_is_over_the_canonical_bytes(self, signed, key):
        raw = canonical_bytes(signed.statement.model_dump(mode="json"))
        key._private.public_key().verify(bytes.fromhex(signed.signature), raw)
