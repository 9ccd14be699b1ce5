"""The name of a user of this computer: from the operating system, never from the environment."""

from __future__ import annotations

import os
import re

_UNFIT = re.compile(r"[^A-Za-z0-9._@+-]+")


def user_name(uid: int | None = None) -> str:
    """The name of a user by number, of this process's own where none is given, fit to stand in an actor.

    A user without a name is called by the number.
    """
    try:
        import pwd
    except ImportError:
        # Windows has no numbers; its own call does not look at the environment.
        name = os.getlogin()
    else:
        number = os.getuid() if uid is None else uid
        try:
            name = pwd.getpwuid(number).pw_name
        except KeyError:
            name = str(number)
    return _UNFIT.sub("-", name).lstrip("._@+-")[:64] or "user"
