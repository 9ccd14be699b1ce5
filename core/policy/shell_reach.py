"""What else a shell command reaches: keys, addresses, startup files, databases, other computers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.fleet.models import Risk
from core.policy.addresses import URL_INSIDE, judge_url
from core.policy.lookalikes import looks_plain, plain_look
from core.policy.queries import judge_query
from core.policy.shell import Call, Word
from core.policy.shell_words import DATABASES, LIBRARIES, LOADED_FIRST, PRIVATE, STARTUP

Said = tuple[str, Risk, Word | None]

_HOME = re.compile(r"^[\"']?\$(?:HOME|\{HOME\}|USERPROFILE)[\"']?")
_VARIABLE_FIRST = re.compile(r"^[\"']?\$(?:\w+|\{\w+\})[\"']?/(?:\*|\.\*)?[\"']?$")
_SENDS = re.compile(r"^(?:-d|-F|-T|--data(?:-\w+)?|--form|--upload-file|--post-file|--body-file)")
_MOST_ADDRESSES = 5


def written_path(word: Word) -> str:
    """A word as a path, with the home folder written `~`; only as much as is known."""
    return _HOME.sub("~", word.source, count=1).strip("\"'") if _HOME.match(word.source) else word.text


def reaches(call: Call) -> Iterator[Said]:
    """What a command reaches by its words, whatever else it does."""
    first = call.words[0]
    if not first.text.isascii() and looks_plain(first.text):
        yield f"Its name looks like “{plain_look(first.text)}” and is not", Risk.HIGH, first
    for word in call.args:
        if PRIVATE.search(written_path(word)):
            yield "Names where keys or passwords are", Risk.HIGH, word
        name = word.text.partition("=")[0]
        if call.name in ("env", "export", "declare", "setenv", "sudo") and name in LOADED_FIRST - {"ENV"}:
            yield f"Sets {name}, which decides what programs run", Risk.MEDIUM, word
    yield from _addresses(call)
    for names, judge in _JUDGES:
        if call.name in names:
            yield from judge(call)


def starts_by_itself(word: Word) -> Iterator[Said]:
    """What it means to write to a file that shells or desktops run, or that lets people in."""
    path = written_path(word)
    if path.endswith("authorized_keys"):
        yield "Decides who may log in without a password", Risk.CRITICAL, word
    elif STARTUP.search(path):
        yield "Writes to a file that runs by itself", Risk.HIGH, word


def deletes_below(word: Word) -> Iterator[Said]:
    """What a recursive deletion means whose path is only known when it runs."""
    if _VARIABLE_FIRST.match(word.source):
        yield "Deletes everything from / on when that variable is empty", Risk.CRITICAL, word
    else:
        yield "Deletes recursively below a variable path", Risk.HIGH, word


def _addresses(call: Call) -> Iterator[Said]:
    left = _MOST_ADDRESSES
    for word in call.args:
        for found in URL_INSIDE.finditer(word.text[:4_096]):
            if left == 0:
                return
            left -= 1
            for text, risk in judge_url(found.group()):
                yield text, risk, word


def _kill(call: Call) -> Iterator[Said]:
    for number, word in enumerate(call.args):
        if word.text == "1":
            yield "Ends process 1, which everything else hangs from", Risk.CRITICAL, word
        elif word.text in ("-1", "0") and number > 0:
            yield "Ends every process it may", Risk.CRITICAL, word


def _kill_by_name(call: Call) -> Iterator[Said]:
    for word in call.args:
        if word.text in (".", ".*", "*", "", "-u", "-U", "--user"):
            yield "Ends many processes at once", Risk.CRITICAL, word


def _git(call: Call) -> Iterator[Said]:
    words = [word.text for word in call.args]
    if "push" in words:
        for word in call.args:
            if word.text.startswith("+"):
                yield "Throws away files or history in a repository", Risk.HIGH, word


def _containers(call: Call) -> Iterator[Said]:
    for before, word in zip(call.words, call.args, strict=False):
        mounts = before.text in ("-v", "--volume", "--mount")
        text = word.text.partition("=")[2] if word.text.startswith(("--volume=", "--mount=")) else word.text
        if (mounts or text != word.text) and re.match(
            r"/(?:etc|root|home|var/run)?(?::|/?$)|.*docker\.sock", text
        ):
            yield "Gives a container the files of this computer", Risk.CRITICAL, word
        elif re.match(r"--(?:pid|net|network|ipc|userns|uts)=host$", word.text):
            yield "Gives a container a part of this computer", Risk.HIGH, word


def _network(call: Call) -> Iterator[Said]:
    for before, word in zip(call.words, call.args, strict=False):
        if word.text.startswith(("-k", "--insecure", "--no-check-certificate")) and call.name in (
            "curl",
            "wget",
        ):
            yield "Does not check who answers", Risk.MEDIUM, word
        named = _SENDS.match(before.text) is not None and (before.text[:2] == "-T" or "@" in word.text[:200])
        if named or (_SENDS.match(word.text) and "@" in word.text[:200]):
            yield "Sends a file to another computer", Risk.HIGH, word


def _sockets(call: Call) -> Iterator[Said]:
    gives = r"(?:EXEC|SYSTEM):" if call.name == "socat" else r"-\w*[ec]\w*$|--(?:sh-)?exec"
    for word in call.args:
        if re.match(gives, word.text, re.IGNORECASE):
            yield "Gives a program to whoever is at the other end", Risk.CRITICAL, word
        elif re.match(r"-\w*l|--listen|(?:TCP\d?|UDP\d?)-LISTEN", word.text, re.IGNORECASE):
            yield "Waits for connections from others", Risk.HIGH, word


def _tunnels(call: Call) -> Iterator[Said]:
    for word in call.args:
        if re.match(r"-[fNnTCq]*[RLDW]", word.text):
            yield "Opens a way into or out of the network", Risk.HIGH, word


def _databases(call: Call) -> Iterator[Said]:
    for word in call.args:
        if " " in word.text:
            for text, risk, _, _ in judge_query(word.text):
                yield text, risk, word


def _modules(call: Call) -> Iterator[Said]:
    words = [word.text for word in call.args]
    if "-m" in words and any(name in words for name in ("http.server", "SimpleHTTPServer", "pip")):
        serves = "pip" not in words
        said = "Serves files to the network" if serves else "May install or remove programs"
        yield said, Risk.HIGH if serves else Risk.MEDIUM, call.words[0]


def _libraries(call: Call) -> Iterator[Said]:
    verbs = "install uninstall add remove i ci update upgrade publish exec tool run dlx".split()
    if any(word.text in verbs for word in call.args):
        yield "May install or remove programs", Risk.MEDIUM, call.words[0]


def _windows(call: Call) -> Iterator[Said]:
    text = " ".join(word.text for word in call.args).casefold()
    grave = {
        "reg": r"\b(?:delete|add|import|restore)\b",
        "vssadmin": r"\bdelete\b|\bresize\b",
        "wbadmin": r"\bdelete\b",
        "bcdedit": r"/\w+",
        "cipher": r"/w",
        "wmic": r"\b(?:delete|call|create)\b",
        "csrutil": r"\bdisable\b",
        "spctl": r"disable",
        "defaults": r"\b(?:write|delete)\b",
        "launchctl": r"\b(?:unload|load|bootout|bootstrap|remove|disable)\b",
        "sysctl": r"-w|=",
    }
    if re.search(grave[call.name], text):
        yield "Changes settings of the system", Risk.HIGH, call.words[0]


def _encoded(call: Call) -> Iterator[Said]:
    for word in call.args:
        if re.match(r"-e(?:n?c?o?d?e?d?c?o?m?m?a?n?d?)$", word.text, re.IGNORECASE) and len(word.text) > 1:
            yield "Runs a program that is written in code", Risk.HIGH, word


def _editors(call: Call) -> Iterator[Said]:
    if any(re.match(r"[+:]?:?!|-c$|--cmd$|-es$", word.text) for word in call.args):
        yield "May run commands from inside another program", Risk.HIGH, call.words[0]


def _history(call: Call) -> Iterator[Said]:
    texts = [word.text for word in call.args]
    if (call.name == "history" and "-c" in texts) or "HISTFILE" in texts:
        yield "Hides what was done", Risk.MEDIUM, call.words[0]


def _logs_in(call: Call) -> Iterator[Said]:
    yield "Decides who may log in without a password", Risk.HIGH, call.words[0]


def _kernel(call: Call) -> Iterator[Said]:
    yield "Changes what the kernel does or whom it trusts", Risk.HIGH, call.words[0]


def _hands(call: Call) -> Iterator[Said]:
    yield "Moves the pointer or presses keys, in any window, this console's too", Risk.HIGH, call.words[0]


def _console(call: Call) -> Iterator[Said]:
    for word in call.args:
        if word.text in _DECIDES:
            yield "Decides for the operators of a console", Risk.HIGH, word


# What the command line of a console has to change what may run; the rest of it only looks.
_DECIDES = frozenset("approve deny revoke add stop pair set forget listen".split())
_JUDGES = (
    (frozenset("xdotool ydotool dotool xte xvkbd wtype xmacroplay cliclick".split()), _hands),
    (frozenset({"quarterdeck"}), _console),
    (frozenset({"kill"}), _kill),
    (frozenset({"pkill", "killall", "skill", "taskkill"}), _kill_by_name),
    (frozenset({"git"}), _git),
    (frozenset({"docker", "podman", "nerdctl"}), _containers),
    (frozenset({"curl", "wget", "http", "https"}), _network),
    (frozenset({"nc", "ncat", "netcat", "socat"}), _sockets),
    (frozenset({"ssh"}), _tunnels),
    (DATABASES, _databases),
    (frozenset({"python", "python2", "python3"}), _modules),
    (LIBRARIES, _libraries),
    (
        frozenset("reg vssadmin wbadmin bcdedit cipher wmic csrutil spctl defaults launchctl sysctl".split()),
        _windows,
    ),
    (frozenset({"powershell", "pwsh"}), _encoded),
    (frozenset({"vi", "vim", "nvim", "ex", "ed", "emacs", "less", "view"}), _editors),
    (frozenset({"history", "unset"}), _history),
    (frozenset({"ssh-copy-id"}), _logs_in),
    (
        frozenset({"setcap", "insmod", "modprobe", "rmmod", "kexec", "setenforce", "update-ca-certificates"}),
        _kernel,
    ),
)
