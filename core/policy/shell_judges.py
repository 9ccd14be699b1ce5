"""What each command of a shell line would do: (words, risk, the word of the line that says so)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from core.fleet.models import Risk
from core.policy.shell import Call, Redirect, Word
from core.policy.shell_reach import deletes_below, reaches, starts_by_itself, written_path
from core.policy.shell_words import (
    ACCOUNTS,
    CONTAINERS,
    DELETES,
    DISKS,
    DOWNLOADS,
    EVERYTHING,
    FIREWALL,
    HARMLESS_DEVICES,
    INTERPRETERS,
    KILLS,
    OFF,
    PACKAGES,
    PRIVATE,
    ROOT,
    SHELLS,
    WRAPPERS,
    WRITES_ALL,
    WRITES_LAST,
    system_folder,
)
from core.text import escape_hidden, shorten_middle

Said = tuple[str, Risk, Word | None]


def judged(call: Call) -> Iterator[Said]:
    """What one call does by itself; not what it makes others do."""
    first, name = call.words[0], call.name
    if not first.known:
        yield "Runs a command whose name is only known when it runs", Risk.HIGH, first
        return
    if name in ROOT:
        yield "Runs as root", Risk.HIGH, first
    for names, judge in _JUDGES:
        if name in names:
            yield from judge(call)
    if name.startswith("mkfs") or name in DISKS:
        yield "Changes disks or file systems", Risk.CRITICAL, first
    if "/" in first.text and not re.match(r"/(?:usr/(?:local/)?)?s?bin/", first.text):
        yield "Runs a program by its path; what it does is not in the line", Risk.MEDIUM, first
    yield from _written(call)
    yield from reaches(call)


def _deletes(call: Call) -> Iterator[Said]:
    first = call.words[0]
    targets = _operands(call)
    recursive = _has(call, "rR", ("--recursive", "-recurse", "-r", "/s")) and call.name != "rmdir"
    if any(not arg.known and arg.text[:1] in ("", "-") and arg.source[:1] == "$" for arg in call.args):
        # An unquoted variable can carry options as well as paths.
        yield "A variable stands where options of a deleting command may be", Risk.HIGH, first
    if recursive:
        yield "Deletes folders with everything in them", Risk.HIGH, first
    else:
        yield "Deletes files", Risk.MEDIUM, first
    for word in targets:
        if not word.known:
            yield "What is deleted is only known when it runs", Risk.HIGH, word
            if recursive:
                yield from deletes_below(word)
            if re.fullmatch(r'"?\$\{?HOME\}?"?/?\*?', word.source):
                yield "Deletes the whole home folder", Risk.CRITICAL, word
        elif _is_everything(word):
            risk = Risk.CRITICAL if recursive or "*" in word.text else Risk.HIGH
            yield f"Deletes everything in {_shown(word)}", risk, word
        elif recursive and system_folder(word.text):
            yield f"Deletes recursively in {system_folder(word.text)}", Risk.CRITICAL, word


def _is_everything(word: Word) -> bool:
    return bool(EVERYTHING.match(posixpath.normpath(word.text)))


def _moves(call: Call) -> Iterator[Said]:
    for word in _operands(call)[:-1]:
        if _is_everything(word):
            yield f"Moves everything in {_shown(word)}", Risk.CRITICAL, word
        elif system_folder(word.text):
            yield f"Takes away from {system_folder(word.text)}", Risk.HIGH, word


def _finds(call: Call) -> Iterator[Said]:
    for word in call.args:
        if word.text in ("-delete", "-fprint", "-fls", "-fprintf"):
            yield "Deletes or writes each file that it finds", Risk.HIGH, word
        elif word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            yield "Runs a command on each file that it finds", Risk.MEDIUM, word
            rest = call.args[call.args.index(word) + 1 :]
            if rest:
                yield from judged(Call(rest, call.start, call.end))


def _gives_to_commands(call: Call) -> Iterator[Said]:
    inner = wrapped(call)
    if inner.words and inner.name in DELETES:
        yield "What is deleted comes from another command", Risk.HIGH, inner.words[0]


def _modes(call: Call) -> Iterator[Said]:
    if _has(call, "R", ("--recursive",)):
        yield "Changes owner or permissions of everything below a folder", Risk.HIGH, call.words[0]
    if call.name == "chmod" and call.args:
        for word in call.args:
            if re.fullmatch(r"[0-7]*[2367][0-7]{0,2}[2367]|[aoug]*[ao][aoug]*\+\w*w\w*|\+\w*w\w*", word.text):
                yield "Lets everybody write", Risk.HIGH, word
            if re.fullmatch(r"[4267][0-7]{3}|[ugoa]*\+\w*s\w*", word.text):
                yield "Lets a program run with its owner's rights", Risk.HIGH, word


def _dd(call: Call) -> Iterator[Said]:
    for word in call.args:
        if word.text.startswith("of="):
            target = word.text[3:]
            device = target.startswith("/dev/") and not HARMLESS_DEVICES.match(target)
            said = "Writes straight to a device" if device else "Overwrites a file"
            yield said, Risk.CRITICAL if device else Risk.MEDIUM, word


def _systemctl(call: Call) -> Iterator[Said]:
    verbs = "stop restart disable mask kill isolate reload try-restart start enable"
    for word in call.args:
        if word.text in (
            "poweroff",
            "reboot",
            "halt",
            "suspend",
            "hibernate",
            "kexec",
            "rescue",
            "emergency",
        ):
            yield "Shuts the machine down or restarts it", Risk.CRITICAL, word
        elif word.text in verbs.split():
            yield "Starts, stops or restarts services", Risk.HIGH, word


def _git(call: Call) -> Iterator[Said]:
    text = " ".join(word.text for word in call.args)
    if re.search(
        r"\bclean\b|\breset\b.*--hard|\bpush\b.*(--force|-f\b|--delete|--mirror)|\bbranch\b.*-D", text
    ):
        yield "Throws away files or history in a repository", Risk.HIGH, call.words[0]


def _shells(call: Call) -> Iterator[Said]:
    first = call.words[0]
    for word in call.args:
        if word.source.startswith("<("):
            yield from _sourced(call)
        elif not word.known and call.name in SHELLS:
            yield "What it runs is only known when it runs", Risk.HIGH, word
    if call.name in ("awk", "gawk"):
        if any("system(" in word.source or "|" in word.source for word in call.args):
            yield "May run commands from inside another program", Risk.HIGH, first
    elif reads_its_program(call):
        yield "Runs text that it reads as a program", Risk.HIGH, first
    elif call.name in INTERPRETERS and _has(call, "ceEr", ("--eval", "--print")):
        yield "Runs a program written in the line", Risk.HIGH, first
    elif runs_a_file(call):
        yield "Runs a script; what it does is not in the line", Risk.MEDIUM, first


def _sourced(call: Call) -> Iterator[Said]:
    for word in call.args:
        if word.source.startswith("<(") and re.search(rf"\b(?:{'|'.join(sorted(DOWNLOADS))})\b", word.source):
            yield "Runs a download as a shell script", Risk.CRITICAL, word
    if call.name in ("source", "."):
        yield "Runs another file's lines", Risk.MEDIUM, call.words[0]


def _containers(call: Call) -> Iterator[Said]:
    grave = {
        "delete",
        "destroy",
        "rm",
        "rmi",
        "prune",
        "down",
        "uninstall",
        "drain",
        "undefine",
        "--privileged",
    }
    if any(word.text in grave for word in call.args):
        yield "Removes containers or resources, or gives them all rights", Risk.HIGH, call.words[0]
    else:
        yield "Drives containers, virtual machines or clusters", Risk.MEDIUM, call.words[0]


def _sed(call: Call) -> Iterator[Said]:
    if _has(call, "i", ("--in-place",)):
        yield "Changes files in place", Risk.MEDIUM, call.words[0]


def _rsync(call: Call) -> Iterator[Said]:
    if any(word.text.startswith("--delete") or word.text == "--remove-source-files" for word in call.args):
        yield "Deletes what is not at the source", Risk.HIGH, call.words[0]


def _plain(text: str, risk: Risk) -> Callable[[Call], Iterator[Said]]:
    def judge(call: Call) -> Iterator[Said]:
        yield text, risk, call.words[0]

    return judge


def _cd(call: Call) -> Iterator[Said]:
    for word in call.args:
        if system_folder(word.text):
            yield f"Goes on inside {system_folder(word.text)}", Risk.HIGH, word


def _service(call: Call) -> Iterator[Said]:
    if any(word.text in ("stop", "restart", "start", "reload") for word in call.args):
        yield "Starts, stops or restarts services", Risk.HIGH, call.words[0]


_JUDGES: tuple[tuple[frozenset[str], Callable[[Call], Iterator[Said]]], ...] = (
    (DELETES, _deletes),
    (frozenset({"find", "fd"}), _finds),
    (frozenset({"xargs", "parallel"}), _gives_to_commands),
    (frozenset({"chmod", "chown", "chgrp", "setfacl", "icacls", "takeown"}), _modes),
    (frozenset({"dd"}), _dd),
    (frozenset({"systemctl", "launchctl"}), _systemctl),
    (frozenset({"service", "rc-service", "sc", "net", "stop-service", "restart-service"}), _service),
    (frozenset({"git"}), _git),
    (SHELLS | INTERPRETERS, _shells),
    (frozenset({"rsync", "robocopy"}), _rsync),
    (frozenset({"cd", "pushd"}), _cd),
    (DOWNLOADS, _plain("Talks to the network", Risk.MEDIUM)),
    (frozenset({"ssh", "scp", "sftp", "telnet"}), _plain("Connects to another computer", Risk.MEDIUM)),
    (OFF, _plain("Shuts the machine down or restarts it", Risk.CRITICAL)),
    (frozenset({"init", "telinit"}), _plain("Changes the run level of the machine", Risk.CRITICAL)),
    (KILLS, _plain("Ends running programs", Risk.HIGH)),
    (ACCOUNTS, _plain("Changes users or passwords", Risk.HIGH)),
    (FIREWALL, _plain("Changes the firewall or network settings", Risk.HIGH)),
    (PACKAGES, _plain("May install or remove programs", Risk.MEDIUM)),
    (frozenset({"mount", "umount", "swapoff", "swapon"}), _plain("Mounts or unmounts disks", Risk.HIGH)),
    (frozenset({"crontab", "at", "batch", "schtasks"}), _plain("Changes what runs by itself", Risk.HIGH)),
    (frozenset({"truncate"}), _plain("Cuts a file's content", Risk.MEDIUM)),
    (frozenset({"eval", "iex", "invoke-expression", "trap"}), _plain("Runs text as a shell line", Risk.HIGH)),
    (frozenset({"alias"}), _plain("Gives a command another meaning", Risk.MEDIUM)),
    (frozenset({"source", "."}), _sourced),
    (frozenset({"mv", "move"}), _moves),
    (frozenset({"sed"}), _sed),
    (CONTAINERS, _containers),
)


def _written(call: Call) -> Iterator[Said]:
    """Paths in system folders that a writing command names."""
    for word in _targets(call):
        path = word.text.split("=", 1)[-1] if word.text.startswith(("-", "of=")) else word.text
        folder = system_folder(path) or system_folder(word.source.strip("\"'"))
        if folder == "/dev":
            yield "Writes straight to a device", Risk.CRITICAL, word
        elif folder:
            yield f"Writes under {folder}", Risk.HIGH, word
        yield from starts_by_itself(word)


def _targets(call: Call) -> list[Word]:
    """The words of a call that may name what it writes."""
    name, args = call.name, call.args
    words = [word for word in args if not word.text.startswith("-") or "=" in word.text]
    if name in WRITES_ALL or (name in ("sed", "perl") and _has(call, "i", ("--in-place",))):
        return words
    if name in WRITES_LAST:
        return words if _has(call, "t", ("--target-directory",)) else words[-1:]
    if name in ("tar", "bsdtar", "unzip", "cpio", "7z", "patch", "git", *DOWNLOADS):
        # Only what follows an option that names where to put things: these read from system folders as well.
        asked = re.compile(r"-\w*[CdoOP]|--(?:directory|output|output-document|directory-prefix|output-dir)")
        after = [word for before, word in pairwise(args) if asked.fullmatch(before.text)]
        return [*after, *(word for word in args if re.match(r"--[\w-]+=/", word.text))]
    return []


def redirected(redirect: Redirect) -> Iterator[Said]:
    """What writing into a file means."""
    word = redirect.target
    if word.known and HARMLESS_DEVICES.match(word.text):
        return
    folder = system_folder(word.text)
    yield from starts_by_itself(word)
    if PRIVATE.search(written_path(word)):
        yield "Names where keys or passwords are", Risk.HIGH, word
    if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "Sends its output to another computer", Risk.CRITICAL, word
        return
    if folder == "/dev":
        yield "Writes straight to a device", Risk.CRITICAL, word
        return
    if folder:
        yield f"Writes under {folder}", Risk.HIGH, word
    if not word.known:
        yield "Writes to a file whose path is only known when it runs", Risk.MEDIUM, word
    elif redirect.appends:
        yield f"Appends to {_shown(word)}", Risk.LOW, word
    else:
        yield f"Overwrites {_shown(word)} if it exists", Risk.MEDIUM, word


def wrapped(call: Call) -> Call:
    """The call inside `sudo`, `env`, `xargs` and the like, without knowing each one's options.

    The first word that names something judged here counts; else the first that is no option or assignment.
    """
    known = WRAPPERS | SHELLS | DISKS | {name for names, _ in _JUDGES for name in names}
    rest = [Call(call.args[i:], call.start, call.end, (), call.here) for i in range(min(len(call.args), 20))]
    for inner in rest:
        if inner.name in known or inner.name.startswith("mkfs"):
            return inner
    for inner in rest:
        text = inner.words[0].text
        if not (text.startswith("-") or "=" in text or re.fullmatch(r"[\d.]+[smhd]?", text)):
            return inner
    return Call((), call.start, call.end)


def bare(call: Call) -> Call:
    """The call inside all wrappers around it."""
    while call.words and call.name in WRAPPERS:
        call = wrapped(call)
    return call


def reads_its_program(call: Call) -> bool:
    """Whether a shell or interpreter is given no script of its own, so that it runs what it reads."""
    words = [word.text for word in call.args]
    if call.name not in SHELLS | INTERPRETERS or call.name in ("awk", "gawk"):
        return False
    if any(
        re.fullmatch(r"-\w*[ceE]|-[mVhr]|--(?:version|help|eval|print|command)|/[ck]", word) for word in words
    ):
        return False
    return "-s" in words or all(word.startswith("-") or word == "/dev/stdin" for word in words)


def runs_a_file(call: Call) -> bool:
    """Whether a call runs a file that is not a program of the system."""
    first = call.words[0]
    if call.name in SHELLS | INTERPRETERS:
        operands = _operands(call)
        given = any(re.fullmatch(r"-\w*[ceE]|-m|/[ck]", word.text) for word in call.args)
        return bool(operands) and not given and call.name not in ("awk", "gawk")
    return call.name in (".", "source") or bool(
        re.match(r"(?:\.{1,2}|~|/tmp|/var/tmp|/dev/shm)/", first.text)
    )


def _has(call: Call, short: str, long: tuple[str, ...] = ()) -> bool:
    for word in call.args:
        if word.text == "--":
            return False
        text = word.text.casefold() if word.text.startswith("/") else word.text
        if any(text.casefold() == one or (one.startswith("--") and text.startswith(one)) for one in long):
            return True
        if re.match(r"-\w", word.text) and any(sign in word.text for sign in short):
            return True
    return False


def _operands(call: Call) -> list[Word]:
    return [word for word in call.args if not word.text.startswith("-")]


def _shown(word: Word) -> str:
    return escape_hidden(shorten_middle(word.text, 60), keep_lines=False)
