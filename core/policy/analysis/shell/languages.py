"""Rules for shells, interpreters, awk and sed, whose programs come from the line, from a file or from input.

An interpreter's program is not parsed: that it runs is the finding. The programs of awk and sed are parsed as
far as needed to find the commands and files in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from core.fleet.models import Risk
from core.policy.analysis.shell.embedded import Embedded
from core.policy.analysis.shell.options import Options, read_options
from core.policy.analysis.shell.parser import Call, CommandFinding, Word, join_words
from core.policy.analysis.shell.tables import ROOT, SHELLS, STARTUP, names, system_folder
from core.programs.record import Takes, takes


@dataclass(frozen=True, slots=True)
class Language:
    """The command-line syntax of an interpreter.

    `code`: options whose value is a program. `modules`: options whose value is the name of a module to run.
    `looks`: options with which it runs nothing. `verbs`: first operands after which code follows. `single`: a
    single dash begins a whole name. `script`: the first operand is a program file.
    """

    takes: Takes
    code: frozenset[str]
    modules: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    single: bool = False
    script: bool = True


_LOOKS = "-V --version -h --help -v"


def _language(
    code: str, values: str = "", *, modules: str = "", looks: str = _LOOKS, verbs: str = "", **flags: bool
) -> Language:
    return Language(
        takes(f"{code} {values} {modules}"), frozenset(code.split()), frozenset(modules.split()),
        frozenset(looks.split()), frozenset(verbs.split()), **flags,
    )  # fmt: skip


_BY_NAME = {
    "python": _language("-c", "-W -X -Q --check-hash-based-pycs", modules="-m",
        looks="-V --version -h --help"),
    "perl": _language("-e -E", "-I -i? -F? -M? -m? -x? -d? -D?"),
    "ruby": _language("-e", "-I -C -i? -r? -F? -K? -T? -W? -x?"),
    "php": _language("-r -B -R -E -F", "-f -d -c -S -t -z", looks=f"{_LOOKS} -i -m --ini --modules"),
    "lua": _language("-e", "-l"),
    "node": _language(
        "-e --eval -p --print", "-r --require --import --loader --experimental-loader -C --conditions "
        "--env-file",
        looks=f"{_LOOKS} -c --check",
    ),
    "deno": _language("", "--allow-net? --import-map -c", verbs="eval"),
    "bun": _language("-e --eval -p --print", "-r --preload"),
    "rscript": _language("-e"),
    "r": _language("-e", "-f --file"),
    "julia": _language("-e -E --eval --print", "-L -J -p? --load"),
    "osascript": _language("-e", "-l -s"),
    "guile": _language("-c", "-s -l -L -x"),
    "octave": _language("--eval", "--path"),
    "scala": _language("-e", "-cp -classpath"),
    "groovy": _language("-e", "-cp"),
    "elixir": _language("-e --eval --rpc-eval", "-r -S"),
    "erl": _language("-eval", "-s -pa -name -sname", single=True, script=False),
    "swift": _language("-e", script=False),
    "racket": _language("-e", "-f -t -l"),
    "sbcl": _language("--eval", "--load --script"),
    "tclsh": _language(""),
    "wish": _language(""),
    "expect": _language("-c", "-f"),
    "gnuplot": _language("-e"),
    "emacs": _language("--eval --execute -eval -execute -f --funcall -l --load --script", single=True,
        script=False),
    "ghc": _language("-e", script=False),
    "lftp": _language("-c -e", "-u -p -f", script=False),
    "bpftrace": _language("-e", "-c -p -o"),
    "stap": _language("-e", "-c -o"),
    "make": _language("--eval", "-C -f -I -o -W", script=False),
    "rpm": _language("--eval -E", "-D -r", script=False),
}  # fmt: skip
_SHELL_TAKES = takes("-o -O -T? --rcfile --init-file --command --init-command -C -S?")
_READS_INPUT = re.compile(r"-$|/dev/(?:stdin|fd/\d+)$|/proc/(?:self|\d+)/fd/\d+$")
_CODE_MODULES = names("timeit code pdb trace runpy cprofile profile idlelib asyncio")


def program_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in a call of a shell or an interpreter."""
    first, name = call.words[0], call.name
    if name in SHELLS:
        yield from _shell_findings(call)
    elif name == "awk":
        yield from _awk_findings(call)
    elif name == "sed":
        yield from _sed_findings(call)
    elif name in _BY_NAME:
        options = _options(call)
        language = _BY_NAME[name]
        starts = [option for option in options.options if option.name in language.code | language.modules]
        start = starts[0] if starts else None
        module = start.value.text.casefold() if start is not None and start.value is not None else ""
        verb = options.operands[0].text if options.operands else ""
        if (start is not None and (start.name in language.code or module in _CODE_MODULES)) or (
            verb in language.verbs
        ):
            yield CommandFinding("Runs a program written in the line", Risk.HIGH, first)
        elif reads_its_program(call):
            yield CommandFinding("Runs text that it reads as a program", Risk.HIGH, first)
        elif runs_a_file(call):
            yield CommandFinding("Runs a script; what it does is not in the line", Risk.MEDIUM, first)


