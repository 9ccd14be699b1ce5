"""The private places of this machine: shown only to a call that an operator approved, that very call.

Which places count is said by `core.private_paths` and by `private_paths` in device.toml. A place need not be
there: what comes to be at its path is as private.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from core import private_paths
from core.device.config import DeviceConfig

# As this system writes them.
_IN_HOME = tuple(
    place.replace("/", os.sep)
    for place in (*private_paths.IN_HOME, *private_paths.IN_HOME_ON.get(sys.platform, ()))
)
# Programs find their keys there instead; those that name several separate them as PATH does.
_NAMED_BY = (
    *("GNUPGHOME", "PASSWORD_STORE_DIR", "KUBECONFIG", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"),
    *("AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "DOCKER_CONFIG"),
    *("PGPASSFILE", "NETRC", "NPM_CONFIG_USERCONFIG", "GH_CONFIG_DIR", "RCLONE_CONFIG", "HISTFILE"),
    *("XAUTHORITY", "ICEAUTHORITY"),
)
_MOVED = {"XDG_CONFIG_HOME": ".config/", "XDG_DATA_HOME": ".local/share/"}
SCRATCH_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
"""Where every user and program may keep files for a while (hier(7))."""

# Kerberos tickets and keytabs, X authorities and grid proxies, which programs put into scratch folders.
_IN_SCRATCH = ("krb5*", "*.keytab", "xauth*", ".xauth*", ".Xauth*", "serverauth.*", "x509up_*")
# The first user id of a person on Linux (login.defs, UID_MIN), and that of `nobody`.
_FIRST_PERSON, _NOBODY = 1000, 65534


def private_places(config: DeviceConfig) -> list[str]:
    """Absolute paths of files and folders, there or not, some below others. Blocks on the disk."""
    homes, roots = _own_homes(), [str(root) for root in config.roots]
    places = [str(path) for path in config.private_paths]
    for home in homes:
        places += _in_home(home)
    places += _named_elsewhere([*homes, *roots])
    places += _in_scratch_folders(roots)
    if sys.platform != "win32":
        is_root = os.geteuid() == 0
        # Of a place that this user cannot read there is nothing to hide.
        places += (path for path in private_paths.ON_SYSTEM if is_root or os.access(path, os.R_OK))
        if is_root:
            places += _other_homes(homes, roots)
    return places


def shown_place(place: str) -> str:
    """A place as a person writes it, with `~` for the home."""
    home = os.path.expanduser("~")
    return f"~{place[len(home) :]}" if place.startswith(f"{home.rstrip(os.sep)}{os.sep}") else place


def outermost(paths: Sequence[str]) -> list[str]:
    """Paths without those that lie below another one of them, sorted."""
    kept: list[str] = []
    # By their parts, so that what lies below a folder comes right after it.
    for path in sorted(set(paths), key=lambda path: path.split(os.sep)):
        if not kept or not is_below(path, kept[-1]):
            kept.append(path)
    return kept


def is_below(path: str, folder: str) -> bool:
    """Whether an absolute path is a folder or lies below it, by its text."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _own_homes() -> list[str]:
    """This user's home: what HOME says and, where that is another one, what the system says."""
    homes = [os.path.expanduser("~")]
    if sys.platform != "win32":
        import pwd

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
    """Credentials in the scratch folders that are roots, or lie in one."""
    for folder in SCRATCH_FOLDERS:
        if any(is_below(folder, root) for root in roots):
            with contextlib.suppress(OSError):
                for name in os.listdir(folder):
                    path = os.path.join(folder, name)
                    is_private = any(fnmatchcase(name, pattern) for pattern in _IN_SCRATCH)
                    if is_private and not any(is_below(root, path) for root in roots):
                        yield path


def _named_elsewhere(kept: list[str]) -> Iterator[str]:
    """What the environment names; never a folder that a home or a root lies in."""
    for name in _NAMED_BY:
        for path in os.environ.get(name, "").split(os.pathsep):
            plain = os.path.normpath(path)
            if os.path.isabs(path) and not any(is_below(folder, plain) for folder in kept):
                yield plain


def _other_homes(own: list[str], roots: list[str]) -> Iterator[str]:
    """The homes of other people, which root could read; of one that a root is in, its private places."""
    import pwd

    for row in pwd.getpwall():
        home = os.path.normpath(row.pw_dir)
        is_person = _FIRST_PERSON <= row.pw_uid < _NOBODY
        if not is_person or not os.path.isdir(home) or any(is_below(path, home) for path in own):
            continue
        if any(is_below(root, home) or (is_below(home, root) and root != os.sep) for root in roots):
            yield from (f"{home}{os.sep}{place}" for place in _IN_HOME)
        else:
            yield home
