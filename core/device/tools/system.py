"""The tools `get_system_info` and `SYS_INFO`; the latter has the result format of UFO's LinuxAgent."""

from __future__ import annotations

from typing import Any

from core.device.system_info import FACTS, is_instant
from core.device.tool import (
    OBSERVES,
    Tool,
    ToolCall,
    Unavailable,
    nullable,
    number,
    object_schema,
    text,
    whole_number,
    yes_or_no,
)
from core.device.tool_context import ToolContext
from core.ids import now_in_ms

_BYTES = whole_number("Bytes.")
_PERCENT = number("Percent.")
_NAME = text("Name.")

_SHAPES: dict[str, dict[str, Any]] = {
    "memory": {
        "total_bytes": _BYTES,
        "used_bytes": _BYTES,
        "free_bytes": _BYTES,
        "available_bytes": _BYTES,
        "use_percent": _PERCENT,
        "swap_total_bytes": nullable(_BYTES),
        "swap_used_bytes": nullable(_BYTES),
    },
    "disk": {
        "filesystems": {
            "type": "array",
            "items": object_schema(
                {
                    "device": _NAME,
                    "mount_point": _NAME,
                    "type": _NAME,
                    "total_bytes": _BYTES,
                    "used_bytes": _BYTES,
                    "available_bytes": _BYTES,
                    "use_percent": _PERCENT,
                }
            ),
        }
    },
    "cpu": {
        "model": _NAME,
        "cores": whole_number("Physical cores."),
        "threads": whole_number("Hardware threads."),
        "architecture": _NAME,
        "use_percent": number("Percent, over the last seconds."),
        "load_average": nullable(
            {
                "type": "array",
                "items": number("Over 1, 5 and 15 minutes."),
                "minItems": 3,
                "maxItems": 3,
            }
        ),
    },
    "network": {
        "hostname": _NAME,
        "interfaces": {
            "type": "array",
            "items": object_schema(
                {
                    "name": _NAME,
                    "is_up": yes_or_no("Whether it is up."),
                    "mtu_bytes": _BYTES,
                    "speed_mbit_per_s": whole_number("0 where it is not known."),
                    "addresses": {
                        "type": "array",
                        "items": object_schema(
                            {
                                "family": {"enum": ["ipv4", "ipv6", "link"]},
                                "address": _NAME,
                                "netmask": nullable(_NAME),
                            }
                        ),
                    },
                    "sent_bytes": _BYTES,
                    "received_bytes": _BYTES,
                }
            ),
        },
    },
    "hardware": {
        "manufacturer": nullable(_NAME),
        "product": nullable(_NAME),
        "cpu_model": _NAME,
        "cores": whole_number("Physical cores."),
        "threads": whole_number("Hardware threads."),
        "memory_total_bytes": _BYTES,
        "battery_percent": nullable(_PERCENT),
        "on_mains_power": nullable(yes_or_no("Whether it is plugged in.")),
        "disks": {
            "type": "array",
            "description": "Block devices that are no part of others; empty where the system does not tell.",
            "items": object_schema(
                {
                    "name": _NAME,
                    "model": nullable(_NAME),
                    "size_bytes": _BYTES,
                    "rotational": nullable(yes_or_no("Whether it turns.")),
                }
            ),
        },
        "disk_controllers": {
            "type": "array",
            "description": "PCI devices for mass storage; empty where the system does not tell.",
            "items": object_schema(
                {
                    "address": text("On the PCI bus."),
                    "kind": text("scsi, ide, raid, sata, sas, nvme or other."),
                    "vendor_device": text("Their PCI ids, in hexadecimal."),
                    "driver": nullable(text("Of the kernel.")),
                }
            ),
        },
    },
    "os": {
        "name": _NAME,
        "version": _NAME,
        "kernel": _NAME,
        "architecture": _NAME,
        "hostname": _NAME,
        "user": nullable(_NAME),
        "booted_at": text("ISO 8601."),
        "uptime_seconds": whole_number("Seconds."),
    },
}
_ARGUMENTS = object_schema({"info_type": {"enum": list(FACTS), "description": "What to look at."}})


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """Both tools; they need no installed program."""

    async def facts(call: ToolCall) -> tuple[str, dict[str, Any]]:
        kind = call.arguments["info_type"]
        if _is_instant(call.arguments):
            return kind, FACTS[kind]()
        return kind, await workshop.in_thread(FACTS[kind])

    async def get_system_info(call: ToolCall) -> dict[str, Any]:
        kind, found = await facts(call)
        return {"info_type": kind, **found}

    async def sys_info(call: ToolCall) -> dict[str, Any]:
        kind, found = await facts(call)
        return {
            "info_type": kind,
            "data": _LINUX_AGENT.get(kind, dict)(found),
            "timestamp": now_in_ms(),
        }

    return [_get_system_info(get_system_info), _sys_info(sys_info)], []


