"""Machine identification: do two programs run on one computer, and is a client still on its machine?

`machine_mark` is equal for all programs that run on the same kernel now; it changes with each start of the
machine. `machine_identity` stays the same over restarts and names the installation of a device client: a copy
of the client's state folder has another identity on another machine.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
import subprocess
import sys
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import platformdirs

from core.files import create_new

# The boot ID is the same for every program on the same kernel, also in a container.
_OF_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OF_SYSTEM = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


@lru_cache(maxsize=1)
def machine_mark() -> str:
    """A digest of this computer's identifiers, 64 hexadecimal digits, which does not reveal them."""
    known = _boot() or _system() or f"{socket.gethostname()} {uuid.getnode():x}"
    return hashlib.sha256(f"quarterdeck.machine/1 {known}".encode()).hexdigest()


def machine_identity() -> str:
    """A digest of the system's id, the host's name and the installation's id: 64 hexadecimal digits.

    Each covers copies that the others do not: containers share the system's id and differ in their host
    names; a copied state folder comes without the installation's id. A copy of a whole machine with its host
    name has the same identity. Renaming the host changes the identity.
    """
    known = " ".join((_system(), host_name(), _installation()))
    return hashlib.sha256(f"quarterdeck.machine/2 {known}".encode()).hexdigest()


def host_name() -> str:
    """The host's name without its domain, which changes with the network that a computer is in."""
    return socket.gethostname().partition(".")[0].lower()


def make_installation_id() -> None:
    """Make the installation's id, if there is none; a folder that cannot be written goes without."""
    path = _installation_path()
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_new(path, secrets.token_hex(32) + "\n")


def _installation_path() -> Path:
    # Not in the client's state folder, so that a copy of that folder does not include it.
    return Path(platformdirs.user_state_dir("quarterdeck-device", appauthor=False)) / "installation"


def _installation() -> str:
    with suppress(OSError, UnicodeDecodeError):
        return _installation_path().read_text("ascii").strip()
    return ""


def _boot() -> str:
    with suppress(OSError, UnicodeDecodeError):
        return _OF_BOOT.read_text("ascii").strip()
    return ""


def _system() -> str:
    if sys.platform == "win32":
        return _of_windows()
    elif sys.platform == "darwin":
        return _of_macos()
    else:
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
