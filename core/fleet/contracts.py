"""Derives a tool's contract from its definition, built-in knowledge, device claims and operators' overrides.

A device's claim that its tool is read-only does not count: annotations (MCP: "declared") may raise a risk but
never lower it. An unknown tool has the effect `unknown`, which counts as high risk. An operator's entry in
policy.toml (`[[contract]]`) is the strongest source, and the only source that may lower a risk.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from core.aip.contract_digest import begun_with, definition_of, ended_with, pinned_definition
from core.aip.messages import ToolInfo
from core.canonical_json import canonical_bytes
from core.fleet.tool_pins import Claims
from core.models.tools import BUILT_IN_NAMESPACE, NO_EVIDENCE, Contract, Effect, Fact, Risk, Source, Tool
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS, BuiltInTool
from core.policy.constraints import same
from core.policy.policy_file import Override

# By all inputs of a contract: the digest of the tool's definition, the claims beside it (risk, client), and
# the operator's override. An LRU cache, so that a device can evict other devices' contracts only briefly.
_CONTRACTS: OrderedDict[tuple[str, Claims, str], Contract] = OrderedDict()
_MOST_CONTRACTS = 4096
# Contracts without their digests, by all inputs except the definition's digest.
_HELD: dict[tuple[str, Risk | None, bool, str], tuple[Contract, bytes]] = {}
_MOST_HELD = 512


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its device lists it. `exact` is the digest of its whole definition.

    `digest`, which is pinned, is that of `pinned_definition`. `begun` is the unfinished SHA-256 of its
    contract, fed with the definition, so that large definitions are encoded only once. `size` is in bytes.
    """

    info: ToolInfo
    digest: str
    exact: str
    begun: hashlib._Hash
    size: int


