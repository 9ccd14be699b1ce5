"""Targets of navigation: what can be opened in each screen, `nav.open(screen, target)`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class OpenDevice:
    """Fleet: show this device, with one tool open.

    `tab` is one of `overview`, `tools`, `servers`, `try`, `recent`, `link`.
    """

    device: str
    tab: str = "overview"
    tool_key: str | None = None


@dataclass(frozen=True, slots=True)
class OpenPairing:
    """Fleet: ask for a name and pair a device."""


@dataclass(frozen=True, slots=True)
class OpenTool:
    """Batch: a new batch of one step that calls this tool on this device; nothing is sent.

    With an empty `tool_name` it has no step yet, and the keyboard is where a tool of the device is searched.
    """

    device: str
    tool_name: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """Batch: load a saved batch. An empty name is a new one; `targets` narrows it to these devices."""

    name: str = ""
    targets: str = ""


@dataclass(frozen=True, slots=True)
class OpenApproval:
    """Approvals: show this card."""

    approval: str


@dataclass(frozen=True, slots=True)
class OpenAgent:
    """Agents: show this agent."""

    agent: str


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Runs: show this run, and the drawer of one cell when `device` and `step` are given.

    With `undo` ask whether it is to be undone, if it has ended.
    """

    run: str
    device: str | None = None
    step: str | None = None
    undo: bool = False


@dataclass(frozen=True, slots=True)
class OpenReplay:
    """Replay: a run, or what happened around one entry; the playhead on the entry `at`, if given."""

    run: str | None = None
    around: int | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class OpenQuery:
    """Journal: the rows that match this query."""

    query: str


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """Journal: one entry, with its pane open; `tab` is `entry`, `proof`, `around` or `pictures`."""

    seq: int
    tab: str = "entry"


@dataclass(frozen=True, slots=True)
class OpenVerification:
    """Journal: check the whole journal, as its key V does."""


@dataclass(frozen=True, slots=True)
class OpenSection:
    """Settings: one section.

    `section` is one of `appearance`, `operators`, `grants`, `devices`, `this-computer`, `policy`, `about`.
    `line` is a line of policy.toml to show in the editor, `tab` the tab beside the editor, `grant` the grant
    to show in the list. `back` is the screen to open once the first operator's key is made.
    """

    section: str
    line: int = 0
    grant: str = ""
    tab: str = ""
    back: str = ""


Target = (
    OpenDevice
    | OpenPairing
    | OpenTool
    | OpenBatch
    | OpenApproval
    | OpenAgent
    | OpenRun
    | OpenReplay
    | OpenQuery
    | OpenEntry
    | OpenVerification
    | OpenSection
)
