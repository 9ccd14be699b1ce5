"""The next steps after errors, in words, where they depend on more than the error's code or on the reader.

`core.errors.ADVICE` has a person's step for each code. Here are the steps that depend on the cause, and what
an agent is told, which can neither change a policy nor look after a device.
"""

from __future__ import annotations

from typing import NamedTuple

from core.errors import ADVICE, ErrorCode


class NextStep(NamedTuple):
    """A step that depends on the cause of an error, for a person and for an agent."""

    person: str
    agent: str


_FORBIDDEN = "The operator's policy forbids this. Do not try it by another way."
_TELL_OPERATOR = "Tell your operator."

DENIED_BY_RULE = NextStep("Read the rule that is named; change the policy if it is wrong.", _FORBIDDEN)
DENIED_BY_PROFILE = NextStep(
    "Change the profile of the device or the agent if it is wrong; no rule denies this.", _FORBIDDEN
)
DENIED_BY_PEER = NextStep(
    "Read why the other end refuses it; no rule of the policy here does.",
    "Read why the device refuses it, and do something else.",
)
FOR_A_PERSON_HERE = NextStep(
    "Do it on another device, or by hand; no rule of the policy allows it.",
    "Do it on another device, or ask your operator to do it by hand; no rule of the policy allows it.",
)
CLOSES_THE_CONSOLE = NextStep(
    "Close it by hand if that is wanted; no rule of the policy allows it.",
    "Leave it open; no rule of the policy allows this.",
)
NO_EVIDENCE = NextStep(
    "See why the device takes no picture; or change what demands one, if it is wrong.",
    "Tell your operator that the device takes no picture; do not try it by another way.",
)
NO_ANSWER = NextStep(
    "Its device is asked again if it keeps results; else look there before you run this again.",
    "Look with a tool that only reads whether it happened before you ask again, with another request_id.",
)
DEVICE_DOES_NOT_KNOW = NextStep(ADVICE[ErrorCode.OUTCOME_UNKNOWN].next_step, NO_ANSWER.agent)
UNUSABLE_ANSWER = NextStep(
    "Its answer tells nothing: look at the device before you run this again.", NO_ANSWER.agent
)

# What an agent is told, by the words for a person: the form in which a step travels, and is in the journal.
_BY_CAUSE = {
    step.person: step.agent
    for step in (
        DENIED_BY_RULE,
        DENIED_BY_PROFILE,
        DENIED_BY_PEER,
        FOR_A_PERSON_HERE,
        CLOSES_THE_CONSOLE,
        NO_EVIDENCE,
        NO_ANSWER,
        DEVICE_DOES_NOT_KNOW,
        UNUSABLE_ANSWER,
    )
} | {ADVICE[ErrorCode.INTERNAL].next_step: _TELL_OPERATOR}
_BY_CODE = {
    ErrorCode.UNKNOWN_TOOL: "Call search_tools, or list the tools of this server if it is one of these.",
    ErrorCode.UNKNOWN_DEVICE: "Call list_devices and choose one of them.",
    ErrorCode.NOT_FOUND: "Check the name or id; wait_run without a ticket lists your runs.",
    ErrorCode.PATH_NOT_ALLOWED: "Choose a path below an allowed root.",
    ErrorCode.CONTRACT_CHANGED: "An operator must review the changed tool first; use another one meanwhile.",
    ErrorCode.DENIED_BY_POLICY: _FORBIDDEN,
    ErrorCode.DENIED_BY_DEVICE: "The device's own limits forbid this; do something else.",
    ErrorCode.CLOCK_DIFFERS: "Tell your operator that the device's clock is wrong.",
    ErrorCode.APPROVAL_EXPIRED: "No operator answered. Ask again later, with another request_id.",
    ErrorCode.APPROVAL_PENDING: "Do not ask again: call wait_run with the ticket until an operator decides.",
    ErrorCode.APPROVAL_INVALID: "Only an operator can do this.",
    ErrorCode.SIGNATURE_REQUIRED: "Only an operator can do this.",
    ErrorCode.QUEUE_FULL: "Call wait_run for what waits already, then ask again.",
    ErrorCode.AGENT_UNKNOWN: "Tell your operator: your token is not valid any more.",
    ErrorCode.STOPPED: "An operator has stopped everything. Wait, then ask again.",
    ErrorCode.DEVICE_OFFLINE: "Ask again once list_devices shows it online, with another request_id.",
    ErrorCode.TIMEOUT: "Ask with a longer timeout, and with another request_id.",
    ErrorCode.OUTCOME_UNKNOWN: NO_ANSWER.agent,
    ErrorCode.BAD_RESULT: "The device's answer could not be used. Ask for it by another tool.",
    ErrorCode.PROTOCOL_ERROR: "Tell your operator; use another device meanwhile.",
    ErrorCode.JOURNAL_UNAVAILABLE: "Nothing is sent while the journal cannot be written. Tell your operator.",
    ErrorCode.JOURNAL_CORRUPT: _TELL_OPERATOR,
    ErrorCode.SERVICE_UNAVAILABLE: "Call again, which starts the service. If that fails, tell your operator.",
    ErrorCode.HOME_BUSY: _TELL_OPERATOR,
    ErrorCode.HOME_UNSAFE: _TELL_OPERATOR,
    ErrorCode.INTERNAL: _TELL_OPERATOR,
}
# Codes whose steps for a person are always an operator's: an agent is told what its code says.
_OPERATORS_ONLY = frozenset(
    {
        ErrorCode.APPROVAL_INVALID,
        ErrorCode.SIGNATURE_REQUIRED,
        ErrorCode.CONTRACT_CHANGED,
        ErrorCode.JOURNAL_CORRUPT,
        ErrorCode.HOME_BUSY,
        ErrorCode.HOME_UNSAFE,
        ErrorCode.SERVICE_UNAVAILABLE,
        ErrorCode.INTERNAL,
    }
)


def for_an_agent(code: ErrorCode, step: str) -> str:
    """The text for an agent in place of `step`, the next step of an error with this code for a person.

    A step that fits the cause of the error is the agent's as well, unless only an operator can take it.
    """
    if step in _BY_CAUSE:
        return _BY_CAUSE[step]
    of_its_code = ADVICE[code].next_step
    if step and step != of_its_code and code not in _OPERATORS_ONLY:
        return step
    return _BY_CODE.get(code, of_its_code)
