"""Rules for database clients: the effects of the queries and commands in a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from core.fleet.models import Risk
from core.policy.analysis.shell.embedded import Embedded
from core.policy.analysis.shell.languages import program_write_finding
from core.policy.analysis.shell.options import read_options
from core.policy.analysis.shell.parser import Call, CommandFinding, Word
from core.policy.analysis.shell.tables import names
from core.policy.analysis.sql import findings_in_query
from core.programs.record import Takes, takes


class Client(NamedTuple):
    """The options of a client that take a value, and those whose value is a query, a file of queries or of
    results."""

    takes: Takes
    queries: tuple[str, ...]
    files: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    single: bool = False


def _client(
    queries: str, files: str = "", results: str = "", values: str = "", single: bool = False
) -> Client:
    table = takes(f"{queries} {files} {results} {values}")
    return Client(table, tuple(queries.split()), tuple(files.split()), tuple(results.split()), single)


_CLIENTS = {
    "psql": _client(
        "-c --command",
        "-f --file",
        "-o --output -L --log-file",
        "-d -h -U -p -v -F -P -R -T --dbname --host --username",
    ),
    "mysql": _client("-e --execute --init-command", "", "--tee", "-u -h -P -D -S --user --host --database"),
    "sqlite3": _client("-cmd", "-init", "", "-separator -nullvalue -newline", single=True),
    "sqlcmd": _client("-Q -q", "-i", "-o", "-S -U -P -d"),
    "sqlplus": _client("", "", "", "-S -L"),
    "clickhouse-client": _client(
        "-q --query", "--queries-file", "", "-h -u -d --host --user --password --database"
    ),
    "clickhouse": _client("-q --query", "--queries-file"),
    "duckdb": _client("-c -s -cmd", "-f -init", "", single=True),
    "cockroach": _client("-e --execute", "-f --file", "", "--host --url"),
    "cqlsh": _client("-e --execute", "-f --file", "", "-u -p -k"),
    "snowsql": _client("-q --query", "-f --filename", "-o"),
    "trino": _client("--execute", "--file"),
    "hive": _client("-e", "-f"),
    "spark-sql": _client("-e", "-f"),
    "impala-shell": _client("-q --query", "-f --query_file", "-o"),
    "beeline": _client("-e", "-f", "", "-u -n -p"),
    "isql": _client("", "-i -input", "-o"),
    "usql": _client("-c --command", "-f --file", "-o"),
    "influx": _client("-execute", "", "", "-database -host", single=True),
    "bq": _client(""),
}
_REDIS_TAKES = takes(
    "-h -p -s -a -u -r -i -n -d -D -X? --user --pass --pipe-timeout --cacert --cert --key --rdb"
)
_MONGO_TAKES = takes("--eval --host --port -u -p --username --password --authenticationDatabase -f --file")
# A client's own commands: a pattern whose first group is a shell line, a path, or nothing.
_LINE, _PATH, _FILE, _CODE = "line", "path", "file", "code"
_COMMANDS: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "psql": (
        (re.compile(r"^[ \t]*\\!(.*)$", re.MULTILINE), _LINE),
        (re.compile(r"\\(?:o|out|g|gx|w|write|copy)\b[^|\n]{0,400}\|(.*)$", re.MULTILINE), _LINE),
        (re.compile(r"\\(?:o|out|w|write|s)[ \t]+([^\s|]\S*)"), _PATH),
        (re.compile(r"\\copy\b[^\n]{0,400}?\bto\s+(?:program\b)?"), _FILE),
        (re.compile(r"\\(?:i|ir|include|include_relative)[ \t]+\S"), _FILE),
        (re.compile(r"\\(?:setenv|gexec)\b"), _CODE),
    ),
    "mysql": (
        (re.compile(r"(?:^|;)[ \t]*(?:\\!|system\s)(.*)$", re.MULTILINE | re.IGNORECASE), _LINE),
        (re.compile(r"(?:^|;)[ \t]*(?:\\P|pager\s)(.*)$", re.MULTILINE | re.IGNORECASE), _LINE),
        (re.compile(r"(?:^|;)[ \t]*(?:\\T|tee\s)\s*(\S+)", re.MULTILINE | re.IGNORECASE), _PATH),
        (re.compile(r"(?:^|;)[ \t]*(?:\\\.|source\s)\s*\S", re.MULTILINE | re.IGNORECASE), _FILE),
    ),
    "sqlite3": (
        (re.compile(r"^[ \t]*\.(?:shell|system)\b(.*)$", re.MULTILINE), _LINE),
        (re.compile(r"^[ \t]*\.[a-z]+\b[^|\n]{0,400}\|(.*?)[\"']?$", re.MULTILINE), _LINE),
        (
            re.compile(
                r"^[ \t]*\.(?:output|once|log|backup|save|clone|excel)[ \t]+([^\s|\"']\S*)", re.MULTILINE
            ),
            _PATH,
        ),
        (re.compile(r"^[ \t]*\.read[ \t]+[^\s|\"']", re.MULTILINE), _FILE),
        (re.compile(r"^[ \t]*\.load\b", re.MULTILINE), _CODE),
    ),
}
_COMMANDS["duckdb"] = _COMMANDS["sqlite3"]
_COMMANDS["usql"] = _COMMANDS["psql"]
_REDIS_CRITICAL = names("flushall flushdb shutdown")
_REDIS_HIGH = names(
    "del unlink config slaveof replicaof acl failover cluster migrate restore rename module debug swapdb "
    "reset save"
)
_REDIS_CODE = names("eval evalsha script function fcall")
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
    if call.name == "redis-cli":
        yield from _redis_findings(call)
    elif call.name == "mongosh":
        yield from _mongo_findings(call)
    elif call.name in _CLIENTS:
        yield from _sql_findings(call)


def client_lines(call: Call) -> Iterator[Embedded]:
    """The shell lines in the commands that a client runs."""
    for text in query_texts(call):
        for item in _client_commands(call.name, text):
            if isinstance(item, Embedded):
                yield item


def _sql_findings(call: Call) -> Iterator[CommandFinding]:
    client = _CLIENTS[call.name]
    options = read_options(call.args, client.takes, single=client.single)
    for text in query_texts(call):
        for effect, risk, start, end in findings_in_query(text.written):
            yield CommandFinding(effect, risk, text.cut(start, end))
        yield from (item for item in _client_commands(call.name, text) if isinstance(item, CommandFinding))
        if not text.known and not text.text:
            yield CommandFinding("Cannot be judged: the query is only known when it runs", Risk.HIGH, text)
    for word in (*options.values(*client.files), *call.input_files):
        yield CommandFinding("Runs the queries of a file; what they do is not in the line", Risk.MEDIUM, word)
    for word in options.values(*client.results):
        yield program_write_finding(word, word)


def query_texts(call: Call) -> list[Word]:
    """The texts that a client runs: values of options, operands with blanks or commands, and input."""
    client = _CLIENTS.get(call.name)
    if client is None:
        return []
    options = read_options(call.args, client.takes, single=client.single)
    texts = options.values(*client.queries)
    texts += [word for word in options.operands if " " in word.written or word.written[:1] in (".", "\\")]
    return [*texts, *call.input_texts][:_MOST_TEXTS]


def _client_commands(name: str, text: Word) -> Iterator[CommandFinding | Embedded]:
    for pattern, kind in _COMMANDS.get(name, ()):
        for match in list(pattern.finditer(text.written))[:_MOST_TEXTS]:
            if kind == _LINE and match[1].strip():
                line = text.cut(*match.span(1))
                yield Embedded(line, "Runs a command from inside another program", Risk.MEDIUM, line)
            elif kind == _PATH:
                path = text.cut(*match.span(1))
                yield program_write_finding(path, path)
            elif kind == _FILE:
                effect = "Reads or writes files from inside another program; they are not in the line"
                yield CommandFinding(effect, Risk.MEDIUM, text.cut(*match.span()))
            elif kind == _CODE:
                effect = "Loads code from a file, or runs what a query answers: it is not in the line"
                yield CommandFinding(effect, Risk.HIGH, text.cut(*match.span()))


def _redis_findings(call: Call) -> Iterator[CommandFinding]:
    options = read_options(call.args, _REDIS_TAKES, stop=True)
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
    options = read_options(call.args, _MONGO_TAKES)
    texts = [*options.values("--eval"), *call.input_texts]
    for text in texts:
        if _MONGO_DROPS.search(text.written):
            yield CommandFinding(_DROPS, Risk.CRITICAL, text)
        yield CommandFinding("Runs a program written in the line", Risk.HIGH, text)
    for word in (*options.values("-f", "--file"), *call.input_files):
        yield CommandFinding("Runs a script; what it does is not in the line", Risk.MEDIUM, word)
