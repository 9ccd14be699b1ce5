"""Reads policy.toml: profiles, rules, and the operator's statements about tools (`[[contract]]`).

Without the file the built-in default applies. If the file is broken, everything asks; a broken file never
allows anything. `Overrides` finds the first `[[contract]]` entry that fits a tool.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from core.broken_text import fault_words
from core.errors import BadInput
from core.files import read_own_text
from core.hosted_names import own_name
from core.models.devices import Device
from core.models.frozen import FrozenModel
from core.models.tools import BUILT_IN_NAMESPACE, Effect, Risk
from core.policy.models import Profile
from core.policy.name_patterns import fits, is_glob
from core.policy.rules import Patterns, Rule
from core.text import sentences

MOST_RULES = 20_000
LARGEST_FILE = 8 * 1024 * 1024
FACTS = ("effect", "risk", "reversible", "idempotent", "open_world", "evidence")


class ProfileFor(FrozenModel):
    """A profile for the devices whose name or tag matches (`*` and `?` as in file names)."""

    profile: Profile
    device: str | None = None
    tag: str | None = None

    def covers(self, device: Device) -> bool:
        """Whether this entry applies to the device. An entry without device and tag applies to none."""
        by_name = self.device is not None and fnmatch.fnmatchcase(device.name, self.device)
        by_tag = self.tag is not None and any(fnmatch.fnmatchcase(tag, self.tag) for tag in device.tags)
        return by_name or by_tag


class Override(FrozenModel):
    """An operator's statement of facts about a tool. It overrides every other source of the contract.

    The first entry that names a tool applies; later entries add nothing to it. `why` is shown with the
    contract. Nothing else can lower a contract.
    """

    tool: Patterns
    device: Patterns = Field(default_factory=lambda: ["*"])
    namespace: Patterns | None = None
    effect: Effect | None = None
    risk: Risk | None = None
    reversible: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    evidence: str | None = Field(default=None, min_length=3, max_length=300)
    why: str = Field(min_length=3, max_length=300)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.facts:
            raise ValueError(f"says nothing of the tool: {', '.join(FACTS[:-1])} or {FACTS[-1]}")
        return self

    @property
    def facts(self) -> dict[str, Effect | Risk | bool | str]:
        """The stated facts, by their names in a contract."""
        return {name: value for name in FACTS if (value := getattr(self, name)) is not None}

    def covers(self, device: str, tool_name: str, namespace: str | None) -> bool:
        """Whether the entry applies to this tool of this device.

        `tool` names a hosted MCP server's tool by the name that the device lists. The server's own name for
        the tool works only together with `namespace`, because any server may have a tool of that name, or if
        the entry lowers nothing.
        """
        return (
            (fits(tool_name, self.tool) or self._names_own(tool_name, namespace))
            and fits(device, self.device)
            and (self.namespace is None or fits(namespace or "", self.namespace))
        )

    @property
    def only_raises(self) -> bool:
        """Whether the entry lowers nothing, whatever the tool's contract is without it."""
        grave = self.effect in (None, Effect.UNKNOWN, Effect.DESTROY)
        return self.risk is Risk.CRITICAL and grave and not self.reversible and not self.idempotent

    def _names_own(self, tool_name: str, namespace: str | None) -> bool:
        if namespace == BUILT_IN_NAMESPACE or (self.namespace is None and not self.only_raises):
            return False
        own = own_name(tool_name, namespace)
        return own is not None and fits(own, self.tool)


class PolicyFile(FrozenModel):
    """The whole file; unknown keys are errors. `line_numbers` has the line at which each rule begins."""

    profile: Profile = Profile.GUARDED
    profiles: list[ProfileFor] = Field(default_factory=list)
    rules: list[Rule] = Field(default_factory=list, alias="rule", max_length=MOST_RULES)
    contracts: list[Override] = Field(default_factory=list, alias="contract", max_length=MOST_RULES)
    line_numbers: list[int] = Field(default_factory=list, exclude=True)

    @model_validator(mode="after")
    def _ids_once(self) -> Self:
        ids: set[str] = set()
        for rule in self.rules:
            if rule.id in ids:
                raise ValueError(f"two rules have the id {rule.id}")
            ids.add(rule.id)
        return self

    def profile_for(self, device: Device) -> tuple[Profile, str]:
        """The profile that applies to a device, and its origin in words."""
        for number, entry in enumerate(self.profiles, 1):
            if entry.covers(device):
                return entry.profile, f"policy.toml, profiles entry {number}"
        is_default = self.profile is Profile.GUARDED and not (self.profiles or self.rules or self.contracts)
        return self.profile, "built-in profile" if is_default else "policy.toml"