def changed_parts(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of the parts in which two definitions differ."""
    names = dict.fromkeys([*before, *after])
    return [name for name in names if not same(before.get(name), after.get(name))]


def with_claim(definition: dict[str, Any], risk: Risk | None) -> ToolInfo:
    """Make a tool from its definition and the risk that its device claims.

    Raises:
        ValidationError: `definition` is not a valid definition.
    """
    return ToolInfo.model_validate({**definition, "meta": {"quarterdeck": {"risk": risk}}})


def eases(before: Contract, after: Contract) -> bool:
    """Whether the contract `after` could be treated with less care than `before`."""
    return any(
        (
            after.risk.value.rank < before.risk.value.rank,
            # Rules may name an effect, so another effect may be easier, except when it was OBSERVE.
            before.effect.value not in (after.effect.value, Effect.OBSERVE),
            after.reversible.value and not before.reversible.value,
            after.idempotent.value and not before.idempotent.value,
            before.open_world.value and not after.open_world.value,
            after.evidence.value not in (before.evidence.value, NO_EVIDENCE.value),
        )
    )


def read_tool(info: ToolInfo) -> ListedTool:
    """Read a tool that a device lists. Slow for large definitions: seconds for megabytes.

    Raises:
        BadInput: the definition has no canonical form (a number of too many digits, broken Unicode).
    """
    definition, pinned = definition_of(info), pinned_definition(info)
    data = canonical_bytes(definition)
    exact = hashlib.sha256(data).hexdigest()
    digest = exact if pinned == definition else hashlib.sha256(canonical_bytes(pinned)).hexdigest()
    return ListedTool(info, digest, exact, begun_with(data), len(data))


def judge(info: ToolInfo, ours: bool = True, override: Override | None = None) -> Contract:
    """`read_tool`, then `judge_offered`.

    Raises:
        BadInput: see `read_tool`.
    """
    return judge_offered(read_tool(info), claims_of(info, ours), override)


def judge_offered(offered: ListedTool, claims: Claims, override: Override | None = None) -> Contract:
    """Make a tool's contract, each fact with its source, for the given `claims`.

    Built-in knowledge applies only if our own client serves the tool (`claims.ours`): a stock client may use
    any namespace and any tool names. `override` is the operator's entry for the tool.
    """
    contract, facts = _held(offered.info, claims, override)
    return contract.model_copy(update={"digest": ended_with(offered.begun, facts)})


def _held(info: ToolInfo, claims: Claims, override: Override | None) -> tuple[Contract, bytes]:
    """A contract without its digest, and the encoded facts for the digest. Cached: thousands of unknown
    tools share a few such contracts."""
    known = BUILT_IN_TOOLS.get(info.tool_name)
    if not (
        claims.ours and known and info.namespace == BUILT_IN_NAMESPACE and info.tool_type == known.tool_type
    ):
        known = None
    said = override.model_dump_json() if override else ""
    key = (info.tool_name if known else "", claims.risk, _is_destructive(info), said)
    if key not in _HELD:
        facts = _built_in(known) if known else _stranger()
        _raise_by_claims(facts, _is_destructive(info), claims.risk)
        if override is not None:
            _overrule(facts, override)
        plain = {name: fact.model_dump(mode="json") for name, fact in facts.items()}
        if len(_HELD) >= _MOST_HELD:
            _HELD.clear()
        _HELD[key] = Contract.model_validate({**plain, "digest": ""}), canonical_bytes(plain)
    return _HELD[key]


def contract_of(offered: ListedTool, claims: Claims, override: Override | None = None) -> Contract:
    """`judge_offered`, cached: a thousand devices with the same tool share one contract."""
    key = (offered.exact, claims, override.model_dump_json() if override else "")
    contract = _CONTRACTS.get(key)
    if contract is None:
        contract = _CONTRACTS[key] = judge_offered(offered, claims, override)
        if len(_CONTRACTS) > _MOST_CONTRACTS:
            _CONTRACTS.popitem(last=False)
    else:
        _CONTRACTS.move_to_end(key)
    return contract


def tool_of(
    device: str, offered: ListedTool, *, change: str, ours: bool = True, override: Override | None = None
) -> Tool:
    """Make the `Tool` model of an offered tool, with its contract; `change` is empty if it has not changed.

    `ours`: our own device client offers it. `override` is the operator's entry for the tool.
    """
    info = offered.info
    return Tool(
        device=device,
        tool_key=info.tool_key,
        tool_name=info.tool_name,
        tool_type=info.tool_type,
        namespace=info.namespace,
        title=info.title,
        description=info.description or "",
        input_schema=info.input_schema or {},
        output_schema=info.output_schema or {},
        annotations=info.annotations or {},
        contract=contract_of(offered, claims_of(info, ours), override),
        changed=bool(change),
        change=change,
    )


def _built_in(known: BuiltInTool) -> dict[str, Fact[Any]]:
    def fact(value: Any, why: str) -> Fact[Any]:
        return Fact(value=value, source=Source.BUILT_IN, why=why)

    undo = "The device can put things back." if known.reversible else "Nothing puts this back by itself."
    again = "Twice does what once does." if known.idempotent else "Running it twice may do it twice."
    reach = "May reach beyond this device." if known.open_world else "Stays on this device."
    return {
        "effect": fact(known.effect, known.why),
        "risk": fact(known.risk, known.why),
        "reversible": fact(
            known.reversible, "It changes nothing." if known.effect is Effect.OBSERVE else undo
        ),
        "idempotent": fact(known.idempotent, again),
        "open_world": fact(known.open_world, reach),
        "evidence": fact(known.evidence, "How our own device client answers."),
    }


def _stranger() -> dict[str, Fact[Any]]:
    def fact(value: Any, why: str) -> Fact[Any]:
        return Fact(value=value, source=Source.DEFAULT, why=why)

    return {
        "effect": fact(Effect.UNKNOWN, "Nobody this console trusts has said what it does."),  # digested
        "risk": fact(Risk.HIGH, "An unknown effect counts as high risk."),
        "reversible": fact(False, "Not known to be reversible."),
        "idempotent": fact(False, "Not known to be safe to run twice."),
        "open_world": fact(True, "Not known to stay on the device."),
        "evidence": NO_EVIDENCE,
    }


def _overrule(facts: dict[str, Fact[Any]], override: Override) -> None:
    """Replace facts by the operator's."""
    for name, value in override.facts.items():
        facts[name] = Fact(value=value, source=Source.OPERATOR, why=override.why)
    if override.effect is not None and facts["risk"].source is Source.DEFAULT:
        facts["risk"] = Fact(
            value=facts["risk"].value,
            source=Source.DEFAULT,
            why="Nobody has rated it: that counts as high.",  # digested
        )


def _raise_by_claims(facts: dict[str, Fact[Any]], destructive: bool, claimed: Risk | None) -> None:
    """Apply the device's claims: they may raise risk and effect, never lower them."""
    if claimed is not None and claimed.rank > facts["risk"].value.rank:
        facts["risk"] = Fact(value=claimed, source=Source.DECLARED, why="The device rates it higher.")
    if destructive:
        if facts["effect"].value in (Effect.UNKNOWN, Effect.OBSERVE) and not _is_built_in(facts):
            facts["effect"] = Fact(
                value=Effect.DESTROY, source=Source.DECLARED, why="The device calls it destructive."
            )
        if facts["effect"].value is Effect.OBSERVE and facts["risk"].value.rank < Risk.HIGH.rank:
            facts["risk"] = Fact(
                value=Risk.HIGH, source=Source.DECLARED, why="The device calls it destructive."
            )


def _is_destructive(info: ToolInfo) -> bool:
    hints = info.annotations or {}
    return hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True


def claims_of(info: ToolInfo, ours: bool) -> Claims:
    """A device's claims beside a tool's definition; `ours`: it identifies itself as our own client."""
    return Claims(claimed_risk(info), ours)


def claimed_risk(info: ToolInfo) -> Risk | None:
    """The risk that the device claims; None if none. A contract depends on no other field of `meta`, and
    `definition_of` does not include this one."""
    own = (info.meta or {}).get("quarterdeck")
    claimed = own.get("risk") if isinstance(own, dict) else None
    return Risk(claimed) if isinstance(claimed, str) and claimed in list(Risk) else None


def _is_built_in(facts: dict[str, Fact[Any]]) -> bool:
    return facts["effect"].source is Source.BUILT_IN
