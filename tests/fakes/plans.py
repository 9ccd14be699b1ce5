"""How the fake plans batches and tries expressions: with the real planner, on its own tools and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.batch.expression_trial import Known
from core.batch.expressions import DeviceFacts
from core.batch.models import Batch, Plan, Run, flatten
from core.batch.planner import Planner
from core.commands.request import NO_SECRETS, Secrets
from core.commitments import NO_PLACES, Places
from core.errors import BadInput
from core.models.devices import Device
from core.models.tools import Tool
from core.policy.models import Decision
from core.policy.real_paths import NOT_FOLLOWED, ResolvedPaths
from tests.fakes.decisions import decide_call

if TYPE_CHECKING:
    from tests.fakes.console.devices import DeviceAnswers


class FakeOffers:
    """The devices, their tools and what the policy says of a call, as the planner asks for them."""

    def __init__(self, console: DeviceAnswers) -> None:
        self._console = console

    def matched(self, targets: str) -> list[Device]:
        """The devices that a filter means."""
        return self._console.matched(targets)

    def tool(self, device: str, name: str) -> Tool | None:
        """A device's tool."""
        try:
            return self._console.tool_named(device, name)
        except BadInput:
            return None

    def explain(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "",
        leads: ResolvedPaths = NOT_FOLLOWED,
        secrets: Secrets = NO_SECRETS,
        unquoted: Places = NO_PLACES,
    ) -> Decision:
        """What would be decided; of arguments only what is missing is looked at."""
        found = self._console.tool_named(device, tool)
        missing = [key for key in found.input_schema.get("required", []) if key not in parameters]
        if missing:
            raise BadInput(f"{missing[0]} is required")
        profile = self._console.policy_status.profile
        return decide_call(found, parameters, profile, self._console.fleet[device])

    def plan(self, batch: Batch, inputs: dict[str, Any]) -> Plan:
        """A plan of a batch."""
        plan = Planner(batch, inputs, self, self, "operator").plan(self.matched(batch.targets), {})
        return plan.model_copy(update={"took_ms": 1.4})

    def known(self, batch: Batch, runs: list[Run]) -> Known:
        """What the expressions of a batch can be held against; `runs` are the latest ones, newest first."""
        earlier = next((run for run in runs if run.summary.name == batch.name), None)
        names = [device.name for device in self.matched(batch.targets)]
        name = earlier.summary.devices[0] if earlier is not None else names[0] if names else ""
        schemas = {
            step.id: tool.output_schema
            for step in flatten(batch.steps)
            if names and (tool := self.tool(names[0], step.tool)) is not None
        }
        device = self._console.fleet.get(name)
        facts = DeviceFacts.of(device) if device else DeviceFacts()
        return Known(schemas, facts, earlier)
