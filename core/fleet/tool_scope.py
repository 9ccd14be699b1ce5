"""Derives a tool's needs and reach besides its contract: sign-in, network, files, processes, account, repair.

Facts about built-in tools follow from their row in the table of built-in tools. Of any other tool, its
server's annotations (declared) and its arguments (heuristic) are all that is known; the rest is `NOT_KNOWN`.
These facts inform an operator or an agent. No decision depends on them, so that they are kept beside the
contract and out of its digest: a better text here must block no tool and end no grant.
"""

from __future__ import annotations

from core.fleet.models import NOT_KNOWN, ToolScope
from core.models.devices import Device
from core.models.tool_names import CLOSE_APPLICATION, LIST_PROCESSES, READ_SHELL
from core.models.tools import BUILT_IN_NAMESPACE, Effect, Fact, Source, Tool
from core.policy.analysis.arguments import PATH_NAME, described_kind, snake
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS, BuiltInTool
from core.policy.analysis.shell.tool_arguments import described_line_arguments, holds_line
from core.schema_forms.secrets import secret_arguments
from core.text import sentences, some_names

NONE = "none"
_MOST_ARGUMENTS = 200
_UNDO = "undo"
# Each but the first starts the program of a hosted server, or calls its address.
_REMOVE_SERVER = "remove_mcp_server"
_STARTS_SERVERS = frozenset({"add_mcp_server", "restart_mcp_server", "switch_mcp_server", "try_mcp_server"})
_OF_SERVERS = _STARTS_SERVERS | {_REMOVE_SERVER}
_CHECK = "On the device, quarterdeck-device --check says what is missing."
_DOCTOR = "quarterdeck devices doctor {device} says whether the device can be reached."


def scope_of(tool: Tool, device: Device) -> ToolScope:
    """The scope of a tool; `device` is the device that offers it."""
    known = BUILT_IN_TOOLS.get(tool.tool_name) if tool.contract.built_in else None
    if known is None or tool.namespace != BUILT_IN_NAMESPACE:
        return _hosted(tool, device)
    return ToolScope(
        authentication=_authentication(tool.tool_name),
        network=_network(tool.tool_name, known),
        files=_files(tool.tool_name, known),
        processes=_processes(tool.tool_name, known),
        account=_account(tool.tool_name, known),
        served_by=_known(f"{device.client or 'the device client'} on {device.name}", "A tool of its own."),
        repair=_repair(tool.tool_name, known, device.name),
    )


def undo_of(tool: Tool) -> str:
    """How a call of a tool can be undone, in one sentence."""
    contract = tool.contract
    if contract.effect.value is Effect.OBSERVE:
        return "Nothing has to be undone: it changes nothing."
    if not contract.reversible.value:
        return f"It cannot be undone from here. {contract.reversible.why}"
    if contract.reversible.source is Source.BUILT_IN:
        return f"Call {_UNDO} on this device with the undo_id of the result. {contract.reversible.why}"
    return f"It can be undone, {contract.reversible.source.value} says. {contract.reversible.why}"


def _known(value: str, why: str) -> Fact[str]:
    return Fact(value=value, source=Source.BUILT_IN, why=why)


def _authentication(name: str) -> Fact[str]:
    if name in _STARTS_SERVERS:
        return _known("as the server's entry says", "Its env and headers may hold secrets.")
    return _known(NONE, "Only the link is authenticated, by the device's pairing.")


def _network(name: str, known: BuiltInTool) -> Fact[str]:
    if name == READ_SHELL:
        return _known(NONE, "The kernel gives its line no network.")
    if name in _STARTS_SERVERS:
        return _known("whatever the server may reach", "The server decides, not the tool.")
    if known.shell_line:
        return _known("whatever its user may reach", "The line decides.")
    if known.open_world:
        return _known("whatever the program that it uses may reach", "A program decides, not the tool.")
    return _known(NONE, "It stays on the device.")


def _files(name: str, known: BuiltInTool) -> Fact[str]:
    if name == READ_SHELL:
        return _known("reads what its user may read", "Nothing can be written; private places are hidden.")
    if known.shell_line:
        return _known("whatever its user may read and write", "The line decides.")
    if known.opens_or_closes or known.target is not None or name in _STARTS_SERVERS:
        return _known("whatever the program that it uses may touch", "A program decides, not the tool.")
    if name == _REMOVE_SERVER:
        return _known("the device's list of added servers", "The list is kept for undo.")
    if known.writes_files or name == _UNDO:
        return _known("changes files below the allowed folders", "The device checks each path.")
    if known.paths:
        return _known("reads files below the allowed folders", "The device checks each path.")
    return _known(NONE, "It has no argument for a file.")


