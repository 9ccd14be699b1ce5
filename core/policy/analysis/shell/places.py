"""Places on a disk that the analysis knows: system folders, private ones, files that run by themselves."""

from __future__ import annotations

import posixpath
import re

from core.private_paths import names_private_place

SYSTEM = re.compile(
    r"^(?:/(etc|usr|bin|sbin|lib\w*|boot|dev|sys|proc|root|opt|system|library|applications)(?:/|$)"
    r"|/var/(?:lib|spool|log)(?:/|$)|/private/etc(?:/|$)"
    r"|[a-z]:[\\/]*(?:windows|program files|programdata))",
    re.IGNORECASE,
)
# Places of keys and passwords, in addition to those that every system has (`core.private_paths`).
_PRIVATE = re.compile(
    r"(?:^|[/\\])(?:\.(?:ssh|gnupg|aws|kube|azure|netrc|pgpass|git-credentials|password-store|mozilla|docker)"
    r"(?:$|[/\\])|\.(?:npmrc|pypirc|env)$|id_(?:rsa|ed25519|ecdsa|dsa)$|login data$|key3?4?\.db$)"
    r"|^/+(?:private/+)?etc/+(?:shadow|gshadow|sudoers)|[/\\]system32[/\\]config[/\\]sam"
    r"|/keychains/|/gcloud/|\.(?:pem|p12|pfx|kdbx)$",
    re.IGNORECASE,
)
# Files that a shell or a desktop runs automatically.
STARTUP = re.compile(
    r"(?:^|[/\\])(?:\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv"
    r"|zprofile|"
    r"zlogin|kshrc|cshrc|tcshrc|inputrc|vimrc|gitconfig|xinitrc|xprofile|xsession|pam_environment|config)"
    r"(?:$|[/\\])|(?:autostart|launchagents|launchdaemons|startup)[/\\]|cron\.\w+[/\\]|\.git[/\\]hooks[/\\])",
    re.IGNORECASE,
)
HARMLESS_DEVICES = re.compile(r"^/dev/(?:null|zero|stdin|stdout|stderr|tty|fd/\d+|shm(?:/.*)?)$")
EVERYTHING = re.compile(
    r"^(?:/+\*?|~\w*/?\*?|\.|(?:\.\./?)+\*?|\.?\*|/(?:home|users)/?\*?|[a-z]:[\\/]?\*?)$", re.IGNORECASE
)


def names_secrets(path: str) -> bool:
    """Whether the text of a path leads to keys or passwords."""
    return bool(_PRIVATE.search(path)) or names_private_place(path)


def system_folder(path: str) -> str:
    """The system folder that contains a path, or "". Only the text of the path is read, not the disk."""
    plain = posixpath.normpath(path) if path.startswith("/") else path
    if plain.startswith("//"):
        plain = plain[1:]
    if HARMLESS_DEVICES.match(plain):
        return ""
    match = SYSTEM.match(plain)
    return match.group().rstrip("/") if match else ""
