"""The next steps that an agent can take after an error. `core.errors.ADVICE` has those of a person."""

from __future__ import annotations

from core.errors import ADVICE, ErrorCode

_OF_AN_AGENT = {
    ErrorCode.UNKNOWN_TOOL: "Call search_tools, or list the tools of this server if it is one of these.",
    ErrorCode.UNKNOWN_DEVICE: "Call list_devices and choose one of them.",
    ErrorCode.NOT_FOUND: "Check the name or id; wait_run without a ticket lists your runs.",
    ErrorCode.PATH_NOT_ALLOWED: "Choose a path below an allowed root.",
    ErrorCode.CONTRACT_CHANGED: "An operator must review the changed tool first; use another one meanwhile.",
    ErrorCode.DENIED_BY_POLICY: "The operator's policy forbids this. Do not try it by another way.",
    ErrorCode.DENIED_BY_DEVICE: "The device's own limits forbid this; do something else.",
    ErrorCode.APPROVAL_EXPIRED: "No operator answered. Ask again later, with another request_id.",
    ErrorCode.APPROVAL_PENDING: "Do not ask again: call wait_run with the ticket until an operator decides.",
    ErrorCode.APPROVAL_INVALID: "Only an operator can do this.",
    ErrorCode.SIGNATURE_REQUIRED: "Only an operator can do this.",
    ErrorCode.QUEUE_FULL: "Call wait_run for what waits already, then ask again.",
    ErrorCode.AGENT_UNKNOWN: "Tell your operator: your token is not valid any more.",
    ErrorCode.STOPPED: "An operator has stopped everything. Wait, then ask again.",
    ErrorCode.DEVICE_OFFLINE: "Ask again once list_devices shows it online, with another request_id.",
    ErrorCode.TIMEOUT: "Look at the device with a read; ask with a longer timeout.",
    ErrorCode.BAD_RESULT: "The device's answer could not be used. Look at the device with another tool.",
    ErrorCode.PROTOCOL_ERROR: "Tell your operator; use another device meanwhile.",
    ErrorCode.JOURNAL_UNAVAILABLE: "Nothing is sent while the journal cannot be written. Tell your operator.",
    ErrorCode.JOURNAL_CORRUPT: "Tell your operator.",
    ErrorCode.SERVICE_UNAVAILABLE: "Call again, which starts the service. If that fails, tell your operator.",
    ErrorCode.HOME_BUSY: "Tell your operator.",
    ErrorCode.HOME_UNSAFE: "Tell your operator.",
    ErrorCode.INTERNAL: "Tell your operator.",
}


def next_step_of_an_agent(code: ErrorCode) -> str:
    """What an agent does next after an error of this code."""
    return _OF_AN_AGENT.get(code, ADVICE[code].next_step)