def _processes(name: str, known: BuiltInTool) -> Fact[str]:
    if known.shell_line:
        return _known("starts a shell with the line", "The device ends it with the call.")
    if name == CLOSE_APPLICATION:
        return _known("ends programs", "Those that the arguments name.")
    if name in _OF_SERVERS:
        starts = "ends" if name == _REMOVE_SERVER else "starts"
        return _known(f"{starts} a hosted server's program", "It runs as a child of the device client.")
    if known.opens_or_closes:
        return _known("starts a program", "It goes on after the call.")
    if known.target is not None:
        return _known("acts in a running program", "The one that has the target.")
    if name == LIST_PROCESSES:
        return _known("reads the list of processes", "It touches none.")
    return _known(NONE, "It starts and ends none.")


def _account(name: str, known: BuiltInTool) -> Fact[str]:
    user = "the user of the device client"
    if name in _STARTS_SERVERS:
        return _known(f"{user}, and whatever the server is signed in to", "The server acts by itself.")
    if known.opens_or_closes or known.target is not None:
        return _known(f"{user}, and whatever its programs are signed in to", "It acts through programs.")
    return _known(user, "It has no sign-in of its own.")


def _repair(name: str, known: BuiltInTool, device: str) -> Fact[str]:
    doctor = _DOCTOR.format(device=device)
    if name in _OF_SERVERS:
        listed = f"quarterdeck call {device} list_mcp_servers says why a server is not ready, and what to do."
        return _known(f"{listed} {doctor}", "Most failures are the server's own.")
    if name == READ_SHELL:
        return _known(f"{_CHECK} {doctor}", "It needs a working sandbox.")
    if known.target is not None or known.opens_or_closes:
        return _known(f"{_CHECK} {doctor}", "It needs a screen, and programs that can be reached.")
    if known.paths and not known.shell_line:
        folders = "Choose a path below an allowed folder, or add a folder in the device's device.toml."
        return _known(f"{folders} {doctor}", "Most failures are paths that are not allowed.")
    return _known(doctor, "It needs nothing but the device.")


def _hosted(tool: Tool, device: Device) -> ToolScope:
    secrets = sorted(secret_arguments(tool.input_schema))
    paths, addresses, lines = _arguments_by_kind(tool)
    client = device.client or "its device client"
    server = f"server {tool.namespace}, behind {client} on {device.name}" if tool.namespace else client
    return ToolScope(
        authentication=_guess("takes a secret as an argument", secrets),
        network=_hosted_network(tool, addresses),
        files=_guess("takes paths as arguments", paths),
        processes=_guess("takes a command line as an argument", lines),
        account=_not_known("A server may be signed in to an account of its own."),
        served_by=Fact(value=server, source=Source.DECLARED, why="The device names it."),
        repair=_hosted_repair(tool, device),
    )


def _hosted_network(tool: Tool, addresses: list[str]) -> Fact[str]:
    hint = tool.annotations.get("openWorldHint")
    if isinstance(hint, bool):
        value = "reaches beyond the device" if hint else "stays on the device"
        return Fact(value=value, source=Source.DECLARED, why="Its server says so (openWorldHint).")
    return _guess("takes addresses as arguments", addresses)


def _hosted_repair(tool: Tool, device: Device) -> Fact[str]:
    for missing in device.unavailable:
        if missing.tool in (tool.namespace, tool.tool_name):
            fix = f" {missing.how_to_fix}." if missing.how_to_fix else ""
            return Fact(
                value=f"{sentences(missing.reason)}{fix}", source=Source.DECLARED, why="The device says so."
            )
    shown = f"quarterdeck devices show {device.name} says which of its servers are not ready, and why."
    return Fact(value=shown, source=Source.DEFAULT, why="The device reports no problem of its server.")


def _arguments_by_kind(tool: Tool) -> tuple[list[str], list[str], list[str]]:
    """The arguments that look like paths, addresses and command lines, by schema and name."""
    properties = tool.input_schema.get("properties")
    names = [str(name) for name in properties][:_MOST_ARGUMENTS] if isinstance(properties, dict) else []
    described = described_line_arguments(tool.input_schema)
    kinds = {name: described_kind(tool.input_schema, name) for name in names}
    paths = [name for name in names if kinds[name] == "path" or PATH_NAME.search(snake(name))]
    addresses = [name for name in names if kinds[name] in ("url", "host", "email")]
    lines = [name for name in names if name in described or holds_line(tool.tool_name, name)]
    return paths, addresses, lines


def _guess(value: str, arguments: list[str]) -> Fact[str]:
    if not arguments:
        return _not_known("Neither its server nor its arguments tell.")
    named = f"{value}: {some_names(arguments)}"
    return Fact(value=named, source=Source.HEURISTIC, why="By the names and descriptions of its arguments.")


def _not_known(why: str) -> Fact[str]:
    return Fact(value=NOT_KNOWN, source=Source.DEFAULT, why=why)
