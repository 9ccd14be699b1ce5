"""Remarks on what a command line of the read-only shell could not see because of the sandbox.

The sandbox has its own processes, no network, no sockets and some empty folders. So `ps` lists four processes
and succeeds, and its output does not show that it describes the sandbox only. The remarks are derived from
the command line. For an unknown program, which may look anywhere, there is a general remark. This is no
protection: a command line that disguises its program still gets its output, with the general remark.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.device.private_places import is_below

PROCESSES, SOCKETS, NETWORK = "processes", "sockets", "network"
SERVICES, PACKAGES, OWNERS = "services", "packages", "owners"
DEVICES, MOUNTS, ENVIRONMENT, FOLDERS, ANYTHING = "devices", "mounts", "environment", "folders", "anything"


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that a command line asked for and could not see: its kind, the reason, another tool."""

    what: str
    why: str
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """The disk as seen from a command line that starts in `folder`: without `hidden`, except `shown`."""

    folder: str
    home: str
    hidden: tuple[str, ...]
    shown: tuple[str, ...] = ()

    def missing(self, paths: Sequence[str], recursive: bool) -> list[str]:
        """The hidden folders that contain a path or the start folder.

        `recursive` adds the hidden folders below a folder in `paths`, or below the start folder if there is
        none.
        """
        found = [place for place in self.hidden if any(self._is_hidden(path, place) for path in paths)]
        found += [place for place in self.hidden if self._is_hidden(self.folder, place)]
        if recursive:
            folders = [path for path in paths if os.path.isdir(path)] or [self.folder]
            found += [
                place
                for place in self.hidden
                if os.path.lexists(place) and any(is_below(place, folder) for folder in folders)
            ]
        return list(dict.fromkeys(found))

    def _is_hidden(self, path: str, place: str) -> bool:
        return is_below(path, place) and not any(
            is_below(path, shown) for shown in self.shown if is_below(shown, place)
        )


_WHY = {
    PROCESSES: ("It sees only the processes of this one command.", "list_processes"),
    SOCKETS: ("It sees no socket of the machine.", "shell_execute"),
    NETWORK: (
        "It has no network; the machine's interfaces are not shown.",
        "get_system_info info_type=network",
    ),
    SERVICES: ("It reaches no daemon, and their files below /run are not shown.", "shell_execute"),
    PACKAGES: (
        "It reads what is installed, and neither the repositories' lists nor what a daemon knows.",
        "shell_execute",
    ),
    OWNERS: (
        "It has a user namespace of its own: other users and groups look like `nobody`.",
        "list_directory",
    ),
    DEVICES: ("Its /dev has only a few of the machine's devices.", "get_system_info info_type=hardware"),
    MOUNTS: ("The sandbox's own mounts are among those that are shown.", "get_system_info info_type=disk"),
    ENVIRONMENT: ("Its environment is not that of the device client or of a login.", "shell_execute"),
    ANYTHING: (
        "It sees its own processes only, no network, no sockets, no daemons, and none of the hidden folders.",
        "shell_execute",
    ),
}
_ASK: dict[str, str] = {
    PROCESSES: """
        ps top htop atop btop pgrep pidof pstree pmap pwdx pidstat iotop lsof fuser ipcs lslocks
        lsns kill pkill killall
    """,
    SOCKETS: "ss netstat nstat",
    NETWORK: """
        ip ifconfig route arp ping ping6 traceroute tracepath mtr dig nslookup host curl wget nc
        ncat nmap ssh scp telnet ethtool iwconfig iw whois tcpdump rsync ftp sftp resolvectl
        iptables nft
    """,
    SERVICES: """
        systemctl journalctl uptime service loginctl timedatectl hostnamectl localectl busctl dbus-send
        gdbus docker podman kubectl nmcli bluetoothctl virsh who w users last lastlog crontab atq
        lpstat lpq pactl wpctl tmux screen xrandr xprop wmctrl xdotool psql mysql redis-cli initctl
        rc-status supervisorctl pm2 gsettings dconf
    """,
    PACKAGES: "apt apt-get apt-cache dnf yum zypper snap flatpak brew",
    OWNERS: "newgrp namei getfacl",
    DEVICES: "fdisk blkid parted smartctl lsusb nvidia-smi hdparm mdadm lvs pvs vgs",
    MOUNTS: "mount findmnt df mountpoint",
    ENVIRONMENT: "env printenv ulimit",
}
_PROGRAMS = {program: what for what, programs in _ASK.items() for program in programs.split()}
# These programs show only files that are named to them, the kernel's data on the whole machine, or their own
# arguments.
_SEES_ALL = frozenset(
    """
    cat ls dir head tail wc grep egrep fgrep zgrep rg find fd stat file du tree sort uniq cut tr sed awk
    gawk mawk echo printf test [ [[ true false : cd pwd date cal uname hostname nproc arch getconf
    locale basename dirname realpath readlink sha256sum sha1sum sha512sum md5sum b2sum cksum sum cmp
    diff comm join paste column nl od xxd hexdump strings tac rev fold fmt expand unexpand seq expr bc
    dc jq yq xmllint base64 base32 zcat gzip gunzip xzcat bzcat less more dpkg dpkg-query rpm getent
    free lscpu lsmem lspci lsmod lsblk vmstat sleep yes which type whereis export local read set
    shift return exit break continue tput tee xargs numfmt shuf split csplit tsort iconv look nm objdump
    readelf size sysctl hash id groups whoami alias declare typeset readonly unset let mapfile readarray
    getopts trap
    """.split()
)
_WRAPPERS = frozenset(
    ("sudo", "nohup", "nice", "ionice", "time", "exec", "command", "builtin", "stdbuf", "timeout", "setsid")
)
_KEYWORDS = frozenset(
    ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "fi", "done", "esac", "in", "for")
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SEPARATOR = re.compile(r"[;&|()\n]+")
_INSIDE = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_PROC = re.compile(r"/proc/(?:\d+|\*|\[)")
_PROC_NET = re.compile(r"/proc/(?:self/|thread-self/)?net\b|/sys/class/net\b")
_OWNER_OPTION = re.compile(r"-[A-Za-z]*[lo][A-Za-z]*")
_ABOUT_OWNERS = frozenset(("-user", "-group", "-uid", "-gid", "-nouser", "-nogroup"))
# The names of all other users and groups in a user namespace that maps one of each (user_namespaces(7)).
_NOBODY = re.compile(rb"\b(?:nobody|nogroup|65534)\b")
_MAY_RECURSE = frozenset(("ls", "grep", "egrep", "fgrep", "dir"))
_RECURSES = frozenset(("find", "fd", "du", "tree", "rg"))
_RECURSIVE_OPTION = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--recursive")
_MOST_DEPTH = 4
_MOST_FOLDERS = 10


