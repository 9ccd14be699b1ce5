"""The names that shell lines are judged by: programs by what they do, and folders of the system."""

from __future__ import annotations

import posixpath
import re


def _names(*words: str) -> frozenset[str]:
    return frozenset(name for line in words for name in line.split())


SHELLS = _names("sh bash zsh dash ksh ash fish csh tcsh mksh rbash powershell pwsh cmd iex")
INTERPRETERS = _names("python python2 python3 perl ruby node php lua awk gawk osascript deno bun")
DOWNLOADS = _names("curl wget fetch aria2c http https lynx nc ncat netcat socat ftp iwr irm")
ROOT = _names("sudo doas su pkexec run0 runuser runas")
WRAPPERS = ROOT | _names(
    "env nice nohup time timeout command exec builtin xargs parallel setsid stdbuf ionice chroot busybox "
    "toybox watch flock unshare nsenter strace caffeinate systemd-run chronic ssh start coproc"
)
DELETES = _names("rm rmdir unlink shred del erase rd remove-item ri srm trash")
OFF = _names("shutdown reboot halt poweroff restart-computer stop-computer")
KILLS = _names("kill pkill killall xkill skill taskkill stop-process")
DISKS = _names("wipefs fdisk sfdisk sgdisk gdisk parted blkdiscard diskpart format cryptsetup lvremove")
CONTAINERS = _names("docker podman nerdctl kubectl helm terraform tofu lxc virsh")
ACCOUNTS = _names("useradd userdel usermod groupadd groupdel adduser deluser passwd chpasswd visudo chsh")
FIREWALL = _names("iptables ip6tables nft ufw firewall-cmd pfctl netsh")
PACKAGES = _names("apt apt-get dpkg dnf yum rpm zypper pacman apk brew snap flatpak winget choco")
LIBRARIES = _names("pip pip3 pipx uv npm pnpm yarn cargo gem conda mamba composer")
DATABASES = _names("mysql mariadb psql sqlite3 sqlcmd sqlplus clickhouse-client duckdb cockroach")
WRITES_ALL = _names("tee touch mkdir truncate chmod chown chgrp chattr setfacl mv") | DELETES
WRITES_LAST = _names("cp install ln rsync scp copy move xcopy")
LOADED_FIRST = _names("PATH LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV IFS PROMPT_COMMAND PYTHONPATH")

SYSTEM = re.compile(
    r"^(?:/(etc|usr|bin|sbin|lib\w*|boot|dev|sys|proc|root|opt|system|library|applications)(?:/|$)"
    r"|/var/(?:lib|spool|log)(?:/|$)|/private/etc(?:/|$)"
    r"|[a-z]:[\\/]*(?:windows|program files|programdata))",
    re.IGNORECASE,
)
# Where keys and passwords are, whoever reads or writes them.
PRIVATE = re.compile(
    r"(?:^|[/\\])(?:\.(?:ssh|gnupg|aws|kube|azure|netrc|pgpass|git-credentials|password-store|mozilla|docker)"
    r"(?:$|[/\\])|\.(?:npmrc|pypirc|env)$|id_(?:rsa|ed25519|ecdsa|dsa)$|login data$|key3?4?\.db$)"
    r"|^/+(?:private/+)?etc/+(?:shadow|gshadow|sudoers)|[/\\]system32[/\\]config[/\\]sam"
    r"|/keychains/|/gcloud/|\.(?:pem|p12|pfx|kdbx)$",
    re.IGNORECASE,
)
# What a shell or a desktop runs by itself.
STARTUP = re.compile(
    r"(?:^|[/\\])(?:\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|"
    r"zlogin|kshrc|cshrc|tcshrc|inputrc|vimrc|gitconfig|xinitrc|xprofile|xsession|pam_environment|config)"
    r"(?:$|[/\\])|(?:autostart|launchagents|launchdaemons|startup)[/\\]|cron\.\w+[/\\]|\.git[/\\]hooks[/\\])",
    re.IGNORECASE,
)
HARMLESS_DEVICES = re.compile(r"^/dev/(?:null|zero|stdin|stdout|stderr|tty|fd/\d+|shm(?:/.*)?)$")
EVERYTHING = re.compile(
    r"^(?:/+\*?|~\w*/?\*?|\.|(?:\.\./?)+\*?|\.?\*|/(?:home|users)/?\*?|[a-z]:[\\/]?\*?)$", re.IGNORECASE
)


def system_folder(path: str) -> str:
    """The system folder that a path is in, or an empty text. Nothing is looked up on this machine."""
    plain = posixpath.normpath(path) if path.startswith("/") else path
    if plain.startswith("//"):
        plain = plain[1:]
    if HARMLESS_DEVICES.match(plain):
        return ""
    match = SYSTEM.match(plain)
    return match.group().rstrip("/") if match else ""
