"""Findings in the arguments of any tool, by their names and values: paths, addresses, processes, recipients
and amounts.

The rules do not depend on the server that offers the tool: mail addresses in an argument called `to` are
recipients of a message in every tool.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from core.confusables import false_signs, looks_plain, plain_look
from core.controls import PROGRAM_NAMES
from core.models.tools import Risk
from core.policy.analysis.shell.places import HARMLESS_DEVICES, STARTUP, names_secrets, system_folder
from core.policy.analysis.sql import findings_in_query, looks_like_query
from core.policy.analysis.urls import IS_URL, findings_in_host, findings_in_url
from core.text import short_line, shorten_middle

# (text, risk, span); the span is (start, end) in the argument's text, in characters, or None for all of it.
RawFinding = tuple[str, Risk, tuple[int, int] | None]

PATH_NAME = re.compile(
    r"(?:^|_)(?:path|paths|file|files|filename|folder|directory|dir|destination|target|dest|dst|src|source|cwd|"
    r"root|output)(?:$|_)"
)
_TEXT_NAME = re.compile(
    r"(?:^|_)(?:content|contents|text|body|message|description|prompt|comment|title|note)$"
)
_URL_NAME = re.compile(r"(?:^|_)(?:url|urls|uri|href|link|endpoint|webhook)(?:$|_)")
_HOST_NAME = re.compile(r"(?:^|_)(?:host|hostname|server|domain)(?:$|_)")
_PROCESS_ID = re.compile(r"(?:^|_)(?:pid|pids|process_id|process_ids)$")
_PROCESS_NAME = re.compile(
    r"(?:^|_)(?:process|process_name|process_names|app_name|app_root_name|service|service_name|unit)$"
)
_RECIPIENTS = re.compile(r"(?:^|_)(?:to|cc|bcc|recipient|recipients|attendees|invitees|emails?|mailto)$")
_AMOUNT = re.compile(
    r"(?:^|_)(?:count|amount|number|quantity|qty|limit|max|num|n|total|copies|times|repeat|rows|price|sum)(?:$|_)"
)
_QUERY = re.compile(r"(?:^|_)(?:query|sql|statement|statements|queries)$")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ENDING_VERBS = re.compile(
    r"(?:^|_)(?:close|kill|stop|end|terminate|quit|restart|disable|suspend|signal)(?:$|_)"
)
_MAIL = re.compile(r"[^\s<>,;\"'@]{1,64}@[^\s<>,;\"'@]{1,190}")
_MAILING_LIST = re.compile(
    r"^(?:all|everyone|everybody|staff|team|company|list|.*-(?:all|list|announce))@", re.IGNORECASE
)
_VITAL_PROCESS = re.compile(
    r"^(?:systemd(?:-.*)?|init|launchd|kernel_task|windowserver|loginwindow|dbus-daemon|xorg|sshd|gdm3?|wininit|"
    r"csrss|winlogon|lsass|services|smss|svchost|dwm|explorer|quarterdeck.*)(?:\.exe|\.service)?$",
    re.IGNORECASE,
)
_ALL = re.compile(
    r"^\s*(?:all|every|everything|everyone|any|\*+|\.\*|%|inf(?:inity)?|unlimited)\s*$", re.IGNORECASE
)
_HOME = re.compile(r"^(?:/home|/users|[a-z]:[\\/]+users)[\\/]+([^\\/]+)", re.IGNORECASE)
_DEVICE = re.compile(r"^(?:/dev/|\\\\[.?]\\)", re.IGNORECASE)
# Formats of JSON Schema, and other formats that servers use.
_FORMATS = {
    **dict.fromkeys(("uri", "uri-reference", "iri", "iri-reference", "url"), "url"),
    **dict.fromkeys(("hostname", "idn-hostname", "ipv4", "ipv6"), "host"),
    **dict.fromkeys(("path", "file-path", "directory-path"), "path"),
    **dict.fromkeys(("email", "idn-email"), "email"),
}
_DESCRIPTIONS = (
    ("path", re.compile(r"\b(?:(?:absolute|full|relative)\s+path|path\s+(?:to|of|where)\b)", re.IGNORECASE)),
    ("url", re.compile(r"\bURLs?\b")),
    ("query", re.compile(r"\bSQL\b")),
)
_MOST_DESCRIPTION = 1_000
MANY, VERY_MANY, MANY_PEOPLE = 100, 10_000, 10
_LONGEST_FIGURE = 60


def snake(name: str) -> str:
    """`filePath`, `file-path` and `FilePath` as `file_path`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-.\s]+", "_", name).lower()


