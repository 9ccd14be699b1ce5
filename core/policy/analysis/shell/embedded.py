"""Programs and shell lines embedded in options, in variables and in the settings of git.

`Embedded.line` is parsed like a line of its own. The option or variable itself is a finding too, unless it
names one of the programs that are ordinary there (`_ORDINARY`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from core.fleet.models import Risk
from core.policy.analysis.shell.options import read_options
from core.policy.analysis.shell.parser import Call, CommandFinding, Word, join_words
from core.policy.analysis.shell.tables import names
from core.programs.record import Takes, takes


class Embedded(NamedTuple):
    """An embedded command. `line` is its text, None if only a file is named; `text` is its finding, or ""."""

    line: Word | None
    text: str
    risk: Risk
    word: Word


class _Options(NamedTuple):
    """The options of a program that take a value, and those of them whose value is run or loaded."""

    takes: Takes
    runs: tuple[tuple[str, str], ...]
    loads: frozenset[str]


_ORDINARY = names(
    "none ssh cat less more most bat delta true false : vim vi nvim nano emacs ed code gzip pigz xz pxz "
    "bzip2 pbzip2 lbzip2 "
    "lz4 zstd lzop lzma gunzip zcat dash sh bash zsh rsync tar osxkeychain store cache manager manager-core "
    "gpg gpg2 "
    "ssh-askpass ksshaskpass lesspipe firefox chromium google-chrome xdg-open open w3m lynx diff meld vimdiff"
)
_ASSIGNED = re.compile(r"[A-Za-z_][\w%()]*\+?=")


def _options(values: str, runs: str = "", loads: str = "") -> _Options:
    """A table entry. With `--name=start`, only a value that begins with `start` is run, without the start."""
    pairs = tuple((name, start) for name, _, start in (entry.partition("=") for entry in runs.split()))
    return _Options(
        takes(f"{values} {' '.join(name for name, _ in pairs)} {loads}"), pairs, frozenset(loads.split())
    )


_SSH = "-B -b -c -D -E -e -F -I -i -J -L -l -m -O -p -P -Q -R -S -W -w"
_SSH_RUNS = "-o=ProxyCommand -o=LocalCommand -o=KnownHostsCommand -o=RemoteCommand"
_BY_NAME: dict[str, _Options] = {
    "tar": _options(
        "-b -C -f -g -H -K -L -N -T -V -X --directory --file --exclude --transform --files-from --checkpoint",
        "--to-command --checkpoint-action=exec= -I --use-compress-program -F --info-script "
        "--new-volume-script "
        "--rsh-command",
        "--rmt-command",
    ),
    "rsync": _options("-B -f -M -T -@ --exclude --include --filter --files-from", "-e --rsh --rsync-path"),
    "ssh": _options(_SSH, _SSH_RUNS, "-F -I"),
    "autossh": _options(_SSH, _SSH_RUNS, "-F -I"),
    "scp": _options("-c -D -i -J -l -P -X", f"{_SSH_RUNS} -S", "-F"),
    "sftp": _options("-B -b -c -i -J -l -P -R -s -X", f"{_SSH_RUNS} -S -D", "-F"),
    "sort": _options("-k -S -t -T -o --key --output --parallel", "--compress-program"),
    "split": _options("-a -b -C -l -n -t --lines --bytes", "--filter"),
    "man": _options("-M -S -s -e -L -m -C -R -E -H?", "-P --pager -H --html", "-C --config-file"),
    "zip": _options("-b -t -n -x -i", "--unzip-command -TT"),
    "apt": _options("-t -c", "-o=Invoke --option=Invoke -o=Dir::Bin --option=Dir::Bin", "-c --config-file"),
    "rg": _options("-e -f -g -t -T -m -A -B -C", "--pre --hostname-bin"),
    "make": _options("-C -f -I -o -W -j? -l?", "", "-f --file --makefile"),
    "tcpdump": _options("-B -c -C -D -E -F -G -i -m -M -r -s -T -w -W -y", "-z", ""),
    "wget": _options("-O -o -a -P -e -i -t -T -U -Q -w -D", "--use-askpass", "--config -e --execute"),
    "curl": _options("-o -d -F -T -H -u -A -x -X -b -c -e -m -w -E", "", "-K --config --engine"),
    "openssl": _options("", "", "-engine -provider -provider-path"),
    "gcc": _options("-o -I -L -l -x -D", "", "-wrapper -specs -fplugin"),
    "nmap": _options("-p -o -i -e -S -g", "", "--script --datadir"),
    "cpio": _options("-F -I -O -E -D -H -C -R", "--rsh-command", ""),
    "less": _options("-b -h -j -o -O -p -P -t -T -x -y -z", "", "-k --lesskey-file --lesskey-src"),
    "sqlite3": _options("", "", "-init"),
    "enable": _options("-d", "", "-f"),
    "hash": _options("", "", "-p"),
    "complete": _options("-A -F -G -W -P -S -X -o", "-C"),
    "compgen": _options("-A -F -G -W -P -S -X -o", "-C"),
    "mapfile": _options("-d -n -O -s -u -c", "-C"),
    "bind": _options("-m -q -u -r", "-x", "-f"),
    "sudo": _options("-u -g -h -p -C -r -t -T -U", "--askpass"),
    "fzf": _options("-q -d -n --height --prompt", "--preview --bind=execute --bind=become --bind=reload"),
    "logrotate": _options("-s -m -l", "-m --mail", ""),
    "mutt": _options("-a -b -c -i -s", "-e", "-F"),
    "mplayer": _options("", "", "-include -input"),
    "gdb": _options(
        "-p -d -s -e -ex -eval-command",
        "-ex=shell -ex=! -ex=pipe -ex=| -ex=python -iex=shell -iex=! -eval-command=shell "
        "--eval-command=shell",
        "-x --command -command -ix",
    ),
    "flatpak": _options("", "--command"),
    "npm": _options("-w -C", "--script-shell --shell --editor"),
    "pip": _options("-r -c -t", "", "--index-url -i --extra-index-url --find-links -f"),
    "cargo": _options("", "", "--config"),
    "nc": _options("-p -s -w -q -i", "-c --sh-exec"),
    "ctags": _options("-f -o -L -I", "", "--options"),
    "dpkg": _options("-D", "--pre-invoke --post-invoke --status-logger"),
    "rpm": _options("-D -r", "", "--rcfile --macros --load"),
    "mysql": _options("-u -h -P -D -S", "--pager", "--init-command --defaults-file --plugin-dir"),
}  # fmt: skip
_SAME_OPTIONS = {
    "apt-get": "apt", "apt-cache": "apt", "aptitude": "apt", "readarray": "mapfile", "slogin": "ssh",
    "g++": "gcc",
    "clang": "gcc", "cc": "gcc", "c++": "gcc", "clang++": "gcc", "ncat": "nc", "netcat": "nc",
    "bsdcpio": "cpio",
    "rrsync": "rsync", "star": "tar", "sshfs": "ssh", "pip3": "pip", "neomutt": "mutt",
}  # fmt: skip
# These options need a single dash before a whole word.
_SINGLE_DASH = names("openssl gcc gdb sqlite3 mplayer zip xterm")
# Separators after the name of a setting in an option's value.
_AFTER_SETTING = re.compile(r"[\w:]*[\s=]+")


def embedded_in_options(call: Call) -> Iterator[Embedded]:
    """The programs and files that the options of a call run or load."""
    name = _SAME_OPTIONS.get(call.name, call.name)
    table = _BY_NAME.get(name)
    if table is None:
        return
    args = _unbundled(call) if name == "tar" else call.args
    options = read_options(args, table.takes, single=name in _SINGLE_DASH)
    for option in options.options:
        value = option.value
        if value is None:
            continue
        for runs, start in table.runs:
            if option.name == runs and (line := _value_after(value, start)) is not None:
                yield _embedded_command(
                    line, f"Runs a program that the option {option.name} names", Risk.HIGH, value
                )
        if option.name in table.loads:
            yield Embedded(
                None, f"Loads what the option {option.name} names: it is not in the line", _LOAD_RISK, value
            )
    if name == "make":
        for word in options.operands:
            if _ASSIGNED.match(word.written):
                name, _, _ = word.written.partition("=")
                item = _embedded_command(
                    word.cut(len(name) + 1), "Has make run another shell", Risk.HIGH, word
                )
                # Recipes may run the value of any variable; of these variables it is certain.
                yield item if name in ("SHELL", ".SHELLFLAGS", "MAKE") else item._replace(text="")


_LOAD_RISK = Risk.MEDIUM


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


def _unbundled(call: Call) -> tuple[Word, ...]:
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
        if f"-{letter}" in _BY_NAME["tar"].takes.values and values:
            unbundled.append(values.pop(0))
    return (*unbundled, *values)


def _embedded_command(line: Word, text: str, risk: Risk, word: Word) -> Embedded:
    return Embedded(line, "" if _is_ordinary(line) else text, risk, word)


def _is_ordinary(line: Word) -> bool:
    first = line.written.strip().lstrip("|! ").split(None, 1)
    if not first:
        return True
    return (
        line.known
        and re.split(r"[/\\]", first[0])[-1] in _ORDINARY
        and not first[0].startswith((".", "/tmp"))
    )


# Variables whose value is a command line or the name of a program.
_RUN_VARIABLES = names(
    "PAGER MANPAGER GIT_PAGER SYSTEMD_PAGER AWS_PAGER BAT_PAGER PSQL_PAGER DELTA_PAGER GH_PAGER EDITOR "
    "VISUAL GIT_EDITOR "
    "GIT_SEQUENCE_EDITOR SUDO_EDITOR SYSTEMD_EDITOR KUBE_EDITOR PSQL_EDITOR FCEDIT HGEDITOR SVN_EDITOR "
    "BROWSER "
    "GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS GIT_EXTERNAL_DIFF "
    "SVN_SSH CVS_RSH "
    "RSYNC_RSH RSYNC_CONNECT_PROG LESSOPEN LESSCLOSE PROMPT_COMMAND "
    "SHELL CONFIG_SHELL RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CMAKE_C_COMPILER_LAUNCHER "
    "FZF_DEFAULT_COMMAND FZF_CTRL_T_COMMAND "
)
_PROMPTS = names("PS0 PS1 PS2 PS3 PS4 PROMPT RPROMPT")
# Variables that name files or folders from which programs load code.
_LOAD_VARIABLES = names(
    "PATH LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH LD_ORIGIN_PATH DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH "
    "DYLD_FRAMEWORK_PATH DYLD_FALLBACK_LIBRARY_PATH BASH_ENV IFS SHELLOPTS BASHOPTS ZDOTDIR FPATH INPUTRC "
    "PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONUSERBASE PYTHONBREAKPOINT PYTHONEXECUTABLE "
    "PERL5LIB PERLLIB PERL5DB RUBYLIB NODE_PATH CLASSPATH LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR "
    "GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT "
    "GIT_CONFIG_PARAMETERS "
    "GCONV_PATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES GIO_EXTRA_MODULES GIO_MODULE_DIR GTK_MODULES "
    "GTK_PATH GDK_PIXBUF_MODULE_FILE QT_PLUGIN_PATH VIMINIT EXINIT MYVIMRC EMACSLOADPATH "
    "MAKEFILES RIPGREP_CONFIG_PATH WGETRC CURL_HOME NPM_CONFIG_SCRIPT_SHELL "
    "PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE GOFLAGS TCLLIBPATH R_PROFILE R_PROFILE_USER "
    "R_ENVIRON JULIA_LOAD_PATH GUILE_LOAD_PATH ERL_LIBS "
    "LESSKEY LESSKEYIN PKCS11_MODULE_PATH TAR_OPTIONS ANSIBLE_CONFIG ANSIBLE_LIBRARY"
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
        yield _embedded_command(_without_pipe_sign(value), text, Risk.MEDIUM, at)
    elif (
        name in _LOAD_VARIABLES
        or name.startswith(_LOADED_PREFIXES)
        or (condition and condition.search(value.written))
    ):
        yield Embedded(None, text, Risk.MEDIUM, at)


def _without_pipe_sign(value: Word) -> Word:
    """A value without the signs that mark a program instead of a file: `LESSOPEN='|x %s'`."""
    start = len(value.written) - len(value.written.lstrip("|-! "))
    return value.cut(start)


def assignments_in(words: Iterable[Word]) -> Iterator[tuple[str, Word, Word]]:
    """Each `NAME=value` among the words of a call, as (name, value, word)."""
    for word in words:
        if _ASSIGNED.match(word.written):
            name, _, _ = word.written.partition("=")
            yield name.rstrip("+"), word.cut(len(name) + 1), word


# Settings of git whose value is a command, from git-config(1); `!` before an alias or helper is for a shell.
_GIT_RUNS = re.compile(
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
_GIT_LOADS = re.compile(
    r"core\.hookspath|include(?:if\..+)?\.path|init\.templatedir|protocol\.(?:ext\.)?allow"
)
_GIT_TAKES = takes(
    "-c -C --git-dir --work-tree --namespace --super-prefix --config-env --exec-path? --list-cmds?"
)
# Options of subcommands whose value is a command.
_GIT_OPTIONS = {
    "rebase": ("-x --exec", ""),
    "difftool": ("-x --extcmd", ""),
    "grep": ("-O? --open-files-in-pager?", "-e -f -A -B -C -m"),
    "fetch": ("--upload-pack", "-j -o --depth"),
    "pull": ("--upload-pack", "-j -o -s -X --depth"),
    "clone": ("-u --upload-pack", "-b -o -c --config --depth --branch --template"),
    "ls-remote": ("--upload-pack --exec", "-o --sort"),
    "fetch-pack": ("--upload-pack --exec", ""),
    "push": ("--receive-pack --exec", "-o"),
    "send-pack": ("--receive-pack --exec", ""),
    "archive": ("--exec", "-o --format --prefix --remote"),
    "filter-branch": (
        "--env-filter --tree-filter --index-filter --parent-filter --msg-filter --commit-filter "
        "--tag-name-filter --setup",
        "-d --original --subdirectory-filter",
    ),
    "send-email": (
        "--to-cmd --cc-cmd --header-cmd --sendmail-cmd --smtp-server",
        "--to --cc --from --subject",
    ),
    "instaweb": ("-d --httpd -b --browser", "-p --port -m"),
    "mergetool": ("--tool-cmd", "-t --tool"),
    "svn": ("--authors-prog", "-r -A"),
}


def embedded_in_git(call: Call) -> Iterator[Embedded]:
    """The programs that git runs by its options, its subcommands, and settings by `-c` or `git config`."""
    options = read_options(call.args, _GIT_TAKES, stop=True)
    arguments = call.args[options.first :]
    verb = arguments[0].text if arguments else ""
    for option in options.options:
        if option.name == "-c" and option.value is not None:
            yield from _embedded_in_setting(option.value)
        elif option.name == "--config-env" and option.value is not None:
            name = option.value.written.partition("=")[0].casefold()
            if _GIT_RUNS.fullmatch(name) or _GIT_LOADS.fullmatch(name) or name.startswith("alias."):
                yield Embedded(None, f"Sets git's {name} to what is not in the line", Risk.HIGH, option.value)
        elif option.name == "--exec-path" and option.value is not None:
            yield Embedded(None, "Takes git's own programs from a file elsewhere", Risk.HIGH, option.value)
    if verb == "submodule" and len(arguments) > 2 and arguments[1].text == "foreach":
        command = [word for word in arguments[2:] if word.text not in ("--recursive", "--quiet", "-q")]
        yield Embedded(join_words(command), "Runs a command in a repository", Risk.MEDIUM, arguments[1])
    elif verb == "config":
        yield from _embedded_in_git_config(arguments)
    elif verb in _GIT_OPTIONS:
        runs, values = _GIT_OPTIONS[verb]
        after_verb = read_options(arguments[1:], takes(f"{runs} {values}")).options
        running = {name.removesuffix("?") for name in runs.split()}
        for option in after_verb:
            if option.value is None:
                continue
            if option.name in running:
                text = f"Runs a program that the option {option.name} names"
                yield _embedded_command(_without_pipe_sign(option.value), text, Risk.HIGH, option.value)
            elif verb == "clone" and option.name in ("-c", "--config"):
                yield from _embedded_in_setting(option.value)
            elif option.name == "--template":
                yield Embedded(None, "Takes hooks from a file elsewhere", Risk.HIGH, option.value)
    for word in arguments:
        if word.written.startswith("ext::"):
            yield Embedded(word.cut(5), "Runs a program that an address names", Risk.HIGH, word)


def _embedded_in_git_config(words: tuple[Word, ...]) -> Iterator[Embedded]:
    table = takes("-f --file --blob --type --default --comment --value --url")
    options = read_options(words[1:], table)
    reading = (
        "--get",
        "--get-all",
        "--get-regexp",
        "--list",
        "-l",
        "--unset",
        "--unset-all",
        "--show-origin",
    )
    operands = [word for word in options.operands if word.text not in ("set", "get", "list", "unset")]
    if len(operands) > 1 and not options.has(*reading):
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
    elif _GIT_RUNS.fullmatch(key):
        if value.written.casefold() in ("true", "false", "1", "0", "yes", "no", ""):
            return
        yield _embedded_command(
            _without_pipe_sign(value),
            f"Sets git's {short_setting_name(key)}, a program that it runs",
            Risk.HIGH,
            value,
        )
    elif _GIT_LOADS.fullmatch(key) and value.written.casefold() not in ("", "never", "true"):
        yield Embedded(
            None,
            f"Sets git's {short_setting_name(key)}: what that names is not in the line",
            Risk.HIGH,
            value,
        )


def short_setting_name(key: str) -> str:
    """A setting's name, at most 40 characters."""
    return key if len(key) <= 40 else f"{key[:39]}…"


def embedded_findings(items: Iterable[Embedded]) -> Iterator[CommandFinding]:
    """The findings about embedded programs themselves."""
    for item in items:
        if item.text:
            yield CommandFinding(item.text, item.risk, item.word)