def read_policy_text(path: Path) -> str | None:
    """The text of policy.toml; None if there is no such file.

    Raises:
        BadInput: the file cannot be read, or another user could have written it; the message says why.
    """
    return read_own_text(path, LARGEST_FILE)


def read_policy(path: Path) -> PolicyFile:
    """Read policy.toml. Returns the built-in default if there is no file.

    Raises:
        BadInput: the file cannot be read or is invalid; the message says where.
    """
    return parse_policy(read_policy_text(path) or "")


def parse_policy(text: str) -> PolicyFile:
    """Parse the text of policy.toml. Does not run its examples: see `core.policy.examples`.

    Raises:
        BadInput: the text is not TOML, or has an unknown key or a wrong value; the message says where.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(sentences(f"policy.toml is not TOML: {fault_words(error)}")) from error
    if "line_numbers" in data:
        raise BadInput("policy.toml: line_numbers: there is no such key.")
    lines = table_lines(text)
    try:
        return PolicyFile.model_validate({**data, "line_numbers": lines.get("rule", [])})
    except ValidationError as error:
        raise BadInput(sentences(f"policy.toml{_where(error, data, lines)}")) from error


def rule_lines(text: str) -> list[int]:
    """The lines (from 1) at which the `[[rule]]` entries begin."""
    return table_lines(text).get("rule", [])


def table_lines(text: str) -> dict[str, list[int]]:
    """The lines (from 1) at which the entries of each `[[…]]` begin. Strings and comments are skipped."""
    lines: dict[str, list[int]] = {}
    stripped = _TOML_TEXT.sub(lambda match: "\n" * match.group().count("\n"), text)
    for number, text_line in enumerate(stripped.split("\n"), 1):
        if table := _TABLE_LINE.match(text_line):
            lines.setdefault(table[1], []).append(number)
    return lines


def _where(error: ValidationError, data: dict[str, Any], lines: dict[str, list[int]]) -> str:
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    unknown = first["type"] == "extra_forbidden"
    message = "there is no such key" if unknown else str(first["msg"]).removeprefix("Value error, ")
    if len(first["loc"]) > 1 and isinstance(first["loc"][1], int) and isinstance(data.get(place[0]), list):
        table, number = place[0], first["loc"][1]
        entry = data[table][number]
        name = entry.get("id") if table == "rule" and isinstance(entry, dict) else None
        table_starts = lines.get(table, [])
        line = f" line {table_starts[number]}" if len(table_starts) == len(data[table]) else ""
        key = ".".join(place[2:])
        label = name if isinstance(name, str) else number + 1
        return f"{line}: {table} {label}: {f'{key}: ' if key else ''}{message}"
    return f": {'.'.join(place)}: {message}" if place else f": {message}"


_TABLE_LINE = re.compile(r"^\s*\[\[\s*([A-Za-z]+)\s*\]\]")
# Strings of TOML (single-line and multi-line) and comments; a table header inside them is no header.
_TOML_TEXT = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*''', re.DOTALL
)
_PROFILE_LINE = re.compile(r"^profile\s*=.*$", re.MULTILINE)


def with_profile(text: str, profile: Profile) -> str:
    """The text of a policy with another default profile, otherwise unchanged.

    Raises:
        BadInput: the text is invalid, or its layout does not allow this edit.
    """
    parse_policy(text)
    line = f'profile = "{profile.value}"'
    # Top-level keys of TOML end at the first table.
    start = re.search(r"^\s*\[", text, re.MULTILINE)
    head, tables = (text[: start.start()], text[start.start() :]) if start else (text, "")
    head = _PROFILE_LINE.sub(line, head, count=1) if _PROFILE_LINE.search(head) else f"{line}\n{head}"
    if parse_policy(head + tables).profile is not profile:
        raise BadInput("policy.toml is written in a way that cannot be changed here; set profile by hand.")
    return head + tables


class Overrides:
    """The `[[contract]]` entries of one policy, in the order of the file."""

    def __init__(self, entries: Sequence[Override] = ()) -> None:
        self.entries: list[Override] = list(entries)
        self._by_tool: dict[str, list[int]] = defaultdict(list)
        self._any_tool: list[int] = []
        for number, entry in enumerate(self.entries):
            if any(map(is_glob, entry.tool)):
                self._any_tool.append(number)
            else:
                for name in entry.tool:
                    self._by_tool[name].append(number)

    def of(self, device: str, tool_name: str, namespace: str | None) -> Override | None:
        """The entry that applies to a tool of a device, or None."""
        numbers = {*self._by_tool.get(tool_name, ()), *self._any_tool}
        if (own := own_name(tool_name, namespace)) is not None:
            numbers.update(self._by_tool.get(own, ()))
        candidates = (self.entries[number] for number in sorted(numbers))
        return next((entry for entry in candidates if entry.covers(device, tool_name, namespace)), None)
