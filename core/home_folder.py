"""Where a home is, and where its control socket is: paths alone, for programs that must start at once.

`core.home` has everything else of a home; its errors need libraries whose import takes a tenth of a second.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from core.user import user_id

# Bytes of the longest Unix socket address that every platform accepts.
LONGEST_ADDRESS = 99
# On Linux: the folders that this process has opened, by descriptor number.
FOLDERS_BY_NUMBER = Path("/proc/self/fd")


def home_folder(given: str | None = None) -> Path:
    """The folder that `--home`, the environment or the platform names.

    Raises:
        RuntimeError: `~` names an unknown user, or a user without a home folder, as in containers.
    """
    named = given or os.environ.get("QUARTERDECK_HOME")
    if not named:
        # Imported here: most programs are told which home.
        import platformdirs

        named = platformdirs.user_data_dir("quarterdeck", appauthor=False)
    # Links are resolved, so that every program uses the same path for the same home.
    return Path(os.path.realpath(Path(named).expanduser()))


def control_socket(home: Path) -> Path:
    """The control socket of a home.

    Socket addresses are limited to 108 bytes on Linux and 104 on macOS; the paths of homes are not. On Linux
    the socket of a long path is addressed through a descriptor of its folder (`core.service.rpc.own_socket`).
    On other systems it is in a folder that the system keeps private to this user.
    """
    wanted = home / "service.sock"
    private = None if FOLDERS_BY_NUMBER.is_dir() else _private_folder()
    if len(os.fsencode(wanted)) <= LONGEST_ADDRESS or private is None:
        return wanted
    import hashlib

    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return private / "quarterdeck" / f"{name}.sock"


def port_file(home: Path) -> Path:
    """The file with the loopback port of a home's service and its token, where there is no Unix socket."""
    return home / "service.port"


def _private_folder() -> Path | None:
    """A folder that the system keeps private to this user: no other user can occupy the path first."""
    try:
        folder = Path(_of_macos() or os.environ["XDG_RUNTIME_DIR"])
        seen = folder.stat()
    except (KeyError, OSError):
        return None
    own = user_id()
    return folder if own is None or (seen.st_uid == own and not seen.st_mode & 0o022) else None


def _of_macos() -> str | None:
    """The folder that macOS makes for each user's temporary files (confstr(3))."""
    if sys.platform == "darwin":
        return os.confstr("CS_DARWIN_USER_TEMP_DIR")
    else:
        return None
