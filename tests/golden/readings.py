"""What of a recording is kept: not what depends on the machine, on the moment, or on how often one looked."""

from __future__ import annotations

from typing import Any

from tests.golden.relays import Frame

# Both list the tools that this machine allows.
OWN, OURS = "this-computer", "lab-2"
OF_MACHINE = frozenset({"contract_pinned", "device_connected"})
# Asked again and again while the story waits for something, or different on each machine: their form is kept.
FORM_ONLY = frozenset({"state", "approvals", "doctor", "histogram", "device_details"})
# Tools that our device offers on every machine.
ALWAYS = frozenset({"read_file", "write_file", "list_directory", "shell_execute", "undo"})

TAKES_LONG = frozenset({"work", "missed"})
# Readings that come with a heartbeat: there are some where the story takes longer than one.
WITH_HEARTBEAT = frozenset({"cpu_percents", "memory_percents"})


def shape(value: Any) -> Any:
    """What is in a value, without the values."""
    if isinstance(value, dict):
        return {name: "list" if name in WITH_HEARTBEAT else shape(part) for name, part in value.items()}
    if isinstance(value, list):
        shapes = [shape(part) for part in value]
        return [one for place, one in enumerate(shapes) if one not in shapes[:place]]
    # JSON has one kind of number: what is measured may come out whole.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if is_number else type(value).__name__


def entries(journal: list[dict[str, Any]]) -> list[Any]:
    """Entries in order; of what depends on the machine's own tools, the form."""
    return [_form_of(entry) if _is_of_machine(entry) else entry for entry in journal]


def _is_of_machine(entry: dict[str, Any]) -> bool:
    return entry["device"] == OWN or (entry["device"] == OURS and entry["kind"] in OF_MACHINE)


def _form_of(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "body": shape(entry["body"]), "blobs": shape(entry["blobs"])}


def calls(frames: list[Frame]) -> list[Any]:
    """Every call of the control socket with its answer, in the order of the calls."""
    found: list[dict[str, Any]] = []
    waiting: dict[int, dict[str, Any]] = {}
    forms: set[str] = set()
    for frame in (one["frame"] for one in frames):
        if "hello" in frame or "welcome" in frame:
            found.append(frame)
        elif "method" in frame:
            call = {"method": frame["method"], "params": frame["params"]}
            waiting[frame["id"]] = call
            if call["method"] not in FORM_ONLY:
                found.append(call)
            elif call["method"] not in forms:
                forms.add(call["method"])
                found.append(call)
        elif frame.get("id") in waiting and frame.keys() & {"result", "error", "bytes"}:
            call = waiting.pop(frame["id"])
            answer = {key: value for key, value in frame.items() if key != "id"}
            call |= shape(answer) if call["method"] in FORM_ONLY else answer
    return found


def events(frames: list[Frame]) -> dict[str, list[str]]:
    """The names of the parts of each kind of event, but for those that come only if something takes long."""
    found: dict[str, set[str]] = {}
    for frame in (one["frame"] for one in frames):
        for event in frame.get("events", []) if isinstance(frame.get("stream"), int) else []:
            if event["event"] not in TAKES_LONG:
                found.setdefault(event["event"], set()).update(event)
    return {kind: sorted(parts) for kind, parts in sorted(found.items())}


def link(frames: list[Frame]) -> list[Any]:
    """A device's frames, without heartbeats; of what it says of its machine, the form.

    The parts of a large frame stand as one: how many there are depends on the speed of the line.
    """
    found = []
    for one in frames:
        frame = one["frame"]
        if frame.get("type") == "heartbeat" or "heartbeat" in str(frame.get("status")):
            continue
        if found and frame.keys() == {"id", "bytes"} == found[-1]["frame"].keys():
            continue
        if frame.get("type") == "register":
            frame = {**frame, "metadata": shape(frame.get("metadata"))}
        if results := frame.get("action_results"):
            frame = {**frame, "action_results": [_without_machine(result) for result in results]}
        found.append({**one, "frame": frame})
    return found


def _without_machine(result: dict[str, Any]) -> dict[str, Any]:
    listed = result.get("result")
    if isinstance(listed, list) and listed and isinstance(listed[0], dict) and "tool_key" in listed[0]:
        kept = [tool for tool in listed if tool["tool_name"] in ALWAYS or len(listed) < 5]
        return {**result, "result": kept}
    return result
