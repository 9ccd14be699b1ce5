"""Models of a tool: its definition by its device, and its contract with effect, risk and other facts."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from core.hosted_names import own_name
from core.models.frozen import FrozenModel

# AIP's two types of tools.
ToolType = Literal["data_collection", "action"]
# The namespace of our own device client's tools. A tool of the same name in another namespace is foreign.
BUILT_IN_NAMESPACE = "builtin"


class Effect(StrEnum):
    """A call's effect on the device."""

    OBSERVE = "observe"
    CHANGE = "change"
    DESTROY = "destroy"
    UNKNOWN = "unknown"


class Risk(StrEnum):
    """The damage that a wrong call can do; ordered by `rank`."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for low up to 3 for critical."""
        return _RANKS[self]


_RANKS = {Risk.LOW: 0, Risk.MEDIUM: 1, Risk.HIGH: 2, Risk.CRITICAL: 3}


class Source(StrEnum):
    """The source of a fact, in order of precedence: the first counts most."""

    OPERATOR = "operator"
    BUILT_IN = "built-in"
    DECLARED = "declared"
    HEURISTIC = "heuristic"
    DEFAULT = "default"


Value = TypeVar("Value")


class Fact(FrozenModel, Generic[Value]):
    """One fact about a tool, with its source and one sentence of reason."""

    value: Value
    source: Source
    why: str


NO_EVIDENCE = Fact[str](
    value="Nothing but the tool's own word.",
    source=Source.DEFAULT,
    why="Nobody has said what would show it.",  # digested
)


class Contract(FrozenModel):
    """The facts that the console accepts about one tool. `evidence` is what shows that a call has worked.

    `digest` covers the device's definition of the tool and every fact below, so that an approval which names
    it applies to exactly this tool with exactly these facts.
    """

    effect: Fact[Effect]
    risk: Fact[Risk]
    reversible: Fact[bool]
    idempotent: Fact[bool]
    open_world: Fact[bool]
    evidence: Fact[str] = NO_EVIDENCE
    digest: str

    @property
    def built_in(self) -> bool:
        """Whether at least one fact comes from built-in knowledge of our own device client's tools."""
        facts = (self.effect, self.risk, self.reversible, self.idempotent, self.open_world, self.evidence)
        return any(fact.source is Source.BUILT_IN for fact in facts)

    def facts(self) -> dict[str, Any]:
        """All facts as JSON: the part that the digest covers beside the tool's definition."""
        return self.model_dump(mode="json", exclude={"digest"})


OTHERWISE = "is defined otherwise, or its device claims less of it"
"""The text for a changed tool if it is not known which of both changed."""


class Tool(FrozenModel):
    """One tool of one device: the device's definition, and the contract.

    `changed` is set while the tool differs from its trusted state: calls are blocked until it is reviewed.
    `change` then describes the difference as the predicate of a sentence that begins with the tool's name:
    `changed its definition`, or a claim of the device that would allow less care.
    """

    device: str
    tool_key: str
    tool_name: str
    tool_type: ToolType
    namespace: str | None = None
    title: str | None = None
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=dict)
    output_schema: dict[str, Any] = Field(default_factory=dict)
    annotations: dict[str, Any] = Field(default_factory=dict)
    contract: Contract
    changed: bool = False
    change: str = ""

    @property
    def own_name(self) -> str | None:
        """The tool's name at its hosted MCP server, if the device lists it under another name."""
        return None if self.namespace == BUILT_IN_NAMESPACE else own_name(self.tool_name, self.namespace)


def changed_facts(before: Contract, after: Contract) -> dict[str, list[Any]]:
    """The facts whose values differ, each with both values."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    pairs = {name: [old[name]["value"], new[name]["value"]] for name in new if name != "digest"}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
