"""The interface of the console API: its methods, with the name on the wire and who may call each.

An annotation names a model together with its module, which is imported when the method is first called: a
client loads the models of the methods that it calls, and no others (`core.service.api.methods.types_of`).
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from core.service.api.methods import ANY_CLIENT, OPERATORS, ApiMethod, calls_class, methods_of, rpc

if TYPE_CHECKING:
    import core.approvals.models
    import core.approvals.preview_models
    import core.audit.entries
    import core.audit.models
    import core.batch.models
    import core.changes
    import core.commands.results
    import core.fleet.models
    import core.models.devices
    import core.models.tools
    import core.policy.agent_models
    import core.policy.grants
    import core.policy.models
    import core.replay.models
    import core.service.api.events
    import core.service.api.models
    import core.service.backup.models
    import core.service.envelope
    import core.statements


class DevicesApi(Protocol):
    """Devices: tools, pairing, settings, revocation and diagnosis."""

    @rpc("tools", ANY_CLIENT)
    async def tools(self, device: str) -> list[core.models.tools.Tool]:
        """The tools of a device with their contracts. UNKNOWN_DEVICE, DEVICE_OFFLINE."""

    @rpc("search_tools", ANY_CLIENT)
    async def search(self, words: str, targets: str = "", limit: int = 20) -> list[core.fleet.models.ToolHit]:
        """The tools that fit these words, best first: at most `limit`, itself at most 200.

        Words are looked for in names, servers, arguments, descriptions, and in the names and tags of devices;
        `targets` is a device filter. Without words, every tool fits. INVALID_ARGUMENTS, TOO_LARGE.
        """

    @rpc("describe_tool", ANY_CLIENT)
    async def describe(self, device: str, tool: str) -> core.fleet.models.ToolDescription:
        """All that is known of a tool, which is given by its name or key. UNKNOWN_DEVICE, UNKNOWN_TOOL."""

    @rpc("match_devices", ANY_CLIENT)
    async def match(self, targets: str) -> list[core.models.devices.Device]:
        """The devices that currently match a filter such as `os:linux tag:lab !name:db-*`."""

    @rpc("device_details", OPERATORS)
    async def details(self, name: str) -> core.fleet.models.DeviceDetails:
        """History, rejected connections and trust of a device."""

    @rpc("refusals", OPERATORS)
    async def rejected_connections(self) -> list[core.fleet.models.Refusal]:
        """Rejected connections, newest first, also of unknown devices; similar attempts share an item."""

    @rpc("doctor", OPERATORS, answer_within=60.0, only_waits=True)
    async def diagnose(self, name: str) -> list[core.fleet.models.Check]:
        """Diagnose why a device cannot be reached: each check with its finding and the next step."""

    @rpc("contract_change", OPERATORS)
    async def tool_change(self, device: str, tool_key: str) -> core.fleet.models.ContractChange:
        """A changed tool as trusted and as present: its definition, and the facts that its device claims."""

    @rpc("review_contract", OPERATORS)
    async def review_tool(
        self, device: str, tool_key: str, digest: str, signed: core.changes.SignedChange | None = None
    ) -> core.models.tools.Tool:
        """Trust a changed tool, whose contract must still have this digest. Signed."""

    @rpc("listening", OPERATORS)
    async def listening(self) -> core.fleet.models.Listening:
        """The address where this console listens for devices."""

    @rpc("listen", OPERATORS)
    async def listen(
        self, address: str, signed: core.changes.SignedChange | None = None
    ) -> core.fleet.models.Listening:
        """Listen at `host:port` from now on; written to settings.toml. Beyond loopback: TLS, and signed."""

    @rpc("certificates", OPERATORS)
    async def certificates(self) -> core.fleet.models.Certificates:
        """This console's certificate, the next one, and which devices accept which."""

    @rpc("renew_certificate", OPERATORS, answer_within=60.0)
    async def renew_certificate(
        self, signed: core.changes.SignedChange | None = None
    ) -> core.fleet.models.Certificates:
        """Make the next certificate and announce it to the connected devices. Signed.

        If there is a next certificate already, it is announced again, unsigned.
        """

    @rpc("switch_certificate", OPERATORS, answer_within=60.0)
    async def switch_certificate(self, anyway: bool = False) -> core.fleet.models.Certificates:
        """Show the next certificate from now on; the devices connect again by it.

        Without `anyway`, only if every device that dials in accepts it.
        """

    @rpc("pair", OPERATORS)
    async def pair(
        self,
        name: str,
        settings: core.fleet.models.DeviceSettings,
        signed: core.changes.SignedChange | None = None,
    ) -> core.fleet.models.Pairing:
        """Register a device and issue a new token, which replaces its previous token. Signed."""

    @rpc("pair_listening", OPERATORS)
    async def pair_listening(
        self,
        name: str,
        string: str,
        settings: core.fleet.models.DeviceSettings,
        signed: core.changes.SignedChange | None = None,
    ) -> core.models.devices.Device:
        """Register a listening device from the pairing string that it printed, and dial it. Signed."""

    @rpc("set_device", OPERATORS)
    async def update(
        self,
        name: str,
        settings: core.fleet.models.DeviceSettings,
        signed: core.changes.SignedChange | None = None,
    ) -> core.models.devices.Device:
        """Change a device's tags, colour band or agent; signed if the policy depends on what changes."""

    @rpc("accept_machine", OPERATORS)
    async def accept_machine(
        self, name: str, identity: str, signed: core.changes.SignedChange | None = None
    ) -> core.models.devices.Device:
        """Let the machine that shows a device's pairing, and is held, take the device's place. Signed.

        What waits for the device is withdrawn. NOT_FOUND if no machine is held.
        """

    @rpc("revoke", OPERATORS)
    async def revoke(self, name: str) -> core.models.devices.Device:
        """Invalidate a device's token at once and end its link; the device stays registered."""

    @rpc("forget", OPERATORS)
    async def forget(self, name: str) -> None:
        """Revoke a device and remove it from the list; its journal entries stay."""

    @rpc("reconnect", OPERATORS, answer_within=60.0)
    async def reconnect(self, name: str) -> core.models.devices.Device:
        """Dial a device now instead of after its delay; if it is connected, list its tools again."""

    @rpc("watch_pictures", OPERATORS)
    async def watch(
        self, devices: list[str], anew: bool = False
    ) -> list[core.service.api.models.LivePicture]:
        """Keep small pictures of these devices fresh for 15 seconds; replaces this client's previous request.

        The pictures arrive as `glimpse` of each device. An empty list ends this; `anew` retries refusals.
        """


