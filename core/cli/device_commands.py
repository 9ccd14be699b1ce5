"""Commands about one device: pair, set, revoke, forget, and diagnose why it cannot be reached."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from core.cli import certificates
from core.cli.answer import Answer
from core.cli.base import command_set, examples, in_session
from core.cli.device_list import list_devices
from core.cli.filter_option import TargetsArgument
from core.cli.output import (
    Block,
    Prose,
    claim_cell,
    facts,
    moment,
    note,
    one_line,
    state_cell,
    table,
    time_cell,
)
from core.cli.prompt import is_terminal
from core.cli.session import Session
from core.cli.signing import KeySource, sign_change, signs
from core.cli.terminal import styled
from core.errors import BadInput, ErrorCode
from core.filter_words import as_filter
from core.fleet.advertised import advertised, check_host
from core.fleet.models import CheckState, DeviceDetails, DeviceSettings, Pairing
from core.models.devices import Device
from core.service import exit_codes
from core.service.wishes import device_change, listening_change, machine_change, pairing_change
from core.text import plural


async def make_pairing(
    session: Session,
    name: str,
    settings: DeviceSettings,
    line: str | None,
    unlocking: KeySource,
    advertise: str | None = None,
) -> Answer:
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
        answer = _changed(device, f"{name} is paired; this console dials it from now on.")
    else:
        signed = await sign_change(session, unlocking, wish)
        pairing = await session.console.devices.pair(name, settings, signed)
        if advertise is not None:
            pairing = advertised(pairing, advertise)
        answer = Answer(pairing, _pairing_text(pairing))
    if session.hosted:
        note("No service is running for this home: quarterdeck service start, so that devices can connect.")
    return answer


def _pairing_text(pairing: Pairing) -> Iterator[Block]:
    yield facts(
        [
            ("Paired", pairing.name),
            ("Address", pairing.url),
            ("Certificate", pairing.fingerprint or "none: the link stays on this computer"),
        ]
    )
    # Read from standard input, the line is in no process list or shell history, unlike an argument.
    yield "\nRun quarterdeck-device --pair - on the device and paste this line there."
    yield "It is shown once; a program that has it passes for the device:\n"
    yield pairing.string
    yield "\nThen start quarterdeck-device there."
    yield "\nA stock UFO client takes this address as its server instead:\n"
    yield pairing.stock_url


async def details(session: Session, name: str) -> Answer:
    """Show a device with its history."""
    found = await session.console.devices.details(name)
    return Answer(found, _details_text(found))


def _details_text(found: DeviceDetails) -> Iterator[Block]:
    device = found.device
    yield facts(
        [
            ("Device", device.name),
            ("Health", state_cell(device.health)),
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
            ("Refused", plural(device.refused, "attempt") if device.refused else ""),
        ]
    )
    if device.unavailable:
        yield ""
        yield styled("Not offered", "bold")
        together: dict[tuple[str, str], list[str]] = {}
        for row in device.unavailable:
            together.setdefault((row.reason, row.how_to_fix), []).append(claim_cell(row.tool))
        for (reason, how_to_fix), tools in together.items():
            yield facts([("  Tools", ", ".join(tools)), ("  Why", reason), ("  To get", how_to_fix)])
    if found.history:
        yield ""
        yield table(
            ("TIME (UTC)", "HEALTH", "WHY"),
            [(time_cell(h.at), state_cell(h.health), h.reason) for h in found.history],
        )
    if found.refusals:
        yield ""
        rows = [(time_cell(one.at), one.peer, one.count, one.reason) for one in found.refusals]
        yield table(("REFUSED (UTC)", "FROM", "TIMES", "WHY"), rows)


async def change(session: Session, name: str, settings: DeviceSettings, unlocking: KeySource) -> Answer:
    """Change the given settings of a device."""
    signed = await sign_change(session, unlocking, device_change(name, settings))
    return _changed(await session.console.devices.update(name, settings, signed), f"{name} is changed.")


async def accept(session: Session, name: str, unlocking: KeySource) -> Answer:
    """Let the machine that is held take a device's place."""
    other = (await session.console.devices.details(name)).device.other_machine
    if other is None:
        raise BadInput(f"No other machine shows the pairing of {name} now.", ErrorCode.NOT_FOUND)
    signed = await sign_change(session, unlocking, machine_change(name, other))
    device = await session.console.devices.accept_machine(name, other.identity, signed)
    return _changed(device, f"{other.words} is accepted as {name}; it is let in when it dials in again.")


async def revoke(session: Session, name: str) -> Answer:
    """Revoke a device."""
    return _changed(await session.console.devices.revoke(name), f"{name} is revoked.")


async def forget(session: Session, name: str) -> Answer:
    """Forget a device."""
    await session.console.devices.forget(name)
    return Answer({"forgotten": name}, f"{one_line(name)} is forgotten.")


async def reconnect(session: Session, name: str) -> Answer:
    """Dial a device now, or list its tools again."""
    return _changed(await session.console.devices.reconnect(name), f"{name} is asked again for its tools.")


