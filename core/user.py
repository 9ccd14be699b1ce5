"""The user whose process this is: from the operating system and never from the environment."""

from __future__ import annotations

import os
import re
import sys

_UNFIT = re.compile(r"[^A-Za-z0-9._@+-]+")

if sys.platform == "win32":

    def user_id() -> int | None:
        """None: files of Windows have an owner and a list of rights, which this program does not read."""
        return None

    def _login(uid: int | None) -> str:
        # Not `getpass.getuser`, which uses the environment.
        return os.getlogin()

else:
    import pwd

    def user_id() -> int | None:
        """The ID of this process's user; None on Windows, which has no such number."""
        return os.getuid()

    def _login(uid: int | None) -> str:
        number = os.getuid() if uid is None else uid
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)


def user_name(uid: int | None = None) -> str:
    """The name of the user `uid` (default: this process's user), reduced to characters allowed in actors.

    A user without an entry has the ID as name.
    """
    return _UNFIT.sub("-", _login(uid)).lstrip("._@+-")[:64] or "user"