class AgentsApi(Protocol):
    """The agents: programs that may ask for commands, each with a token and within limits of its own."""

    @rpc("agents", OPERATORS)
    async def list(self) -> list[core.service.api.models.AgentState]:
        """Every agent, by name."""

    @rpc("agent_tallies", OPERATORS, answer_within=120.0)
    async def tallies(self) -> dict[str, core.service.api.models.AgentTally]:
        """How much each agent has asked for, was given and was denied, by name, from the journal."""

    @rpc("agent_commands", OPERATORS)
    async def commands(
        self, name: str, before: int | None = None, limit: int = 50
    ) -> core.service.api.models.AgentCommandPage:
        """The commands of an agent, also of a revoked one, newest first: at most `limit`, itself at most 50.

        `before` is the `next_before` of the page before.
        """

    @rpc("introduce_agent", ANY_CLIENT)
    async def introduce(
        self, transport: core.policy.agent_models.Transport, program: str, version: str
    ) -> None:
        """Say what the program at the end of an agent's connection calls itself; nothing depends on it.

        It is cut and its hidden characters are shown. For agents only.
        """

    @rpc("add_agent", OPERATORS)
    async def add(
        self,
        name: str,
        settings: core.policy.agent_models.AgentSettings,
        signed: core.changes.SignedChange | None = None,
    ) -> core.policy.agent_models.NewAgent:
        """Register an agent and issue a token, which replaces its previous token. Signed."""

    @rpc("set_agent", OPERATORS)
    async def update(
        self,
        name: str,
        settings: core.policy.agent_models.AgentSettings,
        signed: core.changes.SignedChange | None = None,
    ) -> core.policy.agent_models.Agent:
        """Replace an agent's settings; signed unless they only tighten. NOT_FOUND."""

    @rpc("pause_agent", OPERATORS)
    async def pause(self, name: str) -> core.policy.agent_models.Agent:
        """Refuse what an agent asks for, and hold its runs, until `update` lets it go on. NOT_FOUND."""

    @rpc("stop_agent", OPERATORS)
    async def stop(self, name: str) -> str:
        """Pause an agent, cancel its runs, withdraw its requests and end its connections. NOT_FOUND.

        Returns a sentence about what was stopped.
        """

    @rpc("revoke_agent", OPERATORS)
    async def revoke(self, name: str) -> core.policy.agent_models.Agent:
        """Invalidate an agent's token at once, cancel its runs and withdraw its requests. NOT_FOUND."""


