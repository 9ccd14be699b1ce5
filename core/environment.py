"""The environment of this program's processes: no secret of ours in it, and always a PATH.

Each program calls `settle` first. A secret that is taken out there can no longer be inherited by anything
that the program starts: the service, a device client, hosted servers, commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

TOKEN_VARIABLE = "QUARTERDECK_TOKEN"
"""Holds the token of an agent for `quarterdeck gateway --as NAME`."""
_SECRETS = (TOKEN_VARIABLE,)
# systemd's own default. Without PATH a shell takes a built-in one, which may end in the current folder.
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_DUMPABLE = 4
# An agent program's environment holds keys of its own. Of these the service that it happens to start gets
# nothing: only what describes the user, the session and the Python installation.
_OF_THE_SESSION = frozenset(
    "HOME USER LOGNAME SHELL PATH LANG LANGUAGE TZ TMPDIR TEMP TMP DISPLAY WAYLAND_DISPLAY XAUTHORITY "
    "DESKTOP_SESSION DBUS_SESSION_BUS_ADDRESS SSH_AUTH_SOCK KRB5CCNAME SSL_CERT_FILE SSL_CERT_DIR "
    "VIRTUAL_ENV LD_LIBRARY_PATH SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA "
    "PROGRAMDATA PROGRAMFILES USERPROFILE USERNAME HOMEDRIVE HOMEPATH NUMBER_OF_PROCESSORS "
    "PROCESSOR_ARCHITECTURE".split()
)
_FAMILIES = ("LC_", "XDG_", "QT_", "PYTHON", "QUARTERDECK_")


def settle(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Take the secrets of ours out of the environment, and give it a PATH if it has none.

    Returns the secrets by the names of their variables.
    """
    taken = {name: environment.pop(name) for name in _SECRETS if name in environment}
    if os.name == "posix" and not environment.get("PATH"):
        environment["PATH"] = USUAL_PATH
    return taken


def of_the_session() -> dict[str, str]:
    """The variables of this process that describe the user's session, and no other."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _SECRETS and (name.upper() in _OF_THE_SESSION or name.startswith(_FAMILIES))
    }


def without_secrets() -> dict[str, str]:
    """All variables of this process but the secrets of ours."""
    return {name: value for name, value in os.environ.items() if name not in _SECRETS}


def keep_memory_private() -> None:
    """Disable core dumps and other processes' access to this memory, which holds tokens and typed secrets.

    That includes the environment with which this process was started (`/proc/PID/environ`). Linux only.
    Programs that it starts are not affected.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
