"""The desktop tools on real programs: the time of each tool, against a bare AT-SPI read of the same program.

The peer asks each control for its role, name and children, as a plain client of the bus does. Programs
that are not installed are left out, in words; our own Qt program is always there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from core.aip.messages import Command, ResultStatus
from core.device import DeviceConfig, Router, build_router
from core.device.desktop.linux import actions, x11_input
from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.atspi_constants import ACCESSIBLE, REGISTRY, ROOT
from core.device.desktop.linux.tree_reader import process_name
from tests.bench.figures import Figure, Figures, Note, Peer, Scale
from tests.bench.lines import PATIENCE
from tests.fakes.accessible_session import REPOSITORY, accessible_session

ROUNDS = 7
_PAGE = """<title>Bench page</title><button>Near</button><div style="height:3000px"></div><button>Far</button>
<script>for (let i = 0; i < 150; i++) document.body.append(Object.assign(document.createElement("button"),
{textContent: "Row " + i}))</script>"""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A program, the process that shows its controls, and the controls to press by role and name."""

    name: str
    process: str
    command: tuple[str, ...]
    presses: tuple[tuple[str, str], ...]

    @property
    def is_there(self) -> bool:
        """Whether it is installed."""
        return shutil.which(self.command[0]) is not None


def _subjects(folder: Path) -> list[_Subject]:
    page = folder / "page.html"
    page.write_text(_PAGE)
    chromium = (
        "chromium",
        "--no-sandbox",
        "--force-renderer-accessibility",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={folder / 'chromium'}",
        page.as_uri(),
    )
    ours = (sys.executable, "-m", "tests.fakes.desktop_app")
    return [
        _Subject("our Qt program", "desktop-under-test", ours, (("push button", "Count up"),)),
        _Subject("Mousepad", "mousepad", ("mousepad",), (("menu", "Edit"), ("menu item", "Select All"))),
        _Subject("gnome-calculator", "gnome-calculator", ("gnome-calculator",), (("push button", "7 7"),)),
        _Subject("Chromium", "chromium", chromium, (("push button", "Near"), ("push button", "Far"))),
    ]


def run(scale: Scale) -> Figures:
    """Measure on a virtual display; the smallest run has our own program only."""
    with (
        tempfile.TemporaryDirectory(prefix="desktop-bench-") as folder,
        accessible_session() as environment,
        patch.dict(os.environ, environment),
    ):
        os.environ.pop("WAYLAND_DISPLAY", None)
        lines: Figures = []
        with _window_manager(environment):
            for subject in _subjects(Path(folder))[: 1 if scale.smallest else None]:
                if subject.is_there:
                    with _started(subject, environment):
                        lines += asyncio.run(_measure(subject, Path(folder), scale.of(ROUNDS, 1)))
                else:
                    lines.append(Note(subject.name, f"left out: {subject.command[0]} is not installed"))
        return lines


@contextlib.contextmanager
def _window_manager(environment: dict[str, str]) -> Iterator[None]:
    if shutil.which("openbox") is None:
        yield
        return
    with _running(("openbox",), environment):
        yield


@contextlib.contextmanager
def _started(subject: _Subject, environment: dict[str, str]) -> Iterator[None]:
    with _running(subject.command, environment):
        yield


@contextlib.contextmanager
def _running(command: tuple[str, ...], environment: dict[str, str]) -> Iterator[None]:
    # Its standard input stays open: our own program ends with it.
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


async def _measure(subject: _Subject, folder: Path, rounds: int) -> Figures:
    router = build_router(DeviceConfig(roots=(folder,)), folder / "state", "bench")
    bus = AccessibilityBus()
    try:
        program = {"process_name": subject.process}
        role, name = subject.presses[0]
        await _called(router, "wait_for_element", **program, role=role, name=name, timeout=60)
        await bus.connect()
        controls, bare_ms = await _bare(bus, subject.process, rounds)
        bare = Peer(f"bare AT-SPI read of its {controls} controls", bare_ms)
        reads: dict[str, dict[str, Any]] = {
            "list_windows": {},
            "get_ui_tree": program,
            "get_ui_tree, a control by name": {**program, "role": role, "name": name},
        }
        lines: Figures = []
        for words, arguments in reads.items():
            took = [await _timed(router, words.split(",")[0], **arguments) for _ in range(rounds)]
            lines.append(_figure(f"{subject.name}: {words}", took, bare))
        lines += await _pressed(router, subject, rounds)
        for tool, arguments in (
            ("press_key", {"key": "Escape"}),
            ("scroll", {"direction": "down", "amount": 1}),
        ):
            took = [await _timed(router, tool, **arguments, **program) for _ in range(rounds)]
            lines.append(_figure(f"{subject.name}: {tool}", took))
        return lines
    finally:
        bus.close()
        await router.close()