def described_kind(schema: Any, name: str) -> str | None:
    """The kind of an argument by the tool's input schema: "path", "url", "host", "email" or "query".

    None if neither the format nor the description of the argument names such a kind.
    """
    properties = schema.get("properties") if isinstance(schema, dict) else None
    argument = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(argument, dict):
        return None
    format_name, description = argument.get("format"), argument.get("description")
    if isinstance(format_name, str) and format_name in _FORMATS:
        return _FORMATS[format_name]
    if not isinstance(description, str):
        return None
    return next(
        (kind for kind, pattern in _DESCRIPTIONS if pattern.search(description[:_MOST_DESCRIPTION])), None
    )


def ends_targets(tool_name: str) -> bool:
    """Whether a tool ends the processes or services that its arguments name, by the tool's name."""
    return bool(_ENDING_VERBS.search(snake(tool_name)))


def findings_in_value(
    name: str, value: Any, *, acts: bool, ends: bool = False, home: str = ""
) -> Iterator[RawFinding]:
    """The findings in one argument.

    `acts`: the tool may change something. `ends`: the tool ends the process or service that the argument
    names. `home`: the home folder of the device's user, "" if unknown.
    """
    snake_name = snake(name)
    if isinstance(value, str):
        # Text that a tool only stores is not executed, for example SQL in the content of a file.
        if not _TEXT_NAME.search(snake_name):
            yield from _findings_in_address(snake_name, value)
        if _QUERY.search(snake_name) or (looks_like_query(value) and not _TEXT_NAME.search(snake_name)):
            yield from _findings_in_sql(value)
        if is_path(snake_name, value):
            yield from findings_in_path(value, acts=acts, home=home)
    if acts:
        named = ends or "process" in snake_name or snake_name in PROGRAM_NAMES
        if isinstance(value, str) and named and _PROCESS_NAME.search(snake_name):
            yield from _findings_in_process_name(value, ends)
        if _PROCESS_ID.search(snake_name):
            yield from _findings_in_process_ids(value)
        if _RECIPIENTS.search(snake_name):
            yield from _findings_in_recipients(value)
        if _AMOUNT.search(snake_name):
            yield from _findings_in_amount(value)


def is_path(snake_name: str, value: str) -> bool:
    """Whether an argument is a path, by its name or by the beginning of its value."""
    if "\n" in value or (IS_URL.match(value) and not _DRIVE.match(value)):
        return False
    if PATH_NAME.search(snake_name):
        return True
    return bool(re.match(r"(?:/|~|[A-Za-z]:[\\/]|\\\\)", value)) and not _TEXT_NAME.search(snake_name)


def findings_in_path(path: str, *, acts: bool, home: str = "") -> Iterator[RawFinding]:
    """The findings in a path; for a tool that only reads, mostly paths to keys and passwords."""
    if names_secrets(path):
        yield f"{'Touches' if acts else 'Reads'} keys or passwords of a person", Risk.HIGH, None
    elif acts and STARTUP.search(path):
        yield "Touches settings that decide what runs", Risk.HIGH, None
    elif acts and re.match(r"(?:~|/home/[^/]+|/Users/[^/]+)/\.[^./]", path):
        yield "Touches hidden settings of a person", Risk.MEDIUM, None
    if acts:
        if _DEVICE.match(path) and not HARMLESS_DEVICES.match(path):
            yield "Works straight on a device", Risk.CRITICAL, None
        if ".." in re.split(r"[/\\]", path):
            yield "Goes up out of a folder with “..”", Risk.MEDIUM, None
        if re.fullmatch(r"(?:/|~|[A-Za-z]:)[/\\]?\*{0,2}", path.strip()):
            yield "Means everything there is", Risk.CRITICAL, None
        yield from _findings_in_other_home(path, home)
    for place in false_signs(path)[:3]:
        plain_sign = plain_look(path[place])
        yield f"Has a sign that only looks like “{plain_sign}”", Risk.HIGH, (place, place + 1)
    if not path.isascii() and system_folder(plain_look(path)) and not system_folder(path):
        yield f"Looks like “{short_line(plain_look(path))}” and is not", Risk.HIGH, None
    for part in re.finditer(r"[^/\\]{2,}", path) if not path.isascii() else ():
        if looks_plain(part.group()) and any(sign.isalpha() for sign in part.group() if not sign.isascii()):
            yield f"Looks like “{short_line(plain_look(part.group()))}” and is not", Risk.MEDIUM, part.span()