class RunsApi(Protocol):
    """Runs of commands and of batches, and the batches that are saved."""

    @rpc("plan", ANY_CLIENT)
    async def plan(
        self, batch: core.batch.models.Batch, inputs: dict[str, Any] | None = None, literal: bool = False
    ) -> core.batch.models.Plan:
        """Predict what a run of this batch would do on each device now; nothing is sent.

        What depends on inputs that have no value is not known. `literal` is as for `start`.
        """

    @rpc("try_expressions", OPERATORS)
    async def try_expressions(
        self, batch: core.batch.models.Batch, step: str, asked: list[core.batch.models.AskedExpression]
    ) -> core.batch.models.ExpressionTrials:
        """The values that conditions of a step may read, and the faults or values of expressions.

        Results are those of the latest run of a batch of this name. What reads a secret has no value. Nothing
        is sent. NOT_FOUND, TOO_LARGE.
        """

    @rpc("start_run", ANY_CLIENT)
    async def start(
        self,
        batch: core.batch.models.Batch,
        expected_devices: list[str] | None = None,
        inputs: dict[str, Any] | None = None,
        said: str = "",
        request_id: str = "",
        literal: bool = False,
    ) -> core.batch.models.Run:
        """Start a run and return at once. Refused if the targets no longer match `expected_devices`.

        `inputs` are the values of the batch's inputs; those with a default may be left out. `said` and
        `request_id` are as for `call`. `literal`: the batch is one call on several devices, whose arguments
        are meant as they are written, `${{` included.
        """

    @rpc("call", ANY_CLIENT)
    async def call(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        timeout: float | None = None,
        said: str = "",
        request_id: str = "",
    ) -> core.batch.models.Run:
        """Start a run of one step and return at once. `said` is the client's comment on it, unchecked.

        An agent that repeats a request gets the run that it has: one with the same `request_id`, or one that
        has not ended and requests the same. The same `request_id` for something else is INVALID_ARGUMENTS.
        """

    @rpc("wait_run", ANY_CLIENT, only_waits=True)
    async def wait(self, run: str, timeout: float, until_asked: bool = False) -> core.batch.models.Run:
        """Wait until the run has ended or `timeout` seconds have passed; returns its state then.

        With `until_asked` also until one of its commands has begun to wait for an operator.
        """

    @rpc("cancel_run", ANY_CLIENT)
    async def stop(self, run: str) -> core.batch.models.RunSummary:
        """Start no further step of this run, withdraw pending approvals, and ask devices to cancel."""

    @rpc("run_cells", ANY_CLIENT)
    async def cells(self, run: str, after: int = 0, limit: int = 500) -> core.batch.models.CellPage:
        """The cells of a run by device, some `limit` of them. NOT_FOUND.

        `after` is the `next` of the page before, or of a run.
        """

    @rpc("run_output", ANY_CLIENT)
    async def output(self, run: str, device: str, step: str, after: int = 0) -> core.batch.models.OutputChunk:
        """The output of a cell's command since position `after`, while it runs and afterwards.

        `CellChanged` announces further output by `output_size`. NOT_FOUND.
        """

    @rpc("compare_runs", ANY_CLIENT)
    async def compare(self, before: str, after: str) -> core.batch.models.RunComparison:
        """Two runs cell by cell: state, verdict, value by JSON path, duration. NOT_FOUND."""

    @rpc("undo_plan", ANY_CLIENT)
    async def undo_plan(self, run: str) -> core.batch.models.UndoPlan:
        """The calls that would undo an ended run, and why; nothing is sent. NOT_FOUND."""

    @rpc("undo_run", ANY_CLIENT)
    async def undo(self, run: str, digest: str = "") -> core.batch.models.Run:
        """Start a run that undoes an ended run, with decisions and approvals of its own; returns at once.

        Refused if there is nothing to undo, or the plan no longer has the `digest` that was shown.
        """

    @rpc("cancel_step", ANY_CLIENT)
    async def cancel_step(self, run: str, device: str, step: str) -> core.batch.models.RunSummary:
        """Cancel one step on one device: it is not begun, or the device is asked to cancel it."""

    @rpc("pause_run", OPERATORS)
    async def pause(self, run: str) -> core.batch.models.RunSummary:
        """Start nothing more of this run until `unpause`; what runs or waits for operators goes on."""

    @rpc("unpause_run", OPERATORS)
    async def unpause(self, run: str) -> core.batch.models.RunSummary:
        """Let a paused run go on."""

    @rpc("resume_run", ANY_CLIENT)
    async def resume(self, run: str, secrets: dict[str, Any] | None = None) -> core.batch.models.Run:
        """Continue an ended run as a new run, with its batch, inputs and devices; returns at once.

        What is done is not repeated; each device begins at the step that did not succeed. `secrets` are the
        values of secret inputs, which are not stored. Refused while a step's outcome is unknown and no
        operator has settled it, and if the run was resumed already.
        """

    @rpc("settle_step", OPERATORS)
    async def settle(
        self, run: str, device: str, step: str, outcome: Literal["done", "not_done"]
    ) -> core.batch.models.Cell:
        """Record an operator's word about a step of an ended run: it was done by hand, or it was not done."""

    @rpc("run", ANY_CLIENT)
    async def get(self, run: str) -> core.batch.models.Run:
        """A run with its cells, at most some 1,000 of them, from memory or from the journal. NOT_FOUND.

        `core.service.pages` reads the others.
        """

    @rpc("run_blob", ANY_CLIENT)
    async def evidence(self, run: str, sha256: str) -> bytes:
        """A picture or a large output that a result of this run names. NOT_FOUND."""

    @rpc("run_results", ANY_CLIENT)
    async def results(self, run: str, after: int = 0, limit: int = 500) -> core.service.api.models.ResultPage:
        """The outcomes of some `limit` of a run's commands, also of those that have not ended. NOT_FOUND.

        `after` is the `next` of the page before. The first ten of a page that failed name alternatives.
        """

    @rpc("alternatives", ANY_CLIENT)
    async def alternatives(self, run: str, device: str, step: str) -> list[core.service.envelope.Alternative]:
        """Calls that the policy would allow now instead of one that failed; mostly none. NOT_FOUND."""

    @rpc("find_runs", OPERATORS)
    async def find(
        self, words: str, before: int | None = None, limit: int = 50
    ) -> core.service.api.models.RunPage:
        """Runs that contain all of these words, newest first.

        A word is looked for in id, name, devices, tools, actor, state and effect; `device:lab` looks in the
        named field only. Words have no wildcards and no quotes. `before` is the `next_before` of the previous
        page. A page may hold fewer than `limit` runs although more follow.
        """

    @rpc("batches", ANY_CLIENT)
    async def batch_names(self) -> list[str]:
        """Names of the batches saved in this home."""

    @rpc("saved_batches", ANY_CLIENT)
    async def saved_batches(self) -> list[core.batch.models.SavedBatch]:
        """The batches saved in this home, by name, with time, size and number of steps."""

    @rpc("load_batch", ANY_CLIENT)
    async def load_batch(self, name: str) -> core.batch.models.Batch:
        """A saved batch. NOT_FOUND, or INVALID_ARGUMENTS with line numbers."""

    # Operators start saved batches under their own name, so that an agent must not write them.
    @rpc("save_batch", OPERATORS)
    async def save_batch(self, name: str, batch: core.batch.models.Batch) -> None:
        """Save a batch. Its name has at most 100 characters, all visible (else INVALID_ARGUMENTS)."""

    @rpc("rename_batch", OPERATORS)
    async def rename_batch(self, name: str, to: str) -> None:
        """Rename a saved batch. NOT_FOUND; INVALID_ARGUMENTS if `to` is not a valid name or is taken."""

    @rpc("delete_batch", OPERATORS)
    async def delete_batch(self, name: str) -> None:
        """Delete a saved batch; its runs are not affected. NOT_FOUND."""

    @rpc("runs", ANY_CLIENT)
    async def list(
        self, before: str | None = None, limit: int = 50, active: bool = False
    ) -> list[core.batch.models.RunSummary]:
        """Runs, newest first, older than the run `before`; with `active`, all that have not ended."""


