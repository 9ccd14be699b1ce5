"""After a restart only those operators count whose registration an operator of that time had signed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.approvals.operators import Operators, adding
from core.audit.entries import Entry, Kind
from core.changes import ChangeStatement
from core.home import Home


def holds(entry: Entry, statement: ChangeStatement) -> bool:
    """Whatever the signature: it is in its time, and used first here."""
    return bool(entry.seq and statement.nonce)


def registration(key: OperatorKey, seq: int, signed: Any = None) -> Entry:
    """The journal's entry of an operator."""
    body = {"operator": key.operator.model_dump(mode="json"), "signed": signed}
    return Entry(
        seq=seq, time="2026-01-01T00:00:00Z", kind=Kind.OPERATOR_REGISTERED, actor="cli:x", body=body
    )


def signed_by(signer: OperatorKey, added: OperatorKey, approver: str = "") -> dict[str, Any]:
    """A signature of one operator over the registration of another, in the name of `approver`."""
    statement = ChangeStatement(
        home="ab" * 32,
        change=adding(added.operator),
        approver=signer.name,
        nonce="n-1",
        expires="2026-01-01T00:01:00Z",
    )
    signed = signer.sign_change(statement).model_dump(mode="json")
    signed["statement"]["approver"] = approver or signer.name
    return signed


@pytest.fixture
def keys(home: Home) -> dict[str, OperatorKey]:
    return {name: create_operator_key(home, name, None) for name in ("anna", "bert", "mallory")}


def test_what_the_first_operator_signed_counts(keys: dict[str, OperatorKey], tmp_path: Path):
    anna, bert = keys["anna"], keys["bert"]
    operators = Operators(tmp_path / "operators.json")
    assert (
        operators.restore([registration(anna, 1), registration(bert, 2, signed_by(anna, bert))], holds) == []
    )
    assert [one.name for one in operators.list()] == ["anna", "bert"]


@pytest.mark.parametrize("how", ["unsigned", "for another", "by themself", "in another's name"])
def test_a_registration_without_a_valid_signature_counts_for_nothing(
    keys: dict[str, OperatorKey], tmp_path: Path, how: str
):
    anna, bert, mallory = keys["anna"], keys["bert"], keys["mallory"]
    signed = {
        "unsigned": None,
        "for another": signed_by(anna, bert),
        "by themself": signed_by(mallory, mallory),
        "in another's name": signed_by(mallory, mallory, approver="anna"),
    }[how]
    operators = Operators(tmp_path / "operators.json")
    [ignored] = operators.restore([registration(anna, 1), registration(mallory, 2, signed)], holds)
    assert "mallory (entry 2) was registered without a valid signature" in ignored
    assert [one.name for one in operators.list()] == ["anna"]
