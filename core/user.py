"""The name of a user of this computer, from the operating system and never from the environment."""

from __future__ import annotations

import os
import re

_UNFIT = re.compile(r"[^A-Za-z0-9._@+-]+")


def user_name(uid: int | None = None) -> str:
    """The name of the user `uid` (default: this process's user), reduced to characters allowed in actors.

    A user without an entry has the ID as name.
    """
    try:
        import pwd
    except ImportError:
        # Windows has no user IDs; its `os.getlogin` does not use the environment.
        name = os.getlogin()
    else:
        number = os.getuid() if uid is None else uid
        try:
            name = pwd.getpwuid(number).pw_name
        except KeyError:
            name = str(number)
    return _UNFIT.sub("-", name).lstrip("._@+-")[:64] or "user"