def _is_instant(arguments: dict[str, Any]) -> bool:
    return is_instant(arguments.get("info_type"))


def _get_system_info(run: Any) -> Tool:
    return Tool(
        name="get_system_info",
        title="Look at the machine",
        tool_type="data_collection",
        description="Facts about this machine as numbers, with their unit in the name.",
        input_schema=_ARGUMENTS,
        output_schema={
            "type": "object",
            "oneOf": [
                object_schema({"info_type": {"const": kind}, **shape}) for kind, shape in _SHAPES.items()
            ],
        },
        contract=OBSERVES,
        run=run,
        is_instant=_is_instant,
    )


def _sys_info(run: Any) -> Tool:
    return Tool(
        name="SYS_INFO",
        title="Look at the machine (LinuxAgent)",
        tool_type="data_collection",
        description="Facts about this machine as texts such as 16GB and 52%, shaped for UFO's LinuxAgent.",
        input_schema=_ARGUMENTS,
        output_schema=object_schema(
            {
                "info_type": {"enum": list(FACTS)},
                "data": {"type": "object", "description": "The facts; sizes and shares as texts."},
                "timestamp": text("ISO 8601, UTC, to the millisecond."),
            }
        ),
        contract=OBSERVES,
        run=run,
        is_instant=_is_instant,
        platforms=("linux",),
    )


def _memory(found: dict[str, Any]) -> dict[str, Any]:
    names = ("total", "used", "free", "available", "swap_total", "swap_used")
    return {name: _size(found[f"{name}_bytes"]) for name in names}


def _disk(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "filesystems": [
            {
                "device": row["device"],
                "mount_point": row["mount_point"],
                "size": _size(row["total_bytes"]),
                "used": _size(row["used_bytes"]),
                "available": _size(row["available_bytes"]),
                "use_percent": f"{row['use_percent']:.0f}%",
            }
            for row in found["filesystems"]
        ]
    }


def _cpu(found: dict[str, Any]) -> dict[str, Any]:
    kept = {key: found[key] for key in ("model", "cores", "threads", "architecture", "load_average")}
    return {**kept, "current_usage": f"{found['use_percent']:.0f}%"}


def _hardware(found: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in found.items() if key not in {"memory_total_bytes", "disks"}}
    battery = found["battery_percent"]
    return {
        **kept,
        "memory_total": _size(found["memory_total_bytes"]),
        "battery_percent": None if battery is None else f"{battery:.0f}%",
        "disks": [
            {
                **{key: value for key, value in row.items() if key != "size_bytes"},
                "size": _size(row["size_bytes"]),
            }
            for row in found["disks"]
        ],
    }


def _network(found: dict[str, Any]) -> dict[str, Any]:
    sizes = ("sent", "received")
    rows = []
    for row in found["interfaces"]:
        kept = {key: value for key, value in row.items() if key not in {"sent_bytes", "received_bytes"}}
        rows.append({**kept, **{name: _size(row[f"{name}_bytes"]) for name in sizes}})
    return {**found, "interfaces": rows}


_LINUX_AGENT = {
    "memory": _memory,
    "disk": _disk,
    "cpu": _cpu,
    "hardware": _hardware,
    "network": _network,
}


def _size(count: int) -> str:
    """A size as LinuxAgent writes it: in the largest unit in which it is at least 1, with one decimal."""
    value, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    shown = f"{value:.1f}".removesuffix(".0")
    return f"{shown}{units[0]}"
