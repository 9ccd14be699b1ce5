"""Tables for the analysis of shell lines: programs by their purpose, system folders and private places."""

from __future__ import annotations

import posixpath
import re

from core.private_paths import names_private_place


def names(*words: str) -> frozenset[str]:
    """The words of these texts, as a set."""
    return frozenset(name for line in words for name in line.split())


# Names of programs that the rules treat as the same program.
_SAME_NAMES = {
    "nodejs": "node", "pypy": "python", "py": "python", "ipython": "python", "luajit": "lua",
    "mawk": "awk", "nawk": "awk", "gawk": "awk", "original-awk": "awk", "bwk": "awk", "goawk": "awk",
    "gmake": "make", "bsdmake": "make", "remake": "make", "gsed": "sed", "gtar": "tar", "bsdtar": "tar",
    "rbash": "bash", "dbash": "bash", "sqlite": "sqlite3", "mariadb": "mysql", "mongo": "mongosh",
    "nvim": "vim", "vi": "vim", "view": "vim", "gvim": "vim", "rvim": "vim", "vimdiff": "vim",
    "docker-compose": "docker", "podman-compose": "podman", "keydb-cli": "redis-cli",
    "valkey-cli": "redis-cli",
    "gtime": "time", "gtimeout": "timeout", "genv": "env", "gxargs": "xargs", "gfind": "find",
}  # fmt: skip
# GNU programs with a `g` before their name, as Homebrew and others install them.
_WITH_G = re.compile(
    r"g(rm|mv|cp|dd|ln|shred|truncate|chmod|chown|chgrp|tee|install|unlink|rmdir|kill|split|sort)$"
)
_VERSIONED = re.compile(r"([a-z][a-z-]*?)-?\d+(?:\.\d+)*[a-z]?$")
_LOADER = re.compile(r"ld(?:-[\w-]+)?\.so(?:\.\d+)*$|ld-musl.*\.so\.1$")


def common_name(name: str) -> str:
    """The name of a program in the tables: lower case, without `.exe` or a language's version."""
    bare = name.casefold().removesuffix(".exe")
    if _LOADER.match(bare):
        return "ld.so"
    if versioned := _VERSIONED.match(bare):
        family = _SAME_NAMES.get(versioned[1], versioned[1])
        if family in VERSIONED:
            return family
    if same := _WITH_G.match(bare):
        return same[1]
    return _SAME_NAMES.get(bare, bare)


SHELLS = names("sh bash zsh dash ksh ash fish csh tcsh mksh rbash powershell pwsh cmd iex")
INTERPRETERS = names(
    "python perl ruby node php lua awk osascript deno bun rscript julia guile tclsh wish expect gnuplot "
    "octave scala "
    "groovy elixir erl swift sbcl racket r lftp bpftrace stap emacs jshell irb ghci ghc"
)
# Programs whose names end with a version as often as not.
VERSIONED = SHELLS | INTERPRETERS | names("pip gcc clang pypy psql")
DOWNLOADS = names("curl wget fetch aria2c http https lynx nc ncat netcat socat ftp iwr irm")
ROOT = names("sudo doas su pkexec run0 runuser runas")
DELETES = names("rm rmdir unlink shred del erase rd remove-item ri srm trash")
OFF = names("shutdown reboot halt poweroff restart-computer stop-computer")
KILLS = names("kill pkill killall killall5 xkill skill taskkill stop-process")
DISKS = names("wipefs fdisk sfdisk sgdisk gdisk parted blkdiscard diskpart format cryptsetup lvremove")
CONTAINERS = names("docker podman nerdctl kubectl helm terraform tofu lxc virsh")
ACCOUNTS = names("useradd userdel usermod groupadd groupdel adduser deluser passwd chpasswd visudo chsh")
FIREWALL = names("iptables ip6tables nft ufw firewall-cmd pfctl netsh")
PACKAGES = names("apt apt-get dpkg dnf yum rpm zypper pacman apk brew snap flatpak winget choco")
LIBRARIES = names("pip pip3 pipx uv npm pnpm yarn cargo gem conda mamba composer")
WRITES_ALL = names("tee touch mkdir truncate chmod chown chgrp chattr setfacl mv") | DELETES
WRITES_LAST = names("cp install ln rsync scp copy move xcopy")

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
