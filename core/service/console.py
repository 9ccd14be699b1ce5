"""The console API: every call that a window, a terminal or an agent can make to the service.

A `Console` consists of seven objects with methods, such as `console.runs.start(...)`. `LocalConsole` carries
the calls out in the process that owns the home, `RemoteConsole` sends them over the control socket. All
arguments and results are plain pydantic models, so that both behave alike: on the wire a call is the name
that `@rpc` declares and its arguments by name, decoded by their annotations. `@rpc` also declares which
clients may call the method. Screens, commands and agent tools use nothing else of the service.

The methods are declared in `core.service.api.interface`. This module brings them together with the API's own
models and events, for clients that use most of them, such as the window. A command of the terminal, which
uses few, imports these where they are declared.
"""

from __future__ import annotations

from core.audit.models import Bucket, Facet, NumberPage, VerifyReport
from core.fleet.models import ContractChange
from core.policy.models import Explanation
from core.service.api.events import (
    AgentChanged,
    AgentRemoved,
    ApprovalChanged,
    CellChanged,
    ControlChanged,
    DeviceChanged,
    DeviceForgotten,
    Event,
    JournalChanged,
    Missed,
    RunChanged,
    WorkProgressed,
)
from core.service.api.interface import (
    AgentsApi,
    ApprovalsApi,
    Console,
    DevicesApi,
    JournalApi,
    PolicyApi,
    RunsApi,
    ServiceApi,
    api_methods,
)
from core.service.api.models import (
    AgentCommand,
    AgentCommandPage,
    AgentConnection,
    AgentState,
    AgentTally,
    CommandFate,
    CommandRecord,
    ConsoleState,
    EntryPage,
    JournalStatus,
    LivePicture,
    LiveState,
    PolicyStatus,
    Proof,
    ResultPage,
    RunPage,
)
from core.service.api.version import API_VERSION
from core.service.backup.models import BackupKey, BackupMade

__all__ = [
    "API_VERSION",
    "AgentChanged",
    "AgentCommand",
    "AgentCommandPage",
    "AgentConnection",
    "AgentRemoved",
    "AgentState",
    "AgentTally",
    "AgentsApi",
    "ApprovalChanged",
    "ApprovalsApi",
    "BackupKey",
    "BackupMade",
    "Bucket",
    "CellChanged",
    "CommandFate",
    "CommandRecord",
    "Console",
    "ConsoleState",
    "ContractChange",
    "ControlChanged",
    "DeviceChanged",
    "DeviceForgotten",
    "DevicesApi",
    "EntryPage",
    "Event",
    "Explanation",
    "Facet",
    "JournalApi",
    "JournalChanged",
    "JournalStatus",
    "LivePicture",
    "LiveState",
    "Missed",
    "NumberPage",
    "PolicyApi",
    "PolicyStatus",
    "Proof",
    "ResultPage",
    "RunChanged",
    "RunPage",
    "RunsApi",
    "ServiceApi",
    "VerifyReport",
    "WorkProgressed",
    "api_methods",
]
