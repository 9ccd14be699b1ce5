"""The service: composition root of one home's journal, policy, fleet, dispatcher and runs.

`Service` is a plain object on an asyncio loop. The service process, a command line that hosts the core for
one command, and tests all open it with `Service.open`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any, Literal

from core import __version__
from core.actors import AGENT_PREFIX, is_agent
from core.aip.device_link import DeviceLink
from core.aip.extensions import Progress
from core.aip.limits import LinkLimits
from core.approvals.models import Approval
from core.approvals.queue import ApprovalQueue
from core.audit.checkpoint import load_or_create_journal_key, read_checkpoint
from core.audit.entries import Kind, NewEntry
from core.audit.events import PolicyBroken, PolicyLoaded, ServiceStarted, ServiceStopped, SettingsAccepted
from core.audit.journal import Journal
from core.audit.projection import keep_values
from core.audit.query import quoted
from core.batch.live_run import LiveCell
from core.batch.models import RunSummary
from core.batch.run_executor import Environment
from core.batch.run_history import rebuild_run
from core.batch.runs import Runs
from core.commands.live_secrets import LiveSecrets
from core.debounce import Coalescer
from core.device.config import DeviceConfig
from core.dispatch.dispatcher import Dispatcher
from core.dispatch.late_results import LateResults, Settled
from core.dispatch.redaction import Redactor
from core.errors import BadInput, QuarterdeckError
from core.fleet.connections import DeviceConnections
from core.fleet.fleet import Fleet
from core.fleet.this_computer import NAME, ThisComputer
from core.home import Home, HomeLock
from core.ids import now_utc
from core.log import Logger
from core.policy.agent_models import Agent
from core.policy.policy_store import Policy, text_digest
from core.secret_rule import SecretNames
from core.service.agent_activity import AgentActivity
from core.service.agent_connections import AgentConnections
from core.service.agent_requests import AgentRequests
from core.service.console import (
    AgentChanged,
    AgentRemoved,
    AgentState,
    ApprovalChanged,
    CellChanged,
    ControlChanged,
    DeviceChanged,
    JournalChanged,
    JournalStatus,
    PolicyStatus,
    RunChanged,
    VerifyReport,
    WorkProgressed,
)
from core.service.device_history import refusals_before, remembered_devices
from core.service.ended_runs import EndedRuns
from core.service.event_hub import EventHub
from core.service.garbage import GarbageCollector
from core.service.held_settings import (
    DEVICE,
    device_in_force,
    device_values,
    loosening_settings,
    pending_settings,
    read_device_config,
    readable_device_config,
    tightened,
)
from core.service.live_view import LiveView
from core.service.log_setup import masking_also
from core.service.progress_log import ProgressLog, in_words
from core.service.recovery import Recovered, grants_before, recover
from core.service.reserve import Kept, Reserve, take_over
from core.service.run_devices import RunDevices
from core.service.trusted import Trusted, read_trusted
from core.service.unknown_calls import UnknownCalls
from core.settings import Settings
from core.tasks import TaskGroupOwner

# Seconds. Once the links are closed, only bookkeeping remains before the runs end.
RUNS_END_WITHIN = 3.0

log = Logger(__name__)


class Service:
    """An open home. Created by `Service.open`, ended by `close`."""

    def __init__(
        self, home: Home, lock: HomeLock, journal: Journal, trusted: Trusted, reserve: Reserve
    ) -> None:
        """Called by `open` only, after every step that can fail."""
        self.home = home
        self.reserve = reserve
        self.settings = trusted.settings
        self.accepted_settings = trusted.accepted_settings
        self.notes = trusted.notes
        self.started_at = now_utc()
        self.journal = journal
        self.hub = EventHub()
        self.tasks = TaskGroupOwner("service")
        self.agents = trusted.agents
        self.policy = Policy(home.policy, self._policy_changed, agents=self.agents).restore(
            trusted.policy_text
        )
        # Held by each writer of policy.toml from reading the file until it is written.
        self.policy_writing = asyncio.Lock()
        self.operators = trusted.operators
        self.operators_changing = asyncio.Lock()
        self.agents_changing = asyncio.Lock()
        # The runs that were paused because their agent was.
        self.runs_paused_with_agents: set[str] = set()
        self.gate = trusted.gate
        self.registry = trusted.registry
        self._pins = trusted.pins
        self._machines = trusted.machines
        self._certificates = trusted.certificates
        self.certificates_changing = asyncio.Lock()
        self._stopped_before = trusted.stopped
        self.recovered = Recovered()
        self.verified: VerifyReport | None = None
        self._verifications_begun = 0
        self._verified_by = 0
        self.ended_runs = EndedRuns()
        self.on_shutdown_asked = asyncio.Event()
        self._lock = lock
        self._journal_changes: Coalescer[str] = Coalescer(self._tell_journal)
        self._agent_changes: Coalescer[str] = Coalescer(self._tell_agent)
        self._late_changes: Coalescer[str] = Coalescer(self._read_changed_run)
        self._put_together()
        self._unwatch = journal.watch(self._committed)
        self._log_masks = contextlib.ExitStack()

    def _put_together(self) -> None:
        """Create the parts that decide about commands and carry them out, and the links to the devices."""
        home, journal = self.home, self.journal
        self.approvals = ApprovalQueue(
            self.operators,
            journal,
            self.settings.approval_expiry,
            self._tell_approval,
            grants=self.policy.grants,
            agents=self.agents,
        )
        self.live_secrets = LiveSecrets()
        self.unknown_calls = UnknownCalls(self.tasks)
        self.fleet = Fleet(journal, self.policy, self._pins, self._tell_device, self.live_secrets)
        self.redactor = Redactor.of(home.keys / "masking.salt", SecretNames(self.settings.secret_names))
        self.dispatcher = Dispatcher(
            devices=self.fleet,
            policy=self.policy,
            approvals=self.approvals,
            agents=self.agents,
            journal=journal,
            redactor=self.redactor,
            live_secrets=self.live_secrets,
            ui_on_own_computer=self.settings.ui_actions_on_this_computer,
            on_unknown=self.unknown_calls.add,
        )
        environment = Environment(
            self.dispatcher, journal, self.approvals, RunDevices(self.fleet), self._tell_cell
        )
        self.runs = Runs(environment, self.tasks, self._tell_run, self.dispatcher.redacted)
        # Started by the program whose only service this is.
        self.garbage = GarbageCollector(lambda: self.busy)
        self.agent_connections = AgentConnections(journal.note_late, self.agent_changed)
        self.agent_activity = AgentActivity(journal)
        self.agent_requests = AgentRequests(self.runs, journal, self.redactor.digest)
        self.live_pictures = LiveView(self.dispatcher, self.fleet, self._journal_problem, self.tasks)
        self._late_answers = LateResults(
            journal,
            self.tasks,
            self.live_secrets,
            self.unknown_calls.answered,
            self._settled_late,
            self.unknown_calls.from_earlier_service,
        )
        self.progress = ProgressLog(self.runs, journal.note, self._tell_cell, self.live_secrets)
        self._open_the_ways_to_devices()

    def _open_the_ways_to_devices(self) -> None:
        home, journal = self.home, self.journal
        self.links = DeviceConnections(
            self.fleet,
            self.registry,
            self.dispatcher.gate,
            journal,
            home.tls,
            self.tasks,
            self._take_progress,
            self._late_answers.take,
            self._machines,
            self._certificates,
            LinkLimits(heartbeat_s=self.settings.heartbeat_s, register_s=self.settings.connect_timeout_s),
            on_introduced=self.unknown_calls.connected,
            on_disconnected=self.unknown_calls.forget,
        )
        self.this_computer = ThisComputer(
            self.fleet,
            self.dispatcher.gate,
            home.device_state,
            # The home lies below the default root. Tools must not reach the journal, the keys or the socket.
            [home.path, home.socket],
            self.device_config,
            self.tasks,
            self._take_progress,
            self.links.refused,
            self._late_answers.take,
            self.unknown_calls.connected,
        )
        self.unknown_calls.begin(self._link_of, self._late_answers)

    @classmethod
    async def open(cls, home: Home, *, stay: bool = False) -> Service:
        """Lock the home, open its journal, close what a crash left open, and start this computer's device.

        `stay` is only recorded; the caller decides when the service ends.

        Raises:
            ServiceError: another process owns the home.
            JournalCorrupt, JournalUnavailable, BadInput: a file of the home cannot be used; names the file.
        """
        try:
            lock = HomeLock(home.create()).acquire()
        except OSError as error:
            raise BadInput(
                f"The home {home.path} cannot be used: {error.strerror}. Check its permissions."
            ) from error
        try:
            Settings.read(home.settings)
            key = await asyncio.to_thread(load_or_create_journal_key, home.keys / "journal.key")
            journal = await Journal.open(home.path, key, "quarterdeck")
        except BaseException:
            lock.release()
            raise
        try:
            reserve = Reserve(home.reserve, key)
            await take_over(reserve, journal)
            service = cls(home, lock, journal, await read_trusted(home, journal), reserve)
            await service._begin(stay)
        except BaseException:
            await journal.close()
            lock.release()
            raise
        service._log_masks.enter_context(masking_also(service.live_secrets.redact_everywhere))
        return service

    async def _begin(self, stay: bool) -> None:
        self.recovered = await recover(self.journal)
        if self._stopped_before:
            self.dispatcher.stop(self._stopped_before)
        given = await grants_before(self.journal)
        for grant in self.policy.grants.restore(given, self.operators.signed_grant):
            log.error("a grant in the journal does not hold", grant=grant)
            self.notes.append(
                f"Grant {grant} stands in the journal a second time, or not as its operator signed it: that "
                "does not count."
            )
        started = ServiceStarted(version=__version__, pid=os.getpid(), stay=stay, ignored=self.notes)
        await self.journal.append(started.entry("service"))
        await self._tighten_settings(loosening_settings(self.settings))
        self._note_policy()
        if self.policy.stricter:
            await self._accept_stricter(self.policy.text)
        for run in self.policy.grants.runs:
            # `recover` has ended the runs that were active when the last service ended.
            if (await self.journal.query(f"kind:{Kind.RUN_FINISHED} run:{quoted(run)}", limit=1)).entries:
                self.policy.grants.end_run(run)
        self.runs.next_number = await self._next_run_number()
        await self.unknown_calls.restore(self.journal)
        self.fleet.add(NAME, list(self.settings.this_computer_tags))
        if self.settings.this_computer == "in-process":
            await self.this_computer.start_in_process()
        else:
            await self.this_computer.start_process()
        await self.links.start(self.settings.listen)
        self.tasks.spawn("remember the devices", self._remember())

    async def _remember(self) -> None:
        """Restore what the journal knows about disconnected devices. Runs in the background."""
        names = {known.name for known in self.registry.devices()} | {NAME}
        for name, then in (await remembered_devices(self.journal, names)).items():
            self.fleet.remember(name, then)
        self.links.tell_certificates()
        self.links.refusals.restore(await refusals_before(self.journal, self.started_at))

    def _link_of(self, device: str) -> DeviceLink | None:
        return self.this_computer.link if device == NAME else self.links.link(device)

    def _settled_late(self, settled: Settled) -> None:
        """Take over what a late answer tells of a command."""
        if settled.run is None or self.runs.answered_late(settled.run, settled.result):
            return
        self.ended_runs.changed(settled.run)
        self._late_changes.mark(settled.run)

    def _read_changed_run(self, run: str) -> None:
        self.tasks.spawn(f"read {run} again", self._tell_changed_run(run))

    async def _tell_changed_run(self, run: str) -> None:
        """Publish an ended run that is not in memory, after a late answer has changed it."""
        if not self.hub:
            return
        await self.journal.settle()
        try:
            changed = await self.journal.fold_run(
                run, lambda entries: rebuild_run(keep_values(entries, lambda entry, value: None))
            )
        except QuarterdeckError as error:
            log.warning("a run cannot be read again", run=run, reason=error.message)
            return
        self.hub.publish(RunChanged(run=changed.summary))

    def record_stop(self, entry: NewEntry) -> Kept:
        """Record what was stopped, and is stopped already, in the journal or in the reserve."""
        self.journal.note_late([entry])
        if not self.journal.has_late:
            return Kept.JOURNAL
        return Kept.RESERVE if self.reserve.add(entry) else Kept.NOWHERE

    def agent_state(self, agent: Agent) -> AgentState:
        """An agent as it stands."""
        runs = sum(run.actor == agent.actor for run in self.runs.active)
        return AgentState(
            **dict(agent),
            connections=self.agent_connections.of(agent.actor),
            open_runs=runs,
            waiting=self.approvals.waiting_of(agent.actor),
        )

    def agent_changed(self, actor: str) -> None:
        """Publish soon that an agent stands otherwise; nothing happens for other actors."""
        if is_agent(actor):
            self._agent_changes.mark(actor)

    def _tell_agent(self, actor: str) -> None:
        agent = self.agents.find(actor)
        if agent is None:
            self.hub.publish(AgentRemoved(name=actor.removeprefix(AGENT_PREFIX)))
        else:
            self.hub.publish(AgentChanged(agent=self.agent_state(agent)))

    @property
    def busy(self) -> bool:
        """Whether any run is still active."""
        return bool(self.runs.active)

    async def close(self) -> None:
        """End in order: withdraw pending approvals, close the links, record outcomes, release the home."""
        self.dispatcher.stop("The service is ending.")
        self.approvals.withdraw("The service is ending; nothing was sent.")
        await self.live_pictures.close()
        await asyncio.gather(self.this_computer.close(), self.links.close())
        await self._let_runs_end()
        await self.dispatcher.close()
        await self._late_answers.done()
        await self.tasks.close()
        self.runs.close()
        self.fleet.close()
        await self._record_end()
        self._unwatch()
        self._journal_changes.close()
        self._agent_changes.close()
        self._late_changes.close()
        try:
            await self.journal.close()
        finally:
            self._log_masks.close()
            self._lock.release()

    async def _record_end(self) -> None:
        """Record the end of the service if nothing is left open; otherwise the next start closes the rest."""
        try:
            if await self.journal.flush_late():
                await self.journal.append(ServiceStopped().entry("service"))
        except QuarterdeckError as error:
            log.error("the end of the service could not be recorded", problem=error.message)

    async def _let_runs_end(self) -> None:
        """Wait until the active runs end. The links are gone, so running calls end with outcome unknown."""
        waits = [self.tasks.spawn(f"wait for {run.id}", run.ended.wait()) for run in self.runs.active]
        if waits:
            await asyncio.wait(waits, timeout=RUNS_END_WITHIN)

    async def verify(self, checkpoint: str | None = None) -> VerifyReport:
        """Verify the whole journal and remember the report for `journal_status`.

        Raises:
            JournalCorrupt: `checkpoint`, which was stored elsewhere, does not belong to this journal.
        """
        against = read_checkpoint(checkpoint, self.journal.public_key) if checkpoint is not None else None
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int) -> None:
            loop.call_soon_threadsafe(self.tell_work, "verify", done, total)

        self._verifications_begun += 1
        number = self._verifications_begun
        report = await self.journal.verify(progress, against=against)
        # The verification that began last is the most recent. An earlier one that ends later, such as the
        # verification at the start, must not replace damage that was found by an all-clear.
        if number > self._verified_by:
            self._verified_by, self.verified = number, report
            self._journal_changes.mark("journal")
        return report

    def tell_work(self, what: Literal["verify", "try_policy", "backup"], done: int, total: int) -> None:
        """Publish the progress of long work to every client, in entries, or in bytes of a backup."""
        self.hub.publish(WorkProgressed(what=what, done=done, total=total))

    def verify_in_background(self) -> None:
        """Verify once in the background, so that a window can show the journal's health without a request."""
        self.tasks.spawn("verify the journal", self.verify())

    def journal_status(self) -> JournalStatus:
        """Size, writability and last verification of the journal."""
        state, report = self.journal.state, self.verified
        return JournalStatus(
            entries=state.entries,
            writable=state.writable,
            problem=state.error or "",
            verified_at=report.checked_at if report else None,
            verified_ok=report.ok if report else None,
            verified_entries=report.entries if report else 0,
            first_bad=report.first_bad if report else None,
        )

    def _journal_problem(self) -> str:
        state = self.journal.state
        return "" if state.writable else state.error or "The journal cannot be written."

    def policy_status(self) -> PolicyStatus:
        """Profile, problems and pending changes of the policy, after reading the file again."""
        self.policy.refresh()
        policy = self.policy
        return PolicyStatus(
            profile=policy.profile,
            problem=policy.problem,
            path=str(policy.path),
            pending=policy.pending,
            pending_settings=self._pending_settings(),
            notes=self.notes,
            accepted=text_digest(policy.accepted_text),
            file=text_digest(policy.text),
        )

    def written_settings(self) -> Settings:
        """The settings that settings.toml has now; those in force are `settings`.

        Raises:
            BadInput: the file is broken.
        """
        return Settings.read(self.home.settings)

    def _pending_settings(self) -> list[str]:
        try:
            device = readable_device_config(self.home)
            return pending_settings(self.written_settings(), self.accepted_settings, device)
        except BadInput as error:
            return [error.message]

    async def device_config(self) -> DeviceConfig:
        """The limits of this computer's device: those of device.toml, as far as they are accepted.

        Raises:
            BadInput: the file is broken.
        """
        device = await asyncio.to_thread(read_device_config, self.home)
        await self._tighten_settings({DEVICE: device_values(device)})
        if self._pending_settings():
            self.tell_control()
        return device_in_force(device, self.accepted_settings)

    async def _tighten_settings(self, values: dict[str, Any]) -> None:
        """Record what the files hold tighter than before, which stays from now on."""
        accepted = tightened(values, self.accepted_settings, self.operators.begun)
        if accepted != self.accepted_settings:
            await self.journal.append(SettingsAccepted(settings=accepted).entry("service"))
            self.accepted_settings = accepted

    def tell_control(self) -> None:
        """Publish to every client that profile, policy, operators or Stop all changed."""
        self.hub.publish(
            ControlChanged(
                stopped=bool(self.dispatcher.stopped),
                stopped_note=self.dispatcher.stopped,
                policy=self.policy_status(),
                operators=self.operators.list(),
            )
        )

    def policy_was_changed(self) -> None:
        """Update the devices and notify every client after the policy in force has changed."""
        self.fleet.refresh()
        self.tell_control()

    def _policy_changed(self) -> None:
        """Record an edit of the policy file by another program, and accept it if it is only stricter."""
        try:
            self._note_policy()
        except QuarterdeckError as error:
            log.error("a change of the policy could not be recorded", problem=error.message)
        if self.policy.stricter:
            self.tasks.spawn("accept a stricter policy", self._accept_stricter(self.policy.text))
        self.policy_was_changed()

    async def _accept_stricter(self, text: str) -> None:
        """Accept a stricter policy file, so that undoing its restrictions later needs a signed change.

        The restrictions are already in force: the stricter of the file and the accepted text always holds.
        """
        async with self.policy_writing:
            if self.policy.text != text or not self.policy.stricter:
                return
            blob = await self.journal.put_blob(text.encode())
            event = PolicyLoaded(profile=self.policy.profile.value, text=blob, policy_pin=text_digest(text))
            await self.journal.append(event.entry("service", blobs=[blob]))
            if self.policy.text == text:
                self.policy.accept(text)
        self.tell_control()

    def _note_policy(self) -> None:
        problem = self.policy.problem
        event = (PolicyBroken if problem else PolicyLoaded)(
            profile=self.policy.profile.value, problem=problem, pending=self.policy.pending
        )
        self.journal.note(event.entry("service"))

    async def _next_run_number(self) -> int:
        page = await self.journal.query(f"kind:{Kind.RUN_STARTED}", limit=1)
        last = page.entries[0].run if page.entries else None
        return int(last.removeprefix("r-")) + 1 if last else 1

    def _committed(self) -> None:
        if self.reserve.used and not self.journal.has_late:
            self.reserve.clear()
        self._journal_changes.mark("journal")

    def _tell_journal(self, key: str) -> None:
        self.hub.publish(JournalChanged(journal=self.journal_status()))

    def _tell_device(self, name: str) -> None:
        # Building the device's view is expensive; it is skipped when no client is subscribed.
        if self.hub:
            self.hub.publish(DeviceChanged(device=self.fleet.get(name)))

    def _take_progress(self, device: str, progress: Progress) -> None:
        shown = self.progress.take(device, progress)
        self.fleet.progressed(device, shown.call_id, in_words(shown))

    def _tell_approval(self, approval: Approval) -> None:
        self.hub.publish(ApprovalChanged(approval=approval))
        self.agent_changed(approval.actor)

    def _tell_run(self, run: RunSummary) -> None:
        if run.state.ended:
            self.policy.grants.end_run(run.id)
        self.hub.publish(RunChanged(run=run))
        self.agent_changed(run.actor)

    def _tell_cell(self, cell: LiveCell) -> None:
        if cell.ended_at is not None:
            self.progress.ended(cell)
            self.garbage.result_came()
        if self.hub:
            # Now, not when a client takes it: by then the run may have left the value to the journal.
            self.hub.publish(CellChanged(cell=cell.model()))
