"""What a change is called, what follows from it, and each of its values, as the sheet that signs it says."""

from __future__ import annotations

from app.widgets.line_breaks import breakable
from app.widgets.property_list import Property, short_digest
from core.changes import Change, ChangeKind
from core.text import escape_hidden, plural

LOOSENS = "What would run, or reach farther, than now"
_CHANGES = {ChangeKind.OPERATOR_REMOVED: "What would change"}
USED_ONCE = (
    "Your signature covers exactly this change and is used once. It stands in the journal before the change "
    "holds."
)
_TITLES = {
    ChangeKind.POLICY: "Sign this change of the policy",
    ChangeKind.SETTINGS: "Sign what settings.toml loosens",
    ChangeKind.CONTRACT: "Sign that {subject} is trusted",
    ChangeKind.DEVICE_PAIRED: "Sign the pairing of {subject}",
    ChangeKind.DEVICE_BOUND: "Sign that another machine is {subject}",
    ChangeKind.DEVICE_SET: "Sign the settings of {subject}",
    ChangeKind.LISTENING: "Sign where devices dial in",
    ChangeKind.RESUME: "Sign that commands leave again",
    ChangeKind.OPERATOR_ADDED: "Sign that {subject} becomes an operator",
    ChangeKind.OPERATOR_REMOVED: "Sign that {subject} is removed as an operator",
    ChangeKind.AGENT_ADDED: "Sign that {subject} may ask as an agent",
    ChangeKind.CERTIFICATE: "Sign the next certificate of this console",
    ChangeKind.LOSS_ACCEPTED: "Sign that entries of the journal are lost",
    ChangeKind.AGENT_SET: "Sign the limits of the agent {subject}",
}
_NAMES = {
    "sha256": "Text",
    "contract": "Contract",
    "definition": "Trusted",
    "pin": "Pinned as",
    "tags": "Tags",
    "production": "Production",
    "agent": "Agent",
    "direction": "Who dials",
    "url": "Address",
    "fingerprint": "Certificate",
    "certificate_sha256": "Certificate",
    "token_sha256": "Token",
    "dial_token_sha256": "Token",
    "address": "Listens at",
    "listen": "Listens at",
    "this_computer_tags": "Tags here",
    "ui_actions_on_this_computer": "Clicks here",
    "this_computer": "Its tools run in",
    "approval_expiry": "Seconds to approve",
    "secret_names": "Masked names",
    "stopped": "Now",
    "public_key": "Public key",
    "has_passphrase": "Passphrase",
    "profile": "Profile",
    "targets": "Devices",
    "per_minute": "Commands a minute",
    "waiting": "Requests that wait",
    "paused": "Paused",
}
_DIGESTS = (
    *("sha256", "contract", "definition", "fingerprint", "certificate_sha256"),
    *("token_sha256", "dial_token_sha256"),
)
_DIRECTIONS = {"in": "the device", "out": "this console"}
_NOTHING = "—"


def change_title(change: Change) -> str:
    """The title of the sheet that signs it."""
    subject = change.subject
    if change.kind is ChangeKind.CONTRACT:
        device, _, tool = subject.partition("/")
        subject = f"{tool} on {device}"
    return _TITLES[change.kind].format(subject=escape_hidden(subject, keep_lines=False))


def change_head(change: Change) -> str:
    """The head above the sentences that say what a change comes to."""
    return _CHANGES.get(change.kind, LOOSENS)


def change_facts(change: Change) -> list[Property]:
    """Every value of a change as it is signed, and what it replaces, where that differs.

    Of the values of another file only those that differ have a row; the others are counted.
    """
    facts = []
    for key in dict.fromkeys((*change.after, *change.before)):
        name = _NAMES.get(key, key)
        if isinstance(change.after.get(key), dict):
            facts += _file_facts(key, change.before.get(key), change.after[key])
        elif key not in change.after:
            label = f"{name} now" if change.after else name
            facts.append(_fact(label, key, change.before[key]))
        elif key in change.before and change.before[key] != change.after[key]:
            facts.append(_fact(f"{name} now", key, change.before[key]))
            facts.append(_fact(f"{name} then", key, change.after[key]))
        else:
            facts.append(_fact(name, key, change.after[key]))
    return facts


def _file_facts(file: str, before: object, after: dict[str, object]) -> list[Property]:
    """The values of a file that a change has under its name, such as those of this computer's device.toml."""
    name = file.rpartition("/")[2]
    was = before if isinstance(before, dict) else {}
    keys = dict.fromkeys((*after, *was))
    differing = [key for key in keys if key not in after or key not in was or was[key] != after[key]]
    facts = [
        fact
        for key in differing
        for fact in (_fact(f"{key} now", key, was.get(key)), _fact(f"{key} then", key, after.get(key)))
    ]
    same = len(keys) - len(differing)
    return [*facts, Property(name, f"{plural(same, 'value')} as accepted")] if same else facts


def _fact(label: str, key: str, value: object) -> Property:
    if key in _DIGESTS and value:
        whole = str(value)
        return Property(label, short_digest(whole, "sha256"), mono=True, full=whole)
    words = escape_hidden(_value_words(key, value), keep_lines=False)
    mono = key in ("public_key", "url", "address", "listen") and bool(value)
    return Property(label, breakable(words), mono=mono, full=words)


def _value_words(key: str, value: object) -> str:
    if key == "direction":
        return _DIRECTIONS.get(str(value), str(value))
    if key == "public_key":
        digits = str(value)
        return "ed25519 " + " ".join(digits[at : at + 8] for at in range(0, len(digits), 8))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(str, value)) or _NOTHING
    return str(value) if value not in ("", None) else _NOTHING
