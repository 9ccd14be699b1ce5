"""Commands about the certificate by which devices know this console: show, renew, switch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from core.cli.answer import Answer
from core.cli.base import examples, in_session
from core.cli.output import Block, facts, table
from core.cli.session import Session
from core.cli.signing import KeySource, sign_change, signs
from core.fleet.models import Certificates, DeviceCertificates
from core.service.wishes import NEXT_CERTIFICATE

app = typer.Typer(
    help="The certificate by which devices know this console, and the next one.",
    invoke_without_command=True,
)


async def show(session: Session) -> Answer:
    """Show the certificates, and which devices accept which."""
    return _answer(await session.console.devices.certificates())


async def renew(session: Session, unlocking: KeySource) -> Answer:
    """Make the next certificate, or announce the one that is there again."""
    devices = session.console.devices
    has_next = (await devices.certificates()).next
    signed = None if has_next else await sign_change(session, unlocking, NEXT_CERTIFICATE)
    return _answer(await devices.renew_certificate(signed))


async def switch(session: Session, anyway: bool) -> Answer:
    """Show the next certificate from now on."""
    return _answer(await session.console.devices.switch_certificate(anyway))


def _answer(found: Certificates) -> Answer:
    return Answer(found, _certificates_text(found))


def _certificates_text(found: Certificates) -> Iterator[Block]:
    none = "none: this console listens for this computer only"
    shown = [
        ("Certificate", found.present or none),
        ("Valid until", _day(found.present_until)),
        ("Next", found.next),
        ("Valid until", _day(found.next_until)),
    ]
    yield facts(shown)
    if found.devices and found.present:
        yield ""
        rows = [(row.device, *_accepts(row, found)) for row in found.devices]
        yield table(("DEVICE", "ACCEPTS", "WHY NOT THE NEXT"), rows)
    if found.next:
        yield "\nOnce the devices accept the next: quarterdeck devices certificate switch"


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
        in_session(context, show, wait_for_devices=True)


@app.command("renew", epilog=examples("devices certificate renew"))
@signs
def certificate_renew(context: typer.Context, *, unlocking: KeySource) -> None:
    """Make the next certificate, and have devices accept it beside the present one.

    Connected devices are told now, others when they connect. Nothing else changes until the switch.
    """
    in_session(context, lambda session: renew(session, unlocking))


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
    in_session(context, lambda session: switch(session, anyway))
