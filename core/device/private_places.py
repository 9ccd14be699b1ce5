"""The private places of this machine: files and folders readable only by a call that an operator approved.

They are defined by `core.private_paths` and by `private_paths` in device.toml. A place need not exist: a file
that is made at its path later is private too.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from core import private_paths
from core.device.config import DeviceConfig

if sys.platform != "win32":
    import pwd

# With this system's path separator.
_IN_HOME = tuple(
    place.replace("/", os.sep)
    for place in (*private_paths.IN_HOME, *private_paths.IN_HOME_ON.get(sys.platform, ()))
)
# Environment variables that move a program's keys to another place; several paths are separated as in PATH.
_NAMED_BY = (
    *("GNUPGHOME", "PASSWORD_STORE_DIR", "KUBECONFIG", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"),
    *("AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "DOCKER_CONFIG"),
    *("PGPASSFILE", "NETRC", "NPM_CONFIG_USERCONFIG", "GH_CONFIG_DIR", "RCLONE_CONFIG", "HISTFILE"),
    *("XAUTHORITY", "ICEAUTHORITY"),
)
_MOVED = {"XDG_CONFIG_HOME": ".config/", "XDG_DATA_HOME": ".local/share/"}
SCRATCH_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
"""Folders for temporary files of all users and programs (hier(7))."""

# Kerberos tickets and keytabs, X authority files and grid proxy certificates in scratch folders.
_IN_SCRATCH = ("krb5*", "*.keytab", "xauth*", ".xauth*", ".Xauth*", "serverauth.*", "x509up_*")
# The first user id of a person on Linux (UID_MIN in login.defs), and that of the user `nobody`.
_FIRST_PERSON, _NOBODY = 1000, 65534


def private_places(config: DeviceConfig) -> list[str]:
    """Absolute paths of files and folders; some may not exist or lie below others. Blocks on the disk."""
    homes, roots = _own_homes(), [str(root) for root in config.roots]
    places = [str(path) for path in config.private_paths]
    for home in homes:
        places += _in_home(home)
    places += _named_elsewhere([*homes, *roots])
    places += _in_scratch_folders(roots)
    if sys.platform != "win32":
        is_root = os.geteuid() == 0
        # A place that this user cannot read needs no protection.
        places += (path for path in private_paths.ON_SYSTEM if is_root or os.access(path, os.R_OK))
        if is_root:
            places += _other_homes(homes, roots)
    return places


def closed_to(config: DeviceConfig, private: list[str]) -> tuple[str, ...]:
    """The paths hidden from a line. An operator's approval opens private paths, never closed ones."""
    return (*map(str, config.closed_paths), *private)


def shown_place(place: str) -> str:
    """A place with `~` for the home folder, for messages."""
    home = os.path.expanduser("~")
    return f"~{place[len(home) :]}" if place.startswith(f"{home.rstrip(os.sep)}{os.sep}") else place


def outermost(paths: Sequence[str]) -> list[str]:
    """The sorted paths without those that are below another of them."""
    kept: list[str] = []
    # Sorted by their parts, so that paths below a folder come right after it.
    for path in sorted(set(paths), key=lambda path: path.split(os.sep)):
        if not kept or not is_below(path, kept[-1]):
            kept.append(path)
    return kept


def is_below(path: str, folder: str) -> bool:
    """Whether an absolute path equals `folder` or is below it, by its text."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _own_homes() -> list[str]:
    """This user's home folders: that in HOME, and that in the system's user database if it differs."""
    homes = [os.path.expanduser("~")]
    if sys.platform != "win32":
        with contextlib.suppress(KeyError):
            homes.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return [path for path in dict.fromkeys(map(os.path.normpath, homes)) if os.path.isabs(path)]


def _in_home(home: str) -> Iterator[str]:
    yield from (f"{home}{os.sep}{place}" for place in _IN_HOME)
    for name, usual in _MOVED.items():
        moved = os.environ.get(name, "")
        if os.path.isabs(moved):
            folder = os.path.normpath(moved)
            yield from (
                os.path.join(folder, place.removeprefix(usual))
                for place in _IN_HOME
                if place.startswith(usual)
            )


def _in_scratch_folders(roots: list[str]) -> Iterator[str]:
    """Credentials in scratch folders that are roots or below a root."""
    for folder in SCRATCH_FOLDERS:
        if any(is_below(folder, root) for root in roots):
            with contextlib.suppress(OSError):
                for name in os.listdir(folder):
                    path = os.path.join(folder, name)
                    is_private = any(fnmatchcase(name, pattern) for pattern in _IN_SCRATCH)
                    if is_private and not any(is_below(root, path) for root in roots):
                        yield path


def _named_elsewhere(kept: list[str]) -> Iterator[str]:
    """The places that the environment names, except folders that contain a home or a root."""
    for name in _NAMED_BY:
        for path in os.environ.get(name, "").split(os.pathsep):
            plain = os.path.normpath(path)
            if os.path.isabs(path) and not any(is_below(folder, plain) for folder in kept):
                yield plain


if sys.platform != "win32":

    def _other_homes(own: list[str], roots: list[str]) -> Iterator[str]:
        """Other people's home folders, for a device that runs as root.

        Of a home that overlaps a root of this device, only its private places.
        """
        for row in pwd.getpwall():
            home = os.path.normpath(row.pw_dir)
            is_person = _FIRST_PERSON <= row.pw_uid < _NOBODY
            if not is_person or not os.path.isdir(home) or any(is_below(path, home) for path in own):
                continue
            if any(is_below(root, home) or (is_below(home, root) and root != os.sep) for root in roots):
                yield from (f"{home}{os.sep}{place}" for place in _IN_HOME)
            else:
                yield home