class ApprovalsApi(Protocol):
    """Approval requests, grants, and the operators who decide."""

    @rpc("approval", OPERATORS)
    async def get(self, approval: str) -> core.approvals.models.Approval:
        """An approval request, pending or recently decided. NOT_FOUND."""

    @rpc("decide", OPERATORS)
    async def decide(
        self, signed: core.statements.SignedStatement, grant: core.policy.grants.SignedGrant | None = None
    ) -> core.approvals.models.Approval:
        """Answer an approval request by a signed statement; `grant` lets similar requests run from now on.

        APPROVAL_INVALID names the reason. If several operators must approve, the request stays pending.
        """

    @rpc("decide_many", OPERATORS, answer_within=600.0)
    async def decide_many(
        self, signed: list[core.statements.SignedStatement]
    ) -> list[core.approvals.models.AnswerFate]:
        """Answer many requests at once, each by a signed statement of its own, all of one operator.

        Each has its fate, in the same order: taken, or why not. What is not taken keeps no other back. A
        signature has to be valid when the call comes, however long the answers take.
        """

    @rpc("edit_approval", OPERATORS)
    async def edit(self, approval: str, parameters: dict[str, Any]) -> core.approvals.models.Approval:
        """Replace this request by a new one with other arguments, whose `edited_from` names this one."""

    @rpc("hold", OPERATORS)
    async def hold(self, approval: str, reading: bool) -> core.approvals.models.Approval:
        """Report that an operator reads this card: its expiry pauses (at most five minutes in total)."""

    @rpc("preview", OPERATORS, answer_within=60.0)
    async def preview(self, approval: str) -> core.approvals.preview_models.Preview:
        """The present state beside the effect of this request; read through the dispatcher."""

    @rpc("helpers", OPERATORS)
    async def helpers(self, approval: str) -> list[core.approvals.preview_models.Helper]:
        """Read-only calls that help to decide this request."""

    @rpc("run_helper", OPERATORS, answer_within=60.0)
    async def run_helper(self, approval: str, helper: str) -> core.commands.results.CommandResult:
        """Make one of the calls of `helpers` now, through the dispatcher."""

    @rpc("fatigue", OPERATORS)
    async def fatigue(self, operator: str) -> core.approvals.models.Fatigue:
        """Statistics of this operator's decisions in the last hour."""

    @rpc("grants", OPERATORS)
    async def grants(self) -> list[core.policy.grants.Grant]:
        """All grants with their last use, newest first, ended grants included."""

    @rpc("revoke_grant", OPERATORS)
    async def revoke_grant(self, grant: str) -> core.policy.grants.Grant:
        """Revoke a grant at once."""

    @rpc("register_operator", OPERATORS)
    async def register_operator(
        self, operator: core.approvals.models.Operator, signed: core.changes.SignedChange | None = None
    ) -> core.approvals.models.Operator:
        """Register an operator. Signed, except for a home's first operator, once."""

    @rpc("remove_operator", OPERATORS)
    async def remove_operator(self, name: str, signed: core.changes.SignedChange | None = None) -> None:
        """Remove an operator and end their grants. Signed; the last operator cannot be removed."""

    @rpc("approvals", OPERATORS)
    async def list(self) -> list[core.approvals.models.Approval]:
        """Approval requests that wait for an operator: highest risk first, then oldest."""


