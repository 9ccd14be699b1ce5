"""What stays hidden of a folder for scratch files where device.toml allows it as a root.

Programs of the same user keep the sockets of their agents in such a folder, under names that they choose
themselves. Credentials there are private places (`core.device.private_places`). Other users' private files
are kept by the kernel: nothing in the sandbox has a capability, root's command neither.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from core.device.private_places import is_below

# There or not, so that every entry of the folder gets a rule of its own (`inner.forbid_changes`), and what
# comes while a command runs is not readable.
_ALWAYS = (".X11-unix", ".ICE-unix")
# Agents' and desktops' sockets, private folders of services, which root owns as well, and browsers' memory.
_PRIVATE = (
    *(".XIM-unix", ".font-unix", ".Test-unix", "ssh-*", "gpg-*", "tmux-*", "tmate-*", "screens", "uscreens"),
    *("keyring-*", "dbus-*", "pulse-*", "ksocket-*", "kde-*", "orbit-*", "gdm*", "sddm*", "emacs[0-9]*"),
    *("systemd-private-*", "snap-private-tmp", "snap.*", "vscode-ipc-*", "vscode-ssh-auth-*"),
    *(".org.chromium.*", ".com.google.Chrome.*"),
)


def private_in(folder: str, roots: Iterable[str]) -> Iterator[str]:
    """The paths directly in a scratch folder that no command sees, approved or not. Blocks on the disk.

    A path that a root lies in, or is, is none of them.
    """
    names = dict.fromkeys(_ALWAYS)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if any(fnmatchcase(entry.name, pattern) for pattern in _PRIVATE) or _is_for_sockets(entry):
                    names[entry.name] = None
    except OSError:
        # A folder that cannot be listed shows nothing by itself.
        pass
    own = tuple(roots)
    for name in names:
        path = os.path.join(folder, name)
        if not any(is_below(root, path) for root in own):
            yield path


def _is_for_sockets(entry: os.DirEntry[str]) -> bool:
    """Whether it is a socket, or a folder with nothing but sockets in it, as agents make under any name."""
    try:
        facts = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            return stat.S_ISSOCK(facts.st_mode)
        with os.scandir(entry.path) as inside:
            first = next(inside, None)
            return first is not None and _is_socket(first) and all(map(_is_socket, inside))
    except OSError:
        # It has gone, or is not for this user, and so not for the command either.
        return False


def _is_socket(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
