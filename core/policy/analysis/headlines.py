"""The headline of a request: what its gravest findings say that it does, with what it does it to.

The first words of a shell line are chosen by the asker, who can begin every one of them with `cd`; what is
done is read off the whole of it. Made from findings alone, so from the arguments and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.fleet.models import Risk
from core.policy.analysis.summaries import short
from core.policy.models import Finding

MOST_EFFECTS = 3
MOST_OBJECTS = 3
LONGEST_OBJECT = 60
AS_ROOT = "Runs as root"
_DELETES_FOLDERS = "Deletes folders with everything in them"
_DELETES = "Deletes files"
_SERVICES = "Starts, stops or restarts services"
_SERVICE_VERBS = {
    "start": "starts", "stop": "stops", "restart": "restarts", "reload": "reloads", "enable": "enables",
    "disable": "disables", "mask": "masks", "unmask": "unmasks", "kill": "kills",
}  # fmt: skip


def headline_of(findings: Iterable[Finding]) -> str:
    """One sentence of the highest findings, without a full stop; empty where none is above low risk.

    `Deletes /srv/artifacts and everything in it; restarts nginx; as root`. All of high risk and above are in
    it, or all of medium where none is higher, the gravest first; beyond `MOST_EFFECTS` they are counted.
    """
    found = [one for one in findings if one.risk.rank >= Risk.MEDIUM.rank]
    if not found:
        return ""
    highest = max(one.risk.rank for one in found)
    least = min(highest, Risk.HIGH.rank)
    objects: dict[str, list[str]] = {}
    for one in sorted(found, key=lambda one: -one.risk.rank):
        if one.risk.rank < least:
            continue
        named = objects.setdefault(one.text, [])
        detail = short(one.detail, LONGEST_OBJECT)
        if detail and detail not in named and detail not in one.text:
            named.append(detail)
    as_root = objects.pop(AS_ROOT, None) is not None
    effects = [_effect(text, named) for text, named in objects.items()]
    shown = effects[:MOST_EFFECTS]
    if len(effects) > MOST_EFFECTS:
        shown.append(
            f"{len(effects) - MOST_EFFECTS} more effects"
            if len(effects) > MOST_EFFECTS + 1
            else "1 more effect"
        )
    if as_root:
        shown.append("as root" if shown else "runs a command as root")
    sentence = "; ".join(shown)
    return sentence[:1].upper() + sentence[1:]


def _effect(text: str, objects: Sequence[str]) -> str:
    """One effect with what it touches: `deletes /srv/a and everything in it`."""
    plain = text[:1].lower() + text[1:]
    if not objects:
        return plain
    if text == _DELETES_FOLDERS:
        return f"deletes {_listed(objects)} and everything in {'it' if _is_one(objects) else 'them'}"
    if text == _DELETES:
        return f"deletes {_listed(objects)}"
    if text == _SERVICES and (said := _services(objects)):
        return said
    return f"{plain}: {_listed(objects)}"


def _services(objects: Sequence[str]) -> str:
    """`restarts nginx`, from `restart nginx`; empty where one of them is said in another way."""
    parts = [one.split(maxsplit=1) for one in objects]
    if all(len(part) == 2 and part[0] in _SERVICE_VERBS for part in parts):
        return _listed([f"{_SERVICE_VERBS[part[0]]} {part[1]}" for part in parts])
    return ""


def _is_one(objects: Sequence[str]) -> bool:
    return len(objects) == 1 and not any(sign in objects[0] for sign in " *?[")


def _listed(objects: Sequence[str]) -> str:
    shown = list(objects[:MOST_OBJECTS])
    if len(objects) > MOST_OBJECTS:
        shown.append(f"{len(objects) - MOST_OBJECTS} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
