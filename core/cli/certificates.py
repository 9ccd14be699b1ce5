"""Commands about the certificate by which devices know this console: show, renew, switch."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.base import examples, in_session
from core.cli.output import as_json, facts, say, table
from core.cli.session import Session
from core.cli.signing import KeySource, sign_change, signs
from core.fleet.models import Certificates, DeviceCertificates
from core.service.wishes import NEXT_CERTIFICATE

app = typer.Typer(
    help="The certificate by which devices know this console, and the next one.",
    invoke_without_command=True,
)


async def show(session: Session, json_wanted: bool) -> None:
    """Show the certificates, and which devices accept which."""
    _say(await session.console.devices.certificates(), json_wanted)


async def renew(session: Session, unlocking: KeySource, json_wanted: bool) -> None:
    """Make the next certificate, or announce the one that is there again."""
    devices = session.console.devices
    has_next = (await devices.certificates()).next
    signed = None if has_next else await sign_change(session, unlocking, NEXT_CERTIFICATE)
    _say(await devices.renew_certificate(signed), json_wanted)


async def switch(session: Session, anyway: bool, json_wanted: bool) -> None:
    """Show the next certificate from now on."""
    _say(await session.console.devices.switch_certificate(anyway), json_wanted)


def _say(found: Certificates, json_wanted: bool) -> None:
    if json_wanted:
        say(as_json(found.model_dump(mode="json")))
        return
    none = "none: this console listens for this computer only"
    shown = [
        ("Certificate", found.present or none),
        ("Valid until", _day(found.present_until)),
        ("Next", found.next),
        ("Valid until", _day(found.next_until)),
    ]
    say(facts(shown))
    if found.devices:
        say()
        rows = [(row.device, *_accepts(row, found)) for row in found.devices]
        say(table(("DEVICE", "ACCEPTS", "WHY NOT THE NEXT"), rows))
    if found.next:
        say("\nOnce the devices accept the next: quarterdeck devices certificate switch")


def _day(stamp: str) -> str:
    return stamp[:10]


def _accepts(row: DeviceCertificates, found: Certificates) -> tuple[str, str]:
    if not row.takes_present:
        return "neither", f"pair it again: quarterdeck pair {row.device}"
    if found.next and row.takes_next:
        return "both", ""
    return "this one" if row.accepted else "not known", row.why


@app.callback(epilog=examples("devices certificate"))
def certificate(context: typer.Context) -> None:
    """Show by which certificate devices know this console; or renew it."""
    if context.invoked_subcommand is None:
        in_session(context, lambda session: show(session, context.obj.json), wait_for_devices=True)


@app.command("renew", epilog=examples("devices certificate renew"))
@signs
def certificate_renew(context: typer.Context, *, unlocking: KeySource) -> None:
    """Make the next certificate, and have devices accept it beside the present one.

    Connected devices are told now, others when they connect. Nothing else changes until the switch.
    """
    in_session(context, lambda session: renew(session, unlocking, context.obj.json))


@app.command("switch", epilog=examples("devices certificate switch"))
def certificate_switch(
    context: typer.Context,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also if devices have to be paired again for it.")
    ] = False,
) -> None:
    """Show the next certificate from now on; devices connect again, and drop the earlier one.

    Refused, with their names, while devices have not taken it.
    """
    in_session(context, lambda session: switch(session, anyway, context.obj.json))
