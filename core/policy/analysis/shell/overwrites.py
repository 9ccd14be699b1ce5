"""Rules for files that a shell command overwrites by its arguments: `tar -czf X`, `curl -o X`, `cp a X`.

Redirections of the shell itself are in `core.policy.analysis.shell.rules`. Options are those of GNU tar, GNU
coreutils, Info-ZIP, rsync, curl, wget and 7-Zip. Only the device knows whether the file exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from core.fleet.models import Risk
from core.policy.analysis.shell.options import Options, read_options
from core.policy.analysis.shell.parser import Call, CommandFinding, Word
from core.policy.analysis.shell.tables import HARMLESS_DEVICES
from core.programs.record import Takes, takes
from core.text import short_line

_KEEPS = ("-n", "--no-clobber", "-b", "--backup", "-S", "--suffix")
_UNPACKS = "Replaces files of the same name where it unpacks"
_DELETES_SOURCES = "Deletes the files that it packs"


def overwrite_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the files that a call overwrites."""
    rule = _RULES.get(call.name)
    if rule is not None:
        yield from rule(call)


def file_write_findings(word: Word, appends: bool = False) -> Iterator[CommandFinding]:
    """The finding in writing to the file that a word names; none for a standard stream or `/dev/null`."""
    if word.known and (word.text in ("-", "") or HARMLESS_DEVICES.match(word.text)):
        return
    if not word.known:
        yield CommandFinding("Writes to a file whose path is only known when it runs", Risk.MEDIUM, word)
    elif appends:
        yield CommandFinding(f"Appends to {short_text(word)}", Risk.LOW, word)
    else:
        yield CommandFinding(f"Overwrites {short_text(word)} if it exists", Risk.MEDIUM, word)


def replacement_findings(word: Word) -> Iterator[CommandFinding]:
    """The finding in replacing a file, or the files of the same name in a folder."""
    if not word.known:
        yield CommandFinding("Replaces what is only known when it runs", Risk.MEDIUM, word)
    elif word.text.endswith("/"):
        yield CommandFinding(f"Replaces files of the same name in {short_text(word)}", Risk.MEDIUM, word)
    else:
        yield CommandFinding(f"Replaces {short_text(word)} if it exists", Risk.MEDIUM, word)


def short_text(word: Word) -> str:
    """A word for use in a sentence: on one line, at most 60 characters."""
    return short_line(word.text)


_COPY = takes("-t --target-directory -S --suffix -m --mode -o --owner -g --group --backup? --update?")


def _copy_findings(call: Call) -> Iterator[CommandFinding]:
    """`cp`, `mv`, `install` and `ln`. By POSIX, the first two replace an existing file without asking."""
    options = read_options(call.args, _COPY)
    update = [word.written for word in options.values("--update")]
    keeps = options.has(*_KEEPS) or any(word.startswith("none") for word in update)
    # With both `-n` and `-f`, the last one counts for `mv`; for the other programs it depends on the program.
    if keeps and not options.has("-f", "--force"):
        return
    if call.name == "ln" and not options.has("-f", "--force"):
        return
    if call.name == "install" and options.has("-d", "--directory"):
        return
    targets = options.values("-t", "--target-directory")
    for word in targets or (options.operands[-1:] if len(options.operands) > 1 else []):
        yield from replacement_findings(word)


_RSYNC = takes(
    "-e --rsh -f --filter -B --block-size -T --temp-dir -M --remote-option --exclude --exclude-from --include"
    " --include-from --files-from --bwlimit --log-file --timeout --port --password-file --chmod --chown"
    " --compare-dest --copy-dest --link-dest --partial-dir --backup-dir --suffix --max-size --min-size"
)


def _rsync_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, _RSYNC)
    if options.has("-n", "--dry-run", "--list-only", "--ignore-existing", "-b", "--backup"):
        return
    if len(options.operands) > 1:
        yield from replacement_findings(options.operands[-1])