async def _pressed(router: Router, subject: _Subject, rounds: int) -> Figures:
    """`click_element` by name: until it is sent, and until it has been looked at."""
    lines: Figures = []
    slowest: list[float] = []
    for role, name in subject.presses:
        before: list[float] = []
        whole: list[float] = []
        for _ in range(rounds):
            with _sent() as sent:
                started = time.perf_counter()
                await _called(router, "click_element", process_name=subject.process, role=role, name=name)
                whole.append(time.perf_counter() - started)
            before.append(sent[0] - started)
            # Closes a menu that was opened.
            await _called(router, "press_key", process_name=subject.process, key="Escape")
        lines.append(_figure(f"{subject.name}: press {role} {name!r}, until what it did was seen", whole))
        slowest = max(slowest, before, key=lambda took: statistics.median(took or [0.0]))
    return [_figure(f"{subject.name}: press by name until it is sent", slowest), *lines]


@contextlib.contextmanager
def _sent() -> Iterator[list[float]]:
    """When actions and clicks were sent, by the performance counter."""
    times: list[float] = []

    def noted(act: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any) -> Any:
            times.append(time.perf_counter())
            return act(*arguments)

        return noting

    with (
        patch.object(actions, "do", noted(actions.do)),
        patch.object(x11_input, "click", noted(x11_input.click)),
    ):
        yield times


async def _timed(router: Router, tool: str, **arguments: Any) -> float:
    started = time.perf_counter()
    await _called(router, tool, **arguments)
    return time.perf_counter() - started


async def _called(router: Router, tool: str, **arguments: Any) -> Any:
    tool_type = next(one.tool_type for one in router.tools() if one.tool_name == tool)
    command = Command(tool_name=tool, tool_type=tool_type, parameters=arguments, call_id="bench")
    result = await router.run(command, 90)
    assert result.status is ResultStatus.SUCCESS, f"{tool} {arguments}: {result.error}"
    return result.result


async def _bare(bus: AccessibilityBus, process: str, rounds: int) -> tuple[int, float]:
    """How many controls a program has, and the milliseconds that a plain client takes to read them."""
    async with asyncio.timeout(PATIENCE):
        # A busy machine's program may be silent, and then has no name yet.
        while not (roots := await _roots(bus, process)):
            pass
    took = []
    for _ in range(rounds):
        started = time.perf_counter()
        count = await _read_all(bus, roots)
        took.append(time.perf_counter() - started)
    return count, 1000 * statistics.median(took)


async def _roots(bus: AccessibilityBus, process: str) -> list[Ref]:
    """The programs of that name that answer now."""
    (programs,) = await bus.call(Ref(REGISTRY, ROOT), ACCESSIBLE, "GetChildren")
    roots: list[Ref] = []
    for name, path in programs:
        # As the tools take it: the name of the process, or the one that the program gives itself.
        own = process_name(await _or_none(bus.process_id(name)))
        told = await _or_none(bus.get(Ref(name, path), ACCESSIBLE, "Name"))
        if process in (own.lower(), str(told).lower()):
            roots.append(Ref(name, path))
    return roots


async def _read_all(bus: AccessibilityBus, roots: list[Ref]) -> int:
    """Read role, name and children of each control; returns how many there are."""
    level, seen = roots, set(roots)
    while level:
        answers = await asyncio.gather(*(_control(bus, ref) for ref in level))
        below = (Ref(str(name), str(path)) for children in answers for name, path in children)
        level = [ref for ref in dict.fromkeys(below) if ref not in seen and ref.bus.startswith(":")]
        seen.update(level)
    return len(seen)


async def _control(bus: AccessibilityBus, ref: Ref) -> list[list[str]]:
    _, _, children = await asyncio.gather(
        _or_none(bus.call(ref, ACCESSIBLE, "GetRole")),
        _or_none(bus.get(ref, ACCESSIBLE, "Name")),
        _or_none(bus.call(ref, ACCESSIBLE, "GetChildren")),
    )
    return list(children[0]) if children else []


async def _or_none(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except (Gone, NotSupported, Silent):
        return None


def _figure(words: str, seconds: list[float], peer: Peer | None = None) -> Figure:
    """The median of some times, in milliseconds."""
    most = f"most {1000 * max(seconds):.0f} ms"
    return Figure(words, 1000 * statistics.median(seconds), "ms", peer, most)
