"""Commands about devices: list, pair, set, revoke, forget, and diagnose why a device cannot be reached."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from core.cli import certificates
from core.cli.base import command_set, examples, in_session
from core.cli.output import (
    MOST_REASON,
    as_json,
    claim_cell,
    facts,
    moment,
    note,
    one_line,
    say,
    table,
    time_cell,
)
from core.cli.prompt import is_terminal
from core.cli.session import Session
from core.cli.signing import KeySource, sign_change, signs
from core.errors import BadInput, ErrorCode
from core.fleet.advertised import advertised, check_host
from core.fleet.models import CheckState, DeviceDetails, DeviceSettings
from core.models.devices import Device
from core.service import exit_codes
from core.service.wishes import device_change, listening_change, machine_change, pairing_change


async def list_devices(session: Session, json_wanted: bool) -> None:
    """List every device with its health."""
    found = (await session.console.service.state()).devices
    if json_wanted:
        say(as_json({"devices": [one.model_dump(mode="json", by_alias=True) for one in found]}))
        return
    rows = [
        (
            one.name,
            one.health.value,
            one.tool_count,
            claim_cell(one.system or one.platform),
            " ".join(one.tags),
            claim_cell(one.reason, MOST_REASON),
        )
        for one in found
    ]
    say(table(("NAME", "HEALTH", "TOOLS", "SYSTEM", "TAGS", "WHY"), rows))


async def make_pairing(
    session: Session,
    name: str,
    settings: DeviceSettings,
    line: str | None,
    unlocking: KeySource,
    json_wanted: bool,
    advertise: str | None = None,
) -> None:
    """Pair a device that dials in, or a listening device by the `line` that it printed.

    `advertise` is the host that a device that dials in is told to dial.
    """
    if advertise is not None:
        if line is not None:
            raise BadInput("--advertise is for a device that dials in; one that listens advertises itself.")
        # Before anything is signed: the host must be one.
        check_host((await session.console.devices.listening()).url, advertise)
    wish = pairing_change(name, settings, line)
    if line is not None:
        signed = await sign_change(session, unlocking, wish, line)
        device = await session.console.devices.pair_listening(name, line, settings, signed)
        _say_device(device, json_wanted, "Paired; this console dials it from now on")
    else:
        signed = await sign_change(session, unlocking, wish)
        pairing = await session.console.devices.pair(name, settings, signed)
        if advertise is not None:
            pairing = advertised(pairing, advertise)
        if json_wanted:
            say(as_json(pairing.model_dump(mode="json")))
        else:
            say(
                facts(
                    [
                        ("Paired", pairing.name),
                        ("Address", pairing.url),
                        ("Certificate", pairing.fingerprint or "none: the link stays on this computer"),
                    ]
                )
            )
            # Read from standard input, the line is in no process list or shell history, unlike an argument.
            say("\nRun quarterdeck-device --pair - on the device and paste this line there.")
            say("It is shown once; a program that has it passes for the device:\n")
            say(pairing.string)
            say("\nThen start quarterdeck-device there.")
            say("\nA stock UFO client takes this address as its server instead:\n")
            say(pairing.stock_url)
    if session.hosted:
        note("No service is running for this home: quarterdeck service start, so that devices can connect.")


async def details(session: Session, name: str, json_wanted: bool) -> None:
    """Show a device with its history."""
    found = await session.console.devices.details(name)
    if json_wanted:
        say(as_json(found.model_dump(mode="json")))
        return
    device = found.device
    say(
        facts(
            [
                ("Device", device.name),
                ("Health", device.health.value),
                ("Since", moment(device.since)),
                ("Why", device.reason),
                ("Last heard", moment(device.last_heard)),
                ("Tags", " ".join(device.tags)),
                ("Production", "yes" if device.production else "no"),
                ("Signatures", f"{device.approvers} for each action" if device.requires_approval else ""),
                ("Client", device.client),
                ("System", device.system or device.platform),
                ("Host", device.machine.host),
                ("Machine", _machine(device)),
                ("Another", _other_machine(device)),
                ("Address", device.address),
                ("Encrypted", "yes" if device.secure else ""),
                ("Certificate", found.fingerprint),
                ("Paired with", _accepted(found)),
                ("Paired", moment(found.paired_at) or ("" if device.direction == "local" else "no")),
                ("Agent", device.agent),
                ("Extensions", ", ".join(device.features)),
                ("Roots", ", ".join(device.roots)),
                ("Clock", _clock(device)),
                ("Tools", device.tool_count),
                ("Refused", device.refused or ""),
            ]
        )
    )
    if device.unavailable:
        say()
        missing = [(claim_cell(row.tool), row.reason, row.how_to_fix) for row in device.unavailable]
        say(table(("NOT OFFERED", "WHY", "HOW TO GET IT"), missing))
    if found.history:
        say()
        say(
            table(
                ("WHEN (UTC)", "HEALTH", "WHY"),
                [(time_cell(h.at), h.health.value, h.reason) for h in found.history],
            )
        )
    if found.refusals:
        say()
        rows = [(time_cell(one.at), one.peer, one.count, one.reason) for one in found.refusals]
        say(table(("REFUSED (UTC)", "FROM", "TIMES", "WHY"), rows))


async def change(
    session: Session, name: str, settings: DeviceSettings, unlocking: KeySource, json_wanted: bool
) -> None:
    """Change the given settings of a device."""
    signed = await sign_change(session, unlocking, device_change(name, settings))
    _say_device(await session.console.devices.update(name, settings, signed), json_wanted, "Changed")


async def accept(session: Session, name: str, unlocking: KeySource, json_wanted: bool) -> None:
    """Let the machine that is held take a device's place."""
    other = (await session.console.devices.details(name)).device.other_machine
    if other is None:
        raise BadInput(f"No other machine shows the pairing of {name} now.", ErrorCode.NOT_FOUND)
    signed = await sign_change(session, unlocking, machine_change(name, other))
    device = await session.console.devices.accept_machine(name, other.identity, signed)
    _say_device(device, json_wanted, "Accepted; it is let in when it dials in again")


