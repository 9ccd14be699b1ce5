"""Programs that run another program (wrappers): finds the inner call or shell line among their words.

One table with an entry for each way of calling such a program. If an entry does not have all options of its
program, an unknown option is followed under both readings: with and without a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from core.policy.analysis.shell.options import options_at, read_options
from core.policy.analysis.shell.parser import Assignment, Call, Word, join_words
from core.policy.analysis.shell.tables import ROOT
from core.programs.record import Takes, takes

MOST_INSIDE = 12
"""The number of wrappers around one command that are followed."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][\w%()]*\+?=")
_VERB_WITHIN = 12
_POSSIBLE_COMMAND_WITHIN = 12
_FINDS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_NEVER = 1_000_000


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The command-line syntax of a wrapper.

    `skip`: the number of operands before the command. `lines`: options whose value is a shell line. `shell`:
    a shell reads the words, joined; `each`: it reads each word as a line. `after`: words after which the
    command begins; `only`: it begins nowhere else. `looks`: options with which nothing is run. `program`:
    options whose value is the program, with its arguments after `--`. `anywhere`: options may follow the
    first operand. `open`: there are options that the table does not have. `sets`: assignments may precede the
    command. `splits`: the words after a line belong to the line.
    """

    takes: Takes = field(default_factory=takes)
    skip: int = 0
    lines: frozenset[str] = frozenset()
    shell: bool = False
    each: bool = False
    after: frozenset[str] = frozenset()
    only: bool = False
    looks: frozenset[str] = frozenset()
    program: frozenset[str] = frozenset()
    anywhere: bool = False
    open: bool = False
    sets: bool = False
    splits: bool = False


class WrappedCommands(NamedTuple):
    """The commands that a wrapper runs: calls, words that a shell reads as lines, and variables set for them.

    `possible` are calls (with their shell lines) that it runs if an option unknown to the table has a value.
    """

    calls: list[Call]
    lines: list[Word]
    assignments: list[Assignment]
    possible: list[tuple[Call, Word | None]]


def _wrapper(
    values: str = "",
    skip: int = 0,
    *,
    lines: str = "",
    after: str = "",
    looks: str = "",
    program: str = "",
    **flags: bool,
) -> Wrapper:
    return Wrapper(
        takes=takes(f"{values} {lines} {program}"),
        skip=skip,
        lines=frozenset(lines.split()),
        after=frozenset(after.split()),
        looks=frozenset(looks.split()),
        program=frozenset(program.split()),
        **flags,
    )


_SUDO = "-C -D -g -h -p -R -r -T -t -U -u --close-from --chdir --group --host --prompt --chroot --role --type"
_DOCKER_RUN = (
    "-a -c -e -h -l -m -p -u -v -w --add-host --annotation --attach --blkio-weight --cap-add --cap-drop "
    "--cgroup-parent --cgroupns --cidfile --cpu-shares --cpus --cpuset-cpus --device --dns --entrypoint "
    "--env "
    "--env-file --expose --gpus --group-add --hostname --ip --ipc --label --link --log-driver --log-opt "
    "--memory "
    "--mount --name --network --net --pid --platform --publish --pull --restart --runtime --security-opt "
    "--shm-size "
    "--stop-signal --sysctl --tmpfs --ulimit --user --userns --uts --volume --volumes-from --workdir"
)
_DOCKER_EXEC = "-e -u -w --detach-keys --env --env-file --user --workdir --index"
_UNIT = (
    "-p -u -E -M -H -G? --property --unit --setenv --machine --host --slice --uid --gid --nice "
    "--description --user? "
    "--working-directory --service-type --on-active --on-boot --on-calendar --timer-property "
    "--path-property --group"
)
_TERMINAL = _wrapper(after="-e -x -- --command --execute", only=True, shell=True, lines="--command")
_PERSONALITY = _wrapper()
_PLAIN = _wrapper()
_KEYWORD = _wrapper(sets=True)

WRAPPERS: dict[str, Wrapper] = {
    # As another user.
    "sudo": _wrapper(
        f"{_SUDO} --other-user --user --command-timeout", looks="-l -v -k -K -V -e --list --validate --edit",
            sets=True
    ),
    "doas": _wrapper("-a -C -u", looks="-L"),
    "su": _wrapper(
        "-g -G -s -w -T --group --supp-group --shell --whitelist-environment", _NEVER, anywhere=True,
        lines="-c --command --session-command",
    ),
    "runuser": _wrapper(
        "-u -g -G -s -w --user --group --supp-group --shell", anywhere=True, lines="-c --command "
        "--session-command"
    ),
    "pkexec": _wrapper("--user"),
    "run0": _wrapper("-u -g -D -p --user --group --chdir --property --unit --slice --setenv --nice",
        open=True),
    "runas": _wrapper(open=True),
    "sg": _wrapper(skip=1, lines="-c", shell=True),
    "setpriv": _wrapper("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits",
        open=True),
    "capsh": _wrapper(open=True),
    "ssh-agent": _wrapper("-a -t -E -P -O"),
    "chpst": _wrapper("-u -U -b -/ -C -n -l -L -m -d -o -p -f -c -r -t -e"),
    # In another place: folders, namespaces, containers, computers.
    "chroot": _wrapper("--userspec --groups", 1),
    "unshare": _wrapper("-R -w -S -G --root --wd --setuid --setgid --map-user --map-group --setgroups "
        "--propagation"),
    "nsenter": _wrapper("-t -S -G -N --target --setuid --setgid --net-socket"),
    "bwrap": _wrapper(
        "--bind:2 --bind-try:2 --dev-bind:2 --dev-bind-try:2 --ro-bind:2 --ro-bind-try:2 --symlink:2 "
        "--setenv:2 --file:2 "
        "--bind-data:2 --ro-bind-data:2 --chmod:2 --overlay:2 --proc --dev --tmpfs --mqueue --dir --chdir "
        "--unsetenv "
        "--hostname --uid --gid --cap-add --cap-drop --seccomp --lock-file --sync-fd --info-fd --perms "
        "--size --args",
        open=True,
    ),
    "firejail": _wrapper(open=True),
    "proot": _wrapper("-r -b -w -q -k -0? --rootfs --bind --cwd", open=True),
    "fakechroot": _wrapper("-s -d -c -e"),
    "fakeroot": _wrapper("-l -s -i -f -b --lib --faked --save-file --load-file --fd-base"),
    "flatpak-spawn": _wrapper("--directory", open=True),
    "systemd-nspawn": _wrapper("-D -M -u -i -b? --directory --machine --user --image --bind --setenv",
        open=True),
    "docker run": _wrapper(_DOCKER_RUN, 1, open=True),
    "docker create": _wrapper(_DOCKER_RUN, 1, open=True),
    "docker exec": _wrapper(_DOCKER_EXEC, 1, open=True),
    "kubectl exec": _wrapper("-c -f -n --container --filename --namespace --context", 1, after="--",
        open=True),
    "kubectl run": _wrapper("-n --image --namespace --restart --env", after="--", only=True),
    "kubectl debug": _wrapper("-n --image --namespace", after="--", only=True),
    "lxc exec": _wrapper("--env --user --group --cwd --mode", 1, after="--", open=True),
    "machinectl shell": _wrapper("-M -E --machine --setenv --uid", 1),
    "multipass exec": _wrapper("-d --working-directory", 1, after="--"),
    "distrobox enter": _wrapper("-n --name", after="-- -e", only=True),
    "distrobox-enter": _wrapper("-n --name", after="-- -e", only=True),
    "toolbox run": _wrapper("-c -d -r --container --distro --release"),
    "ssh": _wrapper("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -P -Q -R -S -W -w", 1, shell=True,
        looks="-V -Q -G"),
    "autossh": _wrapper("-M -B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -P -R -S -W -w", 1, shell=True),
    "mosh": _wrapper("-p --port --ssh --predict", 1, after="--", shell=True),
    "sshpass": _wrapper("-f -d -p -P", looks="-V"),
    "adb shell": _wrapper("-e -s", shell=True),
    "vagrant ssh": _wrapper(skip=_NEVER, anywhere=True, lines="-c --command"),
    "gcloud ssh": _wrapper(skip=_NEVER, anywhere=True, lines="--command"),
    "heroku run": _wrapper("-a -s -e --app --size --env", shell=True),
    "pdsh": _wrapper("-w -x -l -f -t -u -R -g -X", shell=True),
    "pssh": _wrapper("-h -H -l -p -t -o -e -O -x -X --hosts --host --user --timeout", shell=True),
    "parallel-ssh": _wrapper("-h -H -l -p -t -o -e -O -x -X --hosts --host --user --timeout", shell=True),
    "clush": _wrapper("-w -x -g -X -l -f -t -u -o", shell=True),
    "ansible": _wrapper(
        "-i -m -u -f -e -l -t -B -P --inventory --module-name --user --forks --limit", _NEVER, anywhere=True,
        lines="-a --args",
    ),
    "salt": _wrapper("-t --timeout --out", 2, shell=True, open=True),
    # At another time, or repeatedly.
    "watch": _wrapper("-n -q -s --interval --equexit --shotsdir", shell=True),
    "entr": _wrapper(shell=True),
    "watchexec": _wrapper("-w -e -i -f -d -s -o --watch --exts --ignore --filter --debounce --signal",
        shell=True),
    "nodemon": _wrapper("-w -e -i -d --watch --ext --ignore --delay", _NEVER, anywhere=True,
        lines="-x --exec"),
    "nohup": _PLAIN,
    "setsid": _PLAIN,
    "daemonize": _wrapper("-c -e -o -p -l -u -E"),
    "daemon": _wrapper("-n -u -N -X --name --user --chdir --pidfile --command", open=True),
    "start-stop-daemon": _wrapper(
        "-n -p -u -g -s -r -d -N -P -I -k -R -c --name --pidfile --user --group --signal --chroot --chdir "
        "--nicelevel "
        "--retry --umask --chuid --start? --stop? --status?", _NEVER, program="-x --exec -a --startas",
    ),
    "systemd-run": _wrapper(_UNIT, open=True),
    "systemd-inhibit": _wrapper("--what --who --why --mode", open=True),
    "systemd-cat": _wrapper("-t -p --identifier --priority"),
    "tmux new-session": _wrapper("-s -n -t -c -x -y -e -F -f", shell=True),
    "tmux new-window": _wrapper("-n -t -c -e -F", shell=True),
    "tmux split-window": _wrapper("-t -c -e -F -l -p", shell=True),
    "tmux respawn-pane": _wrapper("-t -c -e", shell=True),
    "tmux display-popup": _wrapper("-b -c -d -e -h -s -S -t -T -w -x -y", shell=True),
    "tmux run-shell": _wrapper("-d -t -c", shell=True),
    "tmux if-shell": _wrapper("-t", each=True),
    "tmux pipe-pane": _wrapper("-t", shell=True),
    "tmux send-keys": _wrapper("-N -t -c", shell=True),
    "screen": _wrapper("-c -e -h -p -s -S -t -T -L? -Logfile"),
    "screen stuff": _wrapper(shell=True),
    "screen exec": _PLAIN,
    "dtach": _wrapper("-r -e", 1, open=True),
    # Other limits, other surroundings.
    "env": _wrapper(
        "-u -C -a --unset --chdir --argv0 --block-signal? --default-signal? --ignore-signal?", sets=True,
        splits=True,
        lines="-S --split-string",
    ),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n -p -P -u --class --classdata --pid --pgid --uid",
        looks="-p -P -u --pid --pgid --uid"),
    "chrt": _wrapper("-T -P -D -p --pid --sched-runtime --sched-period --sched-deadline", 1,
        looks="-p -m --pid --max"),
    "taskset": _wrapper("", 1, looks="-p --pid"),
    "prlimit": _wrapper("-p --pid -o --output", open=True),
    "softlimit": _wrapper("-a -c -d -f -l -m -o -p -r -s -t"),
    "numactl": _wrapper("-m -N -C -i -p -l? --membind --cpunodebind --physcpubind --interleave --preferred",
        open=True),
    "cgexec": _wrapper("-g", open=True),
    "timeout": _wrapper("-k -s --kill-after --signal", 1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "unbuffer": _PLAIN,
    "script": _wrapper(
        "-E -I -O -B -T -m -o -t? --echo --log-in --log-out --log-io --log-timing --logging-format "
        "--output-limit",
        _NEVER, anywhere=True, lines="-c --command", after="--",
    ),
    "ttyrec": _wrapper("", _NEVER, anywhere=True, lines="-e"),
    "asciinema rec": _wrapper("", _NEVER, anywhere=True, lines="-c --command"),
    "flock": _wrapper("-w -E --timeout --wait --conflict-exit-code", 1, lines="-c --command"),
    "setlock": _wrapper("", 1),
    "setarch": _PERSONALITY,
    "linux32": _PERSONALITY,
    "linux64": _PERSONALITY,
    "i386": _PERSONALITY,
    "i686": _PERSONALITY,
    "x86_64": _PERSONALITY,
    "aarch64": _PERSONALITY,
    "uname26": _PERSONALITY,
    "runcon": _wrapper("-t -u -r -l --type --user --role --range", 1, open=True),
    "time": _wrapper("-f -o --format --output", sets=True),
    "chronic": _PLAIN,
    "caffeinate": _wrapper("-t -w"),
    "xvfb-run": _wrapper("-e -f -n -p -s -w --error-file --auth-file --server-num --server-args --wait"),
    "dbus-run-session": _wrapper("--config-file --dbus-daemon"),
    "dbus-launch": _wrapper("--config-file --autolaunch"),
    "proxychains": _wrapper("-f"),
    "proxychains4": _wrapper("-f"),
    "torsocks": _wrapper("-u -p -a -P --user --pass --address --port"),
    "torify": _PLAIN,
    "tsocks": _PLAIN,
    "eatmydata": _PLAIN,
    "faketime": _wrapper("-p", 1, open=True),
    "rlwrap": _wrapper("-b -C -D -e -f -g -H -l -m -M -O -p -P -q -s -S -t -z", open=True),
    "busybox": _PLAIN,
    "toybox": _PLAIN,
    "ld.so": _wrapper("--library-path --preload --audit --argv0 --inhibit-rpath",
        looks="--list --verify --help"),
    "winpty": _PLAIN,
    "wine": _PLAIN,
    "start": _wrapper(open=True),
    # Looking at what a program does.
    "strace": _wrapper("-a -b -e -E -I -o -O -p -P -s -S -u -U -X", looks="-V"),
    "ltrace": _wrapper("-a -A -D -e -F -l -n -o -p -s -u -w -x -X", looks="-V"),
    "gdb": _wrapper(after="--args -args", only=True),
    "lldb": _wrapper(after="--", only=True),
    "perf stat": _wrapper("-e -o -p -t -C -I -r -x -G -D -M --event --output --repeat", open=True),
    "perf record": _wrapper("-e -o -p -t -C -F -c -m -g? -D -u -G --event --output --freq --call-graph",
        open=True),
    "perf trace": _wrapper("-e -o -p -t -C -u -m -D --event --output", open=True),
    "valgrind": _wrapper(open=True),
    "hyperfine": _wrapper(
        "-w -m -M -r -S -i? -P -D -L -N? --warmup --min-runs --max-runs --runs --export-json --export-csv "
        "--shell "
        "--parameter-list --command-name -n --output --export-markdown", each=True, anywhere=True,
        lines="-p -c -s --prepare --cleanup --setup --conclude",
    ),
    "concurrently": _wrapper("-n -c -p -l --names --prefix --prefix-colors", each=True),
    # For each of many.
    "xargs": _wrapper(
        "-a -d -E -I -L -n -P -s -i? -e? -l? --arg-file --delimiter --max-args --max-procs --max-chars "
        "--replace? "
        "--max-lines?",
    ),
    "parallel": _wrapper(
        "-a -C -I -j -P -S -n -N -L -s -d -E -J --arg-file --colsep --jobs --max-args --delay --timeout "
        "--joblog "
        "--results --sshlogin --workdir --env --tmpdir --retries --delimiter --pipepart", shell=True,
        open=True,
    ),
    # What a shell has itself.
    "command": _wrapper(looks="-v -V"),
    "builtin": _PLAIN,
    "exec": _wrapper("-a"),
    "coproc": _wrapper(after="{", open=True, sets=True),
    # Where the grammar takes a compound command behind `time` or `coproc` for words.
    "{": _KEYWORD,
    "!": _KEYWORD,
    "if": _KEYWORD,
    "while": _KEYWORD,
    "until": _KEYWORD,
    "then": _KEYWORD,
    "else": _KEYWORD,
    "elif": _KEYWORD,
    "do": _KEYWORD,
    "eval": _wrapper(shell=True),
    "noglob": _PLAIN,
    "nocorrect": _PLAIN,
    "repeat": _wrapper("", 1),
    # Tool chains.
    "git run": _PLAIN,
    "nix-shell": _wrapper("-p -A -E -I --packages", _NEVER, anywhere=True, lines="--run --command"),
    "nix develop": _wrapper(after="-c --command", only=True),
    "nix shell": _wrapper(after="-c --command", only=True),
    "guix shell": _wrapper(after="--", only=True),
    "direnv exec": _wrapper("", 1),
    "mise exec": _wrapper(after="--", only=True),
    "poetry run": _PLAIN,
    "pipenv run": _PLAIN,
    "hatch run": _wrapper(shell=True),
    "uv run": _wrapper("--with --python -p --project --directory --env-file --extra --group", open=True),
    "conda run": _wrapper("-n -p --name --prefix --cwd", open=True),
    "bundle exec": _PLAIN,
    "npm exec": _wrapper("-w -p --package --workspace", after="--", lines="-c --call", anywhere=True),
    "npx": _wrapper("-p --package", lines="-c --call", anywhere=True),
    "yarn exec": _PLAIN,
    "pnpm exec": _PLAIN,
    "rbenv exec": _PLAIN,
    "pyenv exec": _PLAIN,
    "op run": _wrapper(after="--", only=True),
    "doppler run": _wrapper(after="--", only=True, lines="--command"),
    "aws-vault exec": _wrapper("-d --duration", 1, after="--"),
    "dotenv": _wrapper("-f -e -p", after="--", open=True),
    "xterm": _TERMINAL,
    "gnome-terminal": _TERMINAL,
    "konsole": _TERMINAL,
    "xfce4-terminal": _TERMINAL,
    "alacritty": _TERMINAL,
    "kitty": _wrapper("-o -c -d --override --config --directory", open=True),
    "foot": _wrapper("-c -a -T -t -W", open=True),
    "urxvt": _TERMINAL,
    "x-terminal-emulator": _TERMINAL,
}  # fmt: skip

# Other names for the verb of an entry, and programs with the syntax of another program.
_SAME_VERB = {
    "tmux new": "tmux new-session", "tmux neww": "tmux new-window", "tmux splitw": "tmux split-window",
    "tmux send": "tmux send-keys", "tmux run": "tmux run-shell", "tmux popup": "tmux display-popup",
    "tmux if": "tmux if-shell", "tmux pipep": "tmux pipe-pane", "tmux respawn-window": "tmux respawn-pane",
    "kubectl rsh": "kubectl exec", "lxc shell": "lxc exec", "mise x": "mise exec", "npm x": "npm exec",
    "perf mem": "perf record", "perf sched": "perf record", "perf kvm": "perf record",
    "perf c2c": "perf record",
    "adb exec-out": "adb shell", "conda exec": "conda run", "pnpm dlx": "pnpm exec", "yarn dlx": "yarn exec",
}  # fmt: skip
_SAME_PROGRAM = {
    "podman": "docker", "nerdctl": "docker", "crictl": "docker", "oc": "kubectl", "k3s": "kubectl",
    "incus": "lxc", "mamba": "conda", "micromamba": "conda", "byobu": "tmux",
    "mate-terminal": "gnome-terminal",
    "terminator": "xterm", "uxterm": "xterm", "tilix": "xterm",
    "choom": "nice", "bunx": "npx", "uvx": "npx", "pnpx": "npx",
}  # fmt: skip
_WITH_VERBS = frozenset(key.split()[0] for key in WRAPPERS if " " in key)
NAMES = frozenset(key.split()[0] for key in WRAPPERS) | frozenset(_SAME_PROGRAM)
"""The programs that may run another program."""


def wrapped_commands(call: Call) -> WrappedCommands:
    """The commands in the words of a call; empty if it is no wrapper."""
    wrapped = WrappedCommands([], [], [], [])
    if call.name in ("find", "fd", "fdfind"):
        _collect_search_commands(call, wrapped)
        return wrapped
    wrapper, args = _entry(call)
    if wrapper is None:
        return wrapped
    options = read_options(args, wrapper.takes, stop=not wrapper.anywhere)
    if any(option.name in wrapper.looks for option in options.options):
        return wrapped
    _collect_commands(wrapper, args, call, wrapped)
    if wrapper.anywhere:
        wrapped.lines.extend(options.values(*wrapper.lines))
    return wrapped


def innermost(call: Call) -> Call:
    """The call inside all wrappers around it; a call without words if it is unknown."""
    for _ in range(MOST_INSIDE):
        wrapper, _ = _entry(call)
        if wrapper is None:
            break
        inner = wrapped_commands(call).calls
        if not inner:
            # Without a command these start a shell, as root or on another computer, which runs its input.
            return call if call.name in ROOT or call.name == "ssh" else call.inside(())
        call = inner[0]
    return call


def _entry(call: Call) -> tuple[Wrapper | None, tuple[Word, ...]]:
    """The table entry for a call, None if there is none, and the words after the program or its verb."""
    name = _SAME_PROGRAM.get(call.name, call.name)
    if name in _WITH_VERBS:
        for place, word in enumerate(call.args[:_VERB_WITHIN]):
            verb = f"{name} {word.text}"
            wrapper = WRAPPERS.get(_SAME_VERB.get(verb, verb))
            if wrapper is not None:
                return wrapper, call.args[place + 1 :]
    return WRAPPERS.get(name), call.args


def _collect_commands(wrapper: Wrapper, args: tuple[Word, ...], call: Call, wrapped: WrappedCommands) -> None:
    """Find the start of the command after options, their values, operands and assignments."""
    texts = [word.written for word in args]
    places = [place for place, text in enumerate(texts) if text in wrapper.after]
    if wrapper.only and not places:
        return
    at = places[0] + 1 if places else 0
    skip = 0 if places else wrapper.skip
    options_ended, uncertain = bool(places), False
    while at < len(args):
        text = texts[at]
        if options_ended or len(text) < 2 or text[0] != "-":
            if wrapper.sets and (text == "-" or _ASSIGNMENT.match(text)):
                name, sign, _ = text.partition("=")
                if sign:
                    wrapped.assignments.append(Assignment(name, args[at].cut(len(name) + 1)))
            elif skip:
                skip -= 1
            else:
                break
            at += 1
        elif text == "--":
            options_ended, at = True, at + 1
        else:
            options, count = options_at(args, at, wrapper.takes)
            at += count
            uncertain = uncertain or (wrapper.open and count == 1 and "=" not in text)
            for option in options:
                if option.name in wrapper.program and option.value is not None:
                    wrapped.calls.append(_program_call(option.value, args, call))
                elif option.name in wrapper.lines and option.value is not None and not wrapper.anywhere:
                    tail = args[at:] if wrapper.splits else ()
                    wrapped.lines.append(join_words((option.value, *tail)))
                    if wrapper.splits:
                        return
    _collect_command_words(wrapper, args[at:], call, wrapped)
    if uncertain:
        for place in range(at + 1, min(at + _POSSIBLE_COMMAND_WITHIN, len(args))):
            if not texts[place].startswith("-"):
                line = join_words(args[place:]) if wrapper.shell else None
                wrapped.possible.append((call.inside(args[place:]), line))


def _collect_command_words(
    wrapper: Wrapper, words: tuple[Word, ...], call: Call, wrapped: WrappedCommands
) -> None:
    if not words:
        return
    if wrapper.each:
        wrapped.lines.extend(words)
    elif wrapper.shell:
        ends = next((place for place, word in enumerate(words) if word.text.startswith(":::")), len(words))
        if ends:
            wrapped.lines.append(join_words(words[:ends]))
    else:
        wrapped.calls.append(call.inside(words))
        if " " in words[0].text:
            # No program has such a name: the word is a shell line, and some programs run it as one.
            wrapped.lines.append(words[0])


def _program_call(value: Word, args: tuple[Word, ...], call: Call) -> Call:
    texts = [word.text for word in args]
    arguments = args[texts.index("--") + 1 :] if "--" in texts else ()
    return call.inside((value, *arguments))


def _collect_search_commands(call: Call, wrapped: WrappedCommands) -> None:
    """Collect the commands of a search: in `find` up to `;`, or `+` after `{}`; in `fd` up to the end."""
    starting = _FINDS if call.name == "find" else frozenset({"-x", "-X", "--exec", "--exec-batch"})
    words: list[Word] | None = None
    for before, word in zip(call.words, call.args, strict=False):
        if words is None:
            words = [] if word.text in starting else None
        elif word.text == ";" or (word.text == "+" and before.written == "{}"):
            wrapped.calls.append(call.inside(tuple(words)))
            words = None
        else:
            words.append(word)
    if words:
        wrapped.calls.append(call.inside(tuple(words)))