class PolicyApi(Protocol):
    """The policy: its text, its profile, and what it decides about a call."""

    @rpc("explain", OPERATORS)
    async def explain(
        self, device: str, tool: str, parameters: dict[str, Any]
    ) -> core.policy.models.Decision:
        """The policy's decision about a call; nothing is sent."""

    @rpc("explanation", OPERATORS)
    async def explanation(
        self, device: str, tool: str, parameters: dict[str, Any], actor: str = ""
    ) -> core.policy.models.Explanation:
        """The decision about a call, the rules that matched and those that nearly did; nothing is sent."""

    @rpc("policy_text", OPERATORS)
    async def text(self) -> core.policy.models.PolicyText:
        """The present text of policy.toml."""

    @rpc("check_policy", OPERATORS)
    async def check(self, text: str) -> core.policy.models.PolicyCheck:
        """Check a policy's text: its faults and the outcome of its examples."""

    @rpc("try_policy", OPERATORS, answer_within=600.0)
    async def backtest(self, text: str, limit: int = 200) -> core.policy.models.Trial:
        """Apply this policy text to the commands in the journal; nothing changes."""

    @rpc("save_policy", OPERATORS)
    async def save(
        self, text: str, digest: str, signed: core.changes.SignedChange | None = None
    ) -> core.service.api.models.PolicyStatus:
        """Make this text the policy; signed unless it is only stricter than the accepted policy.

        Refused if the text has a fault, or the present file does not have this `digest`.
        """

    @rpc("accept_policy", OPERATORS)
    async def accept(
        self, digest: str, signed: core.changes.SignedChange | None = None
    ) -> core.service.api.models.PolicyStatus:
        """Accept policy.toml as another program wrote it; its text must still have this digest."""

    @rpc("set_profile", OPERATORS)
    async def set_profile(
        self, profile: core.policy.models.Profile, signed: core.changes.SignedChange | None = None
    ) -> core.service.api.models.PolicyStatus:
        """Set the profile of all devices without their own; written to policy.toml. Signed if it is laxer."""


