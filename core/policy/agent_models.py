"""Models of agents: an agent's settings, its program, and the filter of the devices that exist for it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator

from core.actors import AGENT_PREFIX
from core.errors import BadInput, ErrorCode
from core.models.device_filter import LONGEST, DeviceFilter, parse_filter
from core.models.frozen import FrozenModel
from core.policy.models import Profile
from core.text import escape_hidden

MOST_WAITING = 100
"""Maximum requests of one agent that wait for an operator."""
MOST_A_MINUTE = 6_000
"""Maximum number of commands that an agent's settings let it start in a minute."""
MOST_PROGRAM = 100
"""Maximum characters of the name, and of the version, of an agent's program."""
OPERATORS_SET = frozenset({"name", "tag", "production"})
"""The fields of a device filter whose values only operators set."""

Transport = Literal["stdio", "http"]
"""How an agent's program speaks to the gateway."""


class AgentSettings(FrozenModel):
    """An operator's limits for one agent.

    `targets` is a filter of devices (`parse_targets`); empty means every device. `per_minute` is how many
    commands it may start a minute, `waiting` how many of its requests may wait for an operator. A `paused`
    agent starts nothing.
    """

    profile: Profile = Profile.GUARDED
    targets: str = Field(default="", max_length=LONGEST)
    per_minute: int = Field(default=60, ge=1, le=MOST_A_MINUTE)
    waiting: int = Field(default=20, ge=1, le=MOST_WAITING)
    paused: bool = False

    def paused_now(self) -> Self:
        """The same, paused."""
        return self.model_copy(update={"paused": True})

    @field_validator("targets")
    @classmethod
    def _is_a_filter(cls, text: str) -> str:
        try:
            parse_targets(text)
        except BadInput as error:
            raise ValueError(error.message) from error
        return text.strip()


class Agent(FrozenModel):
    """A registered agent. `added_at` is when its present token was made: UTC, ISO 8601."""

    name: str
    settings: AgentSettings
    added_at: str = ""

    @property
    def actor(self) -> str:
        """The actor of its requests."""
        return AGENT_PREFIX + self.name


class ClientProgram(FrozenModel):
    """The program at the end of an agent's connection, as it calls itself; nothing depends on that."""

    name: str = Field(default="", max_length=8 * MOST_PROGRAM)
    version: str = Field(default="", max_length=8 * MOST_PROGRAM)

    @classmethod
    def called(cls, name: str, version: str) -> Self:
        """A program that calls itself this: cut to `MOST_PROGRAM` characters, its hidden ones shown."""
        cut = (text[:MOST_PROGRAM] for text in (name, version))
        shown = [escape_hidden(text, keep_lines=False).strip() for text in cut]
        return cls(name=shown[0], version=shown[1])

    @property
    def words(self) -> str:
        """Name and version; empty if the program did not name itself."""
        return f"{self.name} {self.version}".strip()


class NewAgent(FrozenModel):
    """An agent with its token, which is shown once and not stored."""

    agent: Agent
    token: str


def token_prefix(name: str) -> str:
    """The beginning of an agent's token: a client of the gateway shows only its token, which names it."""
    return f"{name}."


def name_in(token: str) -> str:
    """The name of the agent that a token is for; empty if it names none. The token is not checked."""
    return token.rpartition(".")[0]


def parse_targets(text: str) -> DeviceFilter:
    """Parse a filter for the targets of an agent, which looks only at what operators set (`OPERATORS_SET`).

    A device says itself which system it runs, so that a filter by system lets a device choose its agents.

    Raises:
        BadInput: a syntax error, or a term that looks at something else.
    """
    parsed = parse_filter(text)
    for term in parsed.terms:
        if term.key not in OPERATORS_SET:
            written = text[term.start : term.end]
            advice = (
                f"write name:{written} or tag:{written}" if not term.key else "use name, tag or production"
            )
            raise BadInput(
                f"The targets of an agent look at name, tag and production only: {written!r} follows what a "
                f"device says of itself; {advice}.",
                ErrorCode.INVALID_ARGUMENTS,
            )
    return parsed


def targets_words(targets: str) -> str:
    """A filter of devices in words."""
    return f"devices that match {targets}" if targets else "every device"
