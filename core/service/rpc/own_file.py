"""Checks that a file of a home is this user's, before what it says is believed.

Windows has no user IDs: there a file is as private as the folder that it is in.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from core.user import user_id


class NotOwn(Exception):
    """A folder, a socket or a listening process is not this user's, or is no such thing at all."""


def check_owner(seen: os.stat_result, path: Path) -> None:
    """Check that a file or folder is this user's.

    Raises:
        NotOwn: it is another user's.
    """
    if (own := user_id()) is not None and seen.st_uid != own:
        raise NotOwn(f"{path} belongs to user {seen.st_uid}, not to you (user {own}).")


def port_and_token(file: Path) -> tuple[int, str]:
    """The loopback port of a service and the token that it wants, from a file that must be this user's.

    Raises:
        NotOwn: the file belongs to another user.
        OSError: the file cannot be read, or has no port.
    """
    with file.open(encoding="utf-8") as opened:
        check_owner(os.fstat(opened.fileno()), file)
        text = opened.read()
    try:
        where = json.loads(text)
        return int(where["port"]), str(where["token"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{file} cannot be used: {error}") from error
