"""Each method of the API is called by the command line, the gateway and the window, or it is said why not.

The reasons are checked in both directions: one for a method that a door has by now is out of date.
"""

from __future__ import annotations

import re
from pathlib import Path

from core.service.api.methods import ANY_CLIENT
from core.service.rpc.protocol import methods

ROOT = Path(__file__).parents[3]
# What these ask of the console, they ask for any client.
SHARED = ("pages.py", "result_export.py", "batch_proposal.py", "control.py", "rpc/client.py")
# As `SHARED`, of the command line alone.
OF_THE_COMMAND_LINE = ("journal_export.py",)
_DRAWS = "It serves a picture of the window; its content is in `audit find` and `runs show`."
_LATER = "It has no place there yet."

NOT_BY_THE_COMMAND_LINE = {
    "alternatives": "They are in the envelope that `call` and `run` print.",
    "batches": "`batches list` reads the same with size and time.",
    "command": "`runs show` and `audit show` tell of one command.",
    "edit_approval": _LATER,
    "entry_numbers": _DRAWS,
    "facets": _DRAWS,
    "fatigue": "It warns who answers many cards one after the other; the terminal shows one at a time.",
    "helpers": "They look at what a card in the window shows.",
    "histogram": _DRAWS,
    "introduce_agent": "It is the gateway's own greeting.",
    "run_blob": "`runs show --save` reads pictures by the journal's `blob`.",
    "run_helper": "They look at what a card in the window shows.",
    "save_policy": "policy.toml is edited as a file; `policy accept` signs it.",
    "timeline": _DRAWS,
    "try_expressions": "`run --plan` tells the faults of a file's expressions.",
    "wait_run": "`run` follows the events of its run.",
    "watch_pictures": "A terminal shows no live picture.",
}
NOT_BY_THE_GATEWAY = {
    "alternatives": "They are in the envelope, which is the resource of a run.",
    "cancel_step": "An agent cancels its run as a whole.",
    "command": "An agent reads its runs and their entries.",
    "compare_runs": _LATER,
    "plan": "An agent sends; policy and operators judge.",
    "resume_run": "An operator resumes what an agent asked for.",
    "run_output": "wait_run tells what a command has printed.",
    "saved_batches": "search_tools finds saved batches beside tools.",
    "tools": "search_tools and describe_tool answer without the whole list.",
    "undo_plan": "An operator undoes what an agent asked for.",
    "undo_run": "An operator undoes what an agent asked for.",
}
NOT_BY_THE_WINDOW = {
    "accept_machine": _LATER,
    "agents": "They come with the state and the events.",
    "export_entries": _LATER,
    "introduce_agent": "It is the gateway's own greeting.",
    "match_devices": "The window has all devices and filters them itself.",
    "runs": "The list of runs is searched by `find_runs`.",
    "run_blob": "The window reads pictures by the journal's `blob`.",
}


def calls(place: str, also: tuple[str, ...] = ()) -> str:
    """The source of the files in a folder, and of those that call for them."""
    files = sorted((ROOT / place).rglob("*.py"))
    shared = [ROOT / "core" / "service" / name for name in (*SHARED, *also)]
    assert all(file.exists() for file in (*files, *shared))
    return "\n".join(file.read_text("utf-8") for file in (*files, *shared))


def missing(source: str, only: frozenset[object] | None = None) -> set[str]:
    return {
        wire
        for wire, method in methods().items()
        if (only is None or method.api.callers in only)
        and not re.search(rf"\b{method.api.api}\.{method.api.name}\b", source)
    }


def test_the_command_line_has_each_method_or_a_reason() -> None:
    assert missing(calls("core/cli", OF_THE_COMMAND_LINE)) == set(NOT_BY_THE_COMMAND_LINE)


def test_the_gateway_has_each_method_that_an_agent_may_call_or_a_reason() -> None:
    assert missing(calls("core/gateway"), frozenset({ANY_CLIENT})) == set(NOT_BY_THE_GATEWAY)


def test_the_window_has_each_method_or_a_reason() -> None:
    assert missing(calls("app")) == set(NOT_BY_THE_WINDOW)


def test_each_reason_is_a_sentence() -> None:
    for reasons in (NOT_BY_THE_COMMAND_LINE, NOT_BY_THE_GATEWAY, NOT_BY_THE_WINDOW):
        assert all(reason.endswith(".") for reason in reasons.values())