async def revoke(session: Session, name: str, json_wanted: bool) -> None:
    """Revoke a device."""
    _say_device(await session.console.devices.revoke(name), json_wanted, "Revoked")


async def forget(session: Session, name: str, json_wanted: bool) -> None:
    """Forget a device."""
    await session.console.devices.forget(name)
    say(as_json({"forgotten": name}) if json_wanted else f"Forgotten: {one_line(name)}.")


async def reconnect(session: Session, name: str, json_wanted: bool) -> None:
    """Dial a device now, or list its tools again."""
    _say_device(await session.console.devices.reconnect(name), json_wanted, "Asked")


async def doctor(session: Session, name: str, json_wanted: bool) -> int:
    """Print every check; the exit code says whether one failed."""
    checks = await session.console.devices.diagnose(name)
    if json_wanted:
        say(as_json({"checks": [one.model_dump(mode="json") for one in checks]}))
    else:
        rows = [(one.name, one.state.value, one.found) for one in checks]
        say(table(("CHECK", "STATE", "FOUND"), rows))
        for one in checks:
            if one.next:
                say(f"\n{one.name}: {one_line(one.next)}")
    wrong = any(one.state is CheckState.FAILED for one in checks)
    return exit_codes.DEVICE_OFFLINE if wrong else exit_codes.DONE


async def refused(session: Session, json_wanted: bool) -> None:
    """List the rejected connections."""
    found = await session.console.devices.rejected_connections()
    if json_wanted:
        say(as_json({"refusals": [one.model_dump(mode="json") for one in found]}))
    elif not found:
        say("No attempt was refused.")
    else:
        rows = [(time_cell(one.at), one.peer, one.name, one.count, one.reason) for one in found]
        say(table(("LAST (UTC)", "FROM", "NAME", "TIMES", "WHY"), rows))


async def listen(session: Session, address: str | None, unlocking: KeySource, json_wanted: bool) -> None:
    """Show where devices dial in; with `address`, listen there from now on."""
    console = session.console
    if address:
        signed = await sign_change(session, unlocking, listening_change(address))
        found = await console.devices.listen(address, signed)
    else:
        found = await console.devices.listening()
    if json_wanted:
        say(as_json(found.model_dump(mode="json")))
        return
    say(
        facts(
            [
                ("Address", found.address),
                ("URL", found.url),
                ("Certificate", found.fingerprint),
                ("Problem", found.problem),
                ("Warning", found.warning),
                ("Refused", found.refused),
            ]
        )
    )


def _say_device(device: Device, json_wanted: bool, word: str) -> None:
    if json_wanted:
        say(as_json(device.model_dump(mode="json")))
        return
    say(
        facts(
            [
                (word, device.name),
                ("Health", device.health.value),
                ("Why", device.reason),
                ("Tags", " ".join(device.tags)),
                ("Production", "yes" if device.production else "no"),
            ]
        )
    )


def _machine(device: Device) -> str:
    if device.direction == "local" or device.machine.identity:
        return device.machine.identity[:8]
    return "not told by its client: a copy of it would go unnoticed" if device.client else ""


def _other_machine(device: Device) -> str:
    if device.other_machine is None:
        return ""
    return f"{device.other_machine.words} shows the same pairing and is held"


def _accepted(found: DeviceDetails) -> str:
    """The certificates that the device accepts, where they are not the one that this console shows."""
    return "" if found.accepted == [found.fingerprint] else ", ".join(found.accepted)


def _clock(device: Device) -> str:
    if device.clock_offset_ms is None:
        return ""
    return f"{abs(device.clock_offset_ms):.0f} ms {'ahead' if device.clock_offset_ms > 0 else 'behind'}"


commands = command_set()
app = typer.Typer(help="The devices and their health.", invoke_without_command=True)
commands.add_typer(app, name="devices")
app.add_typer(certificates.app, name="certificate")

# More than the longest pairing string; bounds the reading of endless input.
LONGEST_LINE = 1 << 16

NameArgument = Annotated[str, typer.Argument(metavar="DEVICE")]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="A tag; give it once for each. An empty one clears them."),
]
ProductionOption = Annotated[
    bool | None, typer.Option("--production/--no-production", help="Mark it as production, or not.")
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent", metavar="NAME", help="Which agent of a stock UFO client to address; else it is found."
    ),
]


