"""Programs and shell lines embedded in the options, subcommands and settings of git."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.models.tools import Risk
from core.policy.analysis.shell.embedded import Embedded, embedded_command, without_pipe_sign
from core.policy.analysis.shell.options import Options, read_options
from core.policy.analysis.shell.parser import Call, Word, join_words
from core.programs.record import Kind, Program

# Settings of git whose value is a command, from git-config(1); `!` before an alias or helper is for a shell.
_RUNS = re.compile(
    r"core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy|alternaterefscommand)|pager\..+"
    r"|sequence\.editor"
    r"|credential\.(?:.+\.)?helper|diff\.(?:external|.+\.(?:command|textconv))|(?:diff|merge)tool\..+\.cmd"
    r"|filter\..+\.(?:clean|smudge|process)|gpg\.(?:.+\.)?program|gpg\.ssh\.defaultkeycommand"
    r"|merge\..+\.driver"
    r"|interactive\.difffilter|(?:man|browser|guitool)\..+\.(?:cmd|path)|remote\..+\.(?:receivepack"
    r"|uploadpack|vcs)"
    r"|sendemail\.(?:.+\.)?(?:sendmailcmd|tocmd|cccmd|headercmd|smtpserver)|submodule\..+\.update"
    r"|tar\..+\.command"
    r"|trailer\..+\.(?:command|cmd)|uploadpack\.packobjectshook|web\.browser|imap\.tunnel|hook\..+\.command"
    r"|instaweb\.(?:httpd|browser)|gc\..*recentobjectshook|receive\.procreceiverefs"
)
_LOADS = re.compile(r"core\.hookspath|include(?:if\..+)?\.path|init\.templatedir|protocol\.(?:ext\.)?allow")
_CONFIG_VERBS = frozenset({"set", "get", "list", "unset"})
_CONFIG_READS = (
    "--get", "--get-all", "--get-regexp", "--list", "-l", "--unset", "--unset-all", "--show-origin",
)  # fmt: skip


def embedded_in_git(call: Call) -> Iterator[Embedded]:
    """The programs that git runs by its options, its subcommands, and settings by `-c` or `git config`."""
    record = call.program
    if Kind.GIT not in record.kinds:
        return
    options = read_options(call.args, record.options, stop=True)
    arguments = call.args[options.first :]
    verb = arguments[0].text if arguments else ""
    for option in options.options:
        if option.value is not None:
            yield from _embedded_in_option(option.name, option.value)
    if verb == "submodule" and len(arguments) > 2 and arguments[1].text == "foreach":
        command = [word for word in arguments[2:] if word.text not in ("--recursive", "--quiet", "-q")]
        yield Embedded(join_words(command), "Runs a command in a repository", Risk.MEDIUM, arguments[1])
    elif (subcommand := record.subcommand(verb)) is not None:
        after_verb = read_options(arguments[1:], subcommand.options)
        if verb == "config":
            yield from _embedded_in_config(after_verb)
        for name, value in ((option.name, option.value) for option in after_verb.options if option.value):
            yield from _embedded_in_subcommand(subcommand, name, value)
    for word in arguments:
        if word.written.startswith("ext::"):
            yield Embedded(word.cut(5), "Runs a program that an address names", Risk.HIGH, word)


def _embedded_in_option(option: str, value: Word) -> Iterator[Embedded]:
    """The programs in an option before the subcommand."""
    if option == "-c":
        yield from _embedded_in_setting(value)
    elif option == "--config-env":
        name = value.written.partition("=")[0].casefold()
        if _RUNS.fullmatch(name) or _LOADS.fullmatch(name) or name.startswith("alias."):
            yield Embedded(None, f"Sets git's {name} to what is not in the line", Risk.HIGH, value)
    elif option == "--exec-path":
        yield Embedded(None, "Takes git's own programs from a file elsewhere", Risk.HIGH, value)


def _embedded_in_subcommand(subcommand: Program, option: str, value: Word) -> Iterator[Embedded]:
    if (option, "") in subcommand.runs:
        text = f"Runs a program that the option {option} names"
        yield embedded_command(without_pipe_sign(value), text, Risk.HIGH, value)
    elif option in ("-c", "--config") and "clone" in subcommand.names:
        yield from _embedded_in_setting(value)
    elif option == "--template":
        yield Embedded(None, "Takes hooks from a file elsewhere", Risk.HIGH, value)


def _embedded_in_config(options: Options) -> Iterator[Embedded]:
    operands = [word for word in options.operands if word.text not in _CONFIG_VERBS]
    if len(operands) > 1 and not options.has(*_CONFIG_READS):
        yield from _embedded_in_setting(operands[0], operands[1])


def _embedded_in_setting(word: Word, value: Word | None = None) -> Iterator[Embedded]:
    name, _, _ = word.written.partition("=")
    value = value or word.cut(len(name) + 1)
    key = name.casefold()
    if key.startswith("alias."):
        shell = value.written.startswith("!")
        line = value.cut(1) if shell else None
        if shell or not value.known:
            yield Embedded(line, f"Gives git the command {short_setting_name(key)}", Risk.MEDIUM, value)
    elif _RUNS.fullmatch(key):
        if value.written.casefold() in ("true", "false", "1", "0", "yes", "no", ""):
            return
        yield embedded_command(
            without_pipe_sign(value),
            f"Sets git's {short_setting_name(key)}, a program that it runs",
            Risk.HIGH,
            value,
        )
    elif _LOADS.fullmatch(key) and value.written.casefold() not in ("", "never", "true"):
        yield Embedded(
            None,
            f"Sets git's {short_setting_name(key)}: what that names is not in the line",
            Risk.HIGH,
            value,
        )


def short_setting_name(key: str) -> str:
    """A setting's name, at most 40 characters."""
    return key if len(key) <= 40 else f"{key[:39]}…"
