"""The read-only shell's sandbox on macOS: `sandbox-exec` with a profile. Not yet tested on a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache

from core.device.sandbox.interface import Missing, clean_environment

# Mach services are daemons that could do what the command may not, so their lookup is denied.
PROFILE = """(version 1)
(allow default)
(deny file-write*)
(allow file-write* (literal "/dev/null") (literal "/dev/zero"))
(deny network*)
(deny mach-lookup)
(deny mach-register)
(deny signal (target others))
(deny process-info* (target others))
(deny system-socket)
(deny iokit-open)
(deny sysctl-write)
"""
_SELF_TEST_S = 10.0


def command(inside: list[str], closed: Sequence[str] = ()) -> list[str]:
    """The command line that runs `inside`, which can neither read nor list the closed paths."""
    rules = "".join(
        f"(deny file-read* (subpath {_quoted(name)}))\n"
        for path in closed
        for name in dict.fromkeys((path, os.path.realpath(path)))
    )
    return ["sandbox-exec", "-p", PROFILE + rules, *inside]


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@lru_cache(maxsize=1)
def missing() -> Missing | None:
    """Why this machine has no sandbox; None when a test write was denied."""
    if shutil.which("sandbox-exec") is None:
        return Missing("There is no sandbox-exec", "Use a macOS that has it")
    probe = (
        'umask 077; f="${TMPDIR:-/tmp}/quarterdeck-probe-$$"; : > "$f" && rm -f "$f" && echo wrote; echo done'
    )
    try:
        done = subprocess.run(
            command(["/bin/sh", "-c", probe]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=_SELF_TEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Missing(f"sandbox-exec does not run: {error}", "Look at the system's log")
    if done.stdout.split() != ["done"]:
        return Missing("sandbox-exec does not forbid writing here", "Look at the system's log")
    return None