@app.callback(epilog=examples("devices", "devices --json"))
def devices(context: typer.Context) -> None:
    """List the devices and their health; or see to one of them."""
    if context.invoked_subcommand is None:
        in_session(context, lambda session: list_devices(session, context.obj.json), wait_for_devices=True)


@commands.command(
    "pair",
    epilog=examples("pair lab-1 --tag lab --production", "pair lab-2 --string -"),
    short_help="Make a device known: one that dials in, or one that listens.",
)
@signs
def pair(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    tag: TagOption = None,
    production: ProductionOption = None,
    agent: AgentOption = None,
    string: Annotated[
        str | None,
        typer.Option(
            "--string",
            metavar="LINE",
            help="For a device that listens: the line it printed; - reads it from standard input.",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="HOST",
            help="For a device that dials in: the name or address of this computer that it dials.",
        ),
    ] = None,
    *,
    unlocking: KeySource,
) -> None:
    """Make a device known: prints the line to paste on it, or takes the line that it printed.

    Pairing a name again makes what its device had before worthless.
    """
    settings = _settings(tag, production, agent)
    line = _pasted() if string == "-" else string
    in_session(
        context,
        lambda session: make_pairing(session, name, settings, line, unlocking, context.obj.json, advertise),
    )


def _pasted() -> str:
    """Read the line of a device from standard input; on a terminal, ask for it."""
    if is_terminal():
        sys.stderr.write("The line that the device printed: ")
        sys.stderr.flush()
    binary = getattr(sys.stdin, "buffer", None)
    line = binary.readline(LONGEST_LINE) if binary else sys.stdin.readline(LONGEST_LINE).encode()
    return bytes(line).decode("utf-8", "replace")


@app.command("show", epilog=examples("devices show lab-1", "devices show lab-1 --json"))
def devices_show(context: typer.Context, name: NameArgument) -> None:
    """Show one device: its health over time, refused attempts."""
    in_session(context, lambda session: details(session, name, context.obj.json))


@app.command("set", epilog=examples("devices set lab-1 --tag lab --production"))
@signs
def devices_set(
    context: typer.Context,
    name: NameArgument,
    tag: TagOption = None,
    production: ProductionOption = None,
    agent: AgentOption = None,
    *,
    unlocking: KeySource,
) -> None:
    """Change a device's tags, production mark or agent."""
    settings = _settings(tag, production, agent)
    if settings == DeviceSettings():
        raise BadInput("Nothing is to be set: give --tag, --production, --no-production or --agent.")
    in_session(context, lambda session: change(session, name, settings, unlocking, context.obj.json))


@app.command("accept", epilog=examples("devices accept lab-1"))
@signs
def devices_accept(context: typer.Context, name: NameArgument, *, unlocking: KeySource) -> None:
    """Let another machine that shows a device's pairing take its place.

    What waits for the device is withdrawn; the machine that it was is not let in any more.
    """
    in_session(context, lambda session: accept(session, name, unlocking, context.obj.json))


@app.command("revoke", epilog=examples("devices revoke lab-1"))
def devices_revoke(context: typer.Context, name: NameArgument) -> None:
    """Make a device's token worthless and end its link. It stays on the list."""
    in_session(context, lambda session: revoke(session, name, context.obj.json))


@app.command("forget", epilog=examples("devices forget lab-1"))
def devices_forget(context: typer.Context, name: NameArgument) -> None:
    """Revoke a device and take it off the list. What it did stays in the journal."""
    in_session(context, lambda session: forget(session, name, context.obj.json))


@app.command("reconnect", epilog=examples("devices reconnect lab-1"))
def devices_reconnect(context: typer.Context, name: NameArgument) -> None:
    """Dial a device now, or list the tools of a connected one again."""
    in_session(context, lambda session: reconnect(session, name, context.obj.json))


@app.command("doctor", epilog=examples("devices doctor lab-1", "devices doctor lab-1 --json"))
def devices_doctor(context: typer.Context, name: NameArgument) -> None:
    """Look for why a device cannot be reached. Exit code 5 when something is wrong."""
    in_session(context, lambda session: doctor(session, name, context.obj.json))


@app.command("refused", epilog=examples("devices refused", "devices refused --json"))
def devices_refused(context: typer.Context) -> None:
    """List refused attempts to connect, newest first."""
    in_session(context, lambda session: refused(session, context.obj.json))


@app.command("listen", epilog=examples("devices listen 127.0.0.1:5005"))
@signs
def devices_listen(
    context: typer.Context,
    address: Annotated[str | None, typer.Argument(metavar="HOST:PORT")] = None,
    *,
    unlocking: KeySource,
) -> None:
    """Say where devices dial in. With HOST:PORT, listen there from now on."""
    in_session(context, lambda session: listen(session, address, unlocking, context.obj.json))


def _settings(tags: list[str] | None, production: bool | None, agent: str | None) -> DeviceSettings:
    named = [tag for tag in tags if tag] if tags else None
    return DeviceSettings(tags=named, production=production, agent=agent)