def shell_line(call: Call) -> Word | None:
    """The line that a shell gets with `-c` or a similar option; None if there is none."""
    if call.name in ("cmd", "powershell", "pwsh"):
        signs = ("/c", "/k", "/r", "-c", "-command", "--command")
        for place, word in enumerate(call.args):
            if word.text.casefold() in signs and call.args[place + 1 :]:
                return join_words(call.args[place + 1 :])
        return None
    options = _shell_options(call)
    if lines := options.values("--command", "--init-command", "-C"):
        return lines[0]
    return options.operands[0] if options.has("-c") and options.operands else None


def reads_its_program(call: Call) -> bool:
    """Whether a shell or interpreter gets no program in its arguments, so that it runs its input."""
    name = call.name
    if name in ROOT or name == "ssh":
        # Without a command these start a shell; only then does `innermost` return them.
        return not any(
            re.fullmatch(r"-\w*[clvVeK]|--(?:list|validate|version|help|command.*|edit)", w.text)
            for w in call.args
        )
    if name in (".", "source"):
        return bool(call.args) and _reads_input(call.args[0])
    if name in SHELLS:
        if name in ("cmd", "powershell", "pwsh"):
            return shell_line(call) is None and not any(word.text[:1] in "-/" for word in call.args)
        options = _shell_options(call)
        if options.has("--version", "--help", "-n"):
            return False
        if options.has("-c") or options.values("--command"):
            return shell_line(call) is None
        return options.has("-s") or not options.operands or _reads_input(options.operands[0])
    language = _BY_NAME.get(name)
    if language is None or not language.script:
        return False
    options = _options(call)
    if any(option.name in language.looks | language.code | language.modules for option in options.options):
        return False
    return not options.operands or _reads_input(options.operands[0])


def runs_a_file(call: Call) -> bool:
    """Whether a call runs a script file or a program outside the system folders."""
    first, name = call.words[0], call.name
    if name in SHELLS:
        options = _shell_options(call)
        return bool(options.operands) and not options.has("-c", "-n") and shell_line(call) is None
    if language := _BY_NAME.get(name):
        options = _options(call)
        holds_code = any(option.name in language.code | language.modules for option in options.options)
        return language.script and bool(options.operands) and not holds_code
    if name == "awk":
        return read_options(call.args, _AWK_TAKES, stop=True).has("-f", "--file", "-E", "--exec")
    return name in (".", "source") or bool(re.match(r"(?:\.{1,2}|~|/tmp|/var/tmp|/dev/shm)/", first.text))


def _options(call: Call) -> Options:
    language = _BY_NAME[call.name]
    return read_options(call.args, language.takes, stop=True, single=language.single)


def _shell_options(call: Call) -> Options:
    # `+x` switches an option off; it is no operand.
    words = tuple(word for word in call.args if not re.match(r"\+\w", word.written))
    return read_options(words, _SHELL_TAKES, stop=True)