async def doctor(session: Session, name: str) -> Answer:
    """Run every check; the exit code says whether one failed."""
    checks = await session.console.devices.diagnose(name)
    rows = [(one.name, state_cell(one.state), one.found) for one in checks]
    advice = [Prose(f"\n{one.name}: {one_line(one.next)}") for one in checks if one.next]
    wrong = any(one.state is CheckState.FAILED for one in checks)
    return Answer(
        {"checks": checks},
        [table(("CHECK", "STATE", "FOUND"), rows), *advice],
        exit_codes.DEVICE_OFFLINE if wrong else exit_codes.DONE,
    )


async def refused(session: Session) -> Answer:
    """List the rejected connections."""
    found = await session.console.devices.rejected_connections()
    rows = [(time_cell(one.at), one.peer, one.name, one.count, one.reason) for one in found]
    head = ("LAST (UTC)", "FROM", "NAME", "TIMES", "WHY")
    return Answer({"refusals": found}, [table(head, rows)] if found else "No attempt was refused.")


async def listen(session: Session, address: str | None, unlocking: KeySource) -> Answer:
    """Show where devices dial in; with `address`, listen there from now on."""
    console = session.console
    if address:
        signed = await sign_change(session, unlocking, listening_change(address))
        found = await console.devices.listen(address, signed)
    else:
        found = await console.devices.listening()
    shown = [
        ("Address", found.address),
        ("URL", found.url),
        ("Certificate", found.fingerprint),
        ("Problem", found.problem),
        ("Warning", found.warning),
        ("Refused", plural(found.refused, "attempt") if found.refused else ""),
    ]
    return Answer(found, [facts(shown)])


def _changed(device: Device, words: str) -> Answer:
    shown = [
        ("Device", device.name),
        ("Health", state_cell(device.health)),
        ("Why", device.reason),
        ("Tags", " ".join(device.tags)),
        ("Production", "yes" if device.production else "no"),
    ]
    return Answer(device, [Prose(one_line(words)), "", facts(shown)])


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
app = command_set()
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


@app.command("list", epilog=examples("devices list", "devices list tag:lab !production:yes"))
def devices_list(context: typer.Context, devices: TargetsArgument = None) -> None:
    """List the devices and their health, all or those that match; also without the word list."""
    targets = as_filter(" ".join(devices or []))
    in_session(context, lambda session: list_devices(session, targets), wait_for_devices=True)


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
        lambda session: make_pairing(session, name, settings, line, unlocking, advertise),
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
    in_session(context, lambda session: details(session, name))


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
    in_session(context, lambda session: change(session, name, settings, unlocking))


@app.command("accept", epilog=examples("devices accept lab-1"))
@signs
def devices_accept(context: typer.Context, name: NameArgument, *, unlocking: KeySource) -> None:
    """Let another machine that shows a device's pairing take its place.

    What waits for the device is withdrawn; the machine that it was is not let in any more.
    """
    in_session(context, lambda session: accept(session, name, unlocking))


@app.command("revoke", epilog=examples("devices revoke lab-1"))
def devices_revoke(context: typer.Context, name: NameArgument) -> None:
    """Make a device's token worthless and end its link. It stays on the list."""
    in_session(context, lambda session: revoke(session, name))


@app.command("forget", epilog=examples("devices forget lab-1"))
def devices_forget(context: typer.Context, name: NameArgument) -> None:
    """Revoke a device and take it off the list. What it did stays in the journal."""
    in_session(context, lambda session: forget(session, name))


@app.command("reconnect", epilog=examples("devices reconnect lab-1"))
def devices_reconnect(context: typer.Context, name: NameArgument) -> None:
    """Dial a device now, or list the tools of a connected one again."""
    in_session(context, lambda session: reconnect(session, name))


@app.command("doctor", epilog=examples("devices doctor lab-1", "devices doctor lab-1 --json"))
def devices_doctor(context: typer.Context, name: NameArgument) -> None:
    """Look for why a device cannot be reached. Exit code 5 when something is wrong."""
    in_session(context, lambda session: doctor(session, name))


@app.command("refused", epilog=examples("devices refused", "devices refused --json"))
def devices_refused(context: typer.Context) -> None:
    """List refused attempts to connect, newest first."""
    in_session(context, refused)


@app.command("listen", epilog=examples("devices listen 127.0.0.1:5005"))
@signs
def devices_listen(
    context: typer.Context,
    address: Annotated[str | None, typer.Argument(metavar="HOST:PORT")] = None,
    *,
    unlocking: KeySource,
) -> None:
    """Say where devices dial in. With HOST:PORT, listen there from now on."""
    in_session(context, lambda session: listen(session, address, unlocking))


def _settings(tags: list[str] | None, production: bool | None, agent: str | None) -> DeviceSettings:
    named = [tag for tag in tags if tag] if tags else None
    return DeviceSettings(tags=named, production=production, agent=agent)
