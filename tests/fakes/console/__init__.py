"""`FakeConsole`: the console that a test of a screen gets, with invented devices behind it.

It is a `TableConsole` whose answers come from a state in memory: the same errors as a service's, events for
every change, decisions before anything "runs", approvals and changes that are checked against the operator's
signature, entries for every stage. A contract test (tests/unit/service/test_console_contract.py) calls every
method of it and of a real service alike.

    console = FakeConsole()                  # 24 devices, no run, no request, an empty journal
    console = story()                        # the same with runs, requests and entries (tests/fakes/story.py)
    console = FakeConsole(devices=[...])     # your own; `make_devices()` has 24 to pick from

What tests use beside what every `TableConsole` has, and its state (`state.py`):

    console.change_device("lab-lnx-01", health=Health.STALE)
    console.answer_with[("lab-lnx-01", "read_file")] = {"content": "x"}    # a tool's result from now on
    console.changed_by_another_program(text)    # policy.toml is another text than the accepted one
    console.settings = Settings(...)            # settings.toml as it stands; `accept_settings` accepts it

A run of low-risk steps ends before `start_run` returns its first event; what the profile asks about becomes a
waiting approval, and goes on when `decide` approves it.
"""

from __future__ import annotations

from tests.fakes.console.approvals import ApprovalAnswers
from tests.fakes.console.journal import JournalAnswers
from tests.fakes.console.policy import PolicyAnswers
from tests.fakes.console.runs import RunAnswers
from tests.fakes.console.service import ServiceAnswers


class FakeConsole(ApprovalAnswers, JournalAnswers, PolicyAnswers, RunAnswers, ServiceAnswers):
    """See the module's own words."""


__all__ = ["FakeConsole"]