class JournalApi(Protocol):
    """The journal: entries, proofs, commands, and what is stored with them."""

    @rpc("entries", OPERATORS)
    async def entries(
        self, query: str = "", before: int | None = None, limit: int = 200
    ) -> core.service.api.models.EntryPage:
        """Journal entries that match a query, newest first, with numbers below `before`."""

    @rpc("entry_numbers", OPERATORS)
    async def numbers(
        self, query: str = "", before: int | None = None, limit: int = 10_000
    ) -> core.audit.models.NumberPage:
        """The numbers of matching entries, highest first: at most 10,000 per call."""

    @rpc("export_entries", OPERATORS)
    async def export(
        self, query: str = "", cursor: core.audit.models.ExportCursor | None = None
    ) -> core.audit.models.ExportPage:
        """Canonical texts of matching entries, oldest first; with a page's cursor, those after the page."""

    @rpc("entry", ANY_CLIENT)
    async def entry(self, seq: int) -> core.audit.entries.Entry:
        """A journal entry. NOT_FOUND."""

    @rpc("histogram", OPERATORS)
    async def histogram(self, query: str = "", buckets: int = 80) -> list[core.audit.models.Bucket]:
        """Counts of matching entries over time, in at most `buckets` intervals."""

    @rpc("facets", OPERATORS)
    async def facets(self, field: str, prefix: str = "", limit: int = 12) -> list[core.audit.models.Facet]:
        """Values of a query field that begin with `prefix`, most frequent first."""

    @rpc("command", ANY_CLIENT)
    async def command(self, call_id: str) -> core.service.api.models.CommandRecord:
        """All entries of a command, with its decision and result. NOT_FOUND."""

    @rpc("blob", OPERATORS)
    async def blob(self, sha256: str) -> bytes:
        """A stored picture or output. NOT_FOUND; JOURNAL_CORRUPT if its bytes do not match the digest."""

    @rpc("proof", OPERATORS)
    async def prove(self, seq: int) -> core.service.api.models.Proof:
        """A proof that an entry is in the journal; it can be checked without this service."""

    @rpc("verify", OPERATORS, answer_within=600.0, only_waits=True)
    async def verify(self, checkpoint: str | None = None) -> core.audit.models.VerifyReport:
        """Verify the whole journal, blobs included, and compare it with a checkpoint stored elsewhere.

        JOURNAL_CORRUPT if the checkpoint (a C2SP signed note) does not belong to this journal.
        """

    @rpc("timeline", OPERATORS)
    async def timeline(
        self, run: str | None = None, around: int | None = None
    ) -> core.replay.models.Timeline:
        """A run, or the entries around one entry, laid out for replay."""

    @rpc("find_in_results", OPERATORS)
    async def find_in_results(
        self, words: list[str], run: str | None = None, around: int | None = None
    ) -> core.replay.models.ContentHits:
        """For each of these words, the results of a timeline (as from `timeline`) that contain it."""


