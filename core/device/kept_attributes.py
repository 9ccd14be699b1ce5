"""What a file has beside its content and mode, carried over to the file that takes its place."""

from __future__ import annotations

import contextlib
import os
import sys

_ACL = "system.posix_acl_access"
# A label that cannot be set is the system's to give; a list of who may do what must not get lost.
_LABELS = {"security.selinux", "security.SMACK64"}
_LISTS = {_ACL, "system.nfs4_acl"}


def keep_owner(descriptor: int, before: os.stat_result) -> bool:
    """Give the new file the old one's owner and group, as far as this user may; False: not its group."""
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) == (before.st_uid, before.st_gid):
        return True
    for owner in (before.st_uid, -1):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, owner, before.st_gid)
            return True
    return now.st_gid == before.st_gid


if sys.platform == "linux":

    def keep_attributes(old: int, new: int) -> None:
        """Give the new file the old one's access control list, labels and notes, and none of its folder's.

        Not its capabilities, nor hashes of its content: those were the old content's.

        Raises:
            OSError: an access control list or a note cannot be carried over.
        """
        try:
            had = set(os.listxattr(old))
        except OSError:
            # This file system knows of none.
            return
        for name in had:
            if name in _LABELS:
                with contextlib.suppress(OSError):
                    os.setxattr(new, name, os.getxattr(old, name))
            elif name in _LISTS or name.startswith("user."):
                os.setxattr(new, name, os.getxattr(old, name))
        if _ACL not in had and _ACL in os.listxattr(new):
            # Its folder gave it one, by which more may come in than the old file let.
            os.removexattr(new, _ACL)

else:

    def keep_attributes(old: int, new: int) -> None:
        """Nothing: here the standard library has no word for them."""
