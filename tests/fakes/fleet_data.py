"""Invented devices and tools: the fleet of the first picture of the look, 24 devices in every health."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from core.canonical_json import digest_of
from core.fleet.models import HealthChange, Refusal
from core.models.devices import Device, Health, Unavailable
from core.models.tools import Contract, Effect, Fact, Risk, Source, Tool, ToolType

CHANGED_KEY = "action::indexer.rebuild"
NOW = datetime.now(UTC).replace(microsecond=0)
FINGERPRINT = hashlib.sha256(b"the console's certificate").hexdigest()
NEXT_FINGERPRINT = hashlib.sha256(b"the next certificate of the console").hexdigest()
CERTIFICATE_ENDS, NEXT_CERTIFICATE_ENDS = "2031-05-04T08:00:00+00:00", "2056-11-20T08:00:00+00:00"


def ago(seconds: float) -> str:
    """A UTC stamp that many seconds before the fakes were made."""
    return (NOW - timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_SYSTEMS = {
    "linux": "Debian 12, x86_64, 16 cores",
    "windows": "Windows 11 23H2, x86_64, 8 cores",
    "macos": "macOS 14.4, arm64, 10 cores",
}
# name, platform, health, tags, tools, round trip in ms, what it does now, seconds since it was heard
_ROWS: list[tuple[str, str, str, str, int, float | None, str, float]] = [
    ("build-lnx-03", "linux", "busy", "build prod", 23, 14, "approval waits", 1),
    ("db-primary", "linux", "online", "db prod", 19, 9, "", 1),
    ("db-replica-2", "linux", "online", "db prod", 19, 11, "", 1),
    ("edge-gw-11", "linux", "online", "edge prod", 21, 38, "", 1),
    ("label-win-02", "windows", "busy", "floor prod", 22, 21, "step 3 of 5", 1),
    ("line2-board", "linux", "online", "floor prod", 17, 16, "", 1),
    ("design-mac-02", "macos", "online", "studio", 20, 27, "", 1),
    ("kiosk-hall-1", "windows", "online", "kiosk", 18, 44, "", 1),
    ("kiosk-hall-2", "windows", "stale", "kiosk", 18, None, "", 372),
    ("kiosk-yard", "linux", "offline", "kiosk", 18, None, "", 56_000),
    ("lab-lnx-01", "linux", "online", "lab", 23, 8, "", 1),
    ("lab-lnx-02", "linux", "busy", "lab", 23, 9, "step 2 of 5", 1),
    ("lab-lnx-03", "linux", "busy", "lab", 23, 12, "step 2 of 5", 1),
    ("lab-lnx-04", "linux", "online", "lab", 23, 8, "", 1),
    ("lab-lnx-05", "linux", "online", "lab", 23, 10, "", 1),
    ("lab-mac-01", "macos", "reconnecting", "lab", 20, None, "try 4, next in 8 s", 124),
    ("lab-win-01", "windows", "online", "lab", 22, 13, "", 1),
    ("lab-win-02", "windows", "online", "lab", 22, 15, "", 1),
    ("lab-win-03", "windows", "offline", "lab", 22, None, "", 9_000),
    ("line1-board", "linux", "online", "floor", 17, 17, "", 1),
    ("scan-pc-04", "linux", "online", "floor scan", 25, 19, "", 1),
    ("scan-pc-05", "linux", "online", "floor scan", 25, 18, "", 1),
    ("stock-pc-02", "linux", "busy", "floor stock", 24, 22, "agent:clerk works", 1),
    ("this-computer", "linux", "online", "desk", 26, 1, "", 1),
]


def _trips(name: str, middle: float | None) -> list[float]:
    if middle is None:
        return []
    seed = sum(map(ord, name))
    return [round(middle * (0.9 + ((seed * (i + 5) * 31) % 17) / 85), 1) for i in range(12)]


def make_devices() -> list[Device]:
    """The fleet; `build-lnx-03` has a changed tool, `this-computer` three unavailable ones."""
    made = []
    for name, platform, health, tags, tools, trip, doing, heard in _ROWS:
        state = Health(health)
        reasons = {
            Health.STALE: "No heartbeat for 6 min.",
            Health.OFFLINE: "The line was closed by the device.",
            Health.RECONNECTING: "The device's process ended; it is started again.",
        }
        made.append(
            Device(
                name=name, health=state, since=ago(max(heard, 300)), reason=reasons.get(state, ""),
                tags=tags.split(), production="prod" in tags.split(), platform=platform,
                system=_SYSTEMS[platform], client="quarterdeck-device 0.1.0", channel="websocket",
                profile="guarded", tool_count=tools, round_trip_ms=trip, round_trips_ms=_trips(name, trip),
                last_heard=ago(heard), doing=doing,
                changed_tools=[CHANGED_KEY] if name == "build-lnx-03" else [],
                unavailable=_UNAVAILABLE if name == "this-computer" else [], **_link_of(name, state),
            )
        )  # fmt: skip
    return made


# Devices that the console dials, and stock clients with the agent whose tools they have.
_DIALLED = {"edge-gw-11": "10.4.2.11:5010", "line1-board": "10.4.6.2:5010", "lab-mac-01": "10.4.7.30:5010"}
_STOCK = {"line2-board": "HardwareAgent", "scan-pc-05": "LinuxAgent"}
_FEATURES = ["binary", "cancel", "metrics", "progress", "recall", "terms", "tools_changed"]
_REFUSED = {"build-lnx-03": 3, "lab-win-03": 5, "kiosk-hall-2": 1}


def _percents(name: str, middle: int, spread: int) -> list[float]:
    seed = sum(map(ord, name))
    return [
        round(min(99.0, max(1.0, middle + (seed % 23) + ((seed * (i + 3) * 17) % spread) - spread / 2)), 1)
        for i in range(24)
    ]


def _link_of(name: str, health: Health) -> dict[str, Any]:
    """How a device is linked: direction, trust, extensions, load."""
    if name == "this-computer":
        direction, address = "local", ""
    elif name in _DIALLED:
        direction, address = "out", _DIALLED[name]
    else:
        direction, address = "in", f"10.4.7.{sum(map(ord, name)) % 250}:{40_000 + sum(map(ord, name))}"
    stock = name in _STOCK
    measured = not stock and health in (Health.ONLINE, Health.BUSY)
    return {
        "direction": direction,
        "address": address,
        "secure": direction != "local",
        "agent": _STOCK.get(name, ""),
        "features": [] if stock else _FEATURES,
        "clock_offset_ms": None if stock else float(sum(map(ord, name)) % 420 - 120),
        "cpu_percents": _percents(name, 18, 44) if measured else [],
        "memory_percents": _percents(name, 38, 9) if measured else [],
        "refused": _REFUSED.get(name, 0),
    }


def many_devices(count: int) -> list[Device]:
    """A large fleet: the twenty-four of `make_devices` over and over, under numbered names."""
    few = make_devices()
    return [
        few[number % len(few)].model_copy(update={"name": f"{few[number % len(few)].name}-{number:04d}"})
        for number in range(count)
    ]


_UNAVAILABLE = [
    Unavailable(tool="get_ui_tree", reason="No accessibility bus answers in this session.",
                how_to_fix="Start at-spi-bus-launcher, or log in to a desktop."),
    Unavailable(tool="click_element", reason="No accessibility bus answers in this session.",
                how_to_fix="Start at-spi-bus-launcher, or log in to a desktop."),
    Unavailable(tool="shell_execute_read", reason="bubblewrap is not installed.",
                how_to_fix="apt install bubblewrap"),
]  # fmt: skip


def _schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_COMMAND = {"type": "string", "description": "The line, as the shell reads it.", "minLength": 1}
_SECONDS = {
    "type": "number",
    "description": "Seconds until it is killed.",
    "default": 30,
    "exclusiveMinimum": 0,
}
_PATH = {"type": "string", "description": "A path below an allowed root."}
_SHELL_SCHEMA = _schema(["command"], command=_COMMAND, timeout=_SECONDS, working_directory=_PATH)
_INFO_KINDS = ["memory", "disk", "cpu", "network", "hardware", "os"]

# name, kind, effect, risk, source, why, description, schema
_TOOLS: list[tuple[str, ToolType, str, str, str, str, str, dict[str, Any]]] = [
    ("shell_execute", "action", "change", "high", "built-in",
     "A shell line can do whatever its user can; only its text tells.",
     "Runs a line in the device's shell and returns what it printed.", _SHELL_SCHEMA),
    ("shell_execute_read", "data_collection", "observe", "low", "built-in",
     "The kernel forbids it to change anything and any network.",
     "Runs a line in a sandbox that can read only.", _SHELL_SCHEMA),
    ("write_file", "action", "change", "medium", "built-in",
     "Changes one file; the device keeps the old content for undo.",
     "Writes a text file as a whole, atomically; the old content can be restored.",
     _schema(["file_path", "content"], file_path=_PATH, content={"type": "string"},
             mode={"enum": ["create", "overwrite", "append"], "default": "overwrite"})),
    ("restore_file", "action", "change", "medium", "built-in", "Puts a file back as it was.",
     "Takes a write back, if the file has not changed since.",
     _schema(["undo_id"], undo_id={"type": "string"})),
    ("read_file", "data_collection", "observe", "low", "built-in", "Reads one file below the allowed roots.",
     "Reads a text file.",
     _schema(["file_path"], file_path=_PATH, offset={"type": "integer", "minimum": 0, "default": 0})),
    ("screenshot", "data_collection", "observe", "low", "built-in",
     "Takes a picture of the screen and changes nothing.", "Takes a picture of the whole screen or a part.",
     _schema([], region={"type": "string", "default": "fullscreen"},
             max_width={"type": "integer", "minimum": 16})),
    ("click_element", "action", "change", "medium", "built-in", "Presses a control of a program.",
     "Presses a control through the accessibility bus.",
     _schema(["control_id"], control_id={"type": "string"}, button={"enum": ["left", "right"]})),
    ("get_system_info", "data_collection", "observe", "low", "built-in",
     "Reads counters of the operating system.", "Typed numbers about memory, disk, cpu and more.",
     _schema(["info_type"], info_type={"enum": _INFO_KINDS, "description": "What to read."})),
    ("list_processes", "data_collection", "observe", "low", "built-in", "Lists processes.",
     "Rows of processes.", _schema([], name={"type": "string"})),
    ("artifact.list", "data_collection", "observe", "low", "declared",
     "The device declares it read-only; it counts as low because it is a read by type.",
     "Lists build artefacts.", _schema([], prefix={"type": "string"})),
]  # fmt: skip
_CHANGED = (
    "indexer.rebuild", "action", "unknown", "high", "default",
    "Nobody has said what it does, so it counts as high.",
    "Rebuilds the index. New since yesterday: also deletes what the index does not name.",
    _schema([], full={"type": "boolean", "default": False}),
)  # fmt: skip


def make_tools(device: Device) -> list[Tool]:
    """The tools of one device, each with its contract."""
    gone = frozenset(one.tool for one in device.unavailable)
    return list(_tools_of(device.name, frozenset(device.changed_tools), gone))


@cache
def _tools_of(device: str, changed: frozenset[str], gone: frozenset[str]) -> tuple[Tool, ...]:
    """Made once, for they cannot be changed: every console of a test has all of them."""
    rows = [*_TOOLS]
    if device == "build-lnx-03":
        rows.insert(8, _CHANGED)  # type: ignore[arg-type]  # the tuple's words are literals in `_TOOLS`
    return tuple(_tool(device, changed, *row) for row in rows if row[0] not in gone)


def _tool(
    device: str, changed: frozenset[str], name: str, kind: ToolType, effect: str, risk: str, source: str,
    why: str, text: str, schema: dict[str, Any],
) -> Tool:  # fmt: skip
    namespace, _, short = name.rpartition(".")
    contract = _contract(name, effect, risk, source, why, json.dumps(schema))
    return Tool(
        device=device, tool_key=f"{kind}::{name}", tool_name=short, tool_type=kind,
        namespace=namespace or "builtin", title=None, description=text, input_schema=schema,
        output_schema={"type": "object"}, annotations={"readOnlyHint": effect == "observe"},
        contract=contract, changed=f"{kind}::{name}" in changed,
        change="changed its definition" if f"{kind}::{name}" in changed else "",
    )  # fmt: skip


@cache
def _contract(name: str, effect: str, risk: str, source: str, why: str, schema: str) -> Contract:
    """The same on every device: made once, for it cannot be changed."""
    who = Source(source)
    reads = effect == "observe"
    facts: dict[str, Any] = {
        "effect": Fact[Effect](value=Effect(effect), source=who, why=why),
        "risk": Fact[Risk](value=Risk(risk), source=who, why=why),
        "reversible": Fact[bool](value=reads or name == "write_file", source=who,
                                 why="Nothing to take back." if reads else "See the tool's undo."),
        "idempotent": Fact[bool](value=reads, source=who,
                                 why="Twice is as once." if reads else "Twice may differ from once."),
        "open_world": Fact[bool](value="shell" in name, source=who,
                                 why="It may reach other machines." if "shell" in name else "It stays here."),
    }  # fmt: skip
    stated = {"name": name, "schema": json.loads(schema), "effect": effect, "risk": risk, "source": source}
    return Contract(digest=digest_of(stated), **facts)


def history_of(device: Device) -> list[HealthChange]:
    """An hour in which the line was lost twice; ends in what the device is now."""
    seed = sum(map(ord, device.name))
    lost = 2400 - seed % 600
    changes = [
        HealthChange(at=ago(3600), health=Health.ONLINE),
        HealthChange(at=ago(lost), health=Health.STALE, reason="No heartbeat for 40 s."),
        HealthChange(at=ago(lost - 40), health=Health.RECONNECTING, reason="The line was lost."),
        HealthChange(at=ago(lost - 90), health=Health.ONLINE),
        HealthChange(at=ago(1100), health=Health.BUSY),
        HealthChange(at=ago(700), health=Health.ONLINE),
    ]
    if device.health is not Health.ONLINE:
        changes.append(HealthChange(at=device.since, health=device.health, reason=device.reason))
    return sorted(changes, key=lambda one: one.at)


def refusals_of(device: Device) -> list[Refusal]:
    """As many attempts as the device says were refused in its name."""
    if not device.refused:
        return []
    newest = Refusal(
        at=ago(640), peer="10.4.9.31:51022", name=device.name, reason="This token was revoked.", count=1
    )
    if device.refused == 1:
        return [newest]
    older = Refusal(
        at=ago(4000),
        peer="10.4.9.31:50871",
        name=device.name,
        reason=f"{device.name} is connected already.",
        count=device.refused - 1,
    )
    return [older, newest]
