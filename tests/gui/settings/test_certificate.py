"""Settings, Certificate: fingerprints and dates, who accepts what, the next one made and switched to."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.screens.settings.certificate_page import CertificatePage, switch_as_shown
from app.screens.targets import OpenSection
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.changes import ChangeKind
from core.errors import BadInput, Refused
from core.fleet.models import DeviceCertificates, Listening
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import FINGERPRINT, NEXT_FINGERPRINT
from tests.fakes.sign_sheets import do_not_sign, operator_of, sign
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.settings.page import dialog_in_front, open_section


def console_of(folder: Path, *rows: DeviceCertificates) -> FakeConsole:
    console = story([operator_of(folder)])
    console.certificate_rows = list(rows)
    return console


def takes(name: str) -> DeviceCertificates:
    return DeviceCertificates(device=name, accepted=[FINGERPRINT])


def refuses(name: str) -> DeviceCertificates:
    return DeviceCertificates(device=name, accepted=[FINGERPRINT], why="not told yet; it is when it connects")


def stranded(name: str) -> DeviceCertificates:
    return DeviceCertificates(device=name, accepted=["ab" * 32], takes_present=False)


def fact(page: CertificatePage, label: str) -> str:
    return page.facts.value(label).text()


def devices(page: CertificatePage) -> dict[str, list[str]]:
    """The table: what each device accepts, and why not the next."""
    model = page.devices.rows_model
    rows = [model.words(row).split("\t") for row in range(model.rowCount())]
    return {row[0]: row[1:] for row in rows}


async def test_the_certificate_its_end_and_its_devices_are_shown(theme: Theme, tmp_path: Path) -> None:
    console = console_of(tmp_path, takes("db-4"), stranded("kiosk-yard"))
    async with open_frame(theme, tmp_path, console) as desk:
        page = open_section(desk, OpenSection("certificate")).certificate
        await seen(lambda: devices(page))
        assert "".join(fact(page, "Certificate").split()) == FINGERPRINT
        assert fact(page, "Valid until") == "2031-05-04"
        assert next(iter(devices(page))) == "kiosk-yard"
        assert devices(page)["kiosk-yard"][0] == "another one: pair it again"
        assert devices(page)["db-4"][0] == "this one"
        assert page.banner.isVisible()
        assert "kiosk-yard" in page.banner.words()
        assert not page.switch.isEnabled()


async def test_the_next_certificate_is_made_only_when_it_is_signed(theme: Theme, tmp_path: Path) -> None:
    console = console_of(tmp_path, takes("db-4"))
    async with open_frame(theme, tmp_path, console) as desk:
        page = open_section(desk, OpenSection("certificate")).certificate
        await seen(page.renew.isEnabled)
        page.renew.click()
        await do_not_sign(desk)
        assert console.next_certificate == ""
        await seen(page.renew.isEnabled)
        page.renew.click()
        assert (await sign(desk)).kind is ChangeKind.CERTIFICATE
        await seen(lambda: page.switch.isEnabled())
        assert console.next_certificate == NEXT_FINGERPRINT
        assert "".join(fact(page, "Next").split()) == NEXT_FINGERPRINT
        assert fact(page, "Next valid until") == "2056-11-20"
        assert devices(page)["db-4"][0] == "this one and the next"
        assert page.head.hint.text() == "1 of 1 accept the next"
        # Announcing it again changes nothing that an operator would sign.
        page.renew.click()
        await seen(lambda: console.asked.count("renew_certificate") == 2)


async def test_the_console_switches_once_it_is_confirmed(theme: Theme, tmp_path: Path) -> None:
    console = console_of(tmp_path, takes("db-4"))
    console.next_certificate = NEXT_FINGERPRINT
    async with open_frame(theme, tmp_path, console) as desk:
        page = open_section(desk, OpenSection("certificate")).certificate
        await seen(page.switch.isEnabled)
        page.switch.click()
        sheet = await dialog_in_front(desk)
        assert "switch_certificate" not in console.asked
        sheet.answer("switch").click()
        await seen(lambda: "".join(fact(page, "Certificate").split()) == NEXT_FINGERPRINT)
        assert not page.switch.isEnabled()


async def test_who_would_have_to_be_paired_again_is_named_before_the_switch(
    theme: Theme, tmp_path: Path
) -> None:
    console = console_of(tmp_path, takes("db-4"), refuses("kiosk-yard"))
    console.next_certificate = NEXT_FINGERPRINT
    async with open_frame(theme, tmp_path, console) as desk:
        page = open_section(desk, OpenSection("certificate")).certificate
        await seen(page.switch.isEnabled)
        assert devices(page)["kiosk-yard"] == ["this one", "not told yet; it is when it connects"]
        page.switch.click()
        sheet = await dialog_in_front(desk)
        assert sheet.answer("switch").text() == "Switch anyway"
        console.certificate_rows.append(refuses("line-9"))
        sheet.answer("switch").click()
        await seen(lambda: sheet.answer("switch").isEnabled())
        assert "switch_certificate" not in console.asked
        assert desk.window.findChildren(Dialog)


async def test_a_switch_strands_no_other_devices_than_were_shown(tmp_path: Path) -> None:
    console = console_of(tmp_path, takes("db-4"), refuses("kiosk-yard"))
    console.next_certificate = NEXT_FINGERPRINT
    shown = console.on_certificates()
    console.certificate_rows.append(refuses("line-9"))
    with pytest.raises(Refused, match="have changed since"):
        await switch_as_shown(console, shown)
    console.certificate_rows.pop()
    console.next_certificate = "cd" * 32
    with pytest.raises(Refused, match="have changed since"):
        await switch_as_shown(console, shown)
    console.next_certificate = NEXT_FINGERPRINT
    assert (await switch_as_shown(console, shown)).present == NEXT_FINGERPRINT


async def test_a_console_for_this_computer_only_has_none(theme: Theme, tmp_path: Path) -> None:
    console = console_of(tmp_path)
    console.listens = Listening(address="127.0.0.1:5000", url="ws://127.0.0.1:5000/ws")
    async with open_frame(theme, tmp_path, console) as desk:
        page = open_section(desk, OpenSection("certificate")).certificate
        await seen(page.empty.isVisible)
        assert fact(page, "Certificate").startswith("none")
        assert not page.renew.isEnabled()


async def test_a_failure_is_said_on_the_page(theme: Theme, tmp_path: Path) -> None:
    console = console_of(tmp_path)
    console.next_certificate = NEXT_FINGERPRINT
    console.fail_next["renew_certificate"] = BadInput("The folder cannot be written.")
    async with open_frame(theme, tmp_path, console) as desk:
        page = open_section(desk, OpenSection("certificate")).certificate
        await seen(lambda: page.renew.text() == "Announce again")
        page.renew.click()
        await seen(page.banner.isVisible)
        assert "cannot be written" in page.banner.words()
