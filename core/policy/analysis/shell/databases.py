"""Rules for database clients: the effects of the queries and commands in a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.models.tools import Risk
from core.policy.analysis.shell.embedded import Embedded
from core.policy.analysis.shell.languages import program_write_finding
from core.policy.analysis.shell.options import options_of
from core.policy.analysis.shell.parser import Call, CommandFinding, Word
from core.policy.analysis.sql import findings_in_query
from core.programs.record import Client, Kind

_REDIS_CRITICAL = frozenset("flushall flushdb shutdown".split())
_REDIS_HIGH = frozenset(
    "del unlink config slaveof replicaof acl failover cluster migrate restore rename module debug swapdb "
    "reset save".split()
)
_REDIS_CODE = frozenset("eval evalsha script function fcall".split())
_REDIS_LOOKS = frozenset(
    {("config", "get"), ("cluster", "info"), ("cluster", "nodes"), ("acl", "list"), ("acl", "whoami")}
)
_MONGO_DROPS = re.compile(
    r"dropDatabase|\.drop\w*\(|deleteMany|deleteOne|\.remove\(|shutdownServer|\$out\b|updateMany"
)
_DROPS = "Drops, deletes or empties parts of a database"
_MOST_TEXTS = 50


def client_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the queries and commands that a client runs."""
    record = call.program
    if Kind.REDIS in record.kinds:
        yield from _redis_findings(call)
    elif Kind.MONGO in record.kinds:
        yield from _mongo_findings(call)
    elif record.client is not None:
        yield from _sql_findings(call, record.client)


def client_lines(call: Call) -> Iterator[Embedded]:
    """The shell lines in the commands that a client runs."""
    client = call.program.client
    for text in query_texts(call):
        yield from (item for item in _client_commands(client, text) if isinstance(item, Embedded))


def _sql_findings(call: Call, client: Client) -> Iterator[CommandFinding]:
    options = options_of(call)
    for text in query_texts(call):
        for effect, risk, start, end in findings_in_query(text.written):
            yield CommandFinding(effect, risk, text.cut(start, end))
        yield from (item for item in _client_commands(client, text) if isinstance(item, CommandFinding))
        if not text.known and not text.text:
            yield CommandFinding("Cannot be judged: the query is only known when it runs", Risk.HIGH, text)
    for word in (*options.values(*client.files), *call.input_files):
        yield CommandFinding("Runs the queries of a file; what they do is not in the line", Risk.MEDIUM, word)
    for word in options.values(*client.results):
        yield program_write_finding(word, word)


def query_texts(call: Call) -> list[Word]:
    """The texts that a client runs: values of options, operands with blanks or commands, and input."""
    client = call.program.client
    if client is None:
        return []
    options = options_of(call)
    texts = options.values(*client.queries)
    texts += [word for word in options.operands if " " in word.written or word.written[:1] in (".", "\\")]
    return [*texts, *call.input_texts][:_MOST_TEXTS]


def _client_commands(client: Client | None, text: Word) -> Iterator[CommandFinding | Embedded]:
    for pattern, does in client.commands if client is not None else ():
        for match in list(re.finditer(pattern, text.written, re.MULTILINE))[:_MOST_TEXTS]:
            if does == "line" and match[1].strip():
                line = text.cut(*match.span(1))
                yield Embedded(line, "Runs a command from inside another program", Risk.MEDIUM, line)
            elif does == "path":
                path = text.cut(*match.span(1))
                yield program_write_finding(path, path)
            elif does == "file":
                effect = "Reads or writes files from inside another program; they are not in the line"
                yield CommandFinding(effect, Risk.MEDIUM, text.cut(*match.span()))
            elif does == "code":
                effect = "Loads code from a file, or runs what a query answers: it is not in the line"
                yield CommandFinding(effect, Risk.HIGH, text.cut(*match.span()))


def _redis_findings(call: Call) -> Iterator[CommandFinding]:
    options = options_of(call, stop=True)
    commands = [call.args[options.first :]] if options.operands else []
    for words in commands:
        yield from _redis_command_findings([word.text.casefold() for word in words[:2]], words[0])
        if not words[0].known:
            yield CommandFinding(
                "Cannot be judged: the command is only known when it runs", Risk.HIGH, words[0]
            )
    for source in call.input_texts:
        for line in source.written.splitlines()[:_MOST_TEXTS]:
            yield from _redis_command_findings(line.casefold().split()[:2], source)
    if options.has("--eval"):
        yield CommandFinding("Runs a script; what it does is not in the line", Risk.MEDIUM, call.words[0])


def _redis_command_findings(words: list[str], at: Word) -> Iterator[CommandFinding]:
    if not words or tuple(words) in _REDIS_LOOKS:
        return
    if words[0] in _REDIS_CRITICAL:
        yield CommandFinding("Empties a database, or ends it", Risk.CRITICAL, at)
    elif words[0] in _REDIS_HIGH:
        yield CommandFinding("Deletes from a database, or changes how it works", Risk.HIGH, at)
    elif words[0] in _REDIS_CODE:
        yield CommandFinding("Runs a program written in the line", Risk.HIGH, at)


def _mongo_findings(call: Call) -> Iterator[CommandFinding]:
    options = options_of(call)
    texts = [*options.values("--eval"), *call.input_texts]
    for text in texts:
        if _MONGO_DROPS.search(text.written):
            yield CommandFinding(_DROPS, Risk.CRITICAL, text)
        yield CommandFinding("Runs a program written in the line", Risk.HIGH, text)
    for word in (*options.values("-f", "--file"), *call.input_files):
        yield CommandFinding("Runs a script; what it does is not in the line", Risk.MEDIUM, word)