def _reads_input(word: Word) -> bool:
    return word.source.startswith("<(") or _READS_INPUT.match(word.text) is not None


def _shell_findings(call: Call) -> Iterator[CommandFinding]:
    options = _shell_options(call)
    first = call.words[0]
    operand = options.operands[0] if options.operands and not options.has("-c") else None
    if operand is not None and not operand.known and not operand.source.startswith("<("):
        yield CommandFinding("What it runs is only known when it runs", Risk.HIGH, operand)
    for word in options.values("--rcfile", "--init-file"):
        yield CommandFinding("Runs a script; what it does is not in the line", Risk.MEDIUM, word)
    if reads_its_program(call):
        yield CommandFinding("Runs text that it reads as a program", Risk.HIGH, first)
    elif runs_a_file(call):
        yield CommandFinding("Runs a script; what it does is not in the line", Risk.MEDIUM, first)


# awk: POSIX's grammar, and gawk's pipes and extensions.
_AWK_TAKES = takes(
    "-F -v -f -e -E -i -l -o? -d? -D? -p? -L? --field-separator --assign --file --source --exec --include "
    "--load"
)
_AWK_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|#[^\n]*|@?[A-Za-z_]\w*|[\d.]+|\|\||&&|\|&|>>|[<>=!]=|.|\n', re.DOTALL
)
_AWK_PATTERN = re.compile(r"/(?:\\.|\[\^?\]?[^\]\n]*\]|[^/\\\n\[])*/")
_ENDS_A_VALUE = re.compile(r'[\w"\])$.]')
_AWK_ENDS = frozenset({"", ";", "}", "\n"})
_INNER_COMMANDS = "May run commands from inside another program"


class _Token(NamedTuple):
    text: str
    start: int
    end: int


def _awk_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, _AWK_TAKES, stop=True)
    if runs_a_file(call):
        yield CommandFinding("Runs a script; what it does is not in the line", Risk.MEDIUM, call.words[0])
    for word in options.values("-i", "--include", "-l", "--load"):
        if word.text == "inplace":
            yield CommandFinding("Changes files in place", Risk.MEDIUM, call.words[0])
        else:
            yield CommandFinding("Loads code from a file that is not in the line", Risk.MEDIUM, word)
    for word in _awk_programs(call):
        if not word.known and not word.text:
            yield CommandFinding("Cannot be judged: its program is only known when it runs", Risk.HIGH, word)
        yield from (item for item in _parse_awk(word) if isinstance(item, CommandFinding))


def _awk_programs(call: Call) -> list[Word]:
    options = read_options(call.args, _AWK_TAKES, stop=True)
    programs = options.values("-e", "--source")
    elsewhere = programs or options.has("-f", "--file", "-E", "--exec")
    return programs if elsewhere else options.operands[:1]


def _parse_awk(program: Word) -> Iterator[CommandFinding | Embedded]:
    """The commands and findings in an awk program."""
    tokens = _awk_tokens(program.written)
    prints, depth = False, 0
    blank = _Token("", 0, 0)
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else blank
        after = tokens[place + 1] if place + 1 < len(tokens) else blank
        text = token.text
        if text in ("{", "}", ";", "\n"):
            prints = False
        elif text in ("print", "printf"):
            prints, depth = True, 0
        elif text in ("(", ")"):
            depth += 1 if text == "(" else -1
        elif text == "system" and after.text == "(":
            argument, after_command = [*tokens[place + 2 : place + 4], blank, blank][:2]
            yield from _awk_command_items(program, argument, complete=after_command.text == ")")
        elif text in ("|", "|&"):
            into = after.text != "getline"
            after_command = tokens[place + 2] if place + 2 < len(tokens) else blank
            yield from _awk_command_items(
                program, after if into else before, complete=not into or after_command.text in _AWK_ENDS
            )
        elif text in (">", ">>") and prints and depth <= 0:
            yield program_write_finding(
                program.cut(*_inner_span(after)) if after.text.startswith('"') else None, program
            )
        elif text in ("@load", "@include"):
            yield CommandFinding("Loads code from a file that is not in the line", Risk.MEDIUM, program)


