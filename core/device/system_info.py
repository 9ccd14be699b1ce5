"""Reads facts about this machine, as numbers with their unit in the key."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import psutil

from core.device.fs.safe_path import shown
from core.device.metrics import CpuSampler

Fact = TypeVar("Fact")

_IS_LINUX = platform.system() == "Linux"
_DMI = Path("/sys/class/dmi/id")
_cpu_share = CpuSampler()


def memory() -> dict[str, Any]:
    """Main memory and swap; on Linux, used is total minus available. Swap is null where it cannot be read."""
    if _IS_LINUX:
        return _linux_memory()
    main, swap = psutil.virtual_memory(), _or_none(psutil.swap_memory)
    return {
        "total_bytes": main.total,
        "used_bytes": main.used,
        "free_bytes": main.free,
        "available_bytes": main.available,
        "use_percent": main.percent,
        "swap_total_bytes": None if swap is None else swap.total,
        "swap_used_bytes": None if swap is None else swap.used,
    }


def _linux_memory() -> dict[str, Any]:
    """Main memory and swap from one read of one file: psutil reads three, and consoles ask for this most."""
    kib: dict[bytes, int] = {}
    with open("/proc/meminfo", "rb", buffering=0) as file:
        for line in file.read(65_536).splitlines():
            name, _, value = line.partition(b":")
            kib[name] = int(value.split(maxsplit=1)[0])
            # The last line that is needed; about forty follow.
            if name == b"SwapFree":
                break
    total, free = kib[b"MemTotal"] * 1024, kib[b"MemFree"] * 1024
    # Kernels before 3.14 and some containers lack MemAvailable; other containers report more than MemTotal.
    available = min(kib.get(b"MemAvailable", kib[b"MemFree"] + kib.get(b"Cached", 0)) * 1024, total)
    swap_total = kib.get(b"SwapTotal", 0) * 1024
    return {
        "total_bytes": total,
        "used_bytes": total - available,
        "free_bytes": free,
        "available_bytes": available,
        "use_percent": round((total - available) / total * 100, 1),
        "swap_total_bytes": swap_total,
        "swap_used_bytes": swap_total - kib.get(b"SwapFree", 0) * 1024,
    }


def disk() -> dict[str, Any]:
    """The mounted file systems, the root first. Blocks while a network mount does not answer."""
    root = os.path.abspath(os.sep)
    mounts = {part.mountpoint: (part.device, part.fstype) for part in psutil.disk_partitions()}
    if root not in mounts:
        # psutil leaves the root out in containers, where it is often no "physical" device.
        every = {part.mountpoint: part for part in psutil.disk_partitions(all=True)}
        mounts[root] = (every[root].device, every[root].fstype) if root in every else ("", "")
    rows = []
    for mount_point, (device, kind) in sorted(mounts.items(), key=lambda item: (item[0] != root, item[0])):
        try:
            usage = psutil.disk_usage(mount_point)
        except OSError:
            continue
        rows.append(
            {
                "device": shown(device),
                "mount_point": shown(mount_point),
                "type": kind,
                "total_bytes": usage.total,
                "used_bytes": usage.used,
                "available_bytes": usage.free,
                "use_percent": usage.percent,
            }
        )
    return {"filesystems": rows}


def cpu() -> dict[str, Any]:
    """The processor; `use_percent` is that of the last seconds. May block for 0.2 s (`CpuSampler.read`)."""
    load = _or_none(psutil.getloadavg)
    return {
        "model": cpu_model(),
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        "threads": psutil.cpu_count() or 1,
        "architecture": platform.machine(),
        "use_percent": _cpu_share.read(),
        "load_average": None if load is None else [round(value, 2) for value in load],
    }


def network() -> dict[str, Any]:
    """The network interfaces with their addresses and counters."""
    states, counters = psutil.net_if_stats(), psutil.net_io_counters(pernic=True)
    rows = []
    for name, addresses in sorted(psutil.net_if_addrs().items()):
        state, counter = states.get(name), counters.get(name)
        rows.append(
            {
                "name": name,
                "is_up": bool(state and state.isup),
                "mtu_bytes": state.mtu if state else 0,
                "speed_mbit_per_s": state.speed if state else 0,
                "addresses": [
                    {"family": _family(entry.family), "address": entry.address, "netmask": entry.netmask}
                    for entry in addresses
                ],
                "sent_bytes": counter.bytes_sent if counter else 0,
                "received_bytes": counter.bytes_recv if counter else 0,
            }
        )
    return {"hostname": socket.gethostname(), "interfaces": rows}


def hardware() -> dict[str, Any]:
    """The machine's hardware; facts that cannot be read are null."""
    battery = _battery()
    return {
        "manufacturer": _dmi("sys_vendor"),
        "product": _dmi("product_name"),
        "cpu_model": cpu_model(),
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        "threads": psutil.cpu_count() or 1,
        "memory_total_bytes": psutil.virtual_memory().total,
        "battery_percent": None if battery is None else round(float(battery.percent), 1),
        "on_mains_power": None if battery is None else battery.power_plugged,
        "disks": disks(),
        "disk_controllers": disk_controllers(),
    }