def _findings_in_other_home(path: str, home: str) -> Iterator[RawFinding]:
    if tilde_user := re.match(r"~([^/\\]+)", path):
        yield f"In another user's home: {short_line(tilde_user[1])}", Risk.MEDIUM, None
    elif home and (folder_owner := _HOME.match(path)) and _HOME.match(home):
        own_home = _HOME.match(home)
        if (
            own_home is not None
            and own_home[1] != folder_owner[1]
            and folder_owner[1].casefold() not in ("shared", "public")
        ):
            yield f"In another user's home: {short_line(folder_owner[1])}", Risk.HIGH, None


def _findings_in_address(snake_name: str, value: str) -> Iterator[RawFinding]:
    address = value.strip()
    if IS_URL.match(value) and not _DRIVE.match(value):
        findings = findings_in_url(value)
    elif _URL_NAME.search(snake_name) and re.match(r"(?://)?[^\s/@]+(?:[.:][^\s/]+|/|$)", address):
        findings = findings_in_url(f"https://{address.removeprefix('//')}")
    elif _HOST_NAME.search(snake_name) and address and not re.search(r"[\s/]", address):
        findings = findings_in_host(address.partition(":")[0] if address.count(":") == 1 else address)
    else:
        return
    for finding_text, risk in findings:
        yield finding_text, risk, None


def _findings_in_sql(text: str) -> Iterator[RawFinding]:
    for finding_text, risk, start, end in findings_in_query(text):
        yield finding_text, risk, (start, end)


def _findings_in_process_name(text: str, ends: bool) -> Iterator[RawFinding]:
    program = re.split(r"[/\\]", text.strip())[-1]
    if not program or _ALL.match(program) or not re.search(r"\w", program):
        yield "Means every process", Risk.CRITICAL, None
    elif re.search(r"[*?%]", program):
        yield "Names processes by a pattern", Risk.HIGH, None
    elif ends and _VITAL_PROCESS.match(program):
        text = f"Is a process that the system or this console needs: {short_line(program)}"
        yield text, Risk.CRITICAL, None
    elif looks_plain(program):
        yield f"Looks like “{short_line(plain_look(program))}” and is not", Risk.HIGH, None


def _findings_in_process_ids(value: Any) -> Iterator[RawFinding]:
    for item in value if isinstance(value, list) else [value]:
        number = int(item) if isinstance(item, str) and re.fullmatch(r"\s*[+-]?\d{1,400}\s*", item) else item
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            continue
        if number == 1:
            yield "Is process 1, which everything else hangs from", Risk.CRITICAL, None
        elif number <= 0:
            yield f"Means a whole group of processes: {_figure(number)}", Risk.CRITICAL, None
        elif number in (os.getpid(), os.getppid()):
            yield f"Has the number of this console's own process: {_figure(number)}", Risk.HIGH, None


def _findings_in_recipients(value: Any) -> Iterator[RawFinding]:
    texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    addresses = list(
        dict.fromkeys(address.casefold() for text in texts[:5_000] for address in _MAIL.findall(text))
    )
    if len(addresses) > 1:
        risk = Risk.HIGH if len(addresses) > MANY_PEOPLE else Risk.MEDIUM
        yield f"Goes to {len(addresses):,} recipients", risk, None
    elif addresses:
        yield f"Goes to {short_line(addresses[0])}", Risk.LOW, None
    for address in addresses:
        if _MAILING_LIST.match(address):
            yield f"Goes to a list of people: {short_line(address)}", Risk.HIGH, None
            return
    if any(_ALL.match(text) for text in texts):
        yield "Goes to everybody", Risk.HIGH, None


def _findings_in_amount(value: Any) -> Iterator[RawFinding]:
    if isinstance(value, str):
        if _ALL.match(value):
            yield "Means all there are", Risk.HIGH, None
            return
        if not re.fullmatch(r"\s*[+-]?\d{1,400}(?:\.\d{1,9})?\s*", value):
            return
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if value < 0:
        yield f"Is a negative amount: {_figure(value)}", Risk.MEDIUM, None
    elif value > MANY:
        yield f"Is a large amount: {_figure(value)}", Risk.HIGH if value > VERY_MANY else Risk.MEDIUM, None


def _figure(number: float) -> str:
    """A number as a person reads it; the middle of thousands of digits is left out."""
    return shorten_middle(f"{number:,}" if isinstance(number, int) else f"{number:,.15g}", _LONGEST_FIGURE)
