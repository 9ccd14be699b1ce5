"""Clients and tools of databases."""

from __future__ import annotations

from core.programs.record import CRITICAL, HIGH, MEDIUM, ClientCommand, Program, client, program
from core.programs.sentences import LOSES_DATA

# The clients' own commands.
PSQL = (
    ClientCommand(r"^[ \t]*\\!(.*)$", "line"),
    ClientCommand(r"\\(?:o|out|g|gx|w|write|copy)\b[^|\n]{0,400}\|(.*)$", "line"),
    ClientCommand(r"\\(?:o|out|w|write|s)[ \t]+([^\s|]\S*)", "path"),
    ClientCommand(r"\\copy\b[^\n]{0,400}?\bto\s+(?:program\b)?", "file"),
    ClientCommand(r"\\(?:i|ir|include|include_relative)[ \t]+\S", "file"),
    ClientCommand(r"\\(?:setenv|gexec)\b", "code"),
)
MYSQL = (
    ClientCommand(r"(?i:(?:^|;)[ \t]*(?:\\!|system\s)(.*)$)", "line"),
    ClientCommand(r"(?i:(?:^|;)[ \t]*(?:\\P|pager\s)(.*)$)", "line"),
    ClientCommand(r"(?i:(?:^|;)[ \t]*(?:\\T|tee\s)\s*(\S+))", "path"),
    ClientCommand(r"(?i:(?:^|;)[ \t]*(?:\\\.|source\s)\s*\S)", "file"),
)
SQLITE = (
    ClientCommand(r"^[ \t]*\.(?:shell|system)\b(.*)$", "line"),
    ClientCommand(r"^[ \t]*\.[a-z]+\b[^|\n]{0,400}\|(.*?)[\"']?$", "line"),
    ClientCommand(r"^[ \t]*\.(?:output|once|log|backup|save|clone|excel)[ \t]+([^\s|\"']\S*)", "path"),
    ClientCommand(r"^[ \t]*\.read[ \t]+[^\s|\"']", "file"),
    ClientCommand(r"^[ \t]*\.load\b", "code"),
)

# fmt: off
DATABASES: tuple[Program, ...] = (
    program("psql", kinds="versioned", options="-d -F -h -P -p -R -T -U -v --dbname --host --username",
        client=client("-c --command", "-f --file", "-o --output -L --log-file", commands=PSQL),
        asks="services"),
    program("redis-cli", aliases="keydb-cli valkey-cli", kinds="redis",
        options="-a -D -d -h -i -n -p -r -s -u -X? --cacert --cert --key --pass --pipe-timeout --rdb --user",
        asks="services"),
    program("mongosh", aliases="mongo", kinds="mongo",
        options="-f -p -u --authenticationDatabase --eval --file --host --password --port --username"),
    program("dropdb dropuser mysql_secure_installation pg_dropcluster pg_resetwal",
        changes=[("", LOSES_DATA, CRITICAL)]),
    program("mysqladmin", changes=[(r"drop|shutdown|flush-\S+|kill|password", LOSES_DATA, CRITICAL)]),
    program("pg_ctl pg_ctlcluster", changes=[("stop|restart|promote|kill|immediate", LOSES_DATA, HIGH)]),
    program("mongorestore mysqlimport pg_restore",
        changes=[("", "Writes into a database what is not in the line", HIGH)]),
    program("createdb createuser mongoimport", changes=[("", "Writes into a database", MEDIUM)]),
    program("sqlite3", aliases="sqlite", options="-newline -nullvalue -separator", single=True,
        loads="-init", client=client("-cmd", "-init", commands=SQLITE)),
    program("mysql", aliases="mariadb", options="-D -h -P -S -u --database --host --pager? --user",
        runs="--pager", loads="--defaults-file --init-command --plugin-dir",
        client=client("-e --execute --init-command", results="--tee", commands=MYSQL), asks="services"),
    program("sqlcmd", options="-d -P -S -U", client=client("-Q -q", "-i", "-o")),
    program("sqlplus", options="-L -S", client=client()),
    program("clickhouse-client", options="-d -h -u --database --host --password --user",
        client=client("-q --query", "--queries-file")),
    program("clickhouse", client=client("-q --query", "--queries-file")),
    program("duckdb", single=True, client=client("-c -s -cmd", "-f -init", commands=SQLITE)),
    program("cockroach", options="--host --url", client=client("-e --execute", "-f --file")),
    program("cqlsh", options="-k -p -u", client=client("-e --execute", "-f --file")),
    program("snowsql", client=client("-q --query", "-f --filename", "-o")),
    program("trino", client=client("--execute", "--file")),
    program("hive spark-sql", client=client("-e", "-f")),
    program("impala-shell", client=client("-q --query", "-f --query_file", "-o")),
    program("beeline", options="-n -p -u", client=client("-e", "-f")),
    program("isql", client=client(files="-i -input", results="-o")),
    program("usql", client=client("-c --command", "-f --file", "-o", commands=PSQL)),
    program("influx", options="-database -host", single=True, client=client("-execute")),
    program("bq", client=client()),
)
# fmt: on