_SCP = takes("-c -D -F -i -J -l -o -P -S -X")


def _scp_findings(call: Call) -> Iterator[CommandFinding]:
    operands = read_options(call.args, _SCP).operands
    if len(operands) > 1:
        yield from replacement_findings(operands[-1])


def _tee_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, takes("--output-error?"))
    for word in options.operands:
        yield from file_write_findings(word, appends=options.has("-a", "--append"))


def _dd_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if word.written.startswith("of="):
            target = word.cut(len("of="))
            # Writing to a device has its own finding.
            if not target.text.startswith("/dev/"):
                yield from file_write_findings(target)


_TAR = takes(
    "-f --file -C --directory -T --files-from -X --exclude-from --exclude -I --use-compress-program -g"
    " --listed-incremental -b --blocking-factor -N --newer --after-date -V --label -K --starting-file -L"
    " --tape-length -F --info-script --transform --owner --group --mode"
    " --mtime --strip-components --index-file"
)
_TAR_CHANGES = ("-r", "--append", "-u", "--update", "-A", "--catenate", "--concatenate", "--delete")


def _tar_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, _TAR)
    files = options.values("-f", "--file")
    letters = {option.name for option in options.options}
    first = call.args[0] if call.args else None
    if first is not None and first.known and re.fullmatch(r"[A-Za-z]+", first.text):
        # Without a dash, the values of the letters follow them in the same order.
        values = iter(call.args[1:])
        for letter in first.text:
            letters.add(f"-{letter}")
            value = next(values, None) if f"-{letter}" in _TAR.values else None
            if letter == "f" and value is not None:
                files.append(value)
    if letters & {"-c", "--create", *_TAR_CHANGES}:
        for word in files:
            yield from file_write_findings(word, appends=not letters & {"-c", "--create"})
        if "--remove-files" in letters:
            yield CommandFinding(_DELETES_SOURCES, Risk.HIGH, call.words[0])
    elif letters & {"-P", "--absolute-names", "--absolute-paths"}:
        text = "Unpacks files to wherever the archive names them"
        yield CommandFinding(text, Risk.HIGH, call.words[0])
    # Unpacking is the usual use of an archive; with these options it also replaces folders and links.
    if letters & {"--overwrite", "--unlink-first", "-U", "--recursive-unlink"}:
        yield CommandFinding(_UNPACKS, Risk.MEDIUM, call.words[0])


_ZIP = takes("-b -n -t -tt -P --password -O --out -s -x -i --exclude --include")


def _zip_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, _ZIP)
    if options.has("-T", "--test", "-h", "--help", "--show-files", "-L"):
        return
    for word in options.values("-O", "--out") or options.operands[:1]:
        yield from file_write_findings(word)
    if options.has("-m", "--move"):
        yield CommandFinding(_DELETES_SOURCES, Risk.HIGH, call.words[0])


def _unzip_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, takes("-d -P -x"))
    if options.has("-o") and not options.has("-l", "-v", "-t", "-p", "-c", "-z", "-n"):
        yield CommandFinding(_UNPACKS, Risk.MEDIUM, call.words[0])


def _seven_zip_findings(call: Call) -> Iterator[CommandFinding]:
    words = [word for word in call.args if not word.text.startswith("-")]
    if len(words) > 1 and words[0].text in ("a", "u", "d", "rn"):
        yield from file_write_findings(words[1])
    elif words and words[0].text in ("x", "e") and any(word.text in ("-y", "-aoa") for word in call.args):
        yield CommandFinding(_UNPACKS, Risk.MEDIUM, call.words[0])


