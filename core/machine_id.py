"""Machine identification: a mark that is equal for all programs on the same computer, and for no others."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

# The boot ID is the same for every program on the same kernel, also in a container.
_OF_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OF_SYSTEM = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


@lru_cache(maxsize=1)
def machine_mark() -> str:
    """A digest of this computer's identifiers, 64 hexadecimal digits, which does not reveal them."""
    known = _boot() or _system() or f"{socket.gethostname()} {uuid.getnode():x}"
    return hashlib.sha256(f"quarterdeck.machine/1 {known}".encode()).hexdigest()


def _boot() -> str:
    with suppress(OSError, UnicodeDecodeError):
        return _OF_BOOT.read_text("ascii").strip()
    return ""


def _system() -> str:
    if sys.platform == "win32":
        return _of_windows()
    if sys.platform == "darwin":
        return _of_macos()
    for path in _OF_SYSTEM:
        with suppress(OSError, UnicodeDecodeError):
            return path.read_text("ascii").strip()
    return ""


def _of_windows() -> str:
    if sys.platform == "win32":
        import winreg

        place = r"SOFTWARE\Microsoft\Cryptography"
        with suppress(OSError), winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return str(winreg.QueryValueEx(key, "MachineGuid")[0])
    return ""


def _of_macos() -> str:
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            ["/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        ).stdout
        for line in told.splitlines():
            if "IOPlatformUUID" in line:
                return line.split("=", 1)[-1].strip(' "')
    return ""
