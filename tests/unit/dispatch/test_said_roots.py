"""A plan says of a path that a remote device will refuse it, by the roots that the device reports."""

from __future__ import annotations

from typing import Any

import pytest

from core.dispatch.argument_checks import outside_said_roots
from core.fleet.registration import LONGEST_ROOT, MOST_ROOTS, arrival_of
from core.models.devices import Device, Health
from core.models.tools import BUILT_IN_NAMESPACE
from tests.fakes.arguments import tool_of
from tests.unit.dispatch.test_own_screen import FakeLink

FILES = tool_of().model_copy(
    update={
        "namespace": BUILT_IN_NAMESPACE,
        "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
    }
)


def said(path: str, *roots: str, platform: str = "linux", namespace: str = BUILT_IN_NAMESPACE) -> str:
    device = Device(name="db-1", health=Health.ONLINE, since="", platform=platform, roots=list(roots))
    return outside_said_roots(FILES.model_copy(update={"namespace": namespace}), {"file_path": path}, device)


@pytest.mark.parametrize(
    ("path", "roots", "platform"),
    [
        ("/etc/shadow", ["/srv"], "linux"),
        ("/srv/../etc/shadow", ["/srv", "/home/u"], "linux"),
        ("/srvx/a", ["/srv"], "linux"),
        (r"C:\Windows\x", [r"C:\Users\u"], "windows"),
        (r"c:\users\u\..\v", [r"C:\Users\u"], "windows"),
    ],
)
def test_a_path_outside_the_roots_is_named_with_them(path: str, roots: list[str], platform: str) -> None:
    assert said(path, *roots, platform=platform) == (
        f"db-1 will refuse it: file_path is outside its allowed roots: {', '.join(roots)}."
    )


@pytest.mark.parametrize(
    ("path", "roots", "platform"),
    [
        ("/srv/a", ["/srv"], "linux"),
        ("/srv", ["/srv/"], "linux"),
        (r"c:\USERS\u\a", [r"C:\Users\u"], "windows"),
        # Only the device knows where these lead.
        ("~/a", ["/srv"], "linux"),
        ("a", ["/srv"], "linux"),
        # One that reports none may allow anything.
        ("/etc/shadow", [], "linux"),
    ],
)
def test_a_path_inside_them_or_that_only_the_device_can_resolve_is_not(
    path: str, roots: list[str], platform: str
) -> None:
    assert said(path, *roots, platform=platform) == ""


def test_the_path_of_a_hosted_tool_is_not_the_device_s() -> None:
    assert said("/etc/shadow", "/srv", namespace="files") == ""


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (["/srv", "/home/u"], ["/srv", "/home/u"]),
        (["/srv", 1], []),
        (["/srv", ""], []),
        (["/" + "x" * LONGEST_ROOT], []),
        (["/srv"] * (MOST_ROOTS + 1), []),
        ("/srv", []),
        (None, []),
    ],
)
def test_roots_are_read_whole_or_not_at_all(told: Any, kept: list[str]) -> None:
    arrival = arrival_of(FakeLink({"quarterdeck": {"roots": told}}), None)
    assert (arrival.said_roots, arrival.roots) == (kept, None)
