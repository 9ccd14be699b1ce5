"""What the arguments of any tool say by their names and values: paths, addresses, processes, people, amounts.

Nothing here knows which server a tool belongs to: an argument called `to` with mail addresses in it is a
message to a person, whichever server offers the tool.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from core.confusables import false_signs, looks_plain, plain_look
from core.controls import PROGRAM_NAMES
from core.fleet.models import Risk
from core.policy.analysis.shell.tables import HARMLESS_DEVICES, STARTUP, names_secrets, system_folder
from core.policy.analysis.sql import judge_query, looks_like_query
from core.policy.analysis.urls import IS_URL, judge_host, judge_url
from core.text import short_line

# Words, risk, and where in the argument's text, or None for all of it.
Said = tuple[str, Risk, tuple[int, int] | None]

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
_PEOPLE = re.compile(r"(?:^|_)(?:to|cc|bcc|recipient|recipients|attendees|invitees|emails?|mailto)$")
_AMOUNT = re.compile(
    r"(?:^|_)(?:count|amount|number|quantity|qty|limit|max|num|n|total|copies|times|repeat|rows|price|sum)(?:$|_)"
)
_QUERY = re.compile(r"(?:^|_)(?:query|sql|statement|statements|queries)$")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ENDS = re.compile(r"(?:^|_)(?:close|kill|stop|end|terminate|quit|restart|disable|suspend|signal)(?:$|_)")
_MAIL = re.compile(r"[^\s<>,;\"'@]{1,64}@[^\s<>,;\"'@]{1,190}")
_LISTS = re.compile(
    r"^(?:all|everyone|everybody|staff|team|company|list|.*-(?:all|list|announce))@", re.IGNORECASE
)
_VITAL = re.compile(
    r"^(?:systemd(?:-.*)?|init|launchd|kernel_task|windowserver|loginwindow|dbus-daemon|xorg|sshd|gdm3?|wininit|"
    r"csrss|winlogon|lsass|services|smss|svchost|dwm|explorer|quarterdeck.*)(?:\.exe|\.service)?$",
    re.IGNORECASE,
)
_ALL = re.compile(
    r"^\s*(?:all|every|everything|everyone|any|\*+|\.\*|%|inf(?:inity)?|unlimited)\s*$", re.IGNORECASE
)
_HOME = re.compile(r"^(?:/home|/users|[a-z]:[\\/]+users)[\\/]+([^\\/]+)", re.IGNORECASE)
_DEVICE = re.compile(r"^(?:/dev/|\\\\[.?]\\)", re.IGNORECASE)
# Formats of JSON Schema, and some that servers use besides.
_FORMATS = {
    **dict.fromkeys(("uri", "uri-reference", "iri", "iri-reference", "url"), "url"),
    **dict.fromkeys(("hostname", "idn-hostname", "ipv4", "ipv6"), "host"),
    **dict.fromkeys(("path", "file-path", "directory-path"), "path"),
    **dict.fromkeys(("email", "idn-email"), "email"),
}
_DESCRIBED = (
    ("path", re.compile(r"\b(?:(?:absolute|full|relative)\s+path|path\s+(?:to|of|where)\b)", re.IGNORECASE)),
    ("url", re.compile(r"\bURLs?\b")),
    ("query", re.compile(r"\bSQL\b")),
)
_MOST_WORDS = 1_000
MANY, VERY_MANY, MANY_PEOPLE = 100, 10_000, 10


def snake(name: str) -> str:
    """`filePath`, `file-path` and `FilePath` as `file_path`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-.\s]+", "_", name).lower()


def meant_as(schema: Any, name: str) -> str | None:
    """A plain name for what a tool's input schema says that an argument is: a path, address, host or query.

    None where the schema says nothing of the kind.
    """
    properties = schema.get("properties") if isinstance(schema, dict) else None
    said = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(said, dict):
        return None
    form, words = said.get("format"), said.get("description")
    if isinstance(form, str) and form in _FORMATS:
        return _FORMATS[form]
    if not isinstance(words, str):
        return None
    return next((kind for kind, pattern in _DESCRIBED if pattern.search(words[:_MOST_WORDS])), None)


def ends_things(tool_name: str) -> bool:
    """Whether a tool's name says that it ends what its arguments name."""
    return bool(_ENDS.search(snake(tool_name)))


def judge_value(name: str, value: Any, *, acts: bool, ends: bool = False, home: str = "") -> Iterator[Said]:
    """What one argument says.

    `acts`: the tool may change something. `ends`: it ends what is named. `home`: its user's, where known.
    """
    plain = snake(name)
    if isinstance(value, str):
        # Text that is only written is not executed: a page of SQL in a file is a text.
        if not _TEXT_NAME.search(plain):
            yield from _address(plain, value)
        if _QUERY.search(plain) or (looks_like_query(value) and not _TEXT_NAME.search(plain)):
            yield from _query(value)
        if is_path(plain, value):
            yield from judge_path(value, acts=acts, home=home)
    if acts:
        named = ends or "process" in plain or plain in PROGRAM_NAMES
        if isinstance(value, str) and named and _PROCESS_NAME.search(plain):
            yield from _process_name(value, ends)
        if _PROCESS_ID.search(plain):
            yield from _process_ids(value)
        if _PEOPLE.search(plain):
            yield from _people(value)
        if _AMOUNT.search(plain):
            yield from _amount(value)


