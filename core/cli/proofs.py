"""The proof of one journal entry as a file: the service writes it, and the journal's public key checks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.audit.checkpoint import load_public_key, public_pem
from core.audit.proof_file import LARGEST, ProvenEntry, check_proof_file, proof_file
from core.canonical_json import sha256_hex
from core.cli.answer import Answer
from core.cli.entries import not_held, proved
from core.cli.output import Block, Exact, error_json, facts, one_line, shown_json
from core.cli.saving import check_not_there
from core.cli.session import Session
from core.errors import BadInput, ErrorCode, ErrorInfo, JournalCorrupt
from core.home import Home
from core.service import exit_codes
from core.service.export_file import export_file


async def prove(session: Session, seq: int, output: Path | None, replace: bool) -> Answer:
    """Write the proof of an entry to a new file, or show it; only one that holds.

    Raises:
        BadInput: there is no such entry, or the file cannot be written.
    """
    _, proof, finding = await proved(session, seq)
    if not finding.ok:
        error = not_held(seq, finding)
        return Answer({"seq": seq, "error": error_json(error)}, (), exit_codes.JOURNAL_BAD, error)
    text = proof_file(proof)
    value = {"seq": seq, "entries": proof.size, "proof": text}
    if output is None:
        return Answer(value, [Exact(text)])
    replace = replace or await check_not_there(output)
    async with export_file(output, replace=replace) as file:
        file.write(text)
    told = f"The proof of entry {seq:,} is in {one_line(output)}, with the entry. To check it elsewhere:"
    return Answer(
        {**value, "file": str(output)},
        f"{told} quarterdeck audit verify FILE --key {session.home.keys / 'journal.pub'}",
    )


def verify(home: Home, path: Path, key_file: Path | None) -> Answer:
    """Check a proof with a journal's public key, without a service; exit code 8 when it proves nothing.

    `key_file` has the key, else this home's own is taken.

    Raises:
        BadInput: the proof or the key cannot be read.
    """
    key_path = key_file or home.keys / "journal.pub"
    if key_file is None and not key_path.exists():
        raise BadInput(
            f"There is no journal in {home.path}: give its public key (keys/journal.pub) by --key."
        )
    try:
        key = load_public_key(key_path)
    except JournalCorrupt as error:
        raise BadInput(f"{key_path} is not the public key of a journal (keys/journal.pub).") from error
    key_id = sha256_hex(public_pem(key))
    try:
        proven = check_proof_file(_read(path), key)
    except JournalCorrupt as error:
        info = ErrorInfo.of(ErrorCode.JOURNAL_CORRUPT, f"{path} proves nothing: {error.message}")
        value = {"ok": False, "file": str(path), "key": str(key_path), "error": error_json(info)}
        return Answer(value, (), exit_codes.JOURNAL_BAD, info)
    value = {
        "ok": True,
        "file": str(path),
        "key": str(key_path),
        "key_sha256": key_id,
        "seq": proven.seq,
        "entries": proven.checkpoint.size,
        "origin": proven.checkpoint.origin,
        "root": proven.checkpoint.root.hex(),
        "entry": proven.entry,
    }
    return Answer(value, _words(proven, key_path, key_id))


def _words(proven: ProvenEntry, key_path: Path, key_id: str) -> Iterator[Block]:
    yield shown_json(proven.entry)
    yield ""
    checkpoint = proven.checkpoint
    yield facts(
        [
            ("Proof", f"holds: entry {proven.seq:,} is in the journal, unchanged"),
            ("Journal", f"{one_line(checkpoint.origin)}, {checkpoint.size:,} entries when it was proved"),
            ("Signed by", f"the key in {one_line(key_path)} (SHA-256 {key_id[:16]}…)"),
            ("Root", checkpoint.root.hex()),
        ]
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > LARGEST:
        raise BadInput(f"{path} is too large for a proof of one entry.")
    return data
