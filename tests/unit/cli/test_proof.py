"""`audit show`: an entry is shown with the proof that the signed head covers it, which is checked here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.checkpoint import Signer
from core.audit.entries import Entry
from core.audit.merkle import leaf_hash
from core.cli import entries
from core.cli.answer import print_answer
from core.cli.session import Session
from core.service import exit_codes
from core.service.console import Console, Proof
from core.service.service import Service


class Liar:
    """A service that shows another entry, or proves it by other means."""

    def __init__(self, entry: Entry, proof: Proof) -> None:
        self._entry, self._proof = entry, proof
        self.journal = self

    async def entry(self, seq: int) -> Entry:
        return self._entry

    async def prove(self, seq: int) -> Proof:
        return self._proof


async def shown(
    service: Service, console: Any, capsys: pytest.CaptureFixture[str], seq: int = 1
) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    answer = await entries.entry(Session(service.home, console, hosted=True), seq)
    await print_answer(answer, True)
    return answer.code, json.loads(capsys.readouterr().out)


@pytest.fixture
async def honest(service: Service, console: Console) -> tuple[Entry, Proof]:
    return await console.journal.entry(1), await console.journal.prove(1)


async def test_an_entry_is_shown_with_a_proof_that_holds(
    service: Service, console: Console, capsys: pytest.CaptureFixture[str]
):
    code, told = await shown(service, console, capsys)
    assert code == exit_codes.DONE
    assert told["seq"] == 1
    assert told["proof"]["holds"] is True
    assert told["proof"]["leaf"] == leaf_hash(told["proof"]["entry"].encode()).hex()
    assert "error" not in told


async def test_the_proof_is_written_out_for_people_too(
    service: Service, capsys: pytest.CaptureFixture[str], honest: tuple[Entry, Proof]
):
    entry, proof = honest
    # The journal grows while this runs, and its newest proof with it: what is shown is this one.
    answer = await entries.entry(Session(service.home, Liar(entry, proof), hosted=True), 1)
    await print_answer(answer, False)
    text = capsys.readouterr().out
    assert "holds: In the journal, unchanged." in text
    assert proof.leaf in text
    assert all(sibling in text for sibling in proof.path)


async def test_an_entry_in_other_words_than_those_that_are_proved_is_found(
    service: Service, honest: tuple[Entry, Proof], capsys: pytest.CaptureFixture[str]
):
    entry, proof = honest
    forged = entry.model_copy(update={"actor": "operator:mallory"})
    code, told = await shown(service, Liar(forged, proof), capsys)
    assert code == exit_codes.JOURNAL_BAD
    assert told["proof"]["holds"] is False
    assert told["error"]["code"] == "journal_corrupt"
    assert "other words" in told["error"]["message"]


async def test_the_proof_of_another_entry_is_not_taken_for_this_one(
    service: Service, console: Console, capsys: pytest.CaptureFixture[str]
):
    liar = Liar(await console.journal.entry(2), await console.journal.prove(2))
    code, _ = await shown(service, liar, capsys, seq=1)
    assert code == exit_codes.JOURNAL_BAD


@pytest.mark.parametrize("changes", [{"size": 10_000}, {"root": "00" * 32}, {"path": []}, {"checkpoint": ""}])
async def test_a_proof_in_which_anything_is_changed_does_not_hold(
    service: Service, honest: tuple[Entry, Proof], capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
):
    entry, proof = honest
    code, _ = await shown(service, Liar(entry, proof.model_copy(update=changes)), capsys)
    assert code == exit_codes.JOURNAL_BAD


async def test_a_whole_journal_signed_with_another_key_is_not_this_homes(
    service: Service, honest: tuple[Entry, Proof], capsys: pytest.CaptureFixture[str]
):
    entry, proof = honest
    forged = entry.model_copy(update={"actor": "operator:mallory"})
    text = proof.entry.replace(f'"actor":"{entry.actor}"', '"actor":"operator:mallory"')
    leaf = leaf_hash(text.encode())
    key = Ed25519PrivateKey.generate()
    origin = proof.checkpoint.split("\n", 1)[0]
    other = proof.model_copy(
        update={
            "entry": text,
            "leaf": leaf.hex(),
            "path": [],
            "root": leaf.hex(),
            "size": 1,
            "checkpoint": Signer(key, origin).sign(1, leaf),
            "public_key": key.public_key().public_bytes_raw().hex(),
        }
    )
    code, told = await shown(service, Liar(forged, other), capsys)
    assert code == exit_codes.JOURNAL_BAD
    assert "another key" in told["error"]["message"]