def is_path(plain: str, value: str) -> bool:
    """Whether an argument is a path, by its name or by how it begins."""
    if "\n" in value or (IS_URL.match(value) and not _DRIVE.match(value)):
        return False
    if PATH_NAME.search(plain):
        return True
    return bool(re.match(r"(?:/|~|[A-Za-z]:[\\/]|\\\\)", value)) and not _TEXT_NAME.search(plain)


def judge_path(path: str, *, acts: bool, home: str = "") -> Iterator[Said]:
    """What a path says; reading is only told of where keys and passwords are."""
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
        yield from _elsewhere(path, home)
    for place in false_signs(path)[:3]:
        seen = plain_look(path[place])
        yield f"Has a sign that only looks like “{seen}”", Risk.HIGH, (place, place + 1)
    if not path.isascii() and system_folder(plain_look(path)) and not system_folder(path):
        yield f"Looks like “{short_line(plain_look(path))}” and is not", Risk.HIGH, None
    for part in re.finditer(r"[^/\\]{2,}", path) if not path.isascii() else ():
        if looks_plain(part.group()) and any(sign.isalpha() for sign in part.group() if not sign.isascii()):
            yield f"Looks like “{short_line(plain_look(part.group()))}” and is not", Risk.MEDIUM, part.span()


def _elsewhere(path: str, home: str) -> Iterator[Said]:
    if named := re.match(r"~([^/\\]+)", path):
        yield f"In another user's home: {short_line(named[1])}", Risk.MEDIUM, None
    elif home and (found := _HOME.match(path)) and _HOME.match(home):
        own = _HOME.match(home)
        if own is not None and own[1] != found[1] and found[1].casefold() not in ("shared", "public"):
            yield f"In another user's home: {short_line(found[1])}", Risk.HIGH, None


def _address(plain: str, text: str) -> Iterator[Said]:
    bare = text.strip()
    if IS_URL.match(text) and not _DRIVE.match(text):
        judged = judge_url(text)
    elif _URL_NAME.search(plain) and re.match(r"(?://)?[^\s/@]+(?:[.:][^\s/]+|/|$)", bare):
        judged = judge_url(f"https://{bare.removeprefix('//')}")
    elif _HOST_NAME.search(plain) and bare and not re.search(r"[\s/]", bare):
        judged = judge_host(bare.partition(":")[0] if bare.count(":") == 1 else bare)
    else:
        return
    for said, risk in judged:
        yield said, risk, None


def _query(text: str) -> Iterator[Said]:
    for said, risk, start, end in judge_query(text):
        yield said, risk, (start, end)


def _process_name(text: str, ends: bool) -> Iterator[Said]:
    bare = re.split(r"[/\\]", text.strip())[-1]
    if not bare or _ALL.match(bare) or not re.search(r"\w", bare):
        yield "Means every process", Risk.CRITICAL, None
    elif re.search(r"[*?%]", bare):
        yield "Names processes by a pattern", Risk.HIGH, None
    elif ends and _VITAL.match(bare):
        yield f"Is a process that the system or this console needs: {short_line(bare)}", Risk.CRITICAL, None
    elif looks_plain(bare):
        yield f"Looks like “{short_line(plain_look(bare))}” and is not", Risk.HIGH, None


def _process_ids(value: Any) -> Iterator[Said]:
    for one in value if isinstance(value, list) else [value]:
        number = int(one) if isinstance(one, str) and re.fullmatch(r"\s*[+-]?\d{1,12}\s*", one) else one
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            continue
        if number == 1:
            yield "Is process 1, which everything else hangs from", Risk.CRITICAL, None
        elif number <= 0:
            yield f"Means a whole group of processes: {number:g}", Risk.CRITICAL, None
        elif number in (os.getpid(), os.getppid()):
            yield f"Has the number of this console's own process: {number:g}", Risk.HIGH, None


def _people(value: Any) -> Iterator[Said]:
    texts = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]
    found = list(dict.fromkeys(mail.casefold() for one in texts[:5_000] for mail in _MAIL.findall(one)))
    if len(found) > 1:
        risk = Risk.HIGH if len(found) > MANY_PEOPLE else Risk.MEDIUM
        yield f"Goes to {len(found):,} recipients", risk, None
    elif found:
        yield f"Goes to {short_line(found[0])}", Risk.LOW, None
    for mail in found:
        if _LISTS.match(mail):
            yield f"Goes to a list of people: {short_line(mail)}", Risk.HIGH, None
            return
    if any(_ALL.match(one) for one in texts):
        yield "Goes to everybody", Risk.HIGH, None


def _amount(value: Any) -> Iterator[Said]:
    if isinstance(value, str):
        if _ALL.match(value):
            yield "Means all there are", Risk.HIGH, None
            return
        if not re.fullmatch(r"\s*[+-]?\d{1,15}(?:\.\d{1,9})?\s*", value):
            return
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if value < 0:
        yield f"Is a negative amount: {value:g}", Risk.MEDIUM, None
    elif value > MANY:
        yield f"Is a large amount: {value:,.15g}", Risk.HIGH if value > VERY_MANY else Risk.MEDIUM, None