def _awk_command_items(program: Word, token: _Token, complete: bool) -> Iterator[CommandFinding | Embedded]:
    """The command in a token of an awk program. `complete`: the program adds no computed text to it."""
    if token.text.startswith('"') and len(token.text) > 2:
        line = program.cut(*_inner_span(token))
        yield Embedded(line, "Runs a command from inside another program", Risk.MEDIUM, line)
        if complete:
            return
    yield CommandFinding(_INNER_COMMANDS, Risk.HIGH, program)


def _inner_span(token: _Token) -> tuple[int, int]:
    return token.start + 1, token.end - 1


def _awk_tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _AWK_TOKEN.match(text, at)
        assert match is not None, "any sign is a token"
        # After a value, a slash divides; elsewhere it begins a regular expression.
        if match.group() == "/" and not (tokens and _ENDS_A_VALUE.match(tokens[-1].text[-1])):
            match = _AWK_PATTERN.match(text, at) or match
        at = match.end()
        sign = match.group()
        if (not sign.isspace() or sign == "\n") and not sign.startswith("#"):
            tokens.append(_Token(sign, match.start(), at))
    return tokens


def program_write_finding(path: Word | None, program: Word) -> CommandFinding:
    """The finding in a program that writes to a file; `path` is None if only the program computes it."""
    if path is None:
        return CommandFinding("Writes files from inside another program", Risk.MEDIUM, program)
    folder = system_folder(path.text)
    if folder == "/dev":
        return CommandFinding("Writes straight to a device", Risk.CRITICAL, path)
    if folder:
        return CommandFinding(f"Writes under {folder}", Risk.HIGH, path)
    if STARTUP.search(path.text):
        return CommandFinding("Writes to a file that runs by itself", Risk.HIGH, path)
    return CommandFinding("Overwrites a file from inside another program", Risk.MEDIUM, path)


# sed: POSIX's commands and GNU's.
_SED_TAKES = takes("-e -f -l -i? --expression --file --line-length --in-place?")
_SED_ADDRESS = re.compile(r"[\s;{}]*(?:\d+|\$|[,+~!]|\s)+")
_SED_ALONE = "=dDgGhHnNpPxFz"


class _SedSyntaxError(Exception):
    """The text is not a valid sed program."""


def _sed_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, _SED_TAKES)
    first = call.words[0]
    if options.has("-i", "--in-place"):
        yield CommandFinding("Changes files in place", Risk.MEDIUM, first)
    if options.has("-f", "--file"):
        yield CommandFinding("Runs a script; what it does is not in the line", Risk.MEDIUM, first)
    for word in _sed_programs(call):
        if not word.known and not word.text:
            yield CommandFinding("Cannot be judged: its program is only known when it runs", Risk.HIGH, word)
        yield from (item for item in _parse_sed(word) if isinstance(item, CommandFinding))


def _sed_programs(call: Call) -> list[Word]:
    options = read_options(call.args, _SED_TAKES)
    programs = options.values("-e", "--expression")
    return programs if programs or options.has("-f", "--file") else options.operands[:1]


