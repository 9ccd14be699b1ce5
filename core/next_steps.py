"""The next step after an error, in words: for a person, and for an agent.

`ADVICE` has both for each code, so that window, terminal and agents give the same advice. Where the step
depends on more than the code, it is a `NextStep` of its cause. An agent can neither change a policy nor look
after a device, and is told what it can do itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from core.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Advice:
    """What follows from a kind of error: whether the same request may succeed later, and the next step.

    `agent` is empty if an agent takes the same step as a person. With `only_operators`, every step that an
    error of the kind names is for an operator.
    """

    retryable: bool
    person: str
    agent: str = ""
    only_operators: bool = False


class NextStep(NamedTuple):
    """A step that depends on the cause of an error, for a person and for an agent."""

    person: str
    agent: str


_FORBIDDEN = "The operator's policy forbids this. Do not try it by another way."
_TELL_OPERATOR = "Tell your operator."
_OPERATORS_ONLY = "Only an operator can do this."
_LOOK_FIRST = (
    "Look with a tool that only reads whether it happened before you ask again, with another request_id."
)

ADVICE: dict[ErrorCode, Advice] = {
    ErrorCode.INVALID_ARGUMENTS: Advice(
        False,
        "Correct what is named, then run again.",
        "Correct what is named, then call again.",
    ),
    ErrorCode.UNKNOWN_TOOL: Advice(
        False,
        "List the device's tools and choose one of them.",
        "Call search_tools to find it; run_commands runs it.",
    ),
    ErrorCode.UNKNOWN_DEVICE: Advice(
        False, "List the devices and choose one of them.", "Call list_devices and choose one of them."
    ),
    ErrorCode.NOT_FOUND: Advice(
        False,
        "Check the id; list what there is.",
        "Check the name or id; wait_run without a ticket lists your runs.",
    ),
    ErrorCode.WRONG_STATE: Advice(
        False,
        "Look at how it stands now, then ask for what fits.",
        "Call wait_run to see how the run stands now, then ask for what fits.",
    ),
    ErrorCode.PATH_NOT_ALLOWED: Advice(
        False,
        "Choose a path below an allowed root, or add a root in the device's own device.toml.",
        "Choose a path below an allowed root.",
    ),
    ErrorCode.TOO_LARGE: Advice(False, "Make it smaller, or give it in parts."),
    ErrorCode.CONTRACT_CHANGED: Advice(
        False,
        "Review what changed of the tool (quarterdeck contracts review DEVICE TOOL); it stays blocked.",
        "An operator must review the changed tool first; use another one meanwhile.",
        only_operators=True,
    ),
    # Not every refusal is by a rule: `core.policy.refusal` names the rule's.
    ErrorCode.DENIED_BY_POLICY: Advice(
        False, "Read why it is refused, and put that right first.", _FORBIDDEN
    ),
    ErrorCode.DENIED_BY_OPERATOR: Advice(False, "Read the operator's reason before asking again."),
    ErrorCode.DENIED_BY_DEVICE: Advice(
        False,
        "The device's own limits forbid it; see its device.toml.",
        "The device's own limits forbid this; do something else.",
    ),
    ErrorCode.CLOCK_DIFFERS: Advice(
        True,
        "Set the device's clock (NTP), then ask again.",
        "Tell your operator that the device's clock is wrong.",
    ),
    ErrorCode.APPROVAL_EXPIRED: Advice(
        True,
        "Ask again when an operator is there.",
        "No operator answered. Ask again later, with another request_id.",
    ),
    ErrorCode.APPROVAL_PENDING: Advice(
        False,
        "Do not ask again: approve or deny the request that waits; the run goes on from there.",
        "Do not ask again: call wait_run with the ticket until an operator decides.",
    ),
    ErrorCode.APPROVAL_INVALID: Advice(
        True,
        "Sign the request that is shown, with a key this service knows.",
        _OPERATORS_ONLY,
        only_operators=True,
    ),
    ErrorCode.SIGNATURE_REQUIRED: Advice(
        True,
        "Look at what would change, and sign it with an operator's key.",
        _OPERATORS_ONLY,
        only_operators=True,
    ),
    ErrorCode.QUEUE_FULL: Advice(
        True,
        "Wait until requests have been answered, then ask again.",
        "Call wait_run for what waits already, then ask again.",
    ),
    ErrorCode.RATE_LIMITED: Advice(True, "Wait a minute, or ask for fewer commands at a time."),
    ErrorCode.AGENT_UNKNOWN: Advice(
        False,
        "Ask an operator for a token (quarterdeck agents add NAME), and start again with it.",
        "Tell your operator: your token is not valid any more.",
    ),
    ErrorCode.AGENT_PAUSED: Advice(True, "Wait until an operator lets the agent go on, then ask again."),
    ErrorCode.STOPPED: Advice(
        True,
        "Resume in the console, then run again.",
        "An operator has stopped everything. Wait, then ask again.",
    ),
    ErrorCode.CANCELLED: Advice(
        True,
        "Run again if it is still wanted.",
        "It was cancelled. Ask again only if it is still wanted, with another request_id.",
    ),
    ErrorCode.SKIPPED: Advice(
        True,
        "Look at the step that did not succeed, then run what is left.",
        "Read why the step before failed, then ask for what is left, with another request_id.",
    ),
    ErrorCode.DEVICE_OFFLINE: Advice(
        True,
        "Bring the device back online, then run again.",
        "Ask again once list_devices shows it online, with another request_id.",
    ),
    ErrorCode.TIMEOUT: Advice(
        True,
        "Look whether the device is busy; allow more time.",
        "Ask with a longer timeout, and with another request_id.",
    ),
    ErrorCode.OUTCOME_UNKNOWN: Advice(
        False, "Look at the device before you run this again: it may have happened.", _LOOK_FIRST
    ),
    ErrorCode.TOOL_FAILED: Advice(False, "Read what the tool said."),
    ErrorCode.PARTIAL_FAILURE: Advice(False, "See which parts failed; run only those again."),
    ErrorCode.EXPECTATION_FAILED: Advice(
        False,
        "Compare the result with what the batch expects of it; correct one of them.",
        "Read the result: it is not what the batch expects.",
    ),
    ErrorCode.BAD_RESULT: Advice(
        False,
        "The device's answer could not be used; look at its log.",
        "The device's answer could not be used. Ask for it by another tool.",
    ),
    ErrorCode.STALE_OBSERVATION: Advice(
        True, "Take a new picture, or read the controls again, then ask with what it shows."
    ),
    ErrorCode.CHANGED_SINCE: Advice(
        False,
        "Look at what was changed there since; put it right by hand if that is still wanted.",
        "Read what is there now; what was changed since would be lost.",
    ),
    ErrorCode.CONTROL_NOT_FOUND: Advice(
        True, "Choose one of those that are listed, or wait until it is there, then ask again."
    ),
    ErrorCode.CONTROL_AMBIGUOUS: Advice(
        False, "Give the control_id of the one that is meant, or the window_id of its window."
    ),
    ErrorCode.CONTROL_COVERED: Advice(
        True, "Bring its window forward (activate_window), or close what covers it, then ask again."
    ),
    ErrorCode.CONTROL_NOT_SHOWING: Advice(
        True, "Open the menu, tab or page that has it, or scroll to it, then ask again."
    ),
    ErrorCode.CONTROL_DISABLED: Advice(
        True, "Do first what its program wants before it, such as a choice or a field, then ask again."
    ),
    ErrorCode.PROGRAM_NOT_ANSWERING: Advice(
        True, "Look at a picture: close the dialog that it waits for, or let it finish; then ask again."
    ),
    ErrorCode.KEYBOARD_ELSEWHERE: Advice(
        True,
        "Give the control_id of the field, or put the keyboard there: click it, or close the menu (press_key "
        "Escape); then ask again.",
    ),
    ErrorCode.PROTOCOL_ERROR: Advice(
        False,
        "The device speaks a protocol this console does not know.",
        "Tell your operator; use another device meanwhile.",
    ),
    ErrorCode.JOURNAL_UNAVAILABLE: Advice(
        True,
        "Make the journal writable (disk space, permissions); nothing is sent until then.",
        "Nothing is sent while the journal cannot be written. Tell your operator.",
    ),
    ErrorCode.JOURNAL_CORRUPT: Advice(
        False,
        "Keep a copy of the home, then look at the entry that is named.",
        _TELL_OPERATOR,
        only_operators=True,
    ),
    ErrorCode.SERVICE_UNAVAILABLE: Advice(
        True,
        "Start the service: quarterdeck service start.",
        "Call again, which starts the service. If that fails, tell your operator.",
        only_operators=True,
    ),
    ErrorCode.SERVICE_SILENT: Advice(
        False,
        "Look what has become of it (quarterdeck runs list) before you ask again: it may have happened.",
        "Call wait_run without a ticket to see whether it happened, before you ask again.",
        only_operators=True,
    ),
    ErrorCode.HOME_BUSY: Advice(
        True,
        "Another program owns this home and cannot be reached; stop it, or choose another --home.",
        _TELL_OPERATOR,
        only_operators=True,
    ),
    ErrorCode.HOME_UNSAFE: Advice(
        False,
        "Make the folder that is named yours alone (its owner you, its mode 0700), or choose another.",
        _TELL_OPERATOR,
        only_operators=True,
    ),
    ErrorCode.INTERNAL: Advice(
        False, "This is a fault in Quarterdeck; the log has the details.", _TELL_OPERATOR, only_operators=True
    ),
}

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
ADDRESS_TAKEN = NextStep(
    "End the program that listens there, or choose another port.",
    "Tell your operator that another program listens there.",
)
NO_EVIDENCE = NextStep(
    "See why the device takes no picture; or change what demands one, if it is wrong.",
    "Tell your operator that the device takes no picture; do not try it by another way.",
)
NO_ANSWER = NextStep(
    "Its device is asked again if it keeps results; else look there before you run this again.",
    _LOOK_FIRST,
)
DEVICE_DOES_NOT_KNOW = NextStep(ADVICE[ErrorCode.OUTCOME_UNKNOWN].person, _LOOK_FIRST)
UNUSABLE_ANSWER = NextStep(
    "Its answer tells nothing: look at the device before you run this again.", _LOOK_FIRST
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
        ADDRESS_TAKEN,
        NO_EVIDENCE,
        NO_ANSWER,
        DEVICE_DOES_NOT_KNOW,
        UNUSABLE_ANSWER,
    )
} | {ADVICE[ErrorCode.INTERNAL].person: _TELL_OPERATOR}
# A step that names a command of the terminal.
_IN_A_TERMINAL = "quarterdeck "


def for_an_agent(code: ErrorCode, step: str) -> str:
    """The text for an agent in place of `step`, the next step of an error with this code for a person.

    A step that fits the cause of the error is the agent's as well, unless only a person can take it.
    """
    if step in _BY_CAUSE:
        return _BY_CAUSE[step]
    advice = ADVICE[code]
    if step and step != advice.person and not advice.only_operators and _IN_A_TERMINAL not in step:
        return step
    return advice.agent or advice.person
