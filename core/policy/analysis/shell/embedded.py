"""Programs and shell lines embedded in options and in variables.

`Embedded.line` is parsed like a line of its own. The option or variable itself is a finding too, unless it
names one of the programs that are ordinary there (`ORDINARY`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from core.models.tools import Risk
from core.policy.analysis.shell.options import read_options
from core.policy.analysis.shell.parser import Call, CommandFinding, Word
from core.programs.catalog import ORDINARY
from core.programs.record import Kind, Program


class Embedded(NamedTuple):
    """An embedded command. `line` is its text, None if only a file is named; `text` is its finding, or ""."""

    line: Word | None
    text: str
    risk: Risk
    word: Word


_ASSIGNED = re.compile(r"[A-Za-z_][\w%()]*\+?=")


# Separators after the name of a setting in an option's value.
_AFTER_SETTING = re.compile(r"[\w:]*[\s=]+")


def embedded_in_options(call: Call) -> Iterator[Embedded]:
    """The programs and files that the options of a call run or load."""
    record = call.program
    if not (record.runs or record.loads):
        return
    args = _unbundled(call, record) if Kind.TAR in record.kinds else call.args
    options = read_options(args, record.options, single=record.single)
    for option in options.options:
        value = option.value
        if value is None:
            continue
        for runs, start in record.runs:
            if option.name == runs and (line := _value_after(value, start)) is not None:
                text = f"Runs a program that the option {option.name} names"
                yield embedded_command(line, text, Risk.HIGH, value)
        if option.name in record.loads:
            text = f"Loads what the option {option.name} names: it is not in the line"
            yield Embedded(None, text, Risk.MEDIUM, value)
    if Kind.BUILDS in record.kinds:
        yield from _embedded_in_recipes(options.operands)


def _embedded_in_recipes(operands: Iterable[Word]) -> Iterator[Embedded]:
    """The values of the variables that a call of `make` sets: recipes may run the value of any of them."""
    for name, value, word in assignments_in(operands):
        item = embedded_command(value, "Has make run another shell", Risk.HIGH, word)
        # Of these variables it is certain.
        yield item if name in ("SHELL", ".SHELLFLAGS", "MAKE") else item._replace(text="")


def _value_after(value: Word, start: str) -> Word | None:
    """The part of a value after the start that it must have to be run; None if it begins differently."""
    if not start:
        return value
    at = value.written.casefold().find(start.casefold())
    # `Pre-Invoke::=x` and `execute(x)` have the setting anywhere, `exec=x` and `ProxyCommand x` in front.
    if at < 0 or (at > 0 and start not in ("Invoke", "Dir::Bin", "execute", "become", "reload")):
        return None
    at += len(start)
    if not start[-1].isalpha():
        return value.cut(at)
    between = _AFTER_SETTING.match(value.written, at)
    return value.cut(between.end() if between else at)


def _unbundled(call: Call, record: Program) -> tuple[Word, ...]:
    """The words of `tar`, with the options of a first word without a dash as separate words.

    The values of such options follow in the same order.
    """
    args = call.args
    if not args or not re.fullmatch(r"[A-Za-z]{2,}", args[0].written):
        return args
    letters, values = args[0], list(args[1:])
    unbundled: list[Word] = []
    for place, letter in enumerate(letters.written):
        sign = letters.cut(place, place + 1)
        unbundled.append(Word(f"-{letter}", True, sign.source, sign.start, sign.end, f"-{letter}"))
        if f"-{letter}" in record.options.values and values:
            unbundled.append(values.pop(0))
    return (*unbundled, *values)


def embedded_command(line: Word, text: str, risk: Risk, word: Word) -> Embedded:
    """A line that is run; that it is there is a finding, unless its program is ordinary in such a place."""
    return Embedded(line, "" if _is_ordinary(line) else text, risk, word)


def _is_ordinary(line: Word) -> bool:
    first = line.written.strip().lstrip("|! ").split(None, 1)
    if not first:
        return True
    return (
        line.known and re.split(r"[/\\]", first[0])[-1] in ORDINARY and not first[0].startswith((".", "/tmp"))
    )


# Variables whose value is a command line or the name of a program.
_RUN_VARIABLES = frozenset(
    """
    PAGER MANPAGER GIT_PAGER SYSTEMD_PAGER AWS_PAGER BAT_PAGER PSQL_PAGER DELTA_PAGER GH_PAGER EDITOR
    VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR SUDO_EDITOR SYSTEMD_EDITOR KUBE_EDITOR PSQL_EDITOR FCEDIT
    HGEDITOR SVN_EDITOR BROWSER GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_ASKPASS SSH_ASKPASS
    SUDO_ASKPASS GIT_EXTERNAL_DIFF SVN_SSH CVS_RSH RSYNC_RSH RSYNC_CONNECT_PROG LESSOPEN LESSCLOSE
    PROMPT_COMMAND SHELL CONFIG_SHELL RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CMAKE_C_COMPILER_LAUNCHER
    FZF_DEFAULT_COMMAND FZF_CTRL_T_COMMAND
    """.split()
)
_PROMPTS = frozenset("PS0 PS1 PS2 PS3 PS4 PROMPT RPROMPT".split())
# Variables that name files or folders from which programs load code.
_LOAD_VARIABLES = frozenset(
    """
    PATH LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH LD_ORIGIN_PATH DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH
    DYLD_FRAMEWORK_PATH DYLD_FALLBACK_LIBRARY_PATH BASH_ENV IFS SHELLOPTS BASHOPTS ZDOTDIR FPATH INPUTRC
    PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONUSERBASE PYTHONBREAKPOINT PYTHONEXECUTABLE PERL5LIB
    PERLLIB PERL5DB RUBYLIB NODE_PATH CLASSPATH LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR
    GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT
    GIT_CONFIG_PARAMETERS GCONV_PATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES GIO_EXTRA_MODULES
    GIO_MODULE_DIR GTK_MODULES GTK_PATH GDK_PIXBUF_MODULE_FILE QT_PLUGIN_PATH VIMINIT EXINIT MYVIMRC
    EMACSLOADPATH MAKEFILES RIPGREP_CONFIG_PATH WGETRC CURL_HOME NPM_CONFIG_SCRIPT_SHELL PIP_INDEX_URL
    PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE GOFLAGS TCLLIBPATH R_PROFILE R_PROFILE_USER R_ENVIRON
    JULIA_LOAD_PATH GUILE_LOAD_PATH ERL_LIBS LESSKEY LESSKEYIN PKCS11_MODULE_PATH TAR_OPTIONS
    ANSIBLE_CONFIG ANSIBLE_LIBRARY
    """.split()
)
# Variables that load code only with some values.
_CONDITIONAL_LOAD_VARIABLES = {
    "ENV": re.compile(r"[/~$`]"),
    "NODE_OPTIONS": re.compile(
        r"-r\b|--(?:require|import|loader|experimental-loader|inspect|openssl-config)"
    ),
    "JAVA_TOOL_OPTIONS": re.compile(r"-(?:javaagent|agent|XX:On|XX:Flags|cp\b|classpath|D)"),
    "_JAVA_OPTIONS": re.compile(r"-(?:javaagent|agent|XX:On|XX:Flags|cp\b|classpath|D)"),
    "JDK_JAVA_OPTIONS": re.compile(r"-(?:javaagent|agent|XX:On|XX:Flags|cp\b|classpath|D)|@"),
    "PERL5OPT": re.compile(r"-?[MmIdi]"),
    "RUBYOPT": re.compile(r"-?[rIe]"),
    "MAKEFLAGS": re.compile(r"--eval|SHELL|-f|--file|="),
    "RUSTFLAGS": re.compile(r"linker|-C"),
}
_LOADED_PREFIXES = ("BASH_FUNC_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "DYLD_")


def embedded_in_variable(name: str, value: Word, word: Word | None = None) -> Iterator[Embedded]:
    """The program that a variable names, or the code that programs load because of it."""
    text = f"Sets {name}, which decides what programs run"
    at = word or value
    if name in ("HISTFILE", "HISTSIZE", "HISTFILESIZE") and value.written in ("", "0", "/dev/null"):
        yield Embedded(None, "Hides what was done", Risk.MEDIUM, at)
    condition = _CONDITIONAL_LOAD_VARIABLES.get(name)
    if name in _PROMPTS:
        # A shell expands a prompt each time it displays it.
        if "$(" in value.written or "`" in value.written:
            yield Embedded(value, text, Risk.MEDIUM, at)
    elif name in _RUN_VARIABLES:
        yield embedded_command(without_pipe_sign(value), text, Risk.MEDIUM, at)
    elif (
        name in _LOAD_VARIABLES
        or name.startswith(_LOADED_PREFIXES)
        or (condition and condition.search(value.written))
    ):
        yield Embedded(None, text, Risk.MEDIUM, at)


def without_pipe_sign(value: Word) -> Word:
    """A value without the signs that mark a program instead of a file: `LESSOPEN='|x %s'`."""
    start = len(value.written) - len(value.written.lstrip("|-! "))
    return value.cut(start)


def assignments_in(words: Iterable[Word]) -> Iterator[tuple[str, Word, Word]]:
    """Each `NAME=value` among the words of a call, as (name, value, word)."""
    for word in words:
        if _ASSIGNED.match(word.written):
            name, _, _ = word.written.partition("=")
            yield name.rstrip("+"), word.cut(len(name) + 1), word


def embedded_findings(items: Iterable[Embedded]) -> Iterator[CommandFinding]:
    """The findings about embedded programs themselves."""
    for item in items:
        if item.text:
            yield CommandFinding(item.text, item.risk, item.word)
