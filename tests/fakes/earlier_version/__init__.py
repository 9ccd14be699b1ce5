"""The home of a version that believed `devices.json` and `contracts.json` as they stood (0.1.0, 6a47b31).

The files are of a real home: lab-1 dials in and had a tool reviewed, lab-2 is dialled, lab-3 was revoked,
lab-4 forgotten, lab-5 set; `tokens.json` has their tokens. The tool `kept` of lab-1 has the key
`action::harmless`.
"""

from __future__ import annotations

import json
from pathlib import Path

from core.approvals.operator_keys import OperatorKey
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.home import Home

_HERE = Path(__file__).parent
TOKENS: dict[str, str] = json.loads((_HERE / "tokens.json").read_text())


async def put_earlier_version(home: Home, key: OperatorKey) -> None:
    """Make this the home that such a version left, whose one operator has this key."""
    journal_key = load_or_create_journal_key(home.keys / "journal.key")
    journal = await Journal.open(home.path, journal_key, "quarterdeck")
    try:
        for definition in (_HERE / "definitions.jsonl").read_bytes().splitlines():
            await journal.put_blob(definition)
        lines = (_HERE / "entries.jsonl").read_text().splitlines()
        await journal.append_many([_entry(line, key) for line in lines])
    finally:
        await journal.close()
    for name in ("devices.json", "contracts.json"):
        path = home.path / name
        path.write_bytes((_HERE / name).read_bytes())
        path.chmod(0o600)
    home.dial_tokens.mkdir(mode=0o700)
    (home.dial_tokens / "lab-2.token").write_text(TOKENS["lab-2"] + "\n")


def _entry(line: str, key: OperatorKey) -> NewEntry:
    found = json.loads(line)
    del found["seq"], found["time"]
    if found["kind"] == Kind.OPERATOR_REGISTERED:
        found["body"]["operator"] = key.operator.model_dump(mode="json")
    return NewEntry.model_validate(found)