def _parse_sed(program: Word) -> Iterator[CommandFinding | Embedded]:
    """The commands and findings in a sed program."""
    text = program.written
    at = 0
    try:
        while at < len(text):
            at = _sed_address(text, at)
            if at >= len(text):
                return
            command, at = text[at], at + 1
            if command in _SED_ALONE:
                continue
            if command == "s":
                at, flags = _sed_substitution(text, at)
                if "e" in flags:
                    yield CommandFinding(
                        "Runs what it makes of a text as a command, from inside another program",
                        Risk.HIGH,
                        program,
                    )
                if flags.endswith("w"):
                    path, at = _sed_rest(program, at)
                    yield program_write_finding(path, program)
            elif command == "y":
                at = _sed_part(text, _sed_part(text, at + 1, text[at : at + 1]), text[at : at + 1])
            elif command in "wW":
                path, at = _sed_rest(program, at)
                yield program_write_finding(path, program)
            elif command == "e":
                line, at = _sed_rest(program, at)
                if line is None:
                    yield CommandFinding(
                        "Runs what it reads as commands, from inside another program", Risk.HIGH, program
                    )
                else:
                    yield Embedded(line, "Runs a command from inside another program", Risk.MEDIUM, line)
            elif command in "aic":
                at = _sed_text(text, at)
            elif command in "rR#":
                at = _line_end(text, at)
            elif command in ":btTqQlLv":
                at = next((place for place in range(at, len(text)) if text[place] in ";\n}"), len(text))
            else:
                raise _SedSyntaxError
    except (_SedSyntaxError, IndexError):
        if program.known:
            yield CommandFinding("Cannot be judged: not understood as a program of sed", Risk.HIGH, program)


def _sed_address(text: str, at: int) -> int:
    """The offset of the command after its addresses."""
    while at < len(text):
        match = _SED_ADDRESS.match(text, at)
        if match and match.end() > at:
            at = match.end()
        elif text[at] in ";{} \t\n":
            at += 1
        elif text[at] == "/" or (text[at] == "\\" and at + 1 < len(text)):
            at += text[at] == "\\"
            at = _sed_part(text, at + 1, text[at], brackets=True)
            while at < len(text) and text[at] in "IM":
                at += 1
        else:
            break
    return at


def _sed_part(text: str, at: int, delimiter: str, brackets: bool = False) -> int:
    """The offset after the delimiter that ends a part."""
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == delimiter:
            return at + 1
        elif brackets and text[at] == "[":
            ends = text.find("]", at + 2 + (text[at + 1 : at + 2] == "^"))
            at = ends + 1 if ends >= 0 else at + 1
            brackets = ends >= 0
        else:
            at += 1
    raise _SedSyntaxError


def _sed_substitution(text: str, at: int) -> tuple[int, str]:
    delimiter = text[at]
    at = _sed_part(text, at + 1, delimiter, brackets=True)
    at = _sed_part(text, at, delimiter)
    start = at
    while at < len(text) and (text[at] in "gpiImMe" or text[at].isdigit()):
        at += 1
    at += text[at : at + 1] == "w"
    return at, text[start:at]


def _sed_text(text: str, at: int) -> int:
    """The offset after the text of `a`, `i` or `c`, which continues after a backslash at a line's end."""
    while (end := _line_end(text, at)) < len(text) and text[end - 1] == "\\":
        at = end + 1
    return end


def _sed_rest(program: Word, at: int) -> tuple[Word | None, int]:
    """The text between a command and the end of its line (None if empty), and the offset of that end."""
    end = _line_end(program.written, at)
    text = program.written[at:end]
    start = at + len(text) - len(text.lstrip())
    return (program.cut(start, end) if start < end else None), end


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def programs_in(call: Call) -> list[Word]:
    """The words of a call that are programs in another language than the shell's."""
    if call.name == "awk":
        return _awk_programs(call)
    if call.name == "sed":
        return _sed_programs(call)
    language = _BY_NAME.get(call.name)
    if language is None:
        return []
    options = _options(call)
    evaluated = (
        options.operands[1:] if options.operands and options.operands[0].text in language.verbs else []
    )
    return [*options.values(*language.code), *evaluated]


def program_lines(call: Call) -> Iterator[Embedded]:
    """The shell lines in the arguments of a shell and in awk and sed programs."""
    if call.name in SHELLS:
        line = shell_line(call)
        if line is not None:
            yield Embedded(line, "", Risk.LOW, line)
    elif call.name == "awk":
        for word in _awk_programs(call):
            yield from (item for item in _parse_awk(word) if isinstance(item, Embedded))
    elif call.name == "sed":
        for word in _sed_programs(call):
            yield from (item for item in _parse_sed(word) if isinstance(item, Embedded))
