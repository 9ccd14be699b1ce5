"""Defines the rules of policy.toml: the calls that a rule applies to, its decision, examples, time zone.

The time zone is the one that a rule names, or the machine's. A program chooses the environment of the service
that it starts, so that neither `TZ` nor `PYTHONTZPATH` counts.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, model_validator

from core.controls import PROGRAM_NAMES
from core.models.devices import Device
from core.models.frozen import FrozenModel
from core.models.tools import BUILT_IN_NAMESPACE, Effect, Risk, Tool
from core.policy.analysis.built_in_tools import SHELL_ARGUMENTS
from core.policy.analysis.shell.tool_arguments import (
    MOST_LINES,
    described_line_arguments,
    holds_line,
    shell_lines,
)
from core.policy.analysis.shell.walk import Programs, programs_in_line
from core.policy.constraints import Constraint, UnknownPath
from core.policy.models import Answer, Moment
from core.policy.name_patterns import compiled, fits, is_glob

MACHINE = Path("/etc/localtime")
_FOLDERS = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo")
_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,3}")


@lru_cache(maxsize=256)
def zone_named(name: str) -> tzinfo:
    """The time zone of a name such as `Europe/Berlin`.

    Raises:
        ValueError: there is no such zone on this computer.
    """
    if name == "UTC":
        return UTC
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a time zone, such as Europe/Berlin")
    for folder in _FOLDERS:
        path = Path(folder, name)
        if path.is_file():
            return _read(path, name)
    if sys.platform == "win32":
        with contextlib.suppress(ZoneInfoNotFoundError, OSError):
            return ZoneInfo(name)
    raise ValueError(f"there is no time zone {name!r} on this computer")


def machine_zone() -> tuple[tzinfo, str]:
    """The time zone that this machine is set to, and its name. Without `MACHINE` it is UTC, as for libc."""
    if sys.platform == "win32":
        local = datetime.now().astimezone().tzinfo
        return local or UTC, "the zone of this computer"
    else:
        try:
            status = MACHINE.stat()
        except OSError:
            return UTC, "UTC"
        return _machine_zone(os.path.realpath(MACHINE), status.st_mtime_ns)


@lru_cache(maxsize=8)
def _machine_zone(path: str, _changed: int) -> tuple[tzinfo, str]:
    name = path.partition("zoneinfo/")[2] or "the zone of this computer"
    try:
        return _read(Path(path), name), name
    except (ValueError, OSError):
        return UTC, "UTC"


def _read(path: Path, name: str) -> tzinfo:
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


MOST_APPROVERS = 9
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"^([01]\d|2[0-3]):[0-5]\d$")
_RISK_RANGE = re.compile(r"^(>=|<=)\s*(low|medium|high|critical)$")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _risks(value: Any) -> Any:
    """Expands a range such as `">=high"`; `"high"` and `["high", "critical"]` are valid too."""
    match = _RISK_RANGE.match(value) if isinstance(value, str) else None
    if match is None:
        return _listed(value)
    edge = Risk(match[2]).rank
    return [risk for risk in Risk if (risk.rank >= edge if match[1] == ">=" else risk.rank <= edge)]


Patterns = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]


class TimeWindow(FrozenModel):
    """A time window. `from` is included, `to` is not. It may span midnight.

    Its hours are those of `zone`, such as `Europe/Berlin`; without it, those of the zone that the machine is
    set to. The environment of the service, such as `TZ`, does not count.
    """

    days: list[Day] = Field(default_factory=lambda: list(DAYS))
    from_: str = Field(default="00:00", alias="from")
    to: str = "24:00"
    zone: str = ""

    @model_validator(mode="after")
    def _clock(self) -> Self:
        for name, text in (("from", self.from_), ("to", self.to)):
            if not _CLOCK.match(text) and not (name == "to" and text == "24:00"):
                raise ValueError(f"{name} is a time such as 08:30")
        if not self.days:
            raise ValueError("days lists no day")
        if self.zone:
            zone_named(self.zone)
        return self

    def local(self, moment: datetime) -> tuple[datetime, str]:
        """A moment by the clock of the window's zone, and the name of the zone.

        A moment without a zone, as in an example, is by that clock already.
        """
        zone, name = (zone_named(self.zone), self.zone) if self.zone else machine_zone()
        return (moment if moment.tzinfo is None else moment.astimezone(zone)), name

    def words(self) -> str:
        """The window in words, with its zone."""
        days = "" if len(self.days) == len(DAYS) else f" on {', '.join(self.days)}"
        zone = self.zone or f"{machine_zone()[1]}, the zone of this computer"
        return f"from {self.from_} to {self.to}{days} in {zone}"

    def covers(self, moment: datetime) -> bool:
        """Whether a moment is in the window. Past midnight, a window belongs to the day on which it began."""
        moment, _ = self.local(moment)
        clock, day = f"{moment:%H:%M}", moment.weekday()
        if self.from_ < self.to:
            return DAYS[day] in self.days and self.from_ <= clock < self.to
        if clock >= self.from_:
            return DAYS[day] in self.days
        return clock < self.to and DAYS[day - 1] in self.days


class Example(FrozenModel):
    """A call that a rule must (`match`) or must not (`not_match`) apply to. Absent fields fit the rule."""

    device: str | None = None
    tags: list[str] | None = None
    tool: str | None = None
    actor: str | None = None
    effect: Effect | None = None
    risk: Risk | None = None
    time: datetime | None = None
    parameters: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class MatchContext:
    """A call, as rules read it. `real` resolves a path of this computer, or raises `Undecidable`.

    `undone`: the file that an undo writes, which its arguments do not name. Rules read it as `file_path`.

    `at`: the time to decide at. If it is not given, the time at which the first rule reads it.
    """

    device: Device
    tool: Tool
    parameters: dict[str, Any]
    actor: str
    risk: Risk
    at: datetime | None = None
    real: Callable[[str], str] | None = field(default=None, compare=False)
    undone: str | None = None
    _programs: list[Programs] | None = field(default=None, init=False, compare=False)

    @property
    def judged(self) -> dict[str, Any]:
        """The arguments, as rules read them."""
        return self.parameters if self.undone is None else {**self.parameters, "file_path": self.undone}

    @property
    def programs(self) -> list[Programs]:
        """The programs of each shell line in the arguments. Read once, if a rule names programs."""
        if self._programs is None:
            object.__setattr__(self, "_programs", list(_programs_of(self.tool, self.parameters)))
        assert self._programs is not None
        return self._programs

    @property
    def moment(self) -> datetime:
        """The time to decide at. Equal for all rules, so that no call falls between two adjacent windows."""
        if self.at is None:
            # Lazily: most policies have no time condition.
            object.__setattr__(self, "at", datetime.now(UTC))
        assert self.at is not None
        return self.at


class Rule(FrozenModel):
    """A rule: conditions, all of which must hold, and the decision on the calls that fulfil them.

    An allow rule without `risk` applies to low and medium risk only. A call whose arguments raise the risk
    above that needs an allow rule with an explicit `risk`. `approvers` and `expires` (seconds) are for ask
    rules only; `evidence` is for ask and allow rules.

    `tool` names a hosted MCP server's tool by the name that the device lists, or by the name that the server
    itself gave it. An allow rule may use the server's name only together with `namespace`, because any server
    may have a tool of that name.

    `program` names programs that a shell line in the arguments runs, without their folders: `aws` is found
    in `AWS_PROFILE=x aws`, `sudo aws` and `true; aws` too. An allow rule applies only if every program of the
    line is named. A line that cannot be decided counts against the call.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    decision: Answer
    reason: str = Field(default="", max_length=500)
    device: Patterns = Field(default_factory=lambda: ["*"])
    tag: Patterns | None = None
    production: bool | None = None
    tool: Patterns = Field(default_factory=lambda: ["*"])
    namespace: Patterns | None = None
    actor: Patterns = Field(default_factory=lambda: ["*"])
    effect: Annotated[list[Effect], BeforeValidator(_listed)] | None = None
    risk: Annotated[list[Risk], BeforeValidator(_risks)] | None = None
    time: TimeWindow | None = None
    program: Patterns | None = None
    parameters: dict[str, Constraint] = Field(default_factory=dict)
    approvers: int = Field(default=1, ge=1, le=MOST_APPROVERS)
    evidence: list[Moment] = Field(default_factory=list)
    expires: float | None = Field(default=None, ge=5, le=86_400)
    match: list[Example] = Field(default_factory=list)
    not_match: list[Example] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fits_decision(self) -> Self:
        if self.decision is not Answer.ASK and {"approvers", "expires"} & self.model_fields_set:
            raise ValueError("approvers and expires are for rules that ask")
        if self.decision is Answer.DENY and self.evidence:
            raise ValueError("a rule that denies has no evidence to take")
        return self

    @property
    def against(self) -> bool:
        """Whether this is a deny or ask rule, which applies in doubt."""
        return self.decision is not Answer.ALLOW

    @property
    def risks(self) -> list[Risk]:
        """The risks that the rule applies to."""
        if self.risk is not None:
            return self.risk
        return [Risk.LOW, Risk.MEDIUM] if self.decision is Answer.ALLOW else [*Risk]

    @property
    def any_device(self) -> bool:
        """Whether the rule applies to every device."""
        return self.device[0] == "*" and self.tag is None and self.production is None

    def static_fault(self, device: Device, tool: Tool) -> str | None:
        """The first condition on device or tool that does not hold, in words; None if all hold."""
        return self.device_fault(device) or self.tool_fault(tool)

    def device_fault(self, device: Device) -> str | None:
        """The first condition on the device that does not hold, in words; None if all hold."""
        if not fits(device.name, self.device):
            return f"the device is {device.name}, not {' or '.join(self.device)}"
        if self.tag is not None and not any(fits(tag, self.tag) for tag in device.tags):
            return f"the device has no tag {' or '.join(self.tag)}"
        if self.production is not None and device.production is not self.production:
            return "the device is production" if device.production else "the device is not production"
        return None

    def tool_fault(self, tool: Tool) -> str | None:
        """The first condition on the tool that does not hold, in words; None if all hold."""
        if not self._names(tool):
            return f"the tool is {tool.tool_name}, not {' or '.join(self.tool)}"
        if self.namespace is not None and not fits(tool.namespace or "", self.namespace):
            return f"the namespace is {tool.namespace or 'none'}"
        if self.effect is not None and tool.contract.effect.value not in self.effect:
            return f"the effect is {tool.contract.effect.value.value}"
        return None

    def _names(self, tool: Tool) -> bool:
        return fits(tool.tool_name, self.tool) or (
            (self.against or self.namespace is not None)
            and (own := tool.own_name) is not None
            and fits(own, self.tool)
        )

    def faults(self, context: MatchContext, limit: int = 9) -> list[str]:
        """The conditions on actor, risk, time and arguments that do not hold, in words; at most `limit`."""
        faults: list[str] = []
        for check in (self._actor_fault, self._risk_fault, self._time_fault):
            if (fault := check(context)) is not None:
                faults.append(fault)
                if len(faults) >= limit:
                    return faults
        for name, condition in self.parameters.items():
            if not self.parameter_holds(name, condition, context):
                faults.append(
                    f"{name} {_argument_state(context.judged, name)}, "
                    f"the rule wants that it {condition.words()}"
                )
                if len(faults) >= limit:
                    return faults
        if (fault := self._program_fault(context)) is not None:
            faults.append(fault)
        return faults

    def parameter_holds(self, name: str, condition: Constraint, context: MatchContext) -> bool:
        """Whether one argument fulfils its condition. A missing argument never does."""
        values, path = argument_values(context.judged, name), _may_be_path(context.tool, name)
        if self.against:
            return any(condition.forbids(value, context.real, path=path) for value in values)
        if context.tool.namespace != BUILT_IN_NAMESPACE and not values_at(context.judged, name):
            # A tool that is not built in may not treat the two names of an argument as the same argument.
            return False
        return bool(values) and all(condition.permits(value, context.real, path=path) for value in values)

    def doubt(self, context: MatchContext) -> str:
        """The undecided condition by which this deny or ask rule applies in doubt; empty if there is none."""
        if self.against and (wanted := self.program) is not None:
            found = (names for line in context.programs for names in line.names)
            if not any(_fits_any(names, wanted) for names in found):
                return f"whether the line runs {' or '.join(wanted)} cannot be decided; in doubt it applies"
        for name, condition in self.parameters.items() if self.against else ():
            values, path = argument_values(context.judged, name), _may_be_path(context.tool, name)
            if not any(
                condition.forbids(value, context.real, path=path)
                and not condition.in_doubt(value, context.real, path=path)
                for value in values
            ):
                why = ""
                if isinstance(context.undone, UnknownPath) and context.undone in values:
                    why = ", as the journal does not say which file this undo writes"
                elif any(str(value).startswith("~") for value in values):
                    why = " for a path below ~"
                return f"whether {name} {condition.words()} cannot be decided{why}; in doubt it applies"
        return ""

    def _program_fault(self, context: MatchContext) -> str | None:
        if self.program is None:
            return None
        wanted = self.program
        lines = context.programs
        if self.against:
            if any(
                not line.decided or any(_fits_any(names, wanted) for names in line.names) for line in lines
            ):
                return None
        elif lines and all(
            line.decided and line.names and all(_fits_any(names, wanted) for names in line.names)
            for line in lines
        ):
            return None
        return f"{'no' if self.against else 'not every'} program of a shell line is {' or '.join(wanted)}"

    def _actor_fault(self, context: MatchContext) -> str | None:
        return None if fits(context.actor, self.actor) else f"the asker is {context.actor}"

    def _risk_fault(self, context: MatchContext) -> str | None:
        return None if context.risk in self.risks else f"the risk is {context.risk.value}"

    def _time_fault(self, context: MatchContext) -> str | None:
        if self.time is None or self.time.covers(context.moment):
            return None
        moment, zone = self.time.local(context.moment)
        return f"it is {moment:%a %H:%M} in {zone}"


