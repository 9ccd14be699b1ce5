"""Alternatives to a call that failed for a reason other than a refusal: what could be called now instead.

An alternative is offered only if the policy would allow exactly that call, by the same actor, without an
approval. There are none for a call that was denied, needed an approval, or was refused by its device: an
alternative must not be a way round a refusal.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from core.commands.results import Basis, CommandResult
from core.errors import ErrorCode, QuarterdeckError
from core.fleet.words import stem, words
from core.models.devices import Health
from core.models.tool_names import READ_FILE
from core.models.tools import Effect
from core.policy.analysis.built_in_tools import SHELL_ARGUMENTS
from core.policy.models import Answer
from core.service.envelope import Alternative
from core.service.service import Service

MOST = 3
# Candidates that are judged, which costs as much as judging a command.
_MOST_JUDGED = 8
_LEAST_SCORE = 60.0
_HERE = (Health.ONLINE, Health.BUSY)
# Another device may have the tool; another tool may do the same. No other code is here: a refusal never is.
_ELSEWHERE = frozenset({ErrorCode.UNKNOWN_TOOL, ErrorCode.DEVICE_OFFLINE, ErrorCode.TIMEOUT})
_OTHERWISE = frozenset({ErrorCode.UNKNOWN_TOOL, ErrorCode.TOOL_FAILED, ErrorCode.TIMEOUT})
# Names by which shells are called that are no tools of ours.
_SHELLS = frozenset({"bash", "sh", "shell", "run_command", "execute_command"})
_PLAIN_LINE = re.compile(r"""[\w\s./~'"+,:@%=-]+""")


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that failed. Its arguments are those of the request, so that they must not be shown."""

    actor: str
    parameters: dict[str, Any]
    result: CommandResult


async def alternatives_to(service: Service, call: FailedCall) -> list[Alternative]:
    """At most `MOST` calls that the policy would allow now; those that are most alike come first."""
    if not _may_have_some(call.result):
        return []
    found: dict[tuple[str, str], Alternative] = {}
    judged = 0
    async for alternative, parameters in _candidates(service, call):
        key = (alternative.device, alternative.tool)
        if key in found or key == (call.result.device, call.result.tool_name):
            continue
        judged += 1
        if await _is_allowed(service, alternative, parameters, call.actor):
            found[key] = alternative
        if len(found) >= MOST or judged >= _MOST_JUDGED:
            break
    return list(found.values())


def _may_have_some(result: CommandResult) -> bool:
    decision, error = result.decision, result.error
    if error is None or error.code not in _ELSEWHERE | _OTHERWISE:
        return False
    if decision is None:
        # It ended before the policy was asked, so nothing was sent.
        return result.basis is Basis.NOTHING_SENT
    if decision.answer is not Answer.ALLOW or result.basis is Basis.DEVICE_REFUSED:
        return False
    # A command that may have changed something must not be repeated on another device.
    return result.basis is Basis.NOTHING_SENT or decision.effect is Effect.OBSERVE


async def _candidates(
    service: Service, call: FailedCall
) -> AsyncIterator[tuple[Alternative, dict[str, Any]]]:
    result = call.result
    assert result.error is not None
    code, tool, device = result.error.code, result.tool_name, result.device
    health = {one.name: one.health for one in service.fleet.devices()}
    if code in _OTHERWISE and (path := printed_file(tool, call.parameters)):
        why = "It reads the file that this line prints: give its path as file_path."
        yield Alternative(tool=READ_FILE, device=device, why=why), {"file_path": path}
    if code in _ELSEWHERE:
        for other, state in health.items():
            if other != device and state in _HERE and service.fleet.offered(other, tool) is not None:
                why = f"{other} is {state.value} and has the same tool."
                yield Alternative(tool=tool, device=other, why=why), call.parameters
    if code in _OTHERWISE and health.get(device) in _HERE:
        effect = _effect(service, device, tool)
        for hit in await service.fleet.search(tool[:100], {device}, _MOST_JUDGED):
            if hit.effect is effect and hit.score >= _LEAST_SCORE and _share_a_word(hit.tool, tool):
                why = f"It has the same effect ({effect.value}); {'; '.join(hit.reasons)}."
                yield Alternative(tool=hit.tool, device=device, why=why), call.parameters


def _share_a_word(tool: str, other: str) -> bool:
    """Whether two names have a word in common: what only means the same may be a way round a limit."""
    return not {stem(word) for word in words(tool)}.isdisjoint(stem(word) for word in words(other))


def _effect(service: Service, device: str, tool: str) -> Effect:
    """The effect by the tool's contract; of a tool that the device does not have, reading."""
    offered = service.fleet.offered(device, tool)
    return offered.contract.effect.value if offered is not None else Effect.OBSERVE


async def _is_allowed(
    service: Service, alternative: Alternative, parameters: dict[str, Any], actor: str
) -> bool:
    dispatcher, device, tool = service.dispatcher, alternative.device, alternative.tool
    try:
        leads = await dispatcher.look_ahead([device], tool, parameters)
        return dispatcher.explain(device, tool, parameters, actor, leads).answer is Answer.ALLOW
    except QuarterdeckError:
        # The tool is not there, is blocked, or takes other arguments.
        return False


def printed_file(tool: str, parameters: dict[str, Any]) -> str:
    """The absolute path of the one file that a shell line prints with `cat`; empty for any other call."""
    name = SHELL_ARGUMENTS.get(tool, "command" if tool in _SHELLS else "")
    line, folder = parameters.get(name), parameters.get("working_directory")
    if not isinstance(line, str) or not _PLAIN_LINE.fullmatch(line):
        return ""
    try:
        program, *words = shlex.split(line)
    except ValueError:
        return ""
    words = words[1:] if words[:1] == ["--"] else words
    if program != "cat" or len(words) != 1 or words[0].startswith(("-", "~")):
        return ""
    path = os.path.join(folder, words[0]) if isinstance(folder, str) else words[0]
    return path if path.startswith("/") else ""
