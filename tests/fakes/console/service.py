"""What the fake console answers about the service as a whole: its state, Stop all, settings, its end."""

from __future__ import annotations

from core.audit.entries import Kind
from core.changes import SignedChange
from core.service import proposals
from core.service.console import BackupKey, BackupMade, ConsoleState, PolicyStatus
from core.service.held_settings import pending_settings
from tests.fakes.console.agents import AgentAnswers
from tests.fakes.console.changes import HOME_KEY
from tests.fakes.fleet_data import ago


class ServiceAnswers(AgentAnswers):
    """`console.service`; what it says of signed changes is in `Changes`."""

    def on_state(self) -> ConsoleState:
        return ConsoleState(
            service_started_at=ago(7200),
            service_pid=4711,
            version="0.1.0",
            home="/home/harbour/quarterdeck",
            home_key=HOME_KEY,
            stopped=self.stopped,
            stopped_note=self.stopped_note,
            policy=self.policy_status,
            journal=self.fake_journal.status,
            operators=self.operators,
            devices=list(self.fleet.values()),
            approvals=self.waiting(),
            runs=self.work.summaries(),
            agents=self.agent_states(),
        )

    def on_accept_settings(self, signed: SignedChange | None) -> PolicyStatus:
        planned = proposals.settings(self.service_seen())
        proof = self.check_signed(planned, signed)
        self.write(Kind.SETTINGS_ACCEPTED, self.actor, body={"settings": planned.change.after, **proof})
        self.accepted_settings.update(planned.change.after)
        pending = pending_settings(self.settings, self.accepted_settings)
        self.policy_status = self.policy_status.model_copy(update={"pending_settings": pending})
        self.tell_control()
        return self.policy_status

    def on_stop_all(self) -> str:
        runs, requests = self.work.stop_all()
        self.stopped = True
        self.stopped_note = f"{runs} runs were stopped, {requests} requests were withdrawn."
        self.write(Kind.ALL_STOPPED, "operator:harbour", body={"runs": runs, "requests": requests})
        self.tell_control()
        return self.stopped_note

    def on_resume(self, signed: SignedChange | None) -> None:
        proof = self.check_signed(proposals.resume(self.service_seen()), signed)
        self.stopped, self.stopped_note = False, ""
        self.write(Kind.ALL_RESUMED, self.actor, body=proof)
        self.tell_control()

    def on_backup(self, path: str, key: BackupKey) -> BackupMade:
        entries = self.fake_journal.status.entries
        return BackupMade(
            path=path, made_at=ago(0), files=12, size=4_200_000, entries=entries, checkpoint="a note"
        )

    def on_shut_down(self) -> str:
        self.lose("The service ended.")
        return "ended"
