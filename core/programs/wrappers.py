"""Programs whose purpose is to run another program: elsewhere, later, under other limits."""

from __future__ import annotations

from core.programs.record import NEVER, Program, program, wraps

# fmt: off
WRAPPERS: tuple[Program, ...] = (
    # For each of many.
    program("xargs", aliases="gxargs", kinds="from-input",
        options="-a -d -E -e? -I -i? -L -l? -n -P -s --arg-file --delimiter --max-args --max-chars "
        "--max-lines? --max-procs --replace?", wraps=wraps(), asks="nothing"),
    program("parallel", kinds="from-input runs-input",
        options="-a -C -d -E -I -J -j -L -N -n -P -S -s --arg-file --colsep --delay --delimiter --env "
        "--joblog --jobs --max-args --pipepart --results --retries --sshlogin --timeout --tmpdir --workdir",
        wraps=wraps(shell=True, open=True)),
    # In another place: folders, namespaces, containers, computers.
    program("sg", wraps=wraps(1, lines="-c", shell=True)),
    program("setpriv",
        options="--ambient-caps --bounding-set --groups --inh-caps --regid --reuid --securebits",
        wraps=wraps(open=True)),
    program("chpst", options="-/ -b -C -c -d -e -f -L -l -m -n -o -p -r -t -U -u", wraps=wraps()),
    program("chroot", options="--groups --userspec", wraps=wraps(1)),
    program("unshare",
        options="-G -R -S -w --map-group --map-user --propagation --root --setgid --setgroups --setuid --wd",
        wraps=wraps()),
    program("nsenter", options="-G -N -S -t --net-socket --setgid --setuid --target", wraps=wraps()),
    program("bwrap",
        options="--args --bind-data:2 --bind-try:2 --bind:2 --cap-add --cap-drop --chdir --chmod:2 --dev "
        "--dev-bind-try:2 --dev-bind:2 --dir --file:2 --gid --hostname --info-fd --lock-file --mqueue "
        "--overlay:2 --perms --proc --ro-bind-data:2 --ro-bind-try:2 --ro-bind:2 --seccomp --setenv:2 "
        "--size --symlink:2 --sync-fd --tmpfs --uid --unsetenv", wraps=wraps(open=True)),
    program("firejail start valgrind", wraps=wraps(open=True)),
    program("proot", options="-0? -b -k -q -r -w --bind --cwd --rootfs", wraps=wraps(open=True)),
    program("fakechroot", options="-c -d -e -s", wraps=wraps()),
    program("fakeroot", options="-b -f -i -l -s --faked --fd-base --lib --load-file --save-file",
        wraps=wraps()),
    program("flatpak-spawn", options="--directory", wraps=wraps(open=True)),
    program("systemd-nspawn", options="-b? -D -i -M -u --bind --directory --image --machine --setenv --user",
        wraps=wraps(open=True)),
    program("distrobox-enter", options="-n --name", wraps=wraps(after="-e --", only=True)),
    program("distrobox",
        subcommands=[program("enter", options="-n --name", wraps=wraps(after="-e --", only=True))]),
    program("toolbox",
        subcommands=[program("run", options="-c -d -r --container --distro --release", wraps=wraps())]),
    program("machinectl",
        subcommands=[program("shell", options="-E -M --machine --setenv --uid", wraps=wraps(1))]),
    program("adb", subcommands=[program("shell exec-out", options="-e -s", wraps=wraps(shell=True))]),
    program("pdsh", options="-f -g -l -R -t -u -w -X -x", wraps=wraps(shell=True)),
    program("parallel-ssh pssh", options="-e -H -h -l -O -o -p -t -X -x --host --hosts --timeout --user",
        wraps=wraps(shell=True)),
    program("clush", options="-f -g -l -o -t -u -w -X -x", wraps=wraps(shell=True)),
    program("ansible", options="-B -e -f -i -l -m -P -t -u --forks --inventory --limit --module-name --user",
        wraps=wraps(NEVER, lines="-a --args", anywhere=True)),
    program("salt", options="-t --out --timeout", wraps=wraps(2, shell=True, open=True)),
    # At another time, or repeatedly.
    program("watch", options="-n -q -s --equexit --interval --shotsdir", wraps=wraps(shell=True)),
    program("entr", wraps=wraps(shell=True)),
    program("watchexec", options="-d -e -f -i -o -s -w --debounce --exts --filter --ignore --signal --watch",
        wraps=wraps(shell=True)),
    program("nodemon", options="-d -e -i -w --delay --ext --ignore --watch",
        wraps=wraps(NEVER, lines="-x --exec", anywhere=True)),
    program("repeat setlock", wraps=wraps(1)),
    program("daemonize", options="-c -E -e -l -o -p -u", wraps=wraps()),
    program("daemon", options="-N -n -u -X --chdir --command --name --pidfile --user",
        wraps=wraps(open=True)),
    program("start-stop-daemon",
        options="-c -d -g -I -k -N -n -P -p -R -r -s -u --chdir --chroot --chuid --group --name --nicelevel "
        "--pidfile --retry --signal --start? --status? --stop? --umask --user",
        wraps=wraps(NEVER, program="-a -x --exec --startas")),
    program("systemd-run",
        options="-E -G? -H -M -p -u --description --gid --group --host --machine --nice --on-active "
        "--on-boot --on-calendar --path-property --property --service-type --setenv --slice "
        "--timer-property --uid --unit --user? --working-directory", wraps=wraps(open=True)),
    program("systemd-inhibit", options="--mode --what --who --why", wraps=wraps(open=True)),
    program("systemd-cat", options="-p -t --identifier --priority", wraps=wraps()),
    program("screen", options="-c -e -h -L? -Logfile -p -S -s -T -t", wraps=wraps(), asks="services",
        subcommands=[
            program("stuff", wraps=wraps(shell=True)),
            program("exec", wraps=wraps())
        ]),
    program("byobu tmux", asks="services",
        subcommands=[
            program("new-session new", options="-c -e -F -f -n -s -t -x -y", wraps=wraps(shell=True)),
            program("new-window neww", options="-c -e -F -n -t", wraps=wraps(shell=True)),
            program("split-window splitw", options="-c -e -F -l -p -t", wraps=wraps(shell=True)),
            program("respawn-pane respawn-window", options="-c -e -t", wraps=wraps(shell=True)),
            program("display-popup popup", options="-b -c -d -e -h -S -s -T -t -w -x -y",
                wraps=wraps(shell=True)),
            program("run-shell run", options="-c -d -t", wraps=wraps(shell=True)),
            program("if-shell if", options="-t", wraps=wraps(each=True)),
            program("pipe-pane pipep", options="-t", wraps=wraps(shell=True)),
            program("send-keys send", options="-c -N -t", wraps=wraps(shell=True))
        ]),
    program("dtach", options="-e -r", wraps=wraps(1, open=True)),
    # Under other limits, in other surroundings.
    program(
        "aarch64 builtin busybox chronic eatmydata i386 i686 linux32 linux64 nocorrect noglob nohup setarch "
        "setsid torify toybox tsocks uname26 unbuffer wine winpty x86_64", wraps=wraps(), asks="inside"),
    program("env", aliases="genv",
        options="-a -C -u --argv0 --block-signal? --chdir --default-signal? --ignore-signal? --unset",
        wraps=wraps(lines="-S --split-string", sets=True, splits=True), asks="environment"),
    program("choom nice", options="-n --adjustment", wraps=wraps(), asks="inside"),
    program("ionice", options="-c -n -P -p -u --class --classdata --pgid --pid --uid",
        wraps=wraps(looks="-P -p -u --pgid --pid --uid"), asks="inside"),
    program("chrt", options="-D -P -p -T --pid --sched-deadline --sched-period --sched-runtime",
        wraps=wraps(1, looks="-m -p --max --pid")),
    program("taskset", wraps=wraps(1, looks="-p --pid")),
    program("prlimit", options="-o -p --output --pid", wraps=wraps(open=True)),
    program("softlimit", options="-a -c -d -f -l -m -o -p -r -s -t", wraps=wraps()),
    program("numactl",
        options="-C -i -l? -m -N -p --cpunodebind --interleave --membind --physcpubind --preferred",
        wraps=wraps(open=True)),
    program("cgexec", options="-g", wraps=wraps(open=True)),
    program("timeout", aliases="gtimeout", options="-k -s --kill-after --signal", wraps=wraps(1),
        asks="inside"),
    program("time", aliases="gtime", kinds="keyword", options="-f -o --format --output",
        wraps=wraps(sets=True), asks="inside"),
    program("stdbuf", options="-e -i -o --error --input --output", wraps=wraps(), asks="inside"),
    program("script",
        options="-B -E -I -m -O -o -T -t? --echo --log-in --log-io --log-out --log-timing --logging-format "
        "--output-limit", wraps=wraps(NEVER, lines="-c --command", after="--", anywhere=True)),
    program("ttyrec", wraps=wraps(NEVER, lines="-e", anywhere=True)),
    program("asciinema",
        subcommands=[program("rec", wraps=wraps(NEVER, lines="-c --command", anywhere=True))]),
    program("flock", options="-E -w --conflict-exit-code --timeout --wait",
        wraps=wraps(1, lines="-c --command")),
    program("runcon", options="-l -r -t -u --range --role --type --user", wraps=wraps(1, open=True)),
    program("caffeinate", options="-t -w", wraps=wraps()),
    program("xvfb-run",
        options="-e -f -n -p -s -w --auth-file --error-file --server-args --server-num --wait",
        wraps=wraps()),
    program("dbus-run-session", options="--config-file --dbus-daemon", wraps=wraps()),
    program("dbus-launch", options="--autolaunch --config-file", wraps=wraps()),
    program("proxychains proxychains4", options="-f", wraps=wraps()),
    program("torsocks", options="-a -P -p -u --address --pass --port --user", wraps=wraps()),
    program("faketime", options="-p", wraps=wraps(1, open=True)),
    program("rlwrap", options="-b -C -D -e -f -g -H -l -M -m -O -P -p -q -S -s -t -z",
        wraps=wraps(open=True)),
    program("ld.so", options="--argv0 --audit --inhibit-rpath --library-path --preload",
        wraps=wraps(looks="--help --list --verify")),
    program("hyperfine",
        options="-D -i? -L -M -m -n -N? -P -r -S -w --command-name --export-csv --export-json "
        "--export-markdown --max-runs --min-runs --output --parameter-list --runs --shell --warmup",
        wraps=wraps(lines="-c -p -s --cleanup --conclude --prepare --setup", each=True, anywhere=True)),
    program("concurrently", options="-c -l -n -p --names --prefix --prefix-colors", wraps=wraps(each=True)),
    # Terminals.
    program(
        "alacritty gnome-terminal konsole mate-terminal terminator tilix urxvt uxterm x-terminal-emulator "
        "xfce4-terminal xterm",
        wraps=wraps(lines="--command", after="-e -x -- --command --execute", shell=True, only=True)),
    program("kitty", options="-c -d -o --config --directory --override", wraps=wraps(open=True)),
    program("foot", options="-a -c -T -t -W", wraps=wraps(open=True)),
    # Tool chains.
    program("nix-shell", options="-A -E -I -p --packages",
        wraps=wraps(NEVER, lines="--command --run", anywhere=True)),
    program("dotenv", options="-e -f -p", wraps=wraps(after="--", open=True)),
    program("nix", subcommands=[program("develop shell", wraps=wraps(after="-c --command", only=True))]),
    program("guix", subcommands=[program("shell", wraps=wraps(after="--", only=True))]),
    program("direnv", subcommands=[program("exec", wraps=wraps(1))]),
    program("mise", subcommands=[program("exec x", wraps=wraps(after="--", only=True))]),
    program("pipenv poetry", subcommands=[program("run", wraps=wraps())]),
    program("hatch", subcommands=[program("run", wraps=wraps(shell=True))]),
    program("bundle pyenv rbenv", subcommands=[program("exec", wraps=wraps())]),
    program("op", subcommands=[program("run", wraps=wraps(after="--", only=True))]),
    program("doppler", subcommands=[program("run", wraps=wraps(lines="--command", after="--", only=True))]),
    program("aws-vault", subcommands=[program("exec", options="-d --duration", wraps=wraps(1, after="--"))]),
)
# fmt: on