_CURL = takes(
    "-o --output -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --etag-save --hsts --libcurl"
    " -A --user-agent -b --cookie -d --data --data-binary --data-raw --data-urlencode --json -e --referer -E"
    " --cert -F --form -H --header -K --config -m --max-time -T --upload-file -u --user -U --proxy-user -w"
    " --write-out -x --proxy -X --request -y -Y -z --time-cond --url --retry --connect-timeout --cacert --key"
    " --resolve --output-dir --limit-rate -r --range -C --continue-at -Q -t -P --interface --unix-socket"
)
_CURL_WRITES = (
    "-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii", "--stderr",
    "--etag-save", "--hsts", "--libcurl",
)  # fmt: skip


def _curl_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, _CURL)
    for word in options.values(*_CURL_WRITES):
        yield from file_write_findings(word)
    if options.has("-O", "--remote-name", "--remote-name-all") and not options.has("--no-clobber"):
        for word in [*options.operands, *options.values("--url")]:
            yield CommandFinding("Overwrites a file named like the download if it exists", Risk.MEDIUM, word)


_WGET = takes(
    "-O --output-document -o --output-file -a --append-output -P --directory-prefix -i --input-file -e"
    " --execute -U --user-agent -t --tries -T --timeout -w --wait -Q --quota --header --user --password"
    " --post-data --post-file --body-data --body-file --method --referer --save-cookies --load-cookies -B"
    " --base -A --accept -R --reject -D --domains -l --level -I -X --certificate --private-key"
    " --ca-certificate --limit-rate --start-pos --warc-file -n"
)


def _wget_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, _WGET)
    # Without -O, wget never overwrites an existing file.
    for word in options.values("-O", "--output-document", "-o", "--output-file", "--save-cookies"):
        yield from file_write_findings(word)
    for word in options.values("-a", "--append-output"):
        yield from file_write_findings(word, appends=True)


def _output_option_rule(
    table: str, *names: str, single: bool = False
) -> Callable[[Call], Iterator[CommandFinding]]:
    """A rule for a program that overwrites the files in the options `names`.

    `table` has all options of the program that take a value.
    """
    table_options: Takes = takes(table)

    def rule(call: Call) -> Iterator[CommandFinding]:
        options: Options = read_options(call.args, table_options, single=single)
        for word in options.values(*names):
            yield from file_write_findings(word)

    return rule


def _sponge_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, takes())
    for word in options.operands:
        yield from file_write_findings(word, appends=options.has("-a"))


def _uniq_findings(call: Call) -> Iterator[CommandFinding]:
    operands = read_options(call.args, takes("-f --skip-fields -s --skip-chars -w --check-chars")).operands
    for word in operands[1:2]:
        yield from file_write_findings(word)


_RULES: dict[str, Callable[[Call], Iterator[CommandFinding]]] = {
    **dict.fromkeys(("cp", "mv", "install", "ln", "copy", "move", "xcopy"), _copy_findings),
    "rsync": _rsync_findings,
    "scp": _scp_findings,
    "tee": _tee_findings,
    "sponge": _sponge_findings,
    **dict.fromkeys(("dd", "dcfldd", "dc3dd"), _dd_findings),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar_findings),
    "zip": _zip_findings,
    "unzip": _unzip_findings,
    **dict.fromkeys(("7z", "7za", "7zr"), _seven_zip_findings),
    "curl": _curl_findings,
    "wget": _wget_findings,
    "uniq": _uniq_findings,
    "sort": _output_option_rule(
        "-o --output -k --key -t --field-separator -S --buffer-size -T --temporary-directory --parallel"
        " --files0-from --compress-program --batch-size --random-source",
        "-o",
        "--output",
    ),
    "shuf": _output_option_rule(
        "-o --output -n --head-count -i --input-range --random-source", "-o", "--output"
    ),
    "patch": _output_option_rule(
        "-o --output -p -d --directory -i --input -r --reject-file -B -D -F -V", "-o", "--output"
    ),
    "openssl": _output_option_rule(
        "-out -keyout -in -inkey -config -subj -days -passin -passout -CAfile", "-out", "-keyout",
        single=True,
    ),
}  # fmt: skip
NAMES = frozenset(_RULES)
"""The programs with a rule in this module."""