def unseen(line: str, sight: Sight, output: bytes = b"") -> list[Unseen]:
    """The things that this command line asked for and could not see, each once. `output` is its output.

    May block on the disk, because it checks which folders exist.
    """
    found: dict[str, Unseen] = {}

    def note(what: str, program: str) -> None:
        why, instead = _WHY[what]
        found.setdefault(what, Unseen(what, f"{program}: {why}", instead))

    recursive = False
    for program, words in _commands(line):
        if _lists_installed(program, words):
            continue
        if (what := _PROGRAMS.get(program)) is not None:
            note(what, program)
        elif program not in _SEES_ALL:
            note(ANYTHING, program)
        if _NOBODY.search(output) and _shows_owners(program, words):
            note(OWNERS, program)
        if program == "find" and not _ABOUT_OWNERS.isdisjoint(words):
            note(OWNERS, program)
        recursive |= program in _RECURSES or (
            program in _MAY_RECURSE and any(map(_RECURSIVE_OPTION.fullmatch, words))
        )
    if _PROC.search(line):
        note(PROCESSES, "/proc")
    if _PROC_NET.search(line):
        note(NETWORK, "/proc/net" if "/proc" in line else "/sys/class/net")
    places = sight.missing(_paths(line, sight), recursive)
    if places:
        shown = ", ".join(places[:_MOST_FOLDERS]) + (" and others" if len(places) > _MOST_FOLDERS else "")
        found[FOLDERS] = Unseen(FOLDERS, f"Not shown, and empty where listed: {shown}.", "list_directory")
    return list(found.values())


def _lists_installed(program: str, words: Sequence[str]) -> bool:
    """Whether the command asks only for installed packages, which are in dpkg's database (apt(8))."""
    return (
        program == "apt" and words[:1] == ["list"] and "--installed" in words and "--upgradable" not in words
    )


def _shows_owners(program: str, words: Sequence[str]) -> bool:
    return program in {"stat", "id", "groups", "tree", "find"} or (
        program in {"ls", "dir"} and any(map(_OWNER_OPTION.fullmatch, words))
    )


def _commands(line: str, depth: int = 0) -> Iterator[tuple[str, list[str]]]:
    """Each command of a line: the name of its program and its arguments."""
    command: list[str] = []
    for token in _tokens(line):
        if _SEPARATOR.fullmatch(token):
            yield from _command(command)
            command = []
            continue
        command.append(token)
        if depth < _MOST_DEPTH:
            for inside in _INSIDE.finditer(token):
                yield from _commands(inside[1] or inside[2] or "", depth + 1)
    yield from _command(command)


def _command(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    for index, word in enumerate(words):
        if word in {"for", "case", "select", "function"}:
            # A name follows, not a program.
            return
        if word in _KEYWORDS or _ASSIGNMENT.match(word) or word.startswith(("<", ">")):
            continue
        name = os.path.basename(word)
        if name in _WRAPPERS or (name == "xargs" and index + 1 < len(words)):
            rest = words[index + 1 :]
            while rest and (rest[0].startswith("-") or rest[0][:1].isdigit()):
                rest = rest[1:]
            yield from _command(rest)
            return
        yield name, words[index + 1 :]
        for option in ("-exec", "-execdir", "-ok", "-okdir"):
            if name == "find" and option in words:
                yield from _command(words[words.index(option) + 1 :])
        return


def _tokens(line: str) -> list[str]:
    reader = shlex.shlex(line.replace("\n", ";"), posix=True, punctuation_chars=";&|()")
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:
        # A quote is not closed. The shell parses such a line differently, or rejects it.
        return line.split()


def _paths(line: str, sight: Sight) -> list[str]:
    """Every word of a line that may be a path, as an absolute path."""
    paths: dict[str, None] = {}
    for token in _tokens(line):
        for word in re.split(r"[\s=:,'\"<>]+", token):
            path = _expanded(word, sight.home)
            if path:
                paths[os.path.normpath(os.path.join(sight.folder, path))] = None
    return list(paths)


def _expanded(word: str, home: str) -> str | None:
    """A word as a path, with the home folder expanded; None for an option."""
    if word.startswith("-"):
        return None
    for start in ("~", "$HOME", "${HOME}"):
        if word == start or word.startswith(f"{start}/"):
            return home + word[len(start) :]
    return word
