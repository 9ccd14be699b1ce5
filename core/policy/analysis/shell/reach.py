"""Rules for what a shell command reaches: keys, addresses, startup files, other programs and computers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.confusables import looks_plain, plain_look
from core.fleet.models import Risk
from core.policy.analysis.shell.options import read_options
from core.policy.analysis.shell.parser import Call, CommandFinding, Word
from core.policy.analysis.shell.tables import STARTUP, names_secrets
from core.policy.analysis.urls import URL_INSIDE, findings_in_url
from core.programs.record import takes

_HOME = re.compile(r"^[\"']?\$(?:HOME|\{HOME\}|USERPROFILE)[\"']?")
_VARIABLE_FIRST = re.compile(r"^[\"']?\$(?:\w+|\{\w+\})[\"']?/(?:\*|\.\*)?[\"']?$")
_MOST_ADDRESSES = 5


def path_in(word: Word) -> str:
    """A word as a path, with the home folder as `~`; only the part that is known before the line runs."""
    return _HOME.sub("~", word.source, count=1).strip("\"'") if _HOME.match(word.source) else word.text


def reach_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in what a command reaches, by its words."""
    first = call.words[0]
    if not first.text.isascii() and looks_plain(first.text):
        text = f"Hides what it is: its name looks like “{plain_look(first.text)}” and is not"
        yield CommandFinding(text, Risk.HIGH, first)
    for word in call.args:
        if names_secrets(path_in(word)):
            yield CommandFinding("Names where keys or passwords are", Risk.HIGH, word)
    yield from _address_findings(call)
    for names, rule in _RULES:
        if call.name in names:
            yield from rule(call)


def startup_file_findings(word: Word) -> Iterator[CommandFinding]:
    """The findings in writing to a file that shells or desktops run, or that permits logins."""
    path = path_in(word)
    if path.endswith("authorized_keys"):
        yield CommandFinding("Decides who may log in without a password", Risk.CRITICAL, word)
    elif STARTUP.search(path):
        yield CommandFinding("Writes to a file that runs by itself", Risk.HIGH, word)


def variable_deletion_findings(word: Word) -> Iterator[CommandFinding]:
    """The finding in a recursive deletion of a path that is only known when the line runs."""
    if _VARIABLE_FIRST.match(word.source):
        text = "Deletes everything from / on when that variable is empty"
        yield CommandFinding(text, Risk.CRITICAL, word)
    else:
        yield CommandFinding("Deletes recursively below a variable path", Risk.HIGH, word)


def _address_findings(call: Call) -> Iterator[CommandFinding]:
    remaining = _MOST_ADDRESSES
    for word in call.args:
        for match in URL_INSIDE.finditer(word.text[:4_096]):
            if remaining == 0:
                return
            remaining -= 1
            for text, risk in findings_in_url(match.group()):
                yield CommandFinding(text, risk, word)


def _kill_findings(call: Call) -> Iterator[CommandFinding]:
    for number, word in enumerate(call.args):
        if word.text == "1":
            yield CommandFinding("Ends process 1, which everything else hangs from", Risk.CRITICAL, word)
        elif word.text in ("-1", "0") and number > 0:
            yield CommandFinding("Ends every process it may", Risk.CRITICAL, word)


def _kill_by_name_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if word.text in (".", ".*", "*", "", "-u", "-U", "--user"):
            yield CommandFinding("Ends many processes at once", Risk.CRITICAL, word)


def _container_findings(call: Call) -> Iterator[CommandFinding]:
    for before, word in zip(call.words, call.args, strict=False):
        mounts = before.text in ("-v", "--volume", "--mount")
        text = word.text.partition("=")[2] if word.text.startswith(("--volume=", "--mount=")) else word.text
        if re.match(r"-\w*v/", word.text):
            text = word.text.partition("v")[2]
        elif source := re.search(r"(?:^|,)(?:src|source)=([^,]*)", text):
            text = source[1]
        if (mounts or text != word.text) and re.match(
            r"/(?:etc|root|home|var/run)?(?::|/?$)|.*docker\.sock", text
        ):
            yield CommandFinding("Gives a container the files of this computer", Risk.CRITICAL, word)
        elif re.match(r"--(?:pid|net|network|ipc|userns|uts)=host$", word.text):
            yield CommandFinding("Gives a container a part of this computer", Risk.HIGH, word)


_CURL = takes(
    "-d -F -T -o -H -A -b -c -C -D -e -E -m -K -Q -r -t -u -U -w -x -X -y -Y -z --data --data-ascii "
    "--data-binary --data-raw --data-urlencode --json --form --form-string --upload-file --output "
    "--output-dir --header --request --user --user-agent --url --cookie --cookie-jar --proxy --max-time "
    "--retry --write-out --cacert --cert --key"
)
_WGET = takes(
    "-o -a -e -i -B -t -O -T -w -Q -P -U -l -A -R -D -I -X --post-file --post-data --body-file --body-data "
    "--output-document --directory-prefix --input-file --header --user --password --user-agent --timeout"
)
_SENT_FILES = ("-T", "--upload-file", "--post-file", "--body-file")
_SENT_TEXTS = ("-d", "--data", "--data-ascii", "--data-binary", "--data-urlencode", "--json", "-F", "--form")


def _transfer_findings(call: Call) -> Iterator[CommandFinding]:
    curl = call.name == "curl"
    options = read_options(call.args, _CURL if curl else _WGET)
    for option in options.options:
        value = option.value.written[:200] if option.value is not None else ""
        if option.name in ("--insecure", "--no-check-certificate") or (curl and option.name == "-k"):
            yield CommandFinding("Does not check who answers", Risk.MEDIUM, option.word)
        elif option.value is None:
            continue
        elif (option.name in _SENT_FILES and (curl or len(option.name) > 2)) or (
            curl and option.name in _SENT_TEXTS and re.match(r"@|[^=]*[=@][@<]|[\w-]+@", value)
        ):
            yield CommandFinding("Sends a file to another computer", Risk.HIGH, option.value)


def _socket_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.input_files:
        yield CommandFinding("Sends a file to another computer", Risk.HIGH, word)


def _lookup_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if not word.known:
            yield CommandFinding(
                "Asks the network for a name that is only known when it runs", Risk.MEDIUM, word
            )


def _editor_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the commands that an editor reads from its input."""
    if any(re.search(r"(?:^|\n|;)\s*[\d,.$%]*!", word.written) for word in call.input_texts):
        yield CommandFinding("May run commands from inside another program", Risk.HIGH, call.words[0])
    elif call.name in ("ed", "ex") and call.input_texts:
        yield CommandFinding("Changes files by the commands that it reads", Risk.MEDIUM, call.words[0])


_RULES = (
    (frozenset({"kill"}), _kill_findings),
    (frozenset({"pkill", "killall", "skill", "taskkill"}), _kill_by_name_findings),
    (frozenset({"docker", "podman", "nerdctl"}), _container_findings),
    (frozenset({"curl", "wget", "http", "https"}), _transfer_findings),
    (frozenset({"nc", "ncat", "netcat", "socat"}), _socket_findings),
    (frozenset({"dig", "host", "nslookup", "ping", "drill"}), _lookup_findings),
    (frozenset({"vim", "ex", "ed"}), _editor_findings),
)
REACHING = frozenset(name for names, _ in _RULES for name in names)
"""The programs with a rule in this module."""
