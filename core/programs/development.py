"""Programs for repositories, builds and packages, and those that look at other programs."""

from __future__ import annotations

from core.programs.record import HIGH, MEDIUM, Program, language, program, wraps
from core.programs.sentences import BUILDS, FETCHES, INSTALLS, LOSES_HISTORY

LIBRARY = (
    "install|uninstall|add|remove|i|ci|update|upgrade|publish|exec|tool|run|dlx|rebuild|link|create|init|test|"
    "start|sync|require|un|rm|download|wheel|audit",
    INSTALLS,
    MEDIUM,
)

# fmt: off
DEVELOPMENT: tuple[Program, ...] = (
    # Repositories.
    program("git", kinds="git output-option",
        options="-C -c --config-env --exec-path? --git-dir --list-cmds? --namespace --super-prefix "
        "--work-tree", changes=[(r"clean & -\w*f\w*|--force", LOSES_HISTORY, HIGH),
        ("reset & --hard|--merge|--keep", LOSES_HISTORY, HIGH),
        (r"push & --force|--force-with-lease\S*|--force-if-includes|-\w*f\w*|--delete|-d|--mirror|--prune|"
        r":\S+|\+\S+", LOSES_HISTORY, HIGH), ("branch & -D|-f|--force|-M|-C", LOSES_HISTORY, HIGH),
        ("tag & -d|--delete|-f|--force", LOSES_HISTORY, HIGH),
        (r"checkout|switch & --|-f|--force|--discard-changes|-B|\.", LOSES_HISTORY, HIGH),
        (r"restore & \.|--source\S*|--worktree|-W|-s|[^-].*", LOSES_HISTORY, HIGH),
        ("stash & drop|clear", LOSES_HISTORY, HIGH), ("reflog & expire|delete", LOSES_HISTORY, HIGH),
        (r"gc & --prune\S*", LOSES_HISTORY, HIGH),
        ("update-ref|filter-branch|filter-repo", LOSES_HISTORY, HIGH), ("remote & rm|remove|set-url|rename",
        "Changes where a repository's history goes", MEDIUM),
        (r"rm|worktree & -\w*[rf]\w*|--force|remove", LOSES_HISTORY, HIGH)],
        each=[(r"push & \+.*", LOSES_HISTORY, HIGH)],
        subcommands=[
            program("run", wraps=wraps()),
            program("config", options="-f --blob --comment --default --file --type --url --value"),
            program("rebase", runs="-x --exec"),
            program("difftool", runs="-x --extcmd"),
            program("grep", options="-A -B -C -e -f -m -O? --open-files-in-pager?",
                runs="-O --open-files-in-pager"),
            program("fetch", options="-j -o --depth", runs="--upload-pack"),
            program("pull", options="-j -o -s -X --depth", runs="--upload-pack"),
            program("clone", options="-b -c -o --branch --config --depth --template",
                runs="-u --upload-pack"),
            program("ls-remote", options="-o --sort", runs="--upload-pack --exec"),
            program("fetch-pack", runs="--upload-pack --exec"),
            program("push", options="-o", runs="--receive-pack --exec"),
            program("send-pack", runs="--receive-pack --exec"),
            program("archive", options="-o --format --prefix --remote", runs="--exec"),
            program("filter-branch", options="-d --original --subdirectory-filter",
                runs="--env-filter --tree-filter --index-filter --parent-filter --msg-filter "
                "--commit-filter --tag-name-filter --setup"),
            program("send-email", options="--cc --from --subject --to",
                runs="--to-cmd --cc-cmd --header-cmd --sendmail-cmd --smtp-server"),
            program("instaweb", options="-m -p --port", runs="-d --httpd -b --browser"),
            program("mergetool", options="-t --tool", runs="--tool-cmd"),
            program("svn", options="-A -r", runs="--authors-prog")
        ]),
    # Builds.
    program("make", aliases="gmake bsdmake remake", kinds="builds", options="-C -I -j? -l? -o -W",
        loads="--file --makefile -f", changes=[("", BUILDS, MEDIUM)],
        reads=[(r"-\w*n\w*|--dry-run|--just-print|--version|-v|--help|-h|-p|-q", "")],
        language=language("--eval", script=False)),
    program("bazel gradlew lein msbuild mvnw ninja nmake nox sbt scons tox waf xcodebuild",
        changes=[("", BUILDS, MEDIUM)]),
    program("invoke just rake task", changes=[("", BUILDS, MEDIUM)],
        reads=[("-l|--list|-T|--tasks|--version|--summary|--help", "")]),
    program("ant gradle mvn", changes=[("", BUILDS, MEDIUM)],
        reads=[("--version|-v|--help|-version|-h", "")]),
    program("cmake meson", changes=[("--build|--install|-P|compile|install|-E", BUILDS, MEDIUM)]),
    program("go", changes=[("run|generate|test|install|get|tool", BUILDS, MEDIUM)],
        reads=[("version|env|doc|list|vet|fmt|help", "-w|-u")]),
    program("cabal dotnet dune mix stack zig",
        changes=[("run|test|build|publish|watch|exec|compile", BUILDS, MEDIUM)]),
    program("java", changes=[(r"-jar|-cp|-classpath|--module|-m|[A-Za-z_][\w.]*",
        "Runs a program in a file; what it does is not in the line", MEDIUM)],
        reads=[("-version|--version|-help|--help", "-jar|-cp|-classpath")]),
    program("javaw", changes=[(r"-jar|-cp|-classpath|--module|-m|[A-Za-z_][\w.]*",
        "Runs a program in a file; what it does is not in the line", MEDIUM)]),
    program("c++ cc clang clang++ g++ gcc", kinds="output-option versioned", options="-D -I -L -l -o -x",
        single=True, loads="-fplugin -specs -wrapper"),
    program("ctags", options="-f -I -L -o", loads="--options"),
    # Packages of the system.
    program("apt", kinds="lists-installed", options="-t",
        runs="-o=Invoke --option=Invoke -o=Dir::Bin --option=Dir::Bin", loads="--config-file -c",
        changes=[("", INSTALLS, MEDIUM)],
        reads=[("list|show|search|policy|depends|rdepends|changelog|check|moo|download|-v|--version|-s|"
        "--simulate", "")], asks="packages"),
    program("apt-get aptitude", options="-t", runs="-o=Invoke --option=Invoke -o=Dir::Bin --option=Dir::Bin",
        loads="--config-file -c", changes=[("", INSTALLS, MEDIUM)],
        reads=[("list|show|search|policy|depends|rdepends|changelog|check|moo|download|-v|--version|-s|"
        "--simulate", "")], asks="packages"),
    program("apt-cache", options="-t", runs="-o=Invoke --option=Invoke -o=Dir::Bin --option=Dir::Bin",
        loads="--config-file -c", asks="packages"),
    program("dpkg", options="-D", runs="--pre-invoke --post-invoke --status-logger",
        changes=[("", INSTALLS, MEDIUM)],
        reads=[(r"-[lLsSpC]\S*|--(?:list|listfiles|status|search|print\S*|get-selections|audit|version|"
        r"compare-versions)\S*", "")], asks="nothing"),
    program("rpm", options="-D -r", loads="--load --macros --rcfile", changes=[("", INSTALLS, MEDIUM)],
        reads=[(r"-q\S*|--query\S*|-V\S*|--verify|--version", "")],
        language=language("-E --eval", script=False), asks="nothing"),
    program("dnf yum", changes=[("", INSTALLS, MEDIUM)],
        reads=[("list|info|search|repolist|provides|history|check-update|--version|repoquery",
        "undo|redo|rollback")], asks="packages"),
    program("zypper", changes=[("", INSTALLS, MEDIUM)],
        reads=[("search|se|info|if|list-updates|lu|repos|lr|--version", "")], asks="packages"),
    program("pacman", changes=[("", INSTALLS, MEDIUM)], reads=[(r"-Q\S*|-Ss\S*|-Si\S*|-F\S*|-V", "")]),
    program("apk", changes=[("", INSTALLS, MEDIUM)], reads=[("info|search|list|policy|version|audit", "")]),
    program("brew", changes=[("", INSTALLS, MEDIUM)],
        reads=[("list|ls|info|search|outdated|deps|doctor|config|leaves|--version|--prefix|uses|desc", "")],
        asks="packages"),
    program("snap", changes=[("", INSTALLS, MEDIUM)],
        reads=[("list|info|find|services|version|connections|changes|interfaces", "")], asks="packages"),
    program("flatpak", runs="--command", changes=[("", INSTALLS, MEDIUM)],
        reads=[("list|info|search|remotes|ps|history|--version", "")], asks="packages"),
    program("choco winget", changes=[("", INSTALLS, MEDIUM)],
        reads=[("list|search|show|info|outdated|--version", "")]),
    # Packages of languages.
    program("pip", kinds="versioned", options="-c -r -t",
        loads="--extra-index-url --find-links --index-url -f -i", changes=[LIBRARY],
        reads=[("audit", "fix|--fix")]),
    program("pipx", changes=[LIBRARY]),
    program("uv", changes=[LIBRARY], reads=[("audit", "fix|--fix")],
        subcommands=[
            program("run", options="-p --directory --env-file --extra --group --project --python --with",
                wraps=wraps(open=True))
        ]),
    program("conda", changes=[LIBRARY], reads=[("audit", "fix|--fix")],
        subcommands=[program("run exec", options="-n -p --cwd --name --prefix", wraps=wraps(open=True))]),
    program("mamba micromamba", changes=[LIBRARY],
        subcommands=[program("run exec", options="-n -p --cwd --name --prefix", wraps=wraps(open=True))]),
    program("npm", options="-C -w", runs="--script-shell --shell --editor", changes=[LIBRARY],
        reads=[("audit", "fix|--fix")],
        subcommands=[
            program("exec x", options="-p -w --package --workspace",
                wraps=wraps(lines="-c --call", after="--", anywhere=True))
        ]),
    program("pnpm yarn", changes=[LIBRARY], reads=[("audit", "fix|--fix")],
        subcommands=[program("exec dlx", wraps=wraps())]),
    program("cargo", loads="--config", changes=[LIBRARY,
        ("run|test|bench|build|check|clippy|doc|fix|b|t|r", BUILDS, MEDIUM)], reads=[("audit", "fix|--fix")]),
    program("composer gem", changes=[LIBRARY], reads=[("audit", "fix|--fix")]),
    program("bunx npx pnpx uvx", options="-p --package", changes=[("", FETCHES, MEDIUM)],
        wraps=wraps(lines="-c --call", anywhere=True)),
    # What looks at other programs.
    program("gdb", options="-d -e -p -s", single=True,
        runs="-ex=shell -ex=! -ex=pipe -ex=| -ex=python -iex=shell -iex=! -eval-command=shell "
        "--eval-command=shell", loads="--command -command -ix -x",
        changes=[(r"-p\S*|--pid\S*|attach", "Takes hold of a running program", HIGH)],
        wraps=wraps(after="-args --args", only=True)),
    program("lldb", changes=[(r"-p\S*|--pid\S*|attach", "Takes hold of a running program", HIGH)],
        wraps=wraps(after="--", only=True)),
    program("strace", options="-a -b -E -e -I -O -o -P -p -S -s -U -u -X", wraps=wraps(looks="-V")),
    program("ltrace", options="-A -a -D -e -F -l -n -o -p -s -u -w -X -x", wraps=wraps(looks="-V")),
    program("perf",
        subcommands=[
            program("stat", options="-C -D -e -G -I -M -o -p -r -t -x --event --output --repeat",
                wraps=wraps(open=True)),
            program("record mem sched kvm c2c",
                options="-C -c -D -e -F -G -g? -m -o -p -t -u --call-graph --event --freq --output",
                wraps=wraps(open=True)),
            program("trace", options="-C -D -e -m -o -p -t -u --event --output", wraps=wraps(open=True))
        ]),
)
# fmt: on