class ServiceApi(Protocol):
    """The service as a whole: its state, Stop all, signed changes, and its end."""

    @rpc("state", OPERATORS)
    async def state(self) -> core.service.api.models.ConsoleState:
        """The complete snapshot that a client starts from; call it again after `Missed`."""

    @rpc("challenge", OPERATORS)
    async def challenge(self) -> str:
        """The challenge that an operator signs to `identify`; valid on this connection only."""

    @rpc("identify", OPERATORS)
    async def identify(self, signed: core.changes.SignedIdentity) -> core.approvals.models.Operator:
        """Prove which operator uses this client; its later requests are recorded under that operator."""

    @rpc("propose", OPERATORS, answer_within=600.0)
    async def propose(self, wish: core.changes.Change, text: str = "") -> core.changes.Proposal:
        """Preview a change: its effect, and the change that an operator must sign; nothing changes.

        `text` is the policy's text or the pairing string of a listening device, if the change concerns it.
        """

    @rpc("accept_settings", OPERATORS)
    async def accept_settings(
        self, signed: core.changes.SignedChange | None = None
    ) -> core.service.api.models.PolicyStatus:
        """Accept the settings in settings.toml that loosen security; effective at the next start."""

    @rpc("stop_all", OPERATORS)
    async def stop_all(self) -> str:
        """Stop all: the dispatcher sends nothing from now on. Returns a text about what was stopped."""

    @rpc("resume", OPERATORS)
    async def resume(self, signed: core.changes.SignedChange | None = None) -> None:
        """End Stop all: commands may be sent again. Signed. Stopped runs stay stopped."""

    @rpc("backup", OPERATORS, answer_within=86_400.0, only_waits=True)
    async def backup(
        self, path: str, key: core.service.backup.models.BackupKey
    ) -> core.service.backup.models.BackupMade:
        """Write a backup of the home to a new file; its secrets are encrypted under this key.

        A file that is there is not overwritten. JOURNAL_UNAVAILABLE, JOURNAL_CORRUPT.
        """

    @rpc("shut_down", OPERATORS)
    async def shut_down(self, cancel_work: bool) -> str:
        """End the service in order. Without `cancel_work` it first waits for the active runs."""


class Console(ABC):
    """The console API of one client. Every method raises `QuarterdeckError` with a code of `ErrorCode`."""

    devices: DevicesApi
    agents: AgentsApi
    runs: RunsApi
    approvals: ApprovalsApi
    policy: PolicyApi
    journal: JournalApi
    service: ServiceApi

    def __init__(self) -> None:
        for api, calls in _calls_classes().items():
            setattr(self, api, calls(self.invoke))

    @abstractmethod
    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out a call of one of the objects above."""

    @abstractmethod
    def events(self) -> AsyncIterator[core.service.api.events.Event]:
        """Events from now on: bounded, only the newest state per object, `Missed` when the client lags."""

    @abstractmethod
    async def close(self) -> None:
        """Detach this client; the service continues."""


@cache
def api_methods() -> dict[str, ApiMethod]:
    """Every method of the console API, by its name on the wire."""
    methods = [method for api, interface in _interfaces().items() for method in methods_of(api, interface)]
    by_wire = {method.wire: method for method in methods}
    if len(by_wire) < len(methods):
        raise TypeError("Two methods of the console API have the same name on the wire.")
    return by_wire


@cache
def _calls_classes() -> dict[str, type[Any]]:
    return {api: calls_class(api, interface) for api, interface in _interfaces().items()}


def _interfaces() -> dict[str, type[Any]]:
    return typing.get_type_hints(Console)