def _fits_any(names: Iterable[str], patterns: list[str]) -> bool:
    return any(fits(name, patterns) for name in names)


def _programs_of(tool: Tool, parameters: dict[str, Any]) -> Iterator[Programs]:
    """The programs of the shell lines in the arguments of a call."""
    own = SHELL_ARGUMENTS.get(tool.tool_name)
    if own is not None:
        line = parameters.get(own)
        yield programs_in_line(line) if isinstance(line, str) else Programs(decided=False)
    others = {name: value for name, value in parameters.items() if name != own}
    for number, found in enumerate(
        shell_lines(tool.tool_name, others, described_line_arguments(tool.input_schema))
    ):
        yield programs_in_line(found.text) if number < MOST_LINES else Programs(decided=False)


def prepare_globs(rule: Rule) -> None:
    """Compile a rule's patterns when the policy is loaded, so that the first call is not delayed."""
    for pattern in (*rule.device, *rule.tool, *rule.actor, *(rule.tag or ()), *(rule.namespace or ())):
        if is_glob(pattern):
            compiled(pattern)


def values_at(parameters: dict[str, Any], name: str) -> list[Any]:
    """Every value that a name refers to: the argument of this name, and values in objects by a dotted path.

    Of a list on the path, every element counts. All values are returned, so that an attacker cannot evade a
    rule by adding an argument whose name is the dotted path itself.
    """
    direct = [parameters[name]] if name in parameters else []
    nested: list[Any] = [parameters]
    first, *rest = name.split(".")
    if not rest:
        return direct
    for part in (first, *rest):
        objects = [member for value in nested for member in _flattened(value) if isinstance(member, dict)]
        nested = [member[part] for member in objects if part in member]
    return direct + nested


def argument_values(parameters: dict[str, Any], name: str) -> list[Any]:
    """`values_at`; for one of the two names of the program argument (`PROGRAM_NAMES`), under both names."""
    names = PROGRAM_NAMES if name in PROGRAM_NAMES else (name,)
    return [value for alias in names for value in values_at(parameters, alias)]


def _flattened(value: Any) -> list[Any]:
    """The value, or the elements of a list and of the lists in it."""
    flat, pending = [], [value]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        else:
            flat.append(item)
    return flat


def _may_be_path(tool: Tool, name: str) -> bool:
    return not _holds_line(tool.own_name or tool.tool_name, name)


# Of each argument that a rule names, for each call.
_holds_line = lru_cache(maxsize=4_096)(holds_line)


def _argument_state(parameters: dict[str, Any], name: str) -> str:
    return "does not fit" if argument_values(parameters, name) else "is missing"
