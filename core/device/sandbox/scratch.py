"""The paths that stay hidden in a scratch folder (such as /tmp) that device.toml allows as a root.

Programs of the same user place their agents' sockets in such a folder, under names of their own choice.
Credentials there are private places (`core.device.private_places`). The kernel protects other users' private
files: no process in the sandbox has a capability, not even a command of root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from core.device.private_places import is_below

# Closed even where they do not exist: every entry of the folder then gets a rule of its own
# (`sandbox_init.forbid_changes`), and entries created while a command runs are not readable.
_ALWAYS = (".X11-unix", ".ICE-unix")
# Sockets of agents and desktops, private folders of services (also root's), and shared memory of browsers.
_PRIVATE = (
    *(".XIM-unix", ".font-unix", ".Test-unix", "ssh-*", "gpg-*", "tmux-*", "tmate-*", "screens", "uscreens"),
    *("keyring-*", "dbus-*", "pulse-*", "ksocket-*", "kde-*", "orbit-*", "gdm*", "sddm*", "emacs[0-9]*"),
    *("systemd-private-*", "snap-private-tmp", "snap.*", "vscode-ipc-*", "vscode-ssh-auth-*"),
    *(".org.chromium.*", ".com.google.Chrome.*"),
)


def private_in(folder: str, roots: Iterable[str]) -> Iterator[str]:
    """The entries of a scratch folder that no command sees, approved or not. Blocks on the disk.

    Excludes entries that are a root or contain one.
    """
    names = dict.fromkeys(_ALWAYS)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if any(fnmatchcase(entry.name, pattern) for pattern in _PRIVATE) or _is_for_sockets(entry):
                    names[entry.name] = None
    except OSError:
        # The command cannot list such a folder either.
        pass
    own = tuple(roots)
    for name in names:
        path = os.path.join(folder, name)
        if not any(is_below(root, path) for root in own):
            yield path


def _is_for_sockets(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is a socket or a folder that contains only sockets; agents create both."""
    try:
        facts = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            return stat.S_ISSOCK(facts.st_mode)
        with os.scandir(entry.path) as inside:
            first = next(inside, None)
            return first is not None and _is_socket(first) and all(map(_is_socket, inside))
    except OSError:
        # The entry has gone, or this user, and so the command, may not read it.
        return False


def _is_socket(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
