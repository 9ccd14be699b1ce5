"""Programs for files: delete, copy, pack, search, read."""

from __future__ import annotations

from dataclasses import replace

from core.programs.record import HIGH, MEDIUM, Program, program, wraps, writes
from core.programs.sentences import DELETES_FILES, IN_PLACE, MIRRORS, OWNERS, RIGHTS, RUNS_INSIDE

PAGER_COMMANDS = (r"\+.*[!|].*", RUNS_INSIDE, HIGH)
FINDS_AND_WRITES = ("-delete|-fprint0?|-fls|-fprintf", "Deletes or writes each file that it finds", HIGH)
COPY_OPTIONS = "-g -m -o -S --backup? --group --mode --owner --suffix --update?"
REPLACES = writes(
    operand="last",
    into="-t --target-directory",
    unless="-n --no-clobber -b --backup -S --suffix --update=none",
    force="-f --force",
)

# fmt: off
FILES: tuple[Program, ...] = (
    # Delete.
    program("del erase rd remove-item ri rm shred srm trash unlink",
        aliases="grm=rm gshred=shred gunlink=unlink", kinds="deletes"),
    program("rmdir", aliases="grmdir", kinds="deletes only-empty"),
    program("gvfs-rm gvfs-trash trash-empty trash-put", changes=[("", DELETES_FILES, MEDIUM)]),
    program("gio kioclient kioclient5", changes=[("trash|remove", DELETES_FILES, MEDIUM)]),
    # Move, copy and link.
    program("mv", aliases="gmv", kinds="moves writes-operands", options=COPY_OPTIONS, writes=REPLACES),
    program("move", kinds="moves writes-last", options=COPY_OPTIONS, writes=REPLACES),
    program("install", aliases="ginstall", kinds="writes-last", options=COPY_OPTIONS,
        writes=replace(REPLACES, unless=REPLACES.unless | {"-d", "--directory"})),
    program("cp copy xcopy", aliases="gcp", kinds="writes-last",
        options=COPY_OPTIONS, writes=REPLACES),
    program("ln", aliases="gln", kinds="writes-last",
        options=COPY_OPTIONS,
        changes=[("/(?:usr/)?(?:local/)?s?bin/[^/]+", "Gives a program another name", HIGH)],
        writes=replace(REPLACES, needs=frozenset({"-f", "--force"}))),
    program("robocopy", always=[("--delete.*|--remove-source-files", MIRRORS, HIGH)]),
    # Owners and permissions.
    program("chmod", aliases="gchmod", kinds="rights modes writes-operands rights-first",
        each=[(r"[0-7]*[2367][0-7]{0,2}[2367]|[aoug]*[ao][aoug]*\+\w*w\w*|\+\w*w\w*", "Lets everybody write",
        HIGH), (r"[4267][0-7]{3}|[ugoa]*\+\w*s\w*", "Lets a program run with its owner's rights", HIGH)]),
    program("chgrp chown", aliases="gchown=chown gchgrp=chgrp", kinds="rights writes-operands rights-first",
        changes=[("", OWNERS, MEDIUM)]),
    program("setfacl", kinds="rights writes-operands",
        changes=[(r"-\w*[mxbkM]\w*|--(?:modify|remove|set|restore)\S*", RIGHTS, MEDIUM)],
        reads=[("--test|--version", "")]),
    program("setfattr", changes=[("", OWNERS, MEDIUM)]),
    program("chattr", kinds="rights writes-operands", changes=[("", OWNERS, MEDIUM)]),
    program("icacls takeown", kinds="rights", changes=[("", RIGHTS, MEDIUM)]),
    program("cacls", changes=[("", RIGHTS, MEDIUM)]),
    # Archives and images.
    program("dd dc3dd dcfldd", aliases="gdd", kinds="blocks"),
    program("tar star", aliases="gtar bsdtar", kinds="tar unpacks output-option", ordinary="tar",
        options="-b -C -f -g -H -K -L -N -T -V -X --after-date --blocking-factor --checkpoint? --directory "
        "--exclude --exclude-from --file --files-from --group --index-file --label --listed-incremental "
        "--mode --mtime --newer --owner --starting-file --strip-components --tape-length --transform",
        runs="--to-command --checkpoint-action=exec= -I --use-compress-program -F --info-script "
        "--new-volume-script --rsh-command", loads="--rmt-command"),
    program("zip", kinds="zip", options="-b -i -n -O -P -s -t -tt -x --exclude --include --out --password",
        runs="--unzip-command -TT"),
    program("unzip", kinds="unzip unpacks output-option", options="-d -P -x"),
    program("7z", kinds="7z unpacks output-option"),
    program("7za 7zr", kinds="7z"),
    program("bsdcpio cpio", kinds="unpacks output-option", options="-C -D -E -F -H -I -O -R",
        runs="--rsh-command", changes=[(r"-\w*[ip]\w*|--extract|--pass-through",
        "Unpacks files, over those that exist", HIGH)]),
    # Write, or have an option for their output.
    program("mkdir touch", kinds="writes-operands"),
    program("tee", aliases="gtee", kinds="writes-operands", options="--output-error?",
        writes=writes(operand="each", adds="-a --append"), asks="nothing"),
    program("sponge", writes=writes(operand="each", adds="-a")),
    program("truncate", aliases="gtruncate", kinds="writes-operands",
        changes=[("", "Cuts a file's content", MEDIUM)]),
    program("patch", kinds="output-option",
        options="-B -D -d -F -i -p -r -V --directory --input --reject-file", changes=[("", IN_PLACE, MEDIUM)],
        reads=[("--dry-run|--check|-C", "")], writes=writes("-o --output")),
    program("sort", aliases="gsort", kinds="output-option only-if-asked",
        options="-k -S -T -t --batch-size --buffer-size --field-separator --files0-from --key --parallel "
        "--random-source --temporary-directory", runs="--compress-program", writes=writes("-o --output"),
        asks="nothing"),
    program("uniq", kinds="only-if-asked", options="-f -s -w --check-chars --skip-chars --skip-fields",
        writes=writes(operand="second"), asks="nothing"),
    program("shuf", kinds="only-if-asked", options="-i -n --head-count --input-range --random-source",
        writes=writes("-o --output"), asks="nothing"),
    program("split", aliases="gsplit", options="-a -b -C -l -n -t --bytes --lines", runs="--filter",
        asks="nothing"),
    program("gpg gpg2", kinds="output-option", ordinary=True, changes=[(r"--export-secret-\S+|--delete-\S+",
        "Takes out or deletes keys or passwords", HIGH)]),
    program("ssh-keygen", kinds="output-option"),
    # Search.
    program("find", aliases="gfind", kinds="searches walks shows-owners", each=[FINDS_AND_WRITES],
        wraps=wraps(after="-exec -execdir -ok -okdir", only=True), asks="nothing"),
    program("fd fdfind", kinds="searches walks", each=[FINDS_AND_WRITES],
        wraps=wraps(after="-X -x --exec --exec-batch", only=True), asks="nothing"),
    program("rg", kinds="walks", options="-A -B -C -e -f -g -m -T -t", runs="--pre --hostname-bin",
        asks="nothing"),
    program("egrep fgrep grep", kinds="may-walk", asks="nothing"),
    # Show.
    program("dir ls", kinds="may-walk may-show-owners", asks="nothing"),
    program("du", kinds="walks", asks="nothing"),
    program("tree", kinds="walks shows-owners", asks="nothing"),
    program("groups id stat", kinds="shows-owners", asks="nothing"),
    program("less", ordinary=True, options="-b -h -j -O -o -P -p -T -t -x -y -z",
        loads="--lesskey-file --lesskey-src -k", always=[PAGER_COMMANDS], asks="nothing"),
    program("more", ordinary=True, always=[PAGER_COMMANDS], asks="nothing"),
    program("man", options="-E -e -H? -L -M -m -R -S -s", runs="-P --pager -H --html",
        loads="--config-file -C", always=[PAGER_COMMANDS]),
    program("fzf", options="-d -n -q --height --prompt",
        runs="--preview --bind=execute --bind=become --bind=reload"),
    program("mplayer", single=True, loads="-include -input"),
    program(": cat diff false gunzip gzip true zcat", ordinary=True, asks="nothing"),
    program("bat bzip2 cache chromium code delta firefox google-chrome ksshaskpass lbzip2 lesspipe lz4 lzma "
        "lzop manager manager-core meld most nano none open osxkeychain pbzip2 pigz pxz ssh-askpass store "
        "w3m xdg-open xz zstd", ordinary=True),
    program(
        "[[ arch b2sum base32 base64 basename bc break bzcat cal cksum cmp column comm continue csplit cut "
        "dc dirname dpkg-query exit expand expr file fmt fold free getconf getent head hexdump iconv join "
        "jq locale look lsblk lscpu lsmem lsmod lspci md5sum nl nm nproc numfmt objdump od paste pwd "
        "readelf readlink realpath return rev seq set sha1sum sha256sum sha512sum shift size sleep strings "
        "sum tac tail tput tr tsort type uname unexpand vmstat wc whereis which whoami xmllint xxd xzcat "
        "yes yq zgrep", asks="nothing"),
)
# fmt: on
