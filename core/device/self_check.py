"""The report of `--check`: what this machine can and cannot offer, as text or as JSON."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

from core import __version__
from core.aip.limits import MOST_ARGUMENTS_SENT, MOST_TEXT_SENT
from core.device.config import DeviceConfig
from core.device.credentials import CredentialStore
from core.device.router import Router
from core.errors import BadInput

_SANDBOXED = "shell_execute_read"


def facts(
    name: str, config: DeviceConfig, router: Router, trust: CredentialStore, state_fault: str = ""
) -> dict[str, Any]:
    """The facts that `--check` reports; `state_fault` is why the state folder cannot be used, if so."""
    offered = {info.tool_name for info in router.tools()}
    return {
        "name": name,
        "version": __version__,
        "platform": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "roots": [str(root) for root in config.roots],
        "limits": config.limits.model_dump(),
        "limits_note": _beyond_console(config),
        "require_signed_approval": config.require_signed_approval,
        "approvers": config.approvers,
        "pinned_operators": [operator.name for operator in config.pinned_operators],
        "tools": sorted(offered),
        "unavailable": [asdict(missing) for missing in router.unavailable],
        # A misspelled name would switch nothing off without any notice.
        "tools_off_unknown": sorted(
            config.tools_off - offered - {missing.tool for missing in router.unavailable}
        ),
        "sandbox": _SANDBOXED in offered,
        "mcp_servers": [asdict(state) for state in router.hosted.states()] if router.hosted else [],
        "state": {"folder": str(trust.state_dir), "fault": state_fault},
        "link": _link(name, trust),
    }


def report(found: dict[str, Any]) -> str:
    """The facts as text for a person."""
    lines = [
        f"{found['name']}: quarterdeck-device {found['version']} on {found['platform']}",
        "",
        f"  files below     {', '.join(found['roots'])}",
        f"  state folder    {found['state']['fault'] or found['state']['folder']}",
        f"  link            {found['link']['summary']}",
        f"  read-only shell {'in a sandbox' if found['sandbox'] else 'not offered'}",
        f"  approvals       {_approvals(found)}",
        "",
        f"Offered ({len(found['tools'])})",
        *_wrapped(found["tools"]),
        "",
        *_servers(found),
    ]
    if found["unavailable"]:
        lines.append(f"Not offered ({len(found['unavailable'])})")
        for missing in found["unavailable"]:
            lines.append(f"  {missing['tool']}: {missing['reason']}")
            if missing["how_to_fix"]:
                lines.append(f"      {missing['how_to_fix']}")
        lines.append("")
    if found["tools_off_unknown"]:
        names = ", ".join(found["tools_off_unknown"])
        lines += [f"tools_off names what is not here, and so switches nothing off: {names}", ""]
    lines.append("Limits")
    lines += [f"  {key:<24}{value}" for key, value in found["limits"].items()]
    if found["limits_note"]:
        lines.append(f"  {found['limits_note']}")
    return "\n".join(lines) + "\n"


def _beyond_console(config: DeviceConfig) -> str:
    """A sentence about a limit of arguments that no console reaches; empty without one."""
    if config.limits.max_argument_bytes <= MOST_ARGUMENTS_SENT:
        return ""
    return (
        f"max_argument_bytes is more than a console sends: {MOST_ARGUMENTS_SENT:,} bytes of text for one "
        f"command, {MOST_TEXT_SENT:,} for one argument."
    )


def _approvals(found: dict[str, Any]) -> str:
    if not found["require_signed_approval"]:
        return "the console decides"
    wanted = found["approvers"]
    number = "one signed by" if wanted == 1 else f"{wanted} signed by different ones of"
    return f"each action needs {number} {' or '.join(found['pinned_operators'])}"


def _servers(found: dict[str, Any]) -> list[str]:
    if not found["mcp_servers"]:
        return []
    lines = ["MCP servers"]
    for server in found["mcp_servers"]:
        tools = f", {server['tools']} tools" if server["tools"] else ""
        lines.append(f"  {server['name']} ({server['kind']}, {server['where']}): {server['state']}{tools}")
        if server["reason"]:
            lines.append(f"      {server['reason']}")
    return [*lines, ""]


def _link(name: str, trust: CredentialStore) -> dict[str, str]:
    try:
        paired, listening = trust.pairing(), trust.listening()
        own = "" if listening is None or listening[0].loopback else trust.identity(name).fingerprint
    except BadInput as error:
        return {"state": "broken", "summary": error.message}
    if paired is not None:
        pin = f", certificate {paired.fingerprint[:16]}…" if paired.fingerprint else ""
        return {
            "state": "paired",
            "url": paired.url,
            "name": paired.name,
            "fingerprint": paired.fingerprint,
            "summary": f"dials {paired.url} as {paired.name}{pin}",
        }
    if listening is not None:
        address, advertised = listening
        return {
            "state": "listening",
            "url": address.url(advertised),
            "fingerprint": own,
            "summary": f"listens on {address.host}:{address.port}"
            + (f", certificate {own[:16]}…" if own else " (this computer only)"),
        }
    return {"state": "none", "summary": "not paired yet (--pair STRING, or --listen HOST:PORT --pair)"}


def _wrapped(words: list[str], width: int = 96) -> list[str]:
    lines, line = [], " "
    for word in words:
        if len(line) + len(word) + 1 > width:
            lines.append(line)
            line = " "
        line += f" {word}"
    return [*lines, line]
