"""What the sandboxes of all systems share: why there is none, and the environment of a command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_APT = Path(__file__).with_name("apt.conf")
# Programs need these variables to find their files; any other may contain a secret or lead to a daemon.
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "COLUMNS")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Missing:
    """Why this machine has no sandbox, and how an operator can fix that."""

    reason: str
    how_to_fix: str


def clean_environment() -> dict[str, str]:
    """The environment of the command: selected variables of the device client's, and fixed ones."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    return {"PATH": _PATH, **kept, "TERM": "dumb", "TMPDIR": "/tmp", "APT_CONFIG": str(_APT)}
