"""Rules for shells, interpreters, awk and sed, whose programs come from the line, from a file or from input.

An interpreter's program is not parsed: that it runs is the finding. The programs of awk and sed are parsed as
far as needed to find the commands and files in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from core.models.tools import Risk
from core.policy.analysis.shell.embedded import Embedded
from core.policy.analysis.shell.options import Options, options_of, read_options
from core.policy.analysis.shell.parser import Call, CommandFinding, Word, join_words
from core.policy.analysis.shell.places import STARTUP, system_folder
from core.programs.record import Kind, Language

_OUTSIDE = re.compile(r"(?:\.{1,2}|~|/tmp|/var/tmp|/dev/shm)/")
_READS_INPUT = re.compile(r"-$|/dev/(?:stdin|fd/\d+)$|/proc/(?:self|\d+)/fd/\d+$")
_SCRIPT = "Runs a script; what it does is not in the line"
_CODE_MODULES = frozenset("timeit code pdb trace runpy cprofile profile idlelib asyncio".split())


def program_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in a call of a shell or an interpreter."""
    record = call.program
    if Kind.SHELL in record.kinds:
        yield from _shell_findings(call)
    elif Kind.AWK in record.kinds:
        yield from _awk_findings(call)
    elif Kind.SED in record.kinds:
        yield from _sed_findings(call)
    elif record.language is not None:
        yield from _language_findings(call, record.language)


def _language_findings(call: Call, language: Language) -> Iterator[CommandFinding]:
    first, options = call.words[0], options_of(call, stop=True)
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
        yield CommandFinding(_SCRIPT, Risk.MEDIUM, first)


def shell_line(call: Call) -> Word | None:
    """The line that a shell gets with `-c` or a similar option; None if there is none."""
    if call.program.is_a(Kind.WINDOWS_SHELL):
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
    record = call.program
    kinds = record.kinds
    if record.is_a(Kind.ROOT, Kind.REMOTE_SHELL):
        # Without a command these start a shell; only then does `innermost` return them.
        return not any(
            re.fullmatch(r"-\w*[clvVeK]|--(?:list|validate|version|help|command.*|edit)", w.text)
            for w in call.args
        )
    if Kind.SOURCES in kinds:
        return bool(call.args) and _reads_input(call.args[0])
    if Kind.WINDOWS_SHELL in kinds:
        return shell_line(call) is None and not any(word.text[:1] in "-/" for word in call.args)
    if Kind.SHELL in kinds:
        options = _shell_options(call)
        if options.has("--version", "--help", "-n"):
            return False
        if options.has("-c") or options.values("--command"):
            return shell_line(call) is None
        return options.has("-s") or not options.operands or _reads_input(options.operands[0])
    language = record.language
    if language is None or not language.script:
        return False
    options = options_of(call, stop=True)
    if any(option.name in language.looks | language.code | language.modules for option in options.options):
        return False
    return not options.operands or _reads_input(options.operands[0])


def runs_a_file(call: Call) -> bool:
    """Whether a call runs a script file or a program outside the system folders."""
    record = call.program
    if Kind.SHELL in record.kinds:
        options = _shell_options(call)
        return bool(options.operands) and not options.has("-c", "-n") and shell_line(call) is None
    options = options_of(call, stop=True)
    if (language := record.language) is not None:
        holds_code = any(option.name in language.code | language.modules for option in options.options)
        return language.script and bool(options.operands) and not holds_code
    if Kind.AWK in record.kinds:
        return options.has("-f", "--file", "-E", "--exec")
    return Kind.SOURCES in record.kinds or bool(_OUTSIDE.match(call.words[0].text))


def _shell_options(call: Call) -> Options:
    # `+x` switches an option off; it is no operand.
    words = tuple(word for word in call.args if not re.match(r"\+\w", word.written))
    return read_options(words, call.program.options, stop=True)


def _reads_input(word: Word) -> bool:
    return word.source.startswith("<(") or _READS_INPUT.match(word.text) is not None


def _shell_findings(call: Call) -> Iterator[CommandFinding]:
    options = _shell_options(call)
    first = call.words[0]
    operand = options.operands[0] if options.operands and not options.has("-c") else None
    if operand is not None and not operand.known and not operand.source.startswith("<("):
        yield CommandFinding("What it runs is only known when it runs", Risk.HIGH, operand)
    for word in options.values("--rcfile", "--init-file"):
        yield CommandFinding(_SCRIPT, Risk.MEDIUM, word)
    if reads_its_program(call):
        yield CommandFinding("Runs text that it reads as a program", Risk.HIGH, first)
    elif runs_a_file(call):
        yield CommandFinding(_SCRIPT, Risk.MEDIUM, first)


# awk: POSIX's grammar, and gawk's pipes and extensions.
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
    options = options_of(call, stop=True)
    if runs_a_file(call):
        yield CommandFinding(_SCRIPT, Risk.MEDIUM, call.words[0])
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
    options = options_of(call, stop=True)
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
_SED_ADDRESS = re.compile(r"[\s;{}]*(?:\d+|\$|[,+~!]|\s)+")
_SED_ALONE = "=dDgGhHnNpPxFz"


class _SedSyntaxError(Exception):
    """The text is not a valid sed program."""


def _sed_findings(call: Call) -> Iterator[CommandFinding]:
    options = options_of(call)
    first = call.words[0]
    if options.has("-i", "--in-place"):
        yield CommandFinding("Changes files in place", Risk.MEDIUM, first)
    if options.has("-f", "--file"):
        yield CommandFinding(_SCRIPT, Risk.MEDIUM, first)
    for word in _sed_programs(call):
        if not word.known and not word.text:
            yield CommandFinding("Cannot be judged: its program is only known when it runs", Risk.HIGH, word)
        yield from (item for item in _parse_sed(word) if isinstance(item, CommandFinding))


def _sed_programs(call: Call) -> list[Word]:
    options = options_of(call)
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
    record = call.program
    if Kind.AWK in record.kinds:
        return _awk_programs(call)
    if Kind.SED in record.kinds:
        return _sed_programs(call)
    if (language := record.language) is None:
        return []
    options = options_of(call, stop=True)
    first = options.operands[0].text if options.operands else ""
    return [*options.values(*language.code), *(options.operands[1:] if first in language.verbs else ())]


def program_lines(call: Call) -> Iterator[Embedded]:
    """The shell lines in the arguments of a shell and in awk and sed programs."""
    kinds = call.program.kinds
    if Kind.SHELL in kinds:
        line = shell_line(call)
        if line is not None:
            yield Embedded(line, "", Risk.LOW, line)
    elif Kind.AWK in kinds:
        for word in _awk_programs(call):
            yield from (item for item in _parse_awk(word) if isinstance(item, Embedded))
    elif Kind.SED in kinds:
        for word in _sed_programs(call):
            yield from (item for item in _parse_sed(word) if isinstance(item, Embedded))
