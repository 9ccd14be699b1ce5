"""The kinds of words that commands take: what a shell may offer for an argument or an option's value."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a word of the command line names.

    `TEXT` is anything at all, such as a reason or a new name: nothing is offered for it.
    """

    TEXT = "text"
    DEVICE = "device"
    TARGET = "target"
    TOOL = "tool"
    TOOL_ARGUMENT = "tool_argument"
    RUN = "run"
    STEP = "step"
    BATCH = "batch"
    INPUT = "input"
    INPUT_NAME = "input_name"
    APPROVAL = "approval"
    GRANT = "grant"
    GRANT_TERMS = "grant_terms"
    OPERATOR = "operator"
    AGENT = "agent"
    FILTER = "filter"
    AGENT_FILTER = "agent_filter"
    TAG = "tag"
    QUERY = "query"
    FILE = "file"
    FOLDER = "folder"


# The word that a command's help shows for a value, and what it names.
KINDS = {
    "DEVICE": Kind.DEVICE,
    "DEVICE|FILTER": Kind.TARGET,
    "DEVICE|FILTER...": Kind.TARGET,
    "TOOL": Kind.TOOL,
    "KEY=VALUE...": Kind.TOOL_ARGUMENT,
    "RUN": Kind.RUN,
    "STEP": Kind.STEP,
    "FILE|NAME": Kind.BATCH,
    "BATCH": Kind.BATCH,
    "KEY=VALUE": Kind.INPUT,
    "KEY": Kind.INPUT_NAME,
    "ID": Kind.APPROVAL,
    "GRANT": Kind.GRANT,
    "uses=N|until=8h": Kind.GRANT_TERMS,
    "OPERATOR": Kind.OPERATOR,
    "AGENT": Kind.AGENT,
    "FILTER": Kind.FILTER,
    "NUMBER|N%|FILTER": Kind.FILTER,
    "TARGETS": Kind.AGENT_FILTER,
    "TAG": Kind.TAG,
    "QUERY...": Kind.QUERY,
    "FILE": Kind.FILE,
    "DIR": Kind.FOLDER,
    **dict.fromkeys(
        ("NAME", "TEXT", "LINE", "HOST", "HOST:PORT", "ACTOR", "SHA256", "WORD...", "WORDS...", "NUMBER"),
        Kind.TEXT,
    ),
    "NUMBER|N%": Kind.TEXT,
    "SECONDS": Kind.TEXT,
}