_BLOCK, _PCI = Path("/sys/block"), Path("/sys/bus/pci/devices")


def disks() -> list[dict[str, Any]]:
    """The disks that Linux knows, each with its size and whether it is rotational; none on other systems."""
    rows = []
    for block in sorted(_BLOCK.glob("*")):
        # Block devices without a `device` are virtual: loop devices, RAM disks, logical volumes.
        if (block / "device").exists():
            sectors, turns = _sys_text(block / "size"), _sys_text(block / "queue" / "rotational")
            rows.append(
                {
                    "name": block.name,
                    "model": _sys_text(block / "device" / "model"),
                    # In sysfs a sector has 512 bytes, whatever the disk's sector size (sysfs-block, `size`).
                    "size_bytes": int(sectors) * 512 if sectors and sectors.isdigit() else 0,
                    "rotational": None if turns is None else turns == "1",
                }
            )
    return rows


def disk_controllers() -> list[dict[str, Any]]:
    """The PCI devices of class 01 (mass storage) with their drivers; none without PCI."""
    rows = []
    for device in sorted(_PCI.glob("*")):
        kind = _sys_text(device / "class") or ""
        if kind.startswith("0x01"):
            driver = device / "driver"
            rows.append(
                {
                    "address": device.name,
                    "kind": _STORAGE.get(kind[4:6], "other"),
                    "vendor_device": f"{_sys_text(device / 'vendor')}:{_sys_text(device / 'device')}",
                    "driver": os.path.basename(os.readlink(driver)) if driver.is_symlink() else None,
                }
            )
    return rows


# Subclasses of mass storage (PCI Code and ID Assignment Specification, class 01).
_STORAGE = {"00": "scsi", "01": "ide", "04": "raid", "06": "sata", "07": "sas", "08": "nvme"}


def _sys_text(path: Path) -> str | None:
    """The text of a file in sysfs; None where it is empty or cannot be read."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8").strip() or None
    return None


def os_info() -> dict[str, Any]:
    """The operating system, and when it was booted."""
    boot = psutil.boot_time()
    return {
        "name": platform.system(),
        "version": _distribution(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "hostname": socket.gethostname(),
        "user": _user(),
        "booted_at": datetime.fromtimestamp(boot, UTC).isoformat(),
        "uptime_seconds": round(time.time() - boot),
    }


FACTS: dict[str, Callable[[], dict[str, Any]]] = {
    "memory": memory,
    "disk": disk,
    "cpu": cpu,
    "network": network,
    "hardware": hardware,
    "os": os_info,
}


def is_instant(kind: object) -> bool:
    """Whether facts of a kind can be read without waiting; the others may wait for a disk or a sensor."""
    return kind == "memory" or (kind == "cpu" and _cpu_share.is_instant())


def registration(name: str, features: list[str]) -> dict[str, Any]:
    """`metadata.system_info` as stock AIP devices register it."""
    return {
        "device_id": name,
        "platform": platform.system().lower(),
        "os_version": platform.version(),
        "cpu_count": psutil.cpu_count() or 1,
        "memory_total_gb": round(psutil.virtual_memory().total / 2**30, 2),
        "hostname": socket.gethostname(),
        "ip_address": _own_address(),
        "supported_features": features,
        "platform_type": "computer",
        "schema_version": "1.0",
        # AIP's field for other facts: `os_version` is only the kernel's build on some systems.
        "custom_metadata": {
            "os_name": f"{_distribution() if _IS_LINUX else platform.platform()}, {platform.machine()}"
        },
    }


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """The processor's model name."""
    if _IS_LINUX:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in {"model name", "Model", "Hardware"} and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def _own_address() -> str:
    for addresses in psutil.net_if_addrs().values():
        for entry in addresses:
            if entry.family == socket.AF_INET and not entry.address.startswith("127."):
                return entry.address
    return "127.0.0.1"


def _family(family: int) -> str:
    if family == socket.AF_INET:
        return "ipv4"
    return "ipv6" if family == socket.AF_INET6 else "link"


def _battery() -> Any:
    # Some drivers lack values, which makes psutil fail.
    return _or_none(psutil.sensors_battery) if hasattr(psutil, "sensors_battery") else None


def _or_none(read: Callable[[], Fact]) -> Fact | None:
    """A fact, or None where it cannot be read: the other facts must still be returned.

    On Windows, for one, performance counters may be switched off, of which psutil makes swap and load.
    """
    try:
        return read()
    except (psutil.Error, OSError, ValueError, RuntimeError, NotImplementedError):
        return None


def _dmi(name: str) -> str | None:
    try:
        return (_DMI / name).read_text("utf-8", "replace").strip() or None
    except OSError:
        return None


@lru_cache(maxsize=1)
def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME") or platform.version()
    except (OSError, UnicodeDecodeError):
        return platform.version()


def _user() -> str | None:
    """The user with whose rights this process runs; the environment may name another, as under `sudo`."""
    try:
        return psutil.Process().username()
    except (psutil.Error, KeyError, OSError):
        return None
